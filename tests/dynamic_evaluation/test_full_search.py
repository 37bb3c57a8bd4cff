import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nevis_stream.dynamic_evaluation.full_search import full_thresholds
from nevis_stream.dynamic_evaluation.search import thresholds
from nevis_stream.dynamic_evaluation.sort import scored_by, sort
from tests.dynamic_evaluation.making import one_order, outcomes


def packed(matrix):
    """uint64 words of each row; what lies behind its end is ones, which must be ignored."""
    rows, n = matrix.shape
    wide = np.ones((rows, -(-n // 64) * 64), np.uint8)
    wide[:, :n] = matrix
    return np.packbits(wide, axis=1).view(np.uint64)


def check(matrix, rank):
    """Against every cut between distinct scores."""
    ordered, scores = matrix[:, rank.order].astype(int), rank.scores[rank.order]
    prefix = np.concatenate([np.zeros((len(matrix), 1), int), np.cumsum(2 * ordered - 1, axis=1)], axis=1)
    allowed = np.concatenate([[True], scores[1:] != scores[:-1], [True]])
    cuts = full_thresholds(packed(matrix), rank)
    assert allowed[cuts].all()
    assert (prefix[np.arange(len(matrix)), cuts] == prefix[:, allowed].max(axis=1)).all()


@settings(deadline=None, max_examples=50)
@given(outcomes(models=(1, 9), samples=(1, 200)), st.integers(1, 9))
def test_thresholds_are_the_best_between_distinct_scores(matrix, known):
    check(matrix, sort(matrix[:known]))


@pytest.mark.parametrize("models, samples", [(64, 64), (65, 1000), (130, 9000)])
def test_many_rows_and_long_ones(models, samples):
    matrix = one_order(models, samples)
    check(matrix, sort(matrix[: models // 2]))
    check(matrix, sort(matrix[:2]))  # hardly any distinct scores
    check(matrix, scored_by(np.random.default_rng(0).random(samples)))  # none equal


def test_without_ties_it_is_the_search_of_one_row():
    matrix = one_order(20, 3000)
    rank = scored_by(-np.random.default_rng(1).random(3000))
    assert (full_thresholds(packed(matrix), rank) == thresholds(matrix[:, rank.order])).all()
    assert (full_thresholds(list(packed(matrix)), rank) == thresholds(matrix[:, rank.order])).all()
