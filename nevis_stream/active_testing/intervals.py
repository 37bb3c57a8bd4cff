"""Unbiased estimates from adaptive draws, as sums of martingale differences, and 95% intervals of
their weighted sums, in which a few large losses decide.

Each draw alone gives an unbiased estimate of the risk, given all that happened before it:

  θ_m = (1/n) [ Σ_{k<m} L_k + Σ_{i left} g_m(i) + (L_m - g_m(i_m)) / q_m ],

for any losses g_m that were predicted before the label (active statistical inference; g = 0 needs
no surrogate). As g_m never saw the label that it is compared with, it is cross-fitted. Fixed
weights a_m that sum to 1 keep Σ a_m θ_m unbiased, and its error is a sum of martingale differences.
"""

import numpy as np
from scipy.special import gammaincinv

from nevis_stream.active_testing.pool import LabelledDraws
from nevis_stream.array_types import Float
from nevis_stream.queries.oracle import Estimate

PerLabel = Float[np.ndarray, " labels"]

FEWEST = 40  # labels; with 20, rare large losses are often not among them yet: 88% were covered
_TAIL = 0.025
_NONE_SEEN = float(gammaincinv(1, 1 - _TAIL))  # 3.69: the count that leaves a tail without any jump
_ROUNDING = 1e-12  # relative error of sums of losses


def with_interval(evidence: LabelledDraws, weights: PerLabel, steps: PerLabel) -> Estimate:
    """Returns Σ a_m θ_m with its 95% interval.

    The error is a sum of martingale differences s_m = a_m (θ_m - θ), whose conditional variances
    add up (Zrnic and Candès 2024, section 5); M / (M - 1) Σ s_m² estimates their sum. Large losses
    are rare, so the sum is closer to a Poisson count of jumps than to a normal variable. The size
    of a jump is Σ |s_m|³ over that variance, and the count the variance over the squared size; each
    end of the interval is where that count would have a probability of 2.5%. With many jumps it is
    the normal interval; equal losses give Garwood's (1936), and unequal ones one like Fay and
    Feuer's for weighted counts (1997).

    An end towards which jumps go, as `surprises` says, is at least as far away as it would be if no
    jump had been seen: 3.7 times the size of one that was not, since labels without a large loss
    say little about large losses.

    Args:
      evidence: labels that were drawn at random.
      weights, steps: a_m and θ_m, float64[M].
    """
    value, asked = float(weights @ steps), evidence.asked
    if asked < FEWEST:
        reason = f"an interval needs at least {FEWEST} labels; there are {asked}"
        return Estimate(value, reason=reason, observed=asked, cost=evidence.cost)
    summands = weights * (steps - value)
    fractions = weights / (
        evidence.pool.n * evidence.probabilities
    )  # of a draw's loss in the value
    away, back = _reaches(summands)
    below, above = (
        max(away, _NONE_SEEN * _size(fractions) * _size(unseen)) if unseen.any() else back
        for unseen in surprises(evidence, fractions)
    )
    return bound(evidence, value, value - below, value + above)


def surprises(
    evidence: LabelledDraws, fractions: PerLabel
) -> tuple[Float[np.ndarray, " samples"], Float[np.ndarray, " samples"]]:
    """Returns by how much a surprising label of each sample would lower and raise its loss, both
    float64[n] and at least 0.

    Surprising is that the model is wrong; if the labels say that it is wrong on most of the pool,
    that it is right, or wrong at a higher price than on average. If losses may be negative, as the
    difference of two models, they may change as much in the other direction.

    Args:
      evidence: the labels.
      fractions: the weight of each in an estimate, float64[M]. Not all count alike: draws prefer
        samples on which the model is wrong.
    """
    change = evidence.pool.loss_if_wrong
    if evidence.pool.signed:
        return abs(change), abs(change)
    answers = evidence.pool.predictions[evidence.samples].argmax(axis=1)
    if fractions @ (answers != evidence.labels) > fractions.sum() / 2:
        return np.maximum(change, 0), np.maximum(change - change.mean(), 0)
    return np.maximum(-change, 0), np.maximum(change, 0)


def _reaches(summands: PerLabel) -> tuple[float, float]:
    """Returns how far the ends of the interval are from the value if the sum is a count of jumps:
    the end towards which jumps go, and the other one.
    """
    asked = len(summands)
    variance = (summands**2).sum() * asked / (asked - 1)
    if not variance:
        return 0.0, 0.0
    jump = (abs(summands) ** 3).sum() / variance
    count = variance / jump**2
    ends = gammaincinv(count + 1, 1 - _TAIL), gammaincinv(count, _TAIL)
    return jump * (ends[0] - count), jump * (count - ends[1])


def _size(values: np.ndarray) -> float:
    """Returns the mean of values weighted by their squares, which the large ones dominate."""
    return float((values**3).sum() / (values**2).sum())


def bound(evidence: LabelledDraws, value: float, low: float, high: float) -> Estimate:
    """Returns an estimate whose interval contains no risk that the pool and the labels so far make
    impossible, unless the value itself is such a risk: an unbiased value may be, if most of the
    pool has labels. It stays as it is, since clipping it would bias it, and the interval reaches to
    it.
    """
    pool = evidence.pool
    unknown = np.ones(pool.n, bool)
    unknown[evidence.samples] = False
    known, losses = evidence.losses.sum(), pool.losses[unknown]
    least, most = (
        (known + each.sum()) / pool.n for each in (losses.min(axis=1), losses.max(axis=1))
    )
    slack = _ROUNDING * max(abs(least), abs(most))  # the risk itself may be one of the two
    least, most = least - slack, most + slack
    return Estimate(
        value,
        min(float(np.clip(low, least, most)), value),
        max(float(np.clip(high, least, most)), value),
        observed=evidence.asked,
        cost=evidence.cost,
    )


def step_estimates(
    evidence: LabelledDraws, predicted: PerLabel | float, remaining: PerLabel | float
) -> PerLabel:
    """Returns θ_m, float64[M].

    Args:
      evidence: labels that were drawn at random.
      predicted: g_m(i_m), float64[M] or 0.
      remaining: Σ g_m(i) over the samples that were left, float64[M] or 0.
    """
    losses = evidence.losses
    before = np.cumsum(losses) - losses
    residuals = (losses - predicted) / evidence.probabilities
    return (before + remaining + residuals) / evidence.pool.n


def lure_weights(n: int, asked: int) -> np.ndarray:
    """Returns the weights a_m of θ_m, float64[M], that make Σ a_m θ_m the LURE estimator if g = 0.

    They are n (n - M) / (M (n - m) (n - m + 1)): equal for M much smaller than n, and such that
    uniform draws give the plain mean. Derived from Farquhar et al. 2021, theorem 2.
    """
    if asked == n:
        return np.append(np.zeros(n - 1), 1.0)
    left = n - np.arange(1, asked + 1)
    return n * (n - asked) / (asked * left * (left + 1.0))
