"""Estimators of the risk, their 95% intervals, and all of them by name.

Each draw alone gives an unbiased estimate of the risk, given all that happened before it:

  θ_m = (1/n) [ Σ_{k<m} L_k + Σ_{i left} g_m(i) + (L_m - g_m(i_m)) / q_m ],

for any losses g_m that were predicted before the label (active statistical inference; g = 0 needs
no surrogate). As g_m never saw the label that it is compared with, it is cross-fitted. Fixed
weights a_m that sum to 1 keep Σ a_m θ_m unbiased, and its error is a sum of martingale differences,
in which a few large losses decide.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from scipy.special import gammaincinv

from nevis_stream.active_testing.pool import LabelledDraws
from nevis_stream.array_types import Float
from nevis_stream.estimation.intervals import MOST_MISSING, explain_missing
from nevis_stream.queries.oracle import Estimate

PerLabel = Float[np.ndarray, " labels"]

FEWEST = 40  # labels; with 20, rare large losses are often not among them yet: 88% were covered
_TAIL = 0.025
_NONE_SEEN = float(gammaincinv(1, 1 - _TAIL))  # 3.69: the count that leaves a tail without any jump
_ROUNDING = 1e-12  # relative error of sums of losses


def with_interval(draws: LabelledDraws, weights: PerLabel, steps: PerLabel) -> Estimate:
    """Returns Σ a_m θ_m with its 95% interval.

    The error is a sum of martingale differences s_m = a_m (θ_m - θ), whose conditional variances
    add up (Zrnic and Candès 2024, section 5); M / (M - 1) Σ s_m² estimates their sum. Large losses
    are rare, so the sum is closer to a Poisson count of jumps than to a normal variable. The size
    of a jump is the sum of abs(s_m)³ over that variance, and the count the variance over the
    squared size; each end of the interval is where that count would have a probability of 2.5%.
    With many jumps it is the normal interval; equal losses give Garwood's (1936), and unequal ones
    one like Fay and Feuer's for weighted counts (1997).

    An end towards which jumps go, as `bound_surprises` says, is at least as far away as it would be
    if no jump had been seen: 3.7 times the size of one that was not, since labels without a large
    loss say little about large losses.

    Args:
      draws: labels that were drawn at random.
      weights, steps: a_m and θ_m, float64[M].
    """
    value, asked = float(weights @ steps), draws.asked
    if asked < FEWEST:
        reason = f"an interval needs at least {FEWEST} labels; there are {asked}"
        return Estimate(value, reason=reason, observed=asked, cost=draws.cost)
    summands = weights * (steps - value)
    fractions = weights / (draws.pool.n * draws.probabilities)  # of a draw's loss in the value
    away, back = _reaches(summands)
    below, above = (
        max(away, _NONE_SEEN * _size(fractions) * _size(unseen)) if unseen.any() else back
        for unseen in bound_surprises(draws, fractions)
    )
    return bound(draws, value, value - below, value + above)


def bound_surprises(
    draws: LabelledDraws, fractions: PerLabel
) -> tuple[Float[np.ndarray, " samples"], Float[np.ndarray, " samples"]]:
    """Returns by how much a surprising label of each sample would lower and raise its loss, both
    float64[n] and at least 0.

    Surprising is that the model is wrong; if the labels say that it is wrong on most of the pool,
    that it is right, or wrong at a higher price than on average. If losses may be negative, as the
    difference of two models, they may change as much in the other direction.

    Args:
      draws: the labels.
      fractions: the weight of each in an estimate, float64[M]. Not all count alike: draws prefer
        samples on which the model is wrong.
    """
    change = draws.pool.loss_if_wrong
    if draws.pool.signed:
        return abs(change), abs(change)
    answers = draws.pool.predictions[draws.samples].argmax(axis=1)
    if fractions @ (answers != draws.labels) > fractions.sum() / 2:
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


def bound(draws: LabelledDraws, value: float, low: float, high: float) -> Estimate:
    """Returns an estimate whose interval contains no risk that the pool and the labels so far make
    impossible, unless the value itself is such a risk: an unbiased value may be, if most of the
    pool has labels. It stays as it is, since clipping it would bias it, and the interval reaches to
    it.
    """
    pool = draws.pool
    unknown = np.ones(pool.n, bool)
    unknown[draws.samples] = False
    known, losses = draws.losses.sum(), pool.losses[unknown]
    least, most = (
        (known + each.sum()) / pool.n for each in (losses.min(axis=1), losses.max(axis=1))
    )
    slack = _ROUNDING * max(abs(least), abs(most))  # the risk itself may be one of the two
    least, most = least - slack, most + slack
    return Estimate(
        value,
        min(float(np.clip(low, least, most)), value),
        max(float(np.clip(high, least, most)), value),
        observed=draws.asked,
        cost=draws.cost,
    )


def step_estimates(
    draws: LabelledDraws, predicted: PerLabel | float, remaining: PerLabel | float
) -> PerLabel:
    """Returns θ_m, float64[M].

    Args:
      draws: labels that were drawn at random.
      predicted: g_m(i_m), float64[M] or 0.
      remaining: Σ g_m(i) over the samples that were left, float64[M] or 0.
    """
    losses = draws.losses
    before = np.cumsum(losses) - losses
    residuals = (losses - predicted) / draws.probabilities
    return (before + remaining + residuals) / draws.pool.n


def compute_lure_weights(n: int, asked: int) -> np.ndarray:
    """Returns the weights a_m of θ_m, float64[M], that make Σ a_m θ_m the LURE estimator if g = 0.

    They are n (n - M) / (M (n - m) (n - m + 1)): equal for M much smaller than n, and such that
    uniform draws give the plain mean. Derived from Farquhar et al. 2021, theorem 2.
    """
    if asked == n:
        return np.append(np.zeros(n - 1), 1.0)
    left = n - np.arange(1, asked + 1)
    return n * (n - asked) / (asked * left * (left + 1.0))


NO_LABELS = "there is no usable label yet"


class Estimator(ABC):
    """Estimates the mean loss over the pool from labels of some samples.

    Attributes:
      about: one line for people.
      no_interval: why it never has an interval; empty if it claims one.
    """

    about = ""
    no_interval = ""

    def explain_refusal(self, draws: LabelledDraws) -> str:
        """Returns why these labels cannot be used; empty if they can."""
        if not draws.random:
            return "the samples were chosen, not drawn at random with known probabilities"
        return ""

    @abstractmethod
    def estimate(self, draws: LabelledDraws) -> Estimate:
        """Returns the estimate from at least one and less than all labels."""

    def __call__(self, draws: LabelledDraws) -> Estimate:
        """Returns the estimate with its 95% interval, or NaN with the reason.

        With all labels it is the exact risk.
        """
        if np.isnan(draws.losses).any():
            return self._of_known(draws)
        asked, cost = draws.asked, draws.cost
        if asked == draws.pool.n:
            risk = float(draws.losses.mean())
            return Estimate(risk, risk, risk, observed=asked, cost=cost)
        reason = self.explain_refusal(draws) if asked else NO_LABELS
        if reason:
            return Estimate(np.nan, reason=reason, observed=asked, cost=cost)
        return self.estimate(draws)

    def _of_known(self, draws: LabelledDraws) -> Estimate:
        """Returns the mean loss of the samples that give a label, with an interval of the whole
        pool's: from that if each failed one had its least loss to that if it had its largest.

        The draws are the designed ones whatever the labels are, so both ends are as good as without
        failures. Source: worst-case bounds, Manski 1989.
        """
        losses = draws.pool.losses[draws.samples]
        least, most, nothing, one = (
            self(replace(draws, assumed=assumed))
            for assumed in (losses.min(axis=1), losses.max(axis=1), 0.0, 1.0)
        )
        failed, missing = draws.failed, one.value - nothing.value
        result = replace(least, high=most.high, observed=draws.asked - failed, failed=failed)
        if failed == draws.asked:
            return replace(result, value=np.nan, low=np.nan, high=np.nan, reason=NO_LABELS)
        result = replace(result, value=nothing.value / (1 - missing))
        if missing > MOST_MISSING:
            reason = result.reason or explain_missing(missing)
            return replace(result, low=np.nan, high=np.nan, reason=reason)
        low, high = min(result.low, result.value), max(result.high, result.value)
        return replace(result, low=low, high=high)


START = 10  # draws before which the factor of the tuned difference stays at 1/2


class Ase(Estimator):
    """The mean over the pool of the loss that the latest surrogate expects (active surrogate
    estimator).

    Labels enter only through the surrogate, also those of asked samples, so it works with samples
    that were chosen, and without any label. Source: ASE paper, equation 4.
    """

    about = "the loss that the surrogate expects, over the whole pool; biased, of small variance"
    no_interval = (
        "ase has no interval: its error is the surrogate's bias, which its own spread does not"
        " show; difference has one"
    )

    def estimate(self, draws: LabelledDraws) -> Estimate:
        """Returns the estimate; it has no interval."""
        value = float(draws.expected.mean())
        asked = draws.asked - draws.failed
        return Estimate(
            value,
            reason=self.no_interval,
            observed=asked,
            cost=draws.cost,
            failed=draws.failed,
        )

    __call__ = estimate  # also without any label, and with samples that were chosen


class Difference(Estimator):
    """The expected losses of samples without a label, plus the weighted differences between
    observed and expected losses (cross-fitted).

    Each difference uses the surrogate as it was before that label, so the estimate is unbiased for
    any surrogate, however it is retrained. A better surrogate makes the interval shorter; the
    interval is approximate, as the spread of the labels so far must stand for what is left. With a
    surrogate that expects no loss it is LURE. Source: Angelopoulos et al. 2023; Zrnic and Candès
    2024, section 5, here without replacement.
    """

    about = "the surrogate's expected loss, corrected by the labels; unbiased, with an interval"

    def estimate(self, draws: LabelledDraws) -> Estimate:
        """Returns the weighted sum of the step estimates with the surrogate before each label."""
        steps = step_estimates(draws, draws.predicted, draws.remaining)
        return with_interval(draws, compute_lure_weights(draws.pool.n, draws.asked), steps)


class TunedDifference(Estimator):
    """The difference estimator with the expected losses of draw m multiplied by a factor λ_m.

    The factor minimises the spread of the draws before m, so it does not depend on draw m and the
    estimate stays unbiased. A useless surrogate gets 0, which is LURE. Source: power tuning of
    Angelopoulos, Duchi and Zrnic, PPI++, 2023, here with earlier draws only.
    """

    about = "difference, with a surrogate that counts as much as earlier labels support"

    def estimate(self, draws: LabelledDraws) -> Estimate:
        """Returns the weighted sum of the step estimates, u_m + λ_m b_m (see `compute_factors`)."""
        alone = step_estimates(draws, 0.0, 0.0)
        surrogate = step_estimates(draws, draws.predicted, draws.remaining) - alone
        steps = alone + compute_factors(alone, surrogate) * surrogate
        return with_interval(draws, compute_lure_weights(draws.pool.n, draws.asked), steps)


def compute_factors(alone: PerLabel, surrogate: PerLabel) -> PerLabel:
    """Returns λ_m = -Σ_{k<m} (u_k - mean u) b_k / Σ_{k<m} b_k², from 0 to 1, float64[M].

    Args:
      alone: u_m, unbiased estimates without the surrogate, float64[M].
      surrogate: b_m, what the surrogate adds to them, of expectation 0, float64[M].
    """

    def before(values: np.ndarray) -> np.ndarray:
        return np.cumsum(values) - values

    count = np.maximum(np.arange(len(alone)), 1)
    product = before(alone * surrogate) - before(alone) / count * before(surrogate)
    square = before(surrogate**2)
    with np.errstate(divide="ignore", invalid="ignore"):
        fitted = np.clip(-product / square, 0, 1)
    return np.where((np.arange(len(alone)) < START) | (square <= 0), 0.5, fitted)


class Lure(Estimator):
    """The mean of the observed losses, each weighted by v_m.

    v_m = 1 + (n - M) / (n - m) (1 / ((n - m + 1) q_m) - 1), and 1 if M = n; `compute_lure_weights`
    give the same sum step by step. Source: Farquhar et al. 2021, theorem 2 (LURE, the levelled
    unbiased risk estimator); ASE paper, equation 2.
    """

    about = "the mean loss of drawn samples, weighted by their probabilities; unbiased"

    def estimate(self, draws: LabelledDraws) -> Estimate:
        """Returns the weighted sum of the step estimates without a surrogate."""
        steps = step_estimates(draws, 0.0, 0.0)
        return with_interval(draws, compute_lure_weights(draws.pool.n, draws.asked), steps)


class EqualSteps(Estimator):
    """The mean of the losses, each weighted by 1 / (n q_m) + (M - m) / n.

    It is unbiased, but does not become the plain mean if the draws are uniform. Source: Farquhar et
    al. 2021, theorem 1 (R_PURE).
    """

    about = "the mean of the single draws' unbiased estimates"

    def estimate(self, draws: LabelledDraws) -> Estimate:
        """Returns the mean of the step estimates without a surrogate."""
        steps = step_estimates(draws, 0.0, 0.0)
        return with_interval(draws, np.full(draws.asked, 1 / draws.asked), steps)


class MonteCarlo(Estimator):
    """The mean of the observed losses.

    The interval of an error rate inverts the exact hypergeometric test. Other losses have that of
    `lure`, which is the same mean.
    """

    about = "the mean loss of uniformly drawn samples"

    def explain_refusal(self, draws: LabelledDraws) -> str:
        """Refuses samples that were not drawn uniformly: their mean is biased."""
        return "" if draws.uniform else "the samples were not drawn uniformly; use lure"

    def estimate(self, draws: LabelledDraws) -> Estimate:
        """Returns the mean loss."""
        losses, n, asked = draws.losses, draws.pool.n, draws.asked
        if not draws.pool.binary:
            return with_interval(
                draws, compute_lure_weights(n, asked), step_estimates(draws, 0.0, 0.0)
            )
        low, high = _plausible(round(losses.sum()), asked, n)
        return bound(draws, float(losses.mean()), low / n, high / n)


def _plausible(errors: int, asked: int, n: int) -> tuple[int, int]:
    """Returns the smallest and the largest number of errors in the pool that neither one-sided test
    at 2.5% rejects.
    """
    from scipy.stats import hypergeom  # takes a second, and only this estimator needs it

    least, most = errors, n - (asked - errors)
    low = _first(least, most, lambda total: hypergeom.sf(errors - 1, n, total, asked) > 0.025)
    past = _first(low, most + 1, lambda total: hypergeom.cdf(errors, n, total, asked) <= 0.025)
    return low, past - 1


def _first(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """Returns the first number from low for which a condition holds, `high` if none before it."""
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


ESTIMATORS: Mapping[str, Estimator] = {
    "ase": Ase(),
    "difference": Difference(),
    "equal_steps": EqualSteps(),
    "lure": Lure(),
    "monte_carlo": MonteCarlo(),
    "tuned_difference": TunedDifference(),
}
"""By name."""
