"""Finite populations, on which every operation of a dynamic benchmark is exact.

A distribution is float64[..., n], the probabilities of n atoms. A classifier is its error set,
bool[..., n]. Leading axes are independent instances. The labels themselves are not needed: whether
a classifier errs is all that the theory uses.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nevis_stream.errors import BadInput


@dataclass(frozen=True)
class Population:
    """A target distribution and the distribution from which collection starts.

    Attributes:
      target: float64[..., n], D, on which risk is measured.
      start: float64[..., n], D0; its support lies in that of D.

    Raises:
      BadInput: different shapes, values that are no distribution, or an atom outside of D's
        support.
    """

    target: np.ndarray
    start: np.ndarray

    def __post_init__(self):
        for name, values in (("target", self.target), ("start", self.start)):
            if np.any(values < 0) or not np.allclose(values.sum(axis=-1), 1):
                raise BadInput(f"{name}: not a distribution; probabilities are 0 or more, sum 1.")
        if self.target.shape != self.start.shape:
            raise BadInput(f"start has shape {self.start.shape}, target {self.target.shape}.")
        if np.any((self.start > 0) & (self.target == 0)):
            raise BadInput("start: an atom has positive probability that target never draws.")

    @classmethod
    def uniform(cls, atoms: int) -> "Population":
        """Returns `atoms` equally probable atoms, from which collection starts too (d = 0)."""
        same = np.full(atoms, 1 / atoms)
        return cls(same, same)

    @property
    def distance(self) -> np.ndarray:
        """float64[...]: d_HΔH(D0, D) if H realises every error set: the total variation.

        Source: Definition 3.3. Two classifiers then differ on any set of atoms.
        """
        return abs(self.start - self.target).sum(axis=-1) / 2


def compute_risk(errors: np.ndarray, distribution: np.ndarray) -> np.ndarray:
    """Returns float64[...], the probability of the error set.

    >>> float(compute_risk(np.array([True, False]), np.array([0.25, 0.75])))
    0.25
    """
    return np.sum(errors * distribution, axis=-1)


def collect(errors: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Returns D | error set, float64[..., n]: what annotators find; zeros if the set has mass 0."""
    mass = errors * target
    total = mass.sum(axis=-1, keepdims=True)
    return np.divide(mass, total, out=np.zeros_like(mass), where=total > 0)


def mix(parts: Sequence[np.ndarray], weights: Sequence[float] | None = None) -> np.ndarray:
    """Returns the mixture of distributions, float64[..., n].

    A part of zeros (a model without an error) is left out, and the other weights are scaled up.

    Args:
      parts: distributions float64[..., n].
      weights: one for each part, at least the first positive; None: equal ones.
    """
    factors = np.full(len(parts), 1 / len(parts)) if weights is None else np.asarray(weights)
    mixed = sum(factor * part for factor, part in zip(factors, parts, strict=True))
    return mixed / mixed.sum(axis=-1, keepdims=True)


def vote_by_majority(
    votes: Sequence[np.ndarray], weights: Sequence[float] | None = None
) -> np.ndarray:
    """Returns the error set of a (weighted) majority vote, bool[..., n]; a tie is an error.

    Args:
      votes: error sets bool[..., n].
      weights: the votes' weights, 0 or more; None: equal ones.

    Source: proof of Proposition 3.2 (the vote errs if half or more of the classifiers err).
    """
    factors = np.full(len(votes), 1 / len(votes)) if weights is None else np.asarray(weights)
    wrong = sum(factor * vote for factor, vote in zip(factors, votes, strict=True))
    return wrong >= factors.sum() / 2 * (1 - 1e-12)
