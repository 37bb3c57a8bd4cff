"""The simpler unbiased weighting: the mean of the single draws' unbiased estimates."""

import numpy as np

from nevis_stream.active_testing.estimator import Estimator
from nevis_stream.active_testing.intervals import with_interval
from nevis_stream.active_testing.martingale import step_estimates


class EqualSteps(Estimator):
    """The mean of the losses, each weighted by 1 / (n q_m) + (M - m) / n.

    It is unbiased, but does not become the plain mean if the draws are uniform. Source: Farquhar et
    al. 2021, theorem 1 (R_PURE).
    """

    about = "the mean of the single draws' unbiased estimates"

    def estimate(self, evidence):
        """Returns the mean of the step estimates without a surrogate."""
        steps = step_estimates(evidence, 0.0, 0.0)
        return with_interval(evidence, np.full(evidence.asked, 1 / evidence.asked), steps)


ESTIMATOR = EqualSteps()
