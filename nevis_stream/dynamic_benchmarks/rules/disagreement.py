"""Samples on which the models so far disagree."""

import numpy as np

from nevis_stream.dynamic_benchmarks.rule import UNMISSED, PoolState


class Disagreement:
    """Weights a sample by how far an ensemble of all models so far is from being of one mind.

    The runner records each model's probability of the true answer; the weight is p (1 - p) of its
    mean, plus its variance over the models.
    """

    about = "by the disagreement of an ensemble of all models so far"
    sees_labels = True

    def weights(self, candidates: PoolState) -> np.ndarray:
        """Returns the ensemble's uncertainty."""
        mean = candidates.confidence.mean(axis=0)
        spread = candidates.confidence.var(axis=0)
        return np.maximum(mean * (1 - mean) + spread, UNMISSED)


RULE = Disagreement()
