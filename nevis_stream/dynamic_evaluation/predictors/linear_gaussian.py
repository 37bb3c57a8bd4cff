"""Expected values under a linear-Gaussian model of the known models (see `linear_gaussian`)."""

import numpy as np

from nevis_stream.dynamic_evaluation import linear_gaussian
from nevis_stream.dynamic_evaluation.method import CellPredictor, Prediction


class LinearGaussian(CellPredictor):
    """Known models are weighted by how close they are to the answers."""

    about = "linear-Gaussian model of the known models, those close to the answers weighted"
    takes_scores = True
    gives = linear_gaussian.GaussianBeliefs.gives

    def fit(self, known, key, ctx):
        """Decomposes the known models' values."""
        return linear_gaussian.fit(known, key, ctx)

    def beliefs(self, tree, known, ctx) -> linear_gaussian.GaussianBeliefs:
        """Returns the beliefs of the model."""
        return linear_gaussian.GaussianBeliefs(linear_gaussian.Model(**tree), ctx)

    def predict(self, tree, tuned, known, answers, ctx) -> Prediction:
        """Gives posterior means, within 0 and 1."""
        model = linear_gaussian.Model(**tree)
        values, deviation = ctx.jit(linear_gaussian.predicted)(
            model, answers.samples.astype(np.int32), answers.values.astype(np.float32)
        )
        return Prediction(np.asarray(values), deviation=np.asarray(deviation, np.float64))


PREDICTOR = LinearGaussian()
