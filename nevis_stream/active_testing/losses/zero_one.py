"""0-1 loss, whose mean is the error rate."""

import numpy as np


def LOSS(probabilities: np.ndarray) -> np.ndarray:
    """Returns 1 for every class but the most probable one, float64[n, c].

    Args:
      probabilities: float64[n, c], of the model; of several equal maxima the first counts.
    """
    losses = np.ones(probabilities.shape)
    losses[np.arange(len(losses)), probabilities.argmax(axis=1)] = 0
    return losses
