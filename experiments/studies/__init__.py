"""Studies: the config files of this folder, each a question about one choice."""

NAMES = (
    "architecture",
    "bhpo",
    "cheap_vs_paper",
    "domain",
    "ensembling",
    "multitask",
    "order",
    "resolution",
    "size",
    "split",
    "stream_variants",
    "width",
)
"""The config files of this folder, as --config=studies/NAME takes them."""
