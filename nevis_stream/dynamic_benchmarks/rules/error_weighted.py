"""Samples on which many of the models so far erred, later models counting more."""

import numpy as np

from nevis_stream.dynamic_benchmarks.rule import UNMISSED, PoolState


class ErrorWeighted:
    """Weights a sample by the mean error of all models so far, later ones more."""

    about = "by the errors of all models so far, each round's twice as heavy as the round's before"
    sees_labels = True

    def weights(self, candidates: PoolState) -> np.ndarray:
        """Returns a weighted mean of the models' errors."""
        shares = 2.0 ** np.arange(len(candidates.wrong))
        return np.maximum(shares @ candidates.wrong / shares.sum(), UNMISSED)


RULE = ErrorWeighted()
