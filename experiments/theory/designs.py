"""Designs of a dynamic benchmark: static, path, and hierarchical of any depth and width.

All are one recursion. A benchmark of depth 0 trains a classifier. One of depth k and width w makes
w members of depth k - 1, each from the mixture of its own start with what the members before it err
on, and returns the members' vote. A path of T rounds has depth 1 and width T.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from nevis_stream.experiments.theory.populations import Population, collect, majority, mix, risk

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
        return np.max([risk(self.errors[p], d) for p, d in self.trained_on.items()], axis=0)


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
        outcome.errors[place] = majority(members, design.voting)
        return outcome.errors[place]

    build((), population.start, design.depth)
    return outcome
