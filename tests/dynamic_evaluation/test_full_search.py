import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nevis_stream.dynamic_evaluation.full_search import full_thresholds
from nevis_stream.dynamic_evaluation.search import thresholds
from nevis_stream.dynamic_evaluation.sort import Rank, sort
from tests.dynamic_evaluation.making import one_order, outcomes


def words(bits):
    return np.packbits(np.append(bits, np.ones(-len(bits) % 64, bool))).view(np.uint64)


def packed(matrix):
    """As a cache yields rows; what lies behind their end is ones, which must be ignored."""
    for row in matrix:
        right, known = (words(row == 1), words(row != 255))
        yield right, None if (row != 255).all() else known


def check(matrix, rank):
    """Against every cut between distinct scores."""
    ordered, scores = matrix[:, rank.order], rank.scores[rank.order]
    steps = (ordered == 1).astype(int) - (ordered == 0)
    prefix = np.concatenate([np.zeros((len(matrix), 1), int), np.cumsum(steps, axis=1)], axis=1)
    allowed = np.concatenate([[True], scores[1:] != scores[:-1], [True]])
    cuts = full_thresholds(packed(matrix), rank)
    assert allowed[cuts].all()
    assert (prefix[np.arange(len(matrix)), cuts] == prefix[:, allowed].max(axis=1)).all()


@settings(deadline=None, max_examples=50)
@given(outcomes((0, 1, 255), models=(1, 9), samples=(1, 200)), st.integers(1, 9))
def test_thresholds_are_the_best_between_distinct_scores(matrix, known):
    matrix[0, 0] = 1
    check(matrix, sort(matrix[:known]))


@pytest.mark.parametrize("models, samples", [(64, 64), (65, 1000), (130, 9000)])
def test_many_rows_and_long_ones(models, samples):
    matrix = one_order(models, samples)
    check(matrix, sort(matrix[: models // 2]))
    check(matrix, sort(matrix[:2]))  # hardly any distinct scores
    # none equal
    check(matrix, Rank(np.random.default_rng(0).random(samples), np.ones(samples, int)))


def test_without_ties_it_is_the_search_of_one_row():
    matrix = one_order(20, 3000)
    rank = Rank(np.random.default_rng(1).random(3000), np.ones(3000, int))
    assert (full_thresholds(packed(matrix), rank) == thresholds(matrix[:, rank.order])).all()
    assert len(full_thresholds([], rank)) == 0
