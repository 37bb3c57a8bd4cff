"""Every example in a docstring runs."""

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
WITH_EXAMPLES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for folder in ("", "learners", "experiments", "launch")
    for path in sorted((ROOT / "nevis_stream" / folder).rglob("*.py"))
    if "    >>> " in path.read_text()
]


def test_modules_have_examples():
    assert len(WITH_EXAMPLES) > 5


@pytest.mark.parametrize("module", WITH_EXAMPLES)
def test_examples_run(module):
    results = doctest.testmod(importlib.import_module(module))
    assert results.attempted > 0
    assert results.failed == 0
