"""Losses that a model has if a sample's label is a class, for every class: float64[n, c]."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

CLIP = 1e-20  # least probability; without it one sample could have an infinite cross-entropy


@dataclass(frozen=True)
class Loss:
    """A loss.

    Attributes:
      about: one line for people.
      values: takes probabilities, float64[n, c], and returns losses, float64[n, c], in nats or
        errors.
    """

    about: str
    values: Callable[[np.ndarray], np.ndarray]

    def __call__(self, probabilities: np.ndarray) -> np.ndarray:
        """Returns the losses, float64[n, c]."""
        return self.values(probabilities)


def cross_entropy(probabilities: np.ndarray) -> np.ndarray:
    """Returns -log f(y|x) for every class y, float64[n, c], in nats.

    Args:
      probabilities: float64[n, c], of the model. They are clipped to at least `CLIP` and divided by
        their sum, as in the ASE paper's code.
    """
    clipped = np.maximum(np.asarray(probabilities, np.float64), CLIP)
    return -np.log(clipped / clipped.sum(axis=1, keepdims=True))


def zero_one(probabilities: np.ndarray) -> np.ndarray:
    """Returns 1 for every class but the most probable one, float64[n, c].

    Args:
      probabilities: float64[n, c], of the model; of several equal maxima the first counts.
    """
    losses = np.ones(probabilities.shape)
    losses[np.arange(len(losses)), probabilities.argmax(axis=1)] = 0
    return losses


LOSSES: Mapping[str, Loss] = {
    "cross_entropy": Loss("Cross-entropy in nats.", cross_entropy),
    "zero_one": Loss("0-1 loss, whose mean is the error rate.", zero_one),
}
"""By name."""
