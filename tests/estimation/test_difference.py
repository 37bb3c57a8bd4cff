"""The difference estimator from stratified draws is unbiased, by enumeration of all draws."""

import itertools

import numpy as np
import pytest

from nevis_stream.estimation import difference
from nevis_stream.estimation.difference import Stage

N = 8


def surrogate(values):
    """Returns predictions of all samples from some answers, float64[n]: any function of them that
    is not linear; NaN is no answer.
    """
    known = ~np.isnan(values)
    mean = (values[known].sum() + 1) / (known.sum() + 2)
    slope = (np.arange(N) - 3.5) @ np.where(known, values - mean, 0)
    return 1 / (1 + np.exp(-(4 * mean - 2 + np.tanh(slope) * (np.arange(N) - 3.5) / 2)))


def without(values, drawn, stratum):
    """Returns f_{-h}(j) for each sample j of each stratum h."""
    predicted = np.full(N, np.nan)
    for h, i in enumerate(drawn):
        rest = values.copy()
        rest[i] = np.nan
        predicted[stratum == h] = surrogate(rest)[stratum == h]
    return predicted


def only_the_answer(values, drawn, stratum):
    """Leaves out the answer of the drawn sample in its own prediction only."""
    predicted = surrogate(values)
    predicted[drawn] = without(values, drawn, stratum)[drawn]
    return predicted


def draws(truth, values, weights, strata, by_uncertainty, leave_out):
    """Yields a stage for each draw: its probability, the stage, and the answers after it."""
    left = np.flatnonzero(np.isnan(values))
    stratum = np.full(N, -1)
    stratum[left] = difference.cut(
        surrogate(values)[left], weights[left], strata, by_uncertainty=by_uncertainty
    )
    members = [np.flatnonzero(stratum == h) for h in range(strata)]
    for drawn in itertools.product(*members):
        drawn = np.array(drawn)
        chances = np.array(
            [weights[i] / weights[each].sum() for i, each in zip(drawn, members, strict=True)]
        )
        answers = values.copy()
        answers[drawn] = truth[drawn]
        predicted = leave_out(answers, drawn, stratum)
        yield chances.prod(), Stage(stratum, drawn, chances, predicted), answers


def expectation(truth, weights, sizes, leave_out, past=()):
    """Returns the expectation of the estimate over all draws of all stages."""
    values = np.full(N, np.nan)
    values[list(past)] = truth[list(past)]
    total = 0.0

    def follow(probability, stages, values):
        nonlocal total
        if len(stages) == len(sizes):
            total += probability * difference.estimate(stages, values, weights)[0]
            return
        size = sizes[len(stages)]
        for chance, stage, answers in draws(truth, values, weights, size, bool(stages), leave_out):
            follow(probability * chance, [*stages, stage], answers)

    follow(1.0, [], values)
    return total


CASES = [
    ([3], ()),  # one stage
    ([2, 2], ()),  # two stages, the second of which depends on the first
    ([2, 1], (0, 5)),  # after two answers that were not drawn
    ([4, 4], ()),  # until nothing is left
]


@pytest.mark.parametrize("equal", [True, False], ids=["equal", "weighted"])
@pytest.mark.parametrize("scores", [False, True], ids=["outcomes", "scores"])
@pytest.mark.parametrize("sizes,past", CASES)
def test_the_expectation_is_the_mean(sizes, past, scores, equal):
    random = np.random.default_rng(len(sizes) + len(past))
    for _ in range(3):
        truth = random.random(N) if scores else (random.random(N) < 0.6).astype(float)
        weights = np.ones(N) if equal else np.repeat([3.0, 1.0], N // 2)
        weights /= weights.sum()
        mean = expectation(truth, weights, sizes, without, past)
        assert mean == pytest.approx(float(weights @ truth), abs=1e-12)


def test_to_leave_out_the_answer_alone_is_biased():
    """The enumeration can fail."""
    truth, weights = np.array([1.0, 0, 1, 1, 0, 0, 1, 1]), np.full(N, 1 / N)
    mean = expectation(truth, weights, [3], only_the_answer)
    assert abs(mean - truth.mean()) > 1e-3


@pytest.mark.parametrize("n,k", [(1, 1), (7, 7), (9, 4), (50, 20), (30, 29)])
@pytest.mark.parametrize("by_uncertainty", [False, True])
def test_every_stratum_has_samples_and_is_a_piece_of_the_order(n, k, by_uncertainty):
    random = np.random.default_rng(n)
    for p in (random.random(n), np.zeros(n), (random.random(n) < 0.1).astype(float)):
        weights = random.choice([1.0, 50.0], n)
        stratum = difference.cut(p, weights, k, by_uncertainty=by_uncertainty)
        assert set(stratum.tolist()) == set(range(k))
        assert (np.diff(stratum[np.argsort(p, kind="stable")]) >= 0).all()
        drawn, chances = difference.draw(stratum, weights, k, random)
        np.testing.assert_array_equal(stratum[drawn], np.arange(k))
        total = np.bincount(stratum, weights)
        np.testing.assert_allclose(chances, weights[drawn] / total)


def one_stage(truth, predicted, k, random):
    """Returns the estimate of one stage of k strata with fixed predictions."""
    n = len(truth)
    weights = np.full(n, 1 / n)
    stratum = difference.cut(predicted, weights, k)
    drawn, chances = difference.draw(stratum, weights, k, random)
    values = np.full(n, np.nan)
    values[drawn] = truth[drawn]
    stage = Stage(stratum, drawn, chances, predicted)
    return difference.estimate([stage], values, weights, outcomes=True)


@pytest.mark.parametrize("kind", ["calibrated", "guessing", "nearly perfect", "perfect", "broken"])
@pytest.mark.parametrize("k", [20, 50])
def test_intervals_hold_for_any_outcomes(kind, k):
    """Also where the predictions are of another model."""
    random, n, repetitions = np.random.default_rng(0), 300, 400
    predicted = random.beta(1.5, 0.7, n)
    p = {
        "calibrated": predicted,
        "guessing": np.full(n, 0.25),
        "nearly perfect": np.full(n, 0.97),
        "perfect": np.ones(n),
        "broken": 0.6 * predicted,
    }[kind]
    truth = (random.random(n) < p).astype(float)
    estimates = np.array([one_stage(truth, predicted, k, random) for _ in range(repetitions)])
    value, low, high = estimates.T
    assert ((low <= truth.mean()) & (truth.mean() <= high)).mean() >= 0.93
    assert ((low <= value) & (value <= high)).all()
    if kind == "calibrated":
        error = value.std() / np.sqrt(repetitions)
        assert abs(value.mean() - truth.mean()) < 4 * error


@pytest.mark.parametrize("k", [2, 5, 12])
def test_few_answers_have_a_wide_interval(k):
    random, n = np.random.default_rng(1), 100
    truth, predicted = (random.random(n) < 0.5).astype(float), random.random(n)
    low, high = np.array([one_stage(truth, predicted, k, random)[1:] for _ in range(200)]).T
    assert ((low <= truth.mean()) & (truth.mean() <= high)).mean() >= 0.93
    assert (high - low).mean() > {2: 0.9, 5: 0.6, 12: 0.4}[k]


def test_all_right_or_all_wrong():
    random, n = np.random.default_rng(2), 60
    predicted = random.uniform(0.3, 0.9, n)
    for truth in (np.ones(n), np.zeros(n)):
        for k in (1, 5, 20, 59):
            _, low, high = one_stage(truth, predicted, k, random)
            assert low <= truth[0] <= high
            assert high - low > 0
        assert one_stage(truth, predicted, n, random) == pytest.approx((truth[0],) * 3)


@pytest.mark.parametrize("sizes", [[1], [2], [4], [2, 2], [6]])
def test_intervals_of_few_samples_are_there_and_wide_and_contain_the_mean(sizes):
    """All draws of all outcomes of a given number of successes, in a fixed random order."""
    random, weights = np.random.default_rng(0), np.full(N, 1 / N)
    coverage = []
    for successes in range(N + 1):
        truth = random.permutation(np.arange(N) < successes).astype(float)
        inside = 0.0

        def follow(probability, stages, values, truth=truth):
            nonlocal inside
            if len(stages) < len(sizes):
                size = sizes[len(stages)]
                parts = draws(truth, values, weights, size, bool(stages), without)
                for chance, stage, answers in parts:
                    follow(probability * chance, [*stages, stage], answers)
                return
            value, low, high = difference.estimate(stages, values, weights, outcomes=True)
            assert np.isfinite([low, high]).all() and low <= value <= high
            left = 1 - np.isfinite(values).mean()
            assert high - low > 0.5 * left  # of what the answers leave open
            inside += probability * (low - 1e-12 <= truth.mean() <= high + 1e-12)

        follow(1.0, [], np.full(N, np.nan))
        coverage.append(inside)
    assert np.mean(coverage) >= 0.95
