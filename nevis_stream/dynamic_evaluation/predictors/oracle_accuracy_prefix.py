"""Ones for the first samples, unsorted, as many as the model has: no aggregate error, and cells
nearly as wrong as can be.

A bound from below on what the aggregate error says (Sort & Search, theorem 2.1), not a method.
"""

import numpy as np

from nevis_stream.dynamic_evaluation.method import CellPredictor, Prediction


class OracleAccuracyPrefix(CellPredictor):
    """The true number of ones, at the front."""

    about = "the true number of ones at the front (a bound)"
    out_of_core = True

    def predict(self, tree, tuned, known, answers, ctx) -> Prediction:
        """Uses only how many of all samples are right."""
        right = answers.values.sum(axis=1, dtype=np.int64)
        ctx.charge(answers.values.size)
        cells = np.arange(known.shape[1]) < right[:, None]
        return Prediction(cells, right / known.shape[1], keeps_answers=False)


PREDICTOR = OracleAccuracyPrefix()
