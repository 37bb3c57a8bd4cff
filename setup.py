"""Says which Python is needed, before pip compares versions of packages that no older one has."""

import sys

from setuptools import setup

if sys.version_info < (3, 11):  # noqa: UP036
    sys.exit(
        "nevis_stream needs Python 3.11 or newer; this is {}.{}. Make an environment with a newer"
        " one, for example: python3.12 -m venv .venv".format(*sys.version_info)
    )
setup()
