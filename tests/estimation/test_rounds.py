"""Means from rounds of draws: exactly unbiased, with an interval that trusts only the draws."""

import itertools

import numpy as np
import pytest

from nevis_stream.estimation import rounds


def make(count, left, seed=0):
    """A round on nine samples of which the first may be answered."""
    random = np.random.default_rng(seed)
    expected, sizes = random.random(9), random.random(9) + 0.1
    return rounds.cut(expected, sizes, left, count, np.arange(9))


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_a_round_is_unbiased_whatever_is_predicted(count):
    random = np.random.default_rng(1)
    left = np.arange(9) > 0
    strata = make(count, left)
    weights = random.dirichlet(np.ones(9))
    values = random.integers(0, 2, 9).astype(float)
    wrong = random.random((count, 9))  # a prediction for each stratum, and any
    members = [np.flatnonzero(strata.stratum == h) for h in range(count)]
    mean, variance = 0.0, 0.0
    for drawn in itertools.product(*members):
        chance = np.prod(strata.chances[list(drawn)])
        predicted = np.full(9, np.nan)
        predicted[left] = wrong[strata.stratum[left], np.flatnonzero(left)]
        found = rounds.estimate_round(strata, np.array(drawn), predicted, values, weights)
        mean, variance = mean + chance * found.mean, variance + chance * found.variance
    assert mean == pytest.approx(weights @ values, abs=1e-12)
    assert variance >= 0 and (count == 8) == (variance < 1e-12)


def test_a_sample_is_drawn_in_each_stratum_by_its_size():
    strata = make(3, np.arange(9) != 4)
    counts = np.zeros(9)
    for seed in range(4000):
        drawn, chances = strata.draw(np.random.default_rng(seed))
        assert strata.stratum[drawn].tolist() == [0, 1, 2]
        assert chances.tolist() == strata.chances[drawn].tolist()
        counts[drawn] += 1
    assert counts[4] == 0
    assert np.abs(counts / 4000 - strata.chances).max() < 0.04
    assert np.bincount(
        strata.stratum[strata.stratum >= 0], strata.chances[strata.stratum >= 0]
    ) == (pytest.approx(np.ones(3)))


@pytest.mark.parametrize("count", [1, 2, 4, 6])
def test_no_size_is_larger_than_a_stratum(count):
    sizes = np.array([9.0, 5, 1, 1, 0.5, 0.1])
    limited = rounds.limit_sizes(sizes, count)
    assert (limited * count <= limited.sum() * (1 + 1e-9)).all()
    unchanged = limited < limited.max()
    assert (limited[unchanged] == sizes[unchanged]).all()
    if count == 1:
        assert (limited == sizes).all()
    if count == 6:
        assert np.ptp(limited) == 0


def test_samples_of_which_the_same_is_expected_follow_the_ties():
    ties = np.array([3, 1, 2, 0])
    strata = rounds.cut(np.full(4, 0.5), np.ones(4), np.ones(4, bool), 2, ties)
    assert strata.stratum.tolist() == [1, 0, 1, 0]


def test_the_value_is_the_model_mean_where_it_is_near_and_moved_to_it_elsewhere():
    values, weights = np.full(10, np.nan), np.full(10, 0.1)
    values[:4] = 1, 0, 1, 0
    two = [rounds.Round(2, 0.4, 0.01), rounds.Round(2, 0.6, 0.01)]
    near, above, below = (rounds.estimate(two, mean, values, weights) for mean in (0.52, 0.9, 0.0))
    assert near.unbiased == pytest.approx(0.5) and near.value == 0.52
    assert near.deviation == pytest.approx(np.sqrt(0.01 / 2))
    assert above.value == pytest.approx(0.5 + rounds.CLIP * near.deviation)
    assert below.value == pytest.approx(0.5 - rounds.CLIP * near.deviation)
    # the interval is that of the draws, inside what the answers leave: 2 to 8 of 10
    assert (above.low, above.high) == (below.low, below.high) == (near.low, near.high)
    assert 0.2 <= near.low < 0.5 < near.high <= 0.8


def test_equal_answers_leave_an_interval():
    values, weights = np.full(1000, np.nan), np.full(1000, 0.001)
    values[:20] = 0
    found = rounds.estimate([rounds.Round(20, 0.0, 0.0)], 0.0, values, weights)
    assert found.value == found.low == 0 and 0.05 < found.high < 0.2


def test_when_all_is_answered_the_mean_is_known():
    values, weights = np.array([1.0, 0, 0]), np.array([0.5, 0.3, 0.2])
    found = rounds.estimate([rounds.Round(3, 0.4, 0.1)], 0.9, values, weights)
    assert found.value == found.low == found.high == 0.5
