"""The mean of the asked samples, of which each counts the same, however many it stands for: to see
what the weights of a cluster's sample are worth.
"""

import numpy as np

from nevis_stream.dynamic_evaluation.predictors.mean import Mean


class UnweightedMean(Mean):
    """The mean, with cross-validated intervals."""

    about = "mean of the asked samples, each of which counts the same"

    def calibrated(self, policy) -> bool:
        """Returns False: the cells need not stand for all samples."""
        return False

    def weights(self, answers, facts) -> np.ndarray:
        """Returns equal weights, but for those of data sets."""
        weights = facts.weights[answers.samples]
        return weights / weights.sum(axis=1, keepdims=True)


PREDICTOR = UnweightedMean()
