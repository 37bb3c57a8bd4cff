"""Runs a file as a program whose warnings are errors: `forked.run("tests.program", FILE)`."""

import runpy
import sys
import warnings

if __name__ == "__main__":
    warnings.simplefilter("error")
    runpy.run_path(sys.argv[1], run_name="__main__")
