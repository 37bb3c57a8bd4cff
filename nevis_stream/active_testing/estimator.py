"""The base of all estimators."""

import numpy as np

from nevis_stream.active_testing.evidence import Evidence
from nevis_stream.dynamic_evaluation.asking import Estimate


class Estimator:
    """Estimates the mean loss over the pool from labels of some samples.

    Attributes:
      about: one line for people.
      no_interval: why it never has an interval; empty if it claims one.
    """

    about = ""
    no_interval = ""

    def refusal(self, evidence: Evidence) -> str:
        """Returns why these labels cannot be used; empty if they can."""
        if not evidence.random:
            return "the samples were chosen, not drawn at random with known probabilities"
        return ""

    def estimate(self, evidence: Evidence) -> Estimate:
        """Returns the estimate from at least one and less than all labels."""
        raise NotImplementedError

    def __call__(self, evidence: Evidence) -> Estimate:
        """Returns the estimate with its 95% interval, or NaN with the reason.

        With all labels it is the exact risk.
        """
        asked, cost = evidence.asked, evidence.cost
        if asked == evidence.pool.n:
            risk = float(evidence.losses.mean())
            return Estimate(risk, risk, risk, asked=asked, cost=cost)
        reason = self.refusal(evidence) if asked else "there is no usable label yet"
        if reason:
            return Estimate(np.nan, reason=reason, asked=asked, cost=cost)
        return self.estimate(evidence)
