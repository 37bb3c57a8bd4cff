"""Runs a file as a program whose warnings are errors: `forked.run("tests.program", FILE)`; with a
further word the embedded data sets are small.
"""

import runpy
import sys
import warnings

if __name__ == "__main__":
    if sys.argv[2:]:
        from nevis_stream.datasets import sources
        from tests.documented_commands import small_dataset

        sources.build_embedded = small_dataset
    warnings.simplefilter("error")
    runpy.run_path(sys.argv[1], run_name="__main__")
