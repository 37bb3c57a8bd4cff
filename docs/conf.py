"""The documentation site: `make docs` builds it into build/docs."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

project = "nevis_stream"
author = "The nevis_stream authors"
html_title = "nevis_stream"
html_theme = "furo"
html_show_sphinx = False
html_copy_source = False

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
]
exclude_patterns = ["conf.py"]
myst_heading_anchors = 4
suppress_warnings = ["myst.xref_missing"]  # links to files of the repository that are no pages

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_default_options = {"members": True, "show-inheritance": False}
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_custom_sections = ["Source"]
