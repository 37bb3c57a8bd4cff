"""Monte Carlo: the plain mean of uniformly drawn losses."""

import numpy as np
from scipy.special import stdtrit
from scipy.stats import hypergeom

from nevis_stream.active_testing.estimator import Estimator
from nevis_stream.active_testing.intervals import (
    FEWEST,
    FEWEST_MISTAKES,
    NO_SPREAD,
    bounded,
    mistakes,
    of_few_mistakes,
    widened,
)
from nevis_stream.dynamic_evaluation.asking import Estimate


class MonteCarlo(Estimator):
    """The mean of the observed losses.

    The interval of an error rate inverts the exact hypergeometric test. Other losses have Student's
    interval with the variance s² (1/M - 1/n) of draws without replacement (Cochran 1977, section
    2.5), `widened`.
    """

    about = "the mean loss of uniformly drawn samples"

    def refusal(self, evidence):
        """Refuses samples that were not drawn uniformly: their mean is biased."""
        return "" if evidence.uniform else "the samples were not drawn uniformly; use lure"

    def estimate(self, evidence):
        """Returns the mean loss."""
        losses, n, count = evidence.losses, evidence.pool.n, evidence.asked
        value = float(losses.mean())
        if evidence.pool.binary:
            low, high = _plausible(round(losses.sum()), count, n)
            return bounded(evidence, value, low / n, high / n)
        if count < FEWEST:
            reason = f"an interval needs at least {FEWEST} labels; there are {count}"
            return Estimate(value, reason=reason, asked=count, cost=evidence.cost)
        if mistakes(evidence) < FEWEST_MISTAKES:
            return of_few_mistakes(evidence, value)
        spread = float(losses.std(ddof=1))
        if not spread:
            return Estimate(value, reason=NO_SPREAD, asked=count, cost=evidence.cost)
        half = stdtrit(count - 1, 0.975) * spread * np.sqrt(1 / count - 1 / n)
        half = widened(half, count)
        return bounded(evidence, value, value - half, value + half)


def _plausible(errors, count, n):
    """Returns the smallest and the largest number of errors in the pool that neither one-sided test
    at 2.5% rejects.
    """
    least, most = errors, n - (count - errors)
    low = _first(least, most, lambda total: hypergeom.sf(errors - 1, n, total, count) > 0.025)
    past = _first(low, most + 1, lambda total: hypergeom.cdf(errors, n, total, count) <= 0.025)
    return low, past - 1


def _first(low, high, holds):
    """Returns the first number from low for which a condition holds, `high` if none before it."""
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


ESTIMATOR = MonteCarlo()
