"""LURE, the levelled unbiased risk estimator."""

import numpy as np

from nevis_stream.active_testing.estimator import Estimator
from nevis_stream.active_testing.intervals import with_interval
from nevis_stream.active_testing.martingale import lure_weights, step_estimates


class Lure(Estimator):
    """The mean of the observed losses, each weighted by v_m, see `weights`."""

    about = "the mean loss of drawn samples, weighted by their probabilities; unbiased"

    def estimate(self, evidence):
        """Returns the weighted sum of the step estimates without a surrogate."""
        steps = step_estimates(evidence, 0.0, 0.0)
        return with_interval(evidence, lure_weights(evidence.pool.n, evidence.asked), steps)


def weights(probabilities: np.ndarray, n: int) -> np.ndarray:
    """Returns the weight v_m of each loss in the mean over M losses, float64[M].

    v_m = 1 + (n - M) / (n - m) (1 / ((n - m + 1) q_m) - 1), and 1 if M = n. The estimator computes
    the same sum from `martingale.step_estimates`.

    Args:
      probabilities: q_m, float64[M].
      n: number of samples of the pool.

    Source: Farquhar et al. 2021, theorem 2; ASE paper, equation 2.
    """
    asked = len(probabilities)
    if asked == n:
        return np.ones(n)
    left = n - np.arange(asked)
    return 1 + (n - asked) / (left - 1) * (1 / (left * probabilities) - 1)


ESTIMATOR = Lure()
