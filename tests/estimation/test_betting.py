"""Confidence sequences by betting: they hold at every stop."""

import itertools

import numpy as np
import pytest

from nevis_stream.estimation.betting import compute_confidence_sequence


def misses(low, high, mean):
    """Returns which repetitions have an interval without the mean, after any draw."""
    return ((low > mean + 1e-9) | (high < mean - 1e-9)).any(axis=-1)


@pytest.mark.parametrize(
    "level", [0.95, *(pytest.param(level, marks=pytest.mark.slow) for level in (0.5, 0.8))]
)
@pytest.mark.parametrize("right", range(0, 13, 3))
def test_all_orders_of_twelve_outcomes(right, level):
    """Every order is equally probable: how many orders ever exclude the mean is exact."""
    orders = np.zeros((len(list(itertools.combinations(range(12), right))), 12))
    for order, places in zip(orders, itertools.combinations(range(12), right), strict=True):
        order[list(places)] = 1
    for outcomes, target in itertools.product((True, False), (None, 0.2)):
        low, high = compute_confidence_sequence(
            orders, 12, outcomes=outcomes, level=level, target=target
        )
        assert misses(low, high, right / 12).mean() <= 1 - level
        np.testing.assert_allclose(low[:, -1], right / 12)
        np.testing.assert_allclose(high[:, -1], right / 12)


def test_an_interval_for_one_number_of_draws_does_not_hold_at_every_stop():
    """The test can fail: Wald's interval, looked at after each draw, excludes the mean often."""
    random, n = np.random.default_rng(0), 200
    drawn = random.permuted(np.tile(np.arange(n) < 80, (300, 1)), axis=1).astype(float)[:, :120]
    count = np.arange(1, 121)
    mean = drawn.cumsum(axis=1) / count
    half = 1.96 * np.sqrt(mean * (1 - mean) / count * (n - count) / (n - 1))
    looked_at = slice(19, None)  # from 20 draws on
    assert misses((mean - half)[:, looked_at], (mean + half)[:, looked_at], 0.4).mean() > 0.1
    low, high = compute_confidence_sequence(drawn, n, outcomes=True)
    assert misses(low, high, 0.4).mean() <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 300)
    hold = ~misses(low, high, 0.4)
    assert (np.diff(low[hold]) >= 0).all() and (np.diff(high[hold]) <= 0).all()


def uneven_draws(random, values, weights, predicted, draws):
    """Draws one after the other, often where the prediction is uncertain; returns what
    `compute_confidence_sequence` takes.
    """
    left, rows = np.arange(len(values)), []
    for _ in range(draws):
        g = predicted[left]
        preference = np.sqrt(g * (1 - g)) * weights[left]
        chances = 0.5 / len(left) + 0.5 * preference / preference.sum()
        scale = weights[left] / chances
        place = random.choice(len(left), p=chances)
        i = left[place]
        residuals = (-scale * g).min(), (scale * (1 - g)).max()
        rows.append(
            (values[i], weights[i], chances[place], g[place], weights[left] @ g, *residuals)
        )
        left = np.delete(left, place)
    return np.array(rows).T


def test_uneven_draws_with_predictions_and_weights():
    random, n, draws = np.random.default_rng(1), 80, 40
    predicted = random.uniform(0.02, 0.98, n)
    values = np.clip(predicted + 0.1 * random.normal(size=n), 0, 1)
    weights = random.uniform(0.5, 2, n)
    weights /= weights.sum()
    mean, repetitions = weights @ values, 100

    def interval(predicted):
        drawn = np.stack(
            [uneven_draws(random, values, weights, predicted, draws) for _ in range(repetitions)],
            axis=1,
        )
        z, w, q, g, remaining, least, most = drawn
        return compute_confidence_sequence(
            z,
            n,
            weights=w,
            probabilities=q,
            predicted=g,
            remaining=remaining,
            residuals=(least, most),
        )

    widths = []
    for guess in (predicted, 1 - predicted, np.full(n, 0.5)):  # right, wrong and useless
        low, high = interval(guess)
        assert misses(low, high, mean).mean() <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / repetitions)
        widths.append((high - low)[:, -1].mean())
    assert widths[0] < widths[1]


def test_probabilities_need_bounds():
    with pytest.raises(ValueError, match="bounds"):
        compute_confidence_sequence(np.ones(3), 5, probabilities=np.full(3, 0.2))
