"""Mean average precision against scikit-learn: ties, labels without a positive, orders."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from nevis_stream import metrics
from nevis_stream.metrics import average_precisions

MAP = metrics.get("mean_average_precision")


def test_by_hand():
    labels = np.array([[1], [0], [1], [0]], np.uint8)
    probabilities = np.float32([[0.9], [0.8], [0.7], [0.1]])
    # Precision is 1/1 at recall 1/2 and 2/3 at recall 1.
    assert MAP.aggregate(labels, probabilities) == pytest.approx((1 + 2 / 3) / 2, abs=1e-12)
    assert MAP.to_error(0.75) == 0.25


def test_ties_are_one_threshold():
    labels = np.array([[1], [0], [0], [1]], np.uint8)
    probabilities = np.full((4, 1), 0.5, np.float32)
    assert MAP.aggregate(labels, probabilities) == 0.5


def test_labels_without_a_positive_are_left_out_and_all_of_them_are_nan():
    labels = np.array([[1, 0], [0, 0]], np.uint8)
    probabilities = np.float32([[0.9, 0.2], [0.1, 0.3]])
    np.testing.assert_array_equal(average_precisions(labels, probabilities), [1, math.nan])
    assert MAP.aggregate(labels, probabilities) == 1
    assert math.isnan(MAP.aggregate(np.zeros_like(labels), probabilities))
    assert math.isnan(MAP.to_error(math.nan))


def test_right_and_confident_at_one_half():
    labels = np.array([[1, 0, 1, 0]], np.uint8)
    probabilities = np.float32([[0.8, 0.8, 0.5, 0.5]])  # exactly one half is "absent"
    np.testing.assert_array_equal(MAP.per_sample(labels, probabilities), [[1, 0, 0, 1]])
    np.testing.assert_allclose(
        MAP.confidence(labels, probabilities), [[0.8, 0.2, 0.5, 0.5]], atol=1e-7
    )


@st.composite
def answers(draw):
    """Labels with any share of positives; probabilities on a grid coarse enough for ties."""
    n, width = draw(st.integers(1, 60)), draw(st.integers(1, 6))
    grid = draw(st.sampled_from([1, 2, 5, 1000]))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    labels = random.uniform(size=(n, width)) < random.uniform(-0.3, 1.2, size=width)
    probabilities = random.integers(grid + 1, size=(n, width)) / grid
    return labels.astype(np.uint8), probabilities.astype(np.float32)


@settings(max_examples=200, deadline=None)
@given(answers())
def test_agrees_with_scikit_learn(answer):
    labels, probabilities = answer
    expected = [
        average_precision_score(y, p) if y.any() else math.nan
        for y, p in zip(labels.T, probabilities.T, strict=True)
    ]
    np.testing.assert_allclose(average_precisions(labels, probabilities), expected, atol=1e-12)
    if labels.any(axis=0).all():
        macro = average_precision_score(labels, probabilities, average="macro")
        assert MAP.aggregate(labels, probabilities) == pytest.approx(macro, abs=1e-12)
    elif labels.any():
        assert MAP.aggregate(labels, probabilities) == pytest.approx(np.nanmean(expected))
    else:
        assert math.isnan(MAP.aggregate(labels, probabilities))


@given(answers())
def test_only_the_order_of_the_probabilities_matters(answer):
    labels, probabilities = answer
    first = MAP.aggregate(labels, probabilities)
    other = MAP.aggregate(labels, probabilities.astype(np.float64) ** 3 / 2)
    assert first == pytest.approx(other, abs=1e-12, nan_ok=True)
