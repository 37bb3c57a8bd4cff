"""The samples without a label, as an acquisition rule sees them."""

from dataclasses import dataclass

import numpy as np
from scipy.special import xlogy


@dataclass(frozen=True)
class Candidates:
    """Samples among which the next labels are chosen: r samples, c classes, e members.

    Attributes:
      members: float64[e, r, c], the surrogate's probabilities.
      losses: float64[r, c], the model's loss if the label is that class; negative only if two
        models are compared.
      predictions: float64[r, c], the model's own probabilities.
    """

    members: np.ndarray
    losses: np.ndarray
    predictions: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        """float64[r, c], the mean of the members."""
        return self.members.mean(axis=0)

    @property
    def disagreement(self) -> np.ndarray:
        """float64[r, c], in nats: what each class contributes to the mutual information of the
        label and the member, -p̄ log p̄ + mean_e p_e log p_e.

        It is at least 0 by Jensen's inequality; rounding is removed.
        """
        total = np.zeros(self.losses.shape)
        for member in self.members:  # needs no second array of [e, r, c]
            total += xlogy(member, member)
        mean = self.mean
        return np.maximum(total / len(self.members) - xlogy(mean, mean), 0)


def entropy(probabilities: np.ndarray) -> np.ndarray:
    """Returns the entropy in nats over the last axis."""
    return -xlogy(probabilities, probabilities).sum(axis=-1)
