import numpy as np
import pytest

from nevis_stream.dynamic_evaluation import intervals


def test_wilson_gives_known_values():
    """10 of 20 gives 0.299 … 0.701, 0 of 10 gives 0 … 0.278, as tables of the score interval have it."""
    low, high = intervals.wilson(np.array([0.5, 0.0]), np.array([20, 10]))
    assert low == pytest.approx([0.2993, 0.0], abs=1e-4)
    assert high == pytest.approx([0.7007, 0.2775], abs=1e-4)


def test_all_seen_leaves_no_doubt():
    assert intervals.effective(50, 50) == np.inf
    low, high = intervals.wilson(np.array([0.3]), intervals.effective(50, 50))
    assert low == high == 0.3
    assert intervals.effective(1, 1000) == pytest.approx(1.0)
    assert intervals.effective(25, 50, design=0.5) == pytest.approx(98)
