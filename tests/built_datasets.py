"""Builds the embedded data sets once: the processes that are forked from one that has imported this
find them ready.
"""

import functools

from nevis_stream.datasets import sources
from nevis_stream.datasets.embedded import DATASETS

sources.build_embedded = functools.cache(sources.build_embedded)
for name in DATASETS:
    sources.build_embedded(name)
