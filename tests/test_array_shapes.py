"""Arrays have the shapes that their annotations state, where these tests call the mathematics."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import array_shapes

ROOT = Path(__file__).resolve().parents[1]
QUICK = (
    "estimation/test_difference.py",
    "estimation/test_intervals.py",
    "active_testing/test_outcome_patterns.py",
    "dynamic_evaluation/test_known_models.py",
    "dynamic_evaluation/test_linear_gaussian.py",
)
EVERY = (
    *("active_testing", "dynamic_evaluation", "estimation"),
    "test_array_shapes.py::test_a_wrong_shape_is_found",
)


def check(paths, *options):
    pytest.importorskip("jaxtyping", reason="jaxtyping is not installed: pip install -e '.[dev]'")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-n0", "-q", "-x", *options),
            *(f"tests/{each}" for each in paths),
        ],
        cwd=ROOT,
        env=os.environ | {array_shapes.WANTED: "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-6000:]


def test_arrays_have_the_stated_shapes():
    repeated = "intervals_hold_for_any_outcomes"  # hundreds of times, with the same shapes
    check([*QUICK, EVERY[-1]], "-k", f"not {repeated}")


@pytest.mark.slow
def test_arrays_have_the_stated_shapes_everywhere():
    check(EVERY)


@pytest.mark.skipif(array_shapes.WANTED not in os.environ, reason="shapes are not checked")
def test_a_wrong_shape_is_found():
    import jaxtyping
    import numpy as np

    from nevis_stream.estimation.intervals import allow_for_missing

    three, four = np.zeros(3), np.zeros(4)
    allow_for_missing(three, three, three)
    with pytest.raises(jaxtyping.TypeCheckError, match="missing"):
        allow_for_missing(three, three, four)
