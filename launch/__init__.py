"""The commands; importing this package first takes the working directory off Python's path."""

import os
import sys


def _leave_working_directory() -> None:
    """Removes the folder that `python -m` has put first, unless this package is found there.

    A library that looks for an optional module would import a stranger's file of its name.
    """
    checkout = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    # "-m" while the module is looked for, and only then
    found_by_module = sys.argv[:1] == ["-m"] and not sys.flags.safe_path
    if found_by_module and os.path.realpath(sys.path[0]) != checkout:
        del sys.path[0]


_leave_working_directory()
