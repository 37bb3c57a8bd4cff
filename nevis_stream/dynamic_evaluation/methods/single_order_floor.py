"""The least error that any threshold on the order by sum can have: every sample is seen. A bound,
not a method.
"""

from dataclasses import dataclass

import numpy as np

from nevis_stream.dynamic_evaluation.method import Estimates
from nevis_stream.dynamic_evaluation.search import thresholds
from nevis_stream.dynamic_evaluation.sort import Rank, sort


class SingleOrderFloor:
    """The best vector of ones and then zeros, found with the whole truth."""

    name = "single_order_floor"

    def fit(self, known, groups, key) -> "Seer":
        """Ranks the samples by the known models."""
        return Seer(sort(known))


@dataclass(frozen=True)
class Seer:
    """Sees everything, whatever the budget."""

    rank: Rank

    def evaluate(self, ask, models, budget, key) -> Estimates:
        """Asks every sample and returns the best thresholded vector; no cell counts as observed."""
        answers = ask(np.broadcast_to(self.rank.order, (models, self.rank.n)))
        outcomes = (self.rank.place < thresholds(answers)[:, None]).astype(np.uint8)
        nothing = np.full(models, np.nan)
        observed = np.zeros(outcomes.shape, bool)
        return Estimates(
            outcomes.astype(np.float32), outcomes, observed, outcomes.mean(axis=1), nothing, nothing
        )


METHOD = SingleOrderFloor()
