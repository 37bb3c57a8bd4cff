"""The published script's rule, with its defects: what the others are measured against.

Its ties stand in falling order of the columns, its n' points begin at the remainder n - ⌊n/n'⌋ n',
its threshold is the index of the largest prefix sum, one less than the count of ones it stands for,
without the empty prefix; the predicted vector is ones up to the full-order position of that point;
what was observed is overwritten by it.
"""

from dataclasses import dataclass

import numpy as np

from nevis_stream.dynamic_evaluation.method import Estimates, check_budget
from nevis_stream.dynamic_evaluation.sort import sort


def points(n: int, budget: int) -> np.ndarray:
    """Returns the script's positions, int64[budget]."""
    step = n // budget
    return np.arange(n - step * budget, n, step)


def last_indices(outcomes: np.ndarray) -> np.ndarray:
    """Returns the script's thresholds of uint8[m, b], int64[m]: indices where it should be
    counts.
    """
    return np.cumsum(2 * outcomes.astype(np.int64) - 1, axis=1).argmax(axis=1)


class Published:
    """Sort & Search as published."""

    name = "published"

    def fit(self, known, groups, key) -> "Searcher":
        """Ranks the samples by the known models."""
        rising = np.argsort(sort(known).scores, kind="stable")
        return Searcher(rising[::-1])


@dataclass(frozen=True)
class Searcher:
    """Searches new models' thresholds on one order, int64[n]."""

    order: np.ndarray

    def evaluate(self, ask, models, budget, key) -> Estimates:
        """Asks the script's points; every cell is predicted, also the observed."""
        n = len(self.order)
        positions = points(n, check_budget(budget, n))
        samples = np.broadcast_to(self.order[positions], (models, budget))
        cuts = positions[last_indices(ask(samples))]
        outcomes = np.zeros((models, n), np.uint8)
        outcomes[:, self.order] = np.arange(n) < cuts[:, None]
        observed = np.zeros((models, n), bool)
        observed[:, samples[0]] = True
        nothing = np.full(models, np.nan)
        return Estimates(
            outcomes.astype(np.float32), outcomes, observed, outcomes.mean(axis=1), nothing, nothing
        )


METHOD = Published()
