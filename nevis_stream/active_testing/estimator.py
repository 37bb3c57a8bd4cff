"""The base of all estimators."""

from abc import ABC, abstractmethod
from dataclasses import replace

import numpy as np

from nevis_stream.active_testing.labelled_draws import LabelledDraws
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
