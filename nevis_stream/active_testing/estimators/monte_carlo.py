"""Monte Carlo: the plain mean of uniformly drawn losses."""

from scipy.stats import hypergeom

from nevis_stream.active_testing.estimator import Estimator
from nevis_stream.active_testing.intervals import bounded, with_interval
from nevis_stream.active_testing.martingale import lure_weights, step_estimates


class MonteCarlo(Estimator):
    """The mean of the observed losses.

    The interval of an error rate inverts the exact hypergeometric test. Other losses have that of
    `lure`, which is the same mean.
    """

    about = "the mean loss of uniformly drawn samples"

    def refusal(self, evidence):
        """Refuses samples that were not drawn uniformly: their mean is biased."""
        return "" if evidence.uniform else "the samples were not drawn uniformly; use lure"

    def estimate(self, evidence):
        """Returns the mean loss."""
        losses, n, asked = evidence.losses, evidence.pool.n, evidence.asked
        if not evidence.pool.binary:
            return with_interval(
                evidence, lure_weights(n, asked), step_estimates(evidence, 0.0, 0.0)
            )
        low, high = _plausible(round(losses.sum()), asked, n)
        return bounded(evidence, float(losses.mean()), low / n, high / n)


def _plausible(errors, asked, n):
    """Returns the smallest and the largest number of errors in the pool that neither one-sided test
    at 2.5% rejects.
    """
    least, most = errors, n - (asked - errors)
    low = _first(least, most, lambda total: hypergeom.sf(errors - 1, n, total, asked) > 0.025)
    past = _first(low, most + 1, lambda total: hypergeom.cdf(errors, n, total, asked) <= 0.025)
    return low, past - 1


def _first(low, high, holds):
    """Returns the first number from low for which a condition holds, `high` if none before it."""
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


ESTIMATOR = MonteCarlo()
