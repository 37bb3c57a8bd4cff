"""Ones for the first samples, unsorted, as many as the model has: no aggregate error, and cells
nearly as wrong as can be.

A bound from below on what the aggregate error says (Sort & Search, theorem 2.1), not a method.
"""

import numpy as np

from nevis_stream.dynamic_evaluation.method import Estimates


class OracleAccuracyPrefix:
    """The true number of ones, at the front."""

    name = "oracle_accuracy_prefix"

    def fit(self, known, groups, key) -> "Prefix":
        """Keeps the number of samples."""
        return Prefix(known.shape[1])


class Prefix:
    """Sees everything, whatever the budget; n samples."""

    def __init__(self, n: int):
        self.n = n

    def evaluate(self, ask, models, budget, key) -> Estimates:
        """Asks every sample, uses only how many are right; no cell counts as observed."""
        columns = np.arange(self.n)
        right = ask(np.broadcast_to(columns, (models, self.n))).sum(axis=1, dtype=np.int64)
        outcomes = (columns < right[:, None]).astype(np.uint8)
        nothing = np.full(models, np.nan)
        observed = np.zeros(outcomes.shape, bool)
        return Estimates(
            outcomes.astype(np.float32), outcomes, observed, right / self.n, nothing, nothing
        )


METHOD = OracleAccuracyPrefix()
