"""The methods `irt_*`, item response models alone: samples from a grid or adaptive,
posterior-predictive cells.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from nevis_stream.dynamic_evaluation import response
from nevis_stream.dynamic_evaluation.acquisition import acquire
from nevis_stream.dynamic_evaluation.intervals import NORMAL_975
from nevis_stream.dynamic_evaluation.method import Estimates, check_outcomes
from nevis_stream.dynamic_evaluation.sort import sort


@dataclass(frozen=True)
class ItemResponse:
    """An item response model.

    Args:
      name: what users call it by.
      factors: k.
      common: one discrimination for all samples.
      rule: of `acquisition`, or None for the grid alone.
    """

    name: str
    factors: int = 1
    common: bool = False
    rule: str | None = None

    def fit(self, known, groups, key) -> "Fitted":
        """Fits samples' parameters to the known models."""
        items, _ = response.fit(check_outcomes(known), self.factors, key, self.common)
        return Fitted(sort(known).order, items, self.rule)


@dataclass(frozen=True)
class Fitted:
    """The samples' order, int64[n], their parameters, and the rule by which they are asked."""

    order: np.ndarray
    items: response.Items
    rule: str | None

    def evaluate(self, ask, models, budget, key) -> Estimates:
        """Asks by the rule; accuracy and interval are those of the posterior, which trusts the
        model: not calibrated.
        """
        asked = acquire(ask, models, budget, self.order, self.items, self.rule)
        observed = response.Observed.of(asked.samples, asked.outcomes, budget)
        logits, deviation = (
            np.asarray(values, np.float64) for values in response.predict(self.items, observed)
        )
        p = expit(logits)
        np.put_along_axis(p, asked.samples, asked.outcomes, axis=1)
        mean, half = p.mean(axis=1), NORMAL_975 * deviation
        interval = np.maximum(mean - half, 0), np.minimum(mean + half, 1)
        return Estimates.of(p, asked.samples, asked.outcomes, mean, interval)
