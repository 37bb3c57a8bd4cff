"""Designs of a dynamic benchmark: static, path, and hierarchical of any depth and width.

All are one recursion. A benchmark of depth 0 trains a classifier. One of depth k and width w makes
w members of depth k - 1, each from the mixture of its own start with what the members before it err
on, and returns the members' vote. A path of T rounds has depth 1 and width T.

A classifier is trained by an approximate risk minimiser: random, a greedy adversary, or the worst
case of three rounds. Each returns an error set whose probability is at most eps under the
distribution that it was trained on, and otherwise may choose any atoms: the hypothesis class
realises every error set.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from nevis_stream.experiments.theory.populations import (
    Population,
    collect,
    compute_risk,
    mix,
    vote_by_majority,
)

Place = tuple[int, ...]
"""Where a member is in the hierarchy: its index at each depth, the outermost first; () is the
whole."""


class Minimiser(Protocol):
    """An approximate risk minimiser A."""

    def __call__(
        self, place: Place, distribution: np.ndarray, earlier: Mapping[Place, np.ndarray]
    ) -> np.ndarray:
        """Returns the error set, bool[..., n], of a classifier for a distribution.

        Args:
          place: of the classifier.
          distribution: float64[..., n], on which its risk is at most eps.
          earlier: error sets of the classifiers and votes so far, which an adversary may use.
        """
        ...


@dataclass(frozen=True)
class Design:
    """How a benchmark's rounds are organised.

    Attributes:
      depth: levels of votes; 0 is a static benchmark, 1 a path.
      width: members of each vote.
      mixing: returns the weights of the start and of t collections, for t = 0, 1, …; None: equal.
      voting: the weights of a vote's members; None: equal.
    """

    depth: int
    width: int
    mixing: Callable[[int], Sequence[float]] | None = None
    voting: Sequence[float] | None = None

    @classmethod
    def path(cls, rounds: int, **weights) -> "Design":
        """Returns a path of this many rounds."""
        return cls(1, rounds, **weights)

    @property
    def rounds(self) -> int:
        """The number of classifiers, each of which annotators are asked about."""
        return self.width**self.depth


@dataclass
class Outcome:
    """What a design led to.

    Attributes:
      errors: error sets, bool[..., n], of each classifier and each vote, by place.
      trained_on: the distribution float64[..., n] that each classifier was trained on.
    """

    errors: dict[Place, np.ndarray] = field(default_factory=dict)
    trained_on: dict[Place, np.ndarray] = field(default_factory=dict)

    @property
    def vote(self) -> np.ndarray:
        """The error set of the outermost vote."""
        return self.errors[()]

    @property
    def largest_fit_risk(self) -> np.ndarray:
        """float64[...]: the largest risk of a classifier on what it was trained on; at most eps if
        the minimiser kept its promise."""
        return np.max([compute_risk(self.errors[p], d) for p, d in self.trained_on.items()], axis=0)


def run_design(population: Population, minimiser: Minimiser, design: Design) -> Outcome:
    """Runs a design with a minimiser (sections 3 and 4)."""
    outcome = Outcome()

    def build(place: Place, start: np.ndarray, depth: int) -> np.ndarray:
        if depth == 0:
            outcome.trained_on[place] = start
            outcome.errors[place] = minimiser(place, start, outcome.errors)
            return outcome.errors[place]
        parts, members = [start], []
        for number in range(design.width):
            weights = design.mixing(number) if design.mixing else None
            members.append(build((*place, number), mix(parts, weights), depth - 1))
            parts.append(collect(members[-1], population.target))
        outcome.errors[place] = vote_by_majority(members, design.voting)
        return outcome.errors[place]

    build((), population.start, design.depth)
    return outcome


def fill(value: np.ndarray, cost: np.ndarray, budget: np.ndarray | float) -> np.ndarray:
    """Returns atoms of total cost at most the budget, bool[..., n], the best value per cost first.

    Args:
      value: float64[..., n], 0 or more; atoms of value 0 are not taken.
      cost: float64[..., n]; an atom of cost 0 and positive value is always taken.
      budget: float or float64[...].
    """
    value, cost = np.broadcast_arrays(value, cost)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(value > 0, value / cost, 0)
    order = np.argsort(-ratio, axis=-1, kind="stable")
    spent = np.cumsum(np.take_along_axis(cost, order, axis=-1), axis=-1)
    within = spent <= np.asarray(budget)[..., None] * (1 + 1e-9)
    taken = np.empty_like(within)
    np.put_along_axis(taken, order, within, axis=-1)
    return taken & (value > 0)


@dataclass(frozen=True)
class RandomErrors:
    """Errs on random atoms up to eps, whatever it erred on before.

    Attributes:
      eps: float, or float64[...] for each instance.
      generator: of the draws.
    """

    eps: np.ndarray | float
    generator: np.random.Generator

    def __call__(
        self, place: Place, distribution: np.ndarray, earlier: Mapping[Place, np.ndarray]
    ) -> np.ndarray:
        """Returns an error set in random order of the atoms."""
        # costs cancel: the order is random, not that of value per cost
        chance = self.generator.random(distribution.shape) + 1e-12
        return fill(chance * distribution, distribution, self.eps)


@dataclass(frozen=True)
class Unseen:
    """A perfect minimiser (eps = 0): errs on a random share of what it was not trained on.

    Attributes:
      share: float64[...], from 0 to 1, of the atoms that the distribution lacks.
      target: float64[..., n], D.
      generator: of the draws.
    """

    share: np.ndarray | float
    target: np.ndarray
    generator: np.random.Generator

    def __call__(
        self, place: Place, distribution: np.ndarray, earlier: Mapping[Place, np.ndarray]
    ) -> np.ndarray:
        """Returns an error set of probability 0 under the distribution."""
        chosen = self.generator.random(distribution.shape) < np.asarray(self.share)[..., None]
        return chosen & (distribution == 0) & (self.target > 0)


@dataclass(frozen=True)
class Greedy:
    """An adversary that repeats as many errors of earlier classifiers as it may, and spends the
    rest of its budget on fresh atoms.

    Attributes:
      eps: float, or float64[...] for each instance.
      target: float64[..., n], D.
    """

    eps: np.ndarray | float
    target: np.ndarray

    def __call__(
        self, place: Place, distribution: np.ndarray, earlier: Mapping[Place, np.ndarray]
    ) -> np.ndarray:
        """Returns the error set."""
        missed = np.zeros_like(self.target, bool)
        for errors in earlier.values():
            missed |= errors
        repeated = fill(self.target * missed, distribution, self.eps)
        rest = self.eps - np.sum(repeated * distribution, axis=-1)
        return repeated | fill(self.target * ~missed, distribution, rest)


@dataclass(frozen=True)
class WorstOfThree:
    """The worst case of votes of three, at each depth of a hierarchy.

    The first member errs anywhere; the second avoids its errors, so that its own may have mass
    2 eps instead of eps; the third errs only where the second does. For a path from D0 = D the vote
    errs with probability 6 eps² / (1 + 2 eps), which no minimiser exceeds (docs/decisions/0044). At
    greater depth the third member's classifiers repeat the errors of the second member's vote.

    Attributes:
      eps: float, or float64[...] for each instance.
      target: float64[..., n], D.
      padding: share of its budget that a second classifier spends on errors that are not to be
        repeated; the others are then a smaller part of its error set, and cheaper to repeat.
    """

    eps: np.ndarray | float
    target: np.ndarray
    padding: float = 0.1

    def __call__(
        self, place: Place, distribution: np.ndarray, earlier: Mapping[Place, np.ndarray]
    ) -> np.ndarray:
        """Returns the error set for this place."""
        wanted = np.ones_like(self.target, bool)
        for depth, number in enumerate(place):
            if number == 2:
                wanted = wanted & earlier[(*place[:depth], 1)]
        aimed = (not wanted.all()) and place[-1] < 2
        if aimed and place[-1] == 0:
            return fill(self.target * ~wanted, distribution, self.eps)
        rest = self.padding if aimed else 0.0
        repeated = fill(self.target * wanted, distribution, np.multiply(self.eps, 1 - rest))
        return repeated | fill(self.target * ~wanted, distribution, np.multiply(self.eps, rest))


@dataclass(frozen=True)
class Scripted:
    """Returns error sets that were written down beforehand.

    Attributes:
      errors: bool[..., n] by place.
    """

    errors: Mapping[Place, np.ndarray]

    def __call__(
        self, place: Place, distribution: np.ndarray, earlier: Mapping[Place, np.ndarray]
    ) -> np.ndarray:
        """Returns the error set of this place."""
        return self.errors[place]
