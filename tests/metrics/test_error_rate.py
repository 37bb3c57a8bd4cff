"""Error rate against scikit-learn, and its rule for ties."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import zero_one_loss

from nevis_stream import metrics

ERROR_RATE = metrics.get("error_rate")


def test_by_hand():
    labels = np.array([0, 1, 2, 1], np.int32)
    probabilities = np.float32([[0.6, 0.3, 0.1], [0.2, 0.3, 0.5], [0.1, 0.1, 0.8], [0, 1, 0]])
    np.testing.assert_array_equal(ERROR_RATE.per_sample(labels, probabilities), [1, 0, 1, 1])
    np.testing.assert_array_equal(
        ERROR_RATE.confidence(labels, probabilities), np.float32([0.6, 0.3, 0.8, 1])
    )
    assert ERROR_RATE.aggregate(labels, probabilities) == 0.25
    assert ERROR_RATE.to_error(0.25) == 0.25


def test_of_equal_probabilities_the_lowest_class_is_the_answer():
    probabilities = np.full((3, 3), 1 / 3, np.float32)
    labels = np.array([0, 1, 2], np.int32)
    np.testing.assert_array_equal(ERROR_RATE.per_sample(labels, probabilities), [1, 0, 0])


@given(st.lists(st.tuples(st.integers(0, 3), *[st.integers(0, 3)] * 4), min_size=1, max_size=40))
def test_agrees_with_scikit_learn(rows):
    table = np.array(rows)
    labels, scores = table[:, 0].astype(np.int32), table[:, 1:].astype(np.float32)
    expected = zero_one_loss(labels, scores.argmax(axis=1))
    assert ERROR_RATE.aggregate(labels, scores) == pytest.approx(expected, abs=1e-12)
    right = ERROR_RATE.per_sample(labels, scores).mean()
    assert ERROR_RATE.aggregate(labels, scores) == pytest.approx(1 - right, abs=1e-12)
