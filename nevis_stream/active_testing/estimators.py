"""Estimators of the risk: their base, and all of them by name."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from scipy.stats import hypergeom

from nevis_stream.active_testing.intervals import bound, lure_weights, step_estimates, with_interval
from nevis_stream.active_testing.pool import LabelledDraws
from nevis_stream.array_types import Float
from nevis_stream.estimation.intervals import MOST_MISSING, too_many_missing
from nevis_stream.queries.oracle import Estimate

NO_LABELS = "there is no usable label yet"


class Estimator(ABC):
    """Estimates the mean loss over the pool from labels of some samples.

    Attributes:
      about: one line for people.
      no_interval: why it never has an interval; empty if it claims one.
    """

    about = ""
    no_interval = ""

    def refusal(self, evidence: LabelledDraws) -> str:
        """Returns why these labels cannot be used; empty if they can."""
        if not evidence.random:
            return "the samples were chosen, not drawn at random with known probabilities"
        return ""

    @abstractmethod
    def estimate(self, evidence: LabelledDraws) -> Estimate:
        """Returns the estimate from at least one and less than all labels."""

    def __call__(self, evidence: LabelledDraws) -> Estimate:
        """Returns the estimate with its 95% interval, or NaN with the reason.

        With all labels it is the exact risk.
        """
        if np.isnan(evidence.losses).any():
            return self._of_known(evidence)
        asked, cost = evidence.asked, evidence.cost
        if asked == evidence.pool.n:
            risk = float(evidence.losses.mean())
            return Estimate(risk, risk, risk, observed=asked, cost=cost)
        reason = self.refusal(evidence) if asked else NO_LABELS
        if reason:
            return Estimate(np.nan, reason=reason, observed=asked, cost=cost)
        return self.estimate(evidence)

    def _of_known(self, evidence: LabelledDraws) -> Estimate:
        """Returns the mean loss of the samples that give a label, with an interval of the whole
        pool's: from that if each failed one had its least loss to that if it had its largest.

        The draws are the designed ones whatever the labels are, so both ends are as good as without
        failures. Source: worst-case bounds, Manski 1989.
        """
        losses = evidence.pool.losses[evidence.samples]
        least, most, nothing, one = (
            self(replace(evidence, assumed=assumed))
            for assumed in (losses.min(axis=1), losses.max(axis=1), 0.0, 1.0)
        )
        failed, missing = evidence.failed, one.value - nothing.value
        result = replace(least, high=most.high, observed=evidence.asked - failed, failed=failed)
        if failed == evidence.asked:
            return replace(result, value=np.nan, low=np.nan, high=np.nan, reason=NO_LABELS)
        result = replace(result, value=nothing.value / (1 - missing))
        if missing > MOST_MISSING:
            reason = result.reason or too_many_missing(missing)
            return replace(result, low=np.nan, high=np.nan, reason=reason)
        low, high = min(result.low, result.value), max(result.high, result.value)
        return replace(result, low=low, high=high)


PerLabel = Float[np.ndarray, " labels"]

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

    def estimate(self, evidence: LabelledDraws) -> Estimate:
        """Returns the estimate; it has no interval."""
        value = float(evidence.expected.mean())
        asked = evidence.asked - evidence.failed
        return Estimate(
            value,
            reason=self.no_interval,
            observed=asked,
            cost=evidence.cost,
            failed=evidence.failed,
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

    def estimate(self, evidence: LabelledDraws) -> Estimate:
        """Returns the weighted sum of the step estimates with the surrogate before each label."""
        steps = step_estimates(evidence, evidence.predicted, evidence.remaining)
        return with_interval(evidence, lure_weights(evidence.pool.n, evidence.asked), steps)


class TunedDifference(Estimator):
    """The difference estimator with the expected losses of draw m multiplied by a factor λ_m.

    The factor minimises the spread of the draws before m, so it does not depend on draw m and the
    estimate stays unbiased. A useless surrogate gets 0, which is LURE. Source: power tuning of
    Angelopoulos, Duchi and Zrnic, PPI++, 2023, here with earlier draws only.
    """

    about = "difference, with a surrogate that counts as much as earlier labels support"

    def estimate(self, evidence: LabelledDraws) -> Estimate:
        """Returns the weighted sum of the step estimates, a_m + λ_m b_m."""
        alone = step_estimates(evidence, 0.0, 0.0)
        surrogate = step_estimates(evidence, evidence.predicted, evidence.remaining) - alone
        steps = alone + factors(alone, surrogate) * surrogate
        return with_interval(evidence, lure_weights(evidence.pool.n, evidence.asked), steps)


def factors(alone: PerLabel, surrogate: PerLabel) -> PerLabel:
    """Returns λ_m = -Σ_{k<m} (a_k - mean a) b_k / Σ_{k<m} b_k², from 0 to 1, float64[M].

    Args:
      alone: a_m, unbiased estimates without the surrogate, float64[M].
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

    v_m = 1 + (n - M) / (n - m) (1 / ((n - m + 1) q_m) - 1), and 1 if M = n; `martingale` computes
    the same sum step by step. Source: Farquhar et al. 2021, theorem 2 (LURE, the levelled unbiased
    risk estimator); ASE paper, equation 2.
    """

    about = "the mean loss of drawn samples, weighted by their probabilities; unbiased"

    def estimate(self, evidence: LabelledDraws) -> Estimate:
        """Returns the weighted sum of the step estimates without a surrogate."""
        steps = step_estimates(evidence, 0.0, 0.0)
        return with_interval(evidence, lure_weights(evidence.pool.n, evidence.asked), steps)


class EqualSteps(Estimator):
    """The mean of the losses, each weighted by 1 / (n q_m) + (M - m) / n.

    It is unbiased, but does not become the plain mean if the draws are uniform. Source: Farquhar et
    al. 2021, theorem 1 (R_PURE).
    """

    about = "the mean of the single draws' unbiased estimates"

    def estimate(self, evidence: LabelledDraws) -> Estimate:
        """Returns the mean of the step estimates without a surrogate."""
        steps = step_estimates(evidence, 0.0, 0.0)
        return with_interval(evidence, np.full(evidence.asked, 1 / evidence.asked), steps)


class MonteCarlo(Estimator):
    """The mean of the observed losses.

    The interval of an error rate inverts the exact hypergeometric test. Other losses have that of
    `lure`, which is the same mean.
    """

    about = "the mean loss of uniformly drawn samples"

    def refusal(self, evidence: LabelledDraws) -> str:
        """Refuses samples that were not drawn uniformly: their mean is biased."""
        return "" if evidence.uniform else "the samples were not drawn uniformly; use lure"

    def estimate(self, evidence: LabelledDraws) -> Estimate:
        """Returns the mean loss."""
        losses, n, asked = evidence.losses, evidence.pool.n, evidence.asked
        if not evidence.pool.binary:
            return with_interval(
                evidence, lure_weights(n, asked), step_estimates(evidence, 0.0, 0.0)
            )
        low, high = _plausible(round(losses.sum()), asked, n)
        return bound(evidence, float(losses.mean()), low / n, high / n)


def _plausible(errors: int, asked: int, n: int) -> tuple[int, int]:
    """Returns the smallest and the largest number of errors in the pool that neither one-sided test
    at 2.5% rejects.
    """
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
