"""Runs `launch.evaluate WORDS` and kills it at the start of its n-th change of a directory.

python -m tests.launch.killed_command N WORDS
"""

import runpy
import sys

from tests.killed_child import arm

if __name__ == "__main__":
    fatal, *words = sys.argv[1:]
    sys.argv = ["launch.evaluate", *words]
    arm(int(fatal))
    runpy.run_module("launch.evaluate", run_name="__main__")
