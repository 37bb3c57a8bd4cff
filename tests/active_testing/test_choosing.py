"""From scores to samples."""

import numpy as np
import pytest

from nevis_stream.active_testing.acquisition_functions import ProportionalSampling, TopK
from nevis_stream.errors import BadInput

SCORES = np.array([0.0, 1.0, 3.0, 4.0])
PURE = {"uniform": 0.0}


def test_draws_are_in_proportion_to_the_scores():
    np.testing.assert_allclose(ProportionalSampling(**PURE).probabilities(SCORES), SCORES / 8)


def test_a_defensive_mixture_bounds_every_weight():
    p = ProportionalSampling(uniform=0.2).probabilities(SCORES)
    np.testing.assert_allclose(p, 0.2 / 4 + 0.8 * SCORES / 8)
    assert (1 / (4 * p) <= 1 / 0.2 + 1e-12).all()


def test_clipping_comes_before_the_sum():
    p = ProportionalSampling(clip=0.8, **PURE).probabilities(SCORES)
    np.testing.assert_allclose(p, np.array([0.2, 0.2, 0.375, 0.5]) / 1.275)


def test_low_scores_are_lifted_to_a_quantile():
    p = ProportionalSampling(quantile=0.5, **PURE).probabilities(SCORES)
    np.testing.assert_allclose(p, np.array([2, 2, 3, 4]) / 11)


def test_negative_scores_and_none_at_all():
    p = ProportionalSampling(**PURE).probabilities(np.array([0, -1.0, 2.0]))
    np.testing.assert_allclose(p, [0.25, 0, 0.75])
    np.testing.assert_allclose(ProportionalSampling(**PURE).probabilities(np.zeros(5)), 0.2)


def test_probabilities_are_those_of_the_draws():
    """Of pairs: the frequencies agree with the product of the stated probabilities."""
    random = np.random.default_rng(0)
    frequency = {}
    for _ in range(4000):
        positions, q = ProportionalSampling()(SCORES, 2, random)
        pair, probability = tuple(positions.tolist()), q.prod()
        count, before = frequency.get(pair, (0, probability))
        assert probability == pytest.approx(before)
        frequency[pair] = count + 1, probability
    assert sum(probability for _, probability in frequency.values()) == pytest.approx(1)
    for count, probability in frequency.values():
        assert abs(count / 4000 - probability) < 4 * np.sqrt(probability / 4000)


def test_what_has_no_score_is_drawn_last():
    random = np.random.default_rng(0)
    for _ in range(20):
        positions, q = ProportionalSampling(**PURE)(np.array([0.0, 2.0, 0.0]), 3, random)
        assert positions[0] == 1 and sorted(positions) == [0, 1, 2]
        np.testing.assert_allclose(q, [1, 0.5, 1])


def test_the_highest_scores_come_first():
    positions, q = TopK()(np.array([1.0, 0.0, 3.0, 3.0]), 3, None)
    assert positions.tolist() == [2, 3, 0] and q is None


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("choose", [ProportionalSampling(), TopK()])
def test_what_is_undefined_is_no_score(choose, value):
    with pytest.raises(BadInput, match=f"sample 1 of 3 that are left is {value}"):
        choose(np.array([1.0, value, 2.0]), 2, np.random.default_rng(0))


@pytest.mark.parametrize("name", ["quantile", "clip", "uniform"])
def test_shares_are_between_0_and_1(name):
    with pytest.raises(BadInput, match=f"{name}=1.5"):
        ProportionalSampling(**{name: 1.5})
