"""Builds the embedded data sets once: the processes that are forked from one that has imported this
find them ready.
"""

import functools

from nevis_stream.datasets import embedded

embedded.build = functools.cache(embedded.build)
for name in embedded.DATASETS:
    embedded.build(name)
