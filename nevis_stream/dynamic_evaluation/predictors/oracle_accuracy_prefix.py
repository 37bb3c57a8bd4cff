"""The true number of ones, for the first samples without sorting: the mean is exact, and the cells
are nearly as wrong as possible.

It is not a method. It shows that a small error of the mean says little about the cells (Sort &
Search, theorem 2.1).
"""

import numpy as np

from nevis_stream.dynamic_evaluation.method import CellPredictor, Prediction


class OracleAccuracyPrefix(CellPredictor):
    """The true number of ones, at the front."""

    about = "the true number of ones at the front (a bound)"
    out_of_core = True

    def predict(self, tree, tuned, known, answers, ctx) -> Prediction:
        """Uses only the number of right samples."""
        right = answers.values.sum(axis=1, dtype=np.int64)
        ctx.charge(answers.values.size)
        cells = np.arange(known.shape[1]) < right[:, None]
        return Prediction(cells, right / known.shape[1], keeps_answers=False)


PREDICTOR = OracleAccuracyPrefix()
