"""The mean of the observed samples, for every cell, without an order and without known models."""

import numpy as np

from nevis_stream.cost.compute import Compute
from nevis_stream.dynamic_evaluation.known_models import KnownModels
from nevis_stream.dynamic_evaluation.method import Prediction, ScorePredictor
from nevis_stream.dynamic_evaluation.policy import Policy
from nevis_stream.estimation import intervals
from nevis_stream.queries.oracle import ANY_MODEL, Responses
from nevis_stream.queries.samples import SampleFacts
from nevis_stream.storage.checkpoint import Tree


class Mean(ScorePredictor):
    """The plain mean with its Wilson interval, corrected for the finite number of samples.

    The variance of a score in [0, 1] is at most that of an outcome with the same mean, so its
    interval is too wide rather than too narrow.
    """

    about = "mean of the observed samples"
    takes_scores = True
    out_of_core = True
    holds_for = ANY_MODEL

    def is_calibrated(self, policy: Policy) -> bool:
        """Returns whether the cells stand for all samples."""
        return policy.representative

    def weights(self, answers: Responses, facts: SampleFacts) -> np.ndarray:
        """Returns the weight of each observed cell in the mean, float64[m, b]."""
        return mean_weights(answers, facts)

    def predict(
        self, tree: Tree, tuned: Tree, known: KnownModels, answers: Responses, ctx: Compute
    ) -> Prediction:
        """Gives every cell the mean of the cells that represent all samples."""
        weights = self.weights(answers, known.facts)
        mean = (weights * answers.values).sum(axis=1)
        effective = 1 / (weights**2).sum(axis=1).max()  # number of equally weighted samples
        ctx.charge(2 * answers.values.size)
        interval = intervals.wilson(mean, intervals.effective(effective, known.shape[1]))
        cells = np.broadcast_to(mean[:, None], (len(mean), known.shape[1]))
        return Prediction(cells, mean, interval)


class UnweightedMean(Mean):
    """The mean in which each sample counts the same, however many it stands for, with
    cross-validated intervals: to see what the weights of a cluster's sample are worth.
    """

    about = "mean of the observed samples, each of which counts the same"

    def is_calibrated(self, policy: Policy) -> bool:
        """Returns False: the cells need not stand for all samples."""
        return False

    def weights(self, answers: Responses, facts: SampleFacts) -> np.ndarray:
        """Returns equal weights, but for those of data sets."""
        weights = facts.weights[answers.samples]
        return weights / weights.sum(axis=1, keepdims=True)


def mean_weights(answers: Responses, facts: SampleFacts) -> np.ndarray:
    """Returns the weight of each observed cell in an estimate of the mean over all samples,
    float64[m, b]; the weights of a model add up to 1.

    Cells that a policy chose for their information have weight 0; if a policy gives no fractions,
    all cells have the same weight.
    """
    fractions = answers.query.fractions
    if fractions is None or not fractions.any():
        fractions = np.ones(answers.values.shape)
    weights = fractions * facts.weights[answers.samples]
    return weights / weights.sum(axis=1, keepdims=True)
