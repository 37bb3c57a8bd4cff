"""Linear weights of the asked samples, fitted to the known models (see `anchor_weights`).

Weights for the mean, learned for a given set of anchors, are what SparseEval (Zhang et al. 2026)
optimises by gradient descent with a small network; here they are linear, so that their optimum is
found in closed form.
"""

import numpy as np

from nevis_stream.dynamic_evaluation import anchor_weights
from nevis_stream.dynamic_evaluation.method import CellPredictor, Prediction


class AnchorWeights(CellPredictor):
    """Predicts by ridge regression on the asked samples."""

    about = "linear weights of the asked samples, fitted to the known models"
    takes_scores = True

    def fit(self, known, key, ctx):
        """Centres the known models' values."""
        return anchor_weights.centred(known, key, ctx)

    def predict(self, tree, tuned, known, answers, ctx) -> Prediction:
        """Fits weights for each different set of samples."""
        samples, inverse = np.unique(answers.samples, axis=0, return_inverse=True)
        mean, rows = tree["mean"], tree["rows"]
        benchmark = rows @ known.facts.weights
        values = np.empty((len(answers.values), len(mean)), np.float32)
        for number, asked in enumerate(samples):
            models = np.flatnonzero(inverse.ravel() == number)
            fitted = anchor_weights.weights(rows[:, asked], benchmark, rows, ctx).values
            away = answers.values[models] - mean[asked]
            values[models] = mean + away @ fitted
            ctx.charge(2 * len(models) * fitted.size)
        return Prediction(np.clip(values, 0, 1))


PREDICTOR = AnchorWeights()
