"""Item response models as predictors of cells, by posterior-predictive values and their mean."""

import numpy as np
from scipy.special import expit

from nevis_stream.dynamic_evaluation import response
from nevis_stream.dynamic_evaluation.intervals import NORMAL_975
from nevis_stream.dynamic_evaluation.method import CellPredictor, Prediction


class ItemResponse(CellPredictor):
    """An item response model; see `response`.

    The interval is that of the posterior: it assumes that the model holds, and is not calibrated.

    Args:
      about: one line for people.
      factors: k.
      common: whether all samples have the same discrimination.
    """

    takes_scores = True

    def __init__(self, about: str, factors: int = 1, common: bool = False):
        self.about, self.factors, self.common = about, factors, common

    def fit(self, known, key, ctx):
        """Fits the samples' parameters to the known models."""
        items, _ = response.fit(known.matrix(), self.factors, key, ctx, self.common)
        return response.as_tree(items)

    def items(self, tree) -> response.Items:
        """Returns the samples' parameters."""
        return response.Items(**tree)

    def predict(self, tree, tuned, known, answers, ctx) -> Prediction:
        """Predicts by the posterior of each model's ability."""
        evidence = response.Evidence.of(answers, answers.samples.shape[1])
        weights = known.facts.weights.astype(np.float32)
        logits, deviation = (
            np.asarray(values, np.float64)
            for values in ctx.jit(response.predict)(self.items(tree), evidence, weights)
        )
        p = expit(logits)
        np.put_along_axis(p, answers.samples, answers.values, axis=1)
        mean, half = known.facts.mean(p), NORMAL_975 * deviation
        return Prediction(p, mean, (np.maximum(mean - half, 0), np.minimum(mean + half, 1)))
