"""The documentation site, built as `make docs` builds it: a warning is an error."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("sphinx") is None, reason="the extra `docs` is not installed"
    ),
]


def test_the_site_is_built_without_a_warning(tmp_path):
    words = ["--fail-on-warning", "--keep-going", "--quiet", ROOT / "docs", tmp_path / "site"]
    done = subprocess.run([sys.executable, "-m", "sphinx", *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
