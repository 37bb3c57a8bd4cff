"""The difference estimator, which trusts the surrogate as far as earlier labels support it."""

import numpy as np

from nevis_stream.active_testing.estimator import Estimator
from nevis_stream.active_testing.intervals import with_interval
from nevis_stream.active_testing.martingale import lure_weights, step_estimates

START = 10  # draws before which the factor stays at 1/2


class TunedDifference(Estimator):
    """The difference estimator with the expected losses of draw m multiplied by a factor λ_m.

    The factor minimises the spread of the draws before m, so it does not depend on draw m and the
    estimate stays unbiased. A useless surrogate gets 0, which is LURE. Source: power tuning of
    Angelopoulos, Duchi and Zrnic, PPI++, 2023, here with earlier draws only.
    """

    about = "difference, with a surrogate that counts as much as earlier labels support"

    def estimate(self, evidence):
        """Returns the weighted sum of the step estimates, a_m + λ_m b_m."""
        alone = step_estimates(evidence, 0.0, 0.0)
        surrogate = step_estimates(evidence, evidence.predicted, evidence.remaining) - alone
        steps = alone + factors(alone, surrogate) * surrogate
        return with_interval(evidence, lure_weights(evidence.pool.n, evidence.asked), steps)


def factors(alone: np.ndarray, surrogate: np.ndarray) -> np.ndarray:
    """Returns λ_m = -Σ_{k<m} (a_k - mean a) b_k / Σ_{k<m} b_k², from 0 to 1, float64[M].

    Args:
      alone: a_m, unbiased estimates without the surrogate, float64[M].
      surrogate: b_m, what the surrogate adds to them, of expectation 0, float64[M].
    """

    def before(values):
        return np.cumsum(values) - values

    count = np.maximum(np.arange(len(alone)), 1)
    product = before(alone * surrogate) - before(alone) / count * before(surrogate)
    square = before(surrogate**2)
    with np.errstate(divide="ignore", invalid="ignore"):
        fitted = np.clip(-product / square, 0, 1)
    return np.where((np.arange(len(alone)) < START) | (square <= 0), 0.5, fitted)


ESTIMATOR = TunedDifference()
