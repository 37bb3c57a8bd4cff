"""Label noise: a part of the population is labelled at random, and collection gathers there.

An image with a random label is a pair of atoms, one for each label, of equal probability. Every
classifier errs on exactly one atom of a pair, so the least risk on a distribution is the sum of
each pair's lighter atom.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from nevis_stream.errors import BadInput
from nevis_stream.experiments.theory.designs import Design, Outcome, Place, fill, run_design
from nevis_stream.experiments.theory.populations import Population, compute_risk


@dataclass(frozen=True)
class NoisyPopulation:
    """A population whose first 2 × `pairs` atoms are noisy: atoms 2i and 2i + 1 are a pair.

    Attributes:
      population: uniform within the noisy part and within the clean part; D0 = D.
      pairs: number of pairs.
    """

    population: Population
    pairs: int

    @classmethod
    def make(cls, delta: float, pairs: int, clean: int) -> "NoisyPopulation":
        """Returns `pairs` noisy images of total probability delta and `clean` clean atoms.

        Raises:
          BadInput: delta is not between 0 and 1.
        """
        if not 0 < delta < 1:
            raise BadInput(f"delta is {delta}; it must be between 0 and 1.")
        noisy = np.full(2 * pairs, delta / (2 * pairs))
        both = np.concatenate([noisy, np.full(clean, (1 - delta) / clean)])
        return cls(Population(both, both), pairs)

    @property
    def noisy_atoms(self) -> np.ndarray:
        """bool[n]: the atoms of the noisy part."""
        return np.arange(len(self.population.target)) < 2 * self.pairs


@dataclass(frozen=True)
class NoisyMinimiser:
    """Errs on the lighter atom of each pair, and on clean atoms up to eps: fresh ones first, whose
    weight in the mixture is least.

    Attributes:
      eps: excess over the least risk.
      noisy: the population.
      generator: decides between equal atoms of a pair.
    """

    eps: float
    noisy: NoisyPopulation
    generator: np.random.Generator

    def __call__(
        self, place: Place, distribution: np.ndarray, earlier: Mapping[Place, np.ndarray]
    ) -> np.ndarray:
        """Returns the error set, bool[n]."""
        pairs = distribution[: 2 * self.noisy.pairs].reshape(-1, 2)
        tie = np.isclose(pairs[:, 0], pairs[:, 1], rtol=1e-9)
        second = np.where(tie, self.generator.random(len(pairs)) < 0.5, pairs[:, 0] > pairs[:, 1])
        clean = ~self.noisy.noisy_atoms
        errors = fill(self.noisy.population.target * clean, distribution, self.eps)
        errors[: 2 * self.noisy.pairs] = np.stack([~second, second], axis=1).ravel()
        return errors


def run_noisy_path(noisy: NoisyPopulation, eps: float, rounds: int, seed: int = 0) -> Outcome:
    """Runs a path on a noisy population (Theorem 3.6)."""
    minimiser = NoisyMinimiser(eps, noisy, np.random.default_rng(seed))
    return run_design(noisy.population, minimiser, Design.path(rounds))


def compute_noisy_fractions(noisy: NoisyPopulation, outcome: Outcome) -> np.ndarray:
    """Returns float64[rounds], Pr_{D_t}(x in the noisy part) for t = 0, 1, …"""
    places = sorted(outcome.trained_on)
    return np.stack(
        [compute_risk(noisy.noisy_atoms, outcome.trained_on[place]) for place in places]
    )


def compute_clean_risks(noisy: NoisyPopulation, outcome: Outcome) -> np.ndarray:
    """Returns float64[rounds], the risk of each h_t on the clean part alone."""
    clean = noisy.population.target * ~noisy.noisy_atoms
    places = sorted(outcome.trained_on)
    return np.stack([compute_risk(outcome.errors[place], clean / clean.sum()) for place in places])
