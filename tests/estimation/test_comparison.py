"""Comparisons of models on shared samples: intervals and decisions hold as often as stated."""

import numpy as np
import pytest

from nevis_stream.estimation.betting import compute_capital
from nevis_stream.estimation.comparison import compare_pair, decide, make_covariates

N = 200


def models(random, *means):
    """Models whose outcomes share what is hard: one difficulty for each sample."""
    difficulty = random.random(N)
    noise = random.random((len(means), N))
    return (np.where(noise < 0.6, difficulty, noise) < np.array(means)[:, None]).astype(float)


def test_the_interval_of_a_difference_covers_and_is_shorter_than_that_of_two_means():
    random, inside, ratios = np.random.default_rng(0), 0, []
    for _ in range(300):
        pair = models(random, 0.6, 0.5)
        drawn = random.permutation(N)[:40]
        found = compare_pair(*pair[:, drawn], N)
        inside += found.low <= pair[0].mean() - pair[1].mean() <= found.high
        alone = np.sqrt(sum(each.var(ddof=1) / 40 for each in pair[:, drawn]) * (1 - 40 / N))
        ratios.append((found.high - found.low) / 2 / (2.02 * alone))
    assert inside / 300 > 0.93 and np.mean(ratios) < 0.95


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("against_known", [False, True])
def test_what_is_known_of_the_samples_shortens_the_interval(weighted, against_known):
    random, inside, ratios = np.random.default_rng(4), 0, []
    weights = np.repeat([1.0, 3.0], N // 2) if weighted else np.ones(N)
    weights /= weights.sum()
    for _ in range(300):
        first, second, *known = models(random, 0.8, 0.3, *np.linspace(0.1, 0.9, 30))
        given = second if against_known else None
        covariates = make_covariates(np.mean(known, axis=0), weights, given)
        drawn = random.permutation(N)[:75]
        more = {"weights": weights[drawn], "greatest_weight": weights.max()} if weighted else {}
        plain = compare_pair(first[drawn], second[drawn], N, **more)
        found = compare_pair(first[drawn], second[drawn], N, covariates=covariates[drawn], **more)
        inside += found.low <= weights @ (first - second) <= found.high
        ratios.append((found.high - found.low) / (plain.high - plain.low))
    assert inside / 300 > 0.93 and np.mean(ratios) < (0.8 if against_known else 0.96)


@pytest.mark.parametrize(
    "covariates", [None, make_covariates(np.linspace(0, 1, N), np.ones(N) / N)]
)
def test_all_samples_give_the_difference(covariates):
    pair = models(np.random.default_rng(1), 0.7, 0.4)
    found = compare_pair(*pair, N, covariates=covariates)
    assert found.low == found.high == pytest.approx(pair[0].mean() - pair[1].mean())
    assert found.probability == 1 and found.shared == N


def test_equal_answers_leave_a_difference_possible():
    found = compare_pair(np.ones(12), np.ones(12), N)
    assert found.low < 0 < found.high and found.probability == 0.5
    assert compare_pair(np.ones(3), np.zeros(3), N).low == -1
    assert compare_pair(np.empty(0), np.empty(0), N).shared == 0


@pytest.mark.parametrize("weighted", [False, True])
def test_who_bets_against_the_truth_seldom_wins(weighted):
    """Of equal means, at any time: at most 5%, by Ville; of others above the bet, mostly."""
    random, won, right = np.random.default_rng(2), 0, 0
    weights = random.random(N) if weighted else np.ones(N)
    weights /= weights.sum()
    for _ in range(300):
        values, order = (random.random(N) < 0.5).astype(float), random.permutation(N)
        more = {"weights": weights[order], "greatest_weight": weights.max()} if weighted else {}
        won += compute_capital(values[order], N, float(weights @ values), **more)[-1] >= 20
        below = float(weights @ values) - 0.2
        right += compute_capital(values[order], N, below, **more)[149] >= 20
    assert won / 300 <= 0.05 and right / 300 > 0.9


@pytest.mark.parametrize(
    "goal, repetitions",
    [
        ("best", 20),
        *(pytest.param(goal, 60, marks=pytest.mark.slow) for goal in ("best", "order")),
    ],
)
def test_decisions_of_several_models(goal, repetitions):
    random, wrong, used = np.random.default_rng(3), 0, []
    for _ in range(repetitions):
        values = models(random, 0.85, 0.8, 0.5, 0.3)[:, random.permutation(N)]
        means, counts = values.mean(axis=1), np.zeros(4, int)
        while counts.max() < N:
            found = decide(values, counts, N, goal)
            if found.settled.all():
                break
            counts[~found.settled] += 10
        wrong += (found.better & (means[:, None] < means)).any()
        used.append(counts.sum() / (4 * counts.max()))
        if goal == "best" and found.settled.all() and counts.max() < N:
            assert means[~found.better.any(axis=0)].max() == means.max()
    assert wrong <= repetitions * 0.05 and (goal == "order" or np.mean(used) < 0.75)


def test_samples_without_an_answer_decide_nothing():
    values = np.stack([np.ones(100), np.zeros(100)])
    assert decide(values, np.array([100, 100]), N).better[0, 1]
    values[1] = np.nan
    assert not decide(values, np.array([100, 100]), N).better.any()
