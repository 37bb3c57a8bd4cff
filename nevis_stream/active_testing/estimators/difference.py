"""The cross-fitted difference estimator: expected losses, corrected by the labels."""

from nevis_stream.active_testing.estimator import Estimator
from nevis_stream.active_testing.intervals import with_interval
from nevis_stream.active_testing.martingale import lure_weights, step_estimates


class Difference(Estimator):
    """The expected losses of samples without a label, plus the weighted differences between
    observed and expected losses.

    Each difference uses the surrogate as it was before that label, so the estimate is unbiased for
    any surrogate, however it is retrained. A better surrogate makes the interval shorter; the
    interval is approximate, as the spread of the labels so far must stand for what is left. With a
    surrogate that expects no loss it is LURE. Source: Angelopoulos et al. 2023; Zrnic and Candès
    2024, section 5, here without replacement.
    """

    about = "the surrogate's expected loss, corrected by the labels; unbiased, with an interval"

    def estimate(self, evidence):
        """Returns the weighted sum of the step estimates with the surrogate before each label."""
        steps = step_estimates(evidence, evidence.predicted, evidence.remaining)
        return with_interval(evidence, lure_weights(evidence.pool.n, evidence.asked), steps)


ESTIMATOR = Difference()
