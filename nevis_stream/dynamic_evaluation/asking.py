"""Asking: cells go out, their values and their cost come back.

A cell is one sample for one model. Its value is an outcome (0 or 1), a score in [0, 1] (scores of
another range are scaled by whoever answers, see `samples.SampleFacts`) or a label. Whatever pays
for evaluations, whether in FLOPs or in labels, asks through this one protocol.
"""

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np


@dataclass(frozen=True)
class Cost:
    """What was paid.

    Attributes:
      flops: of the models that answered and of what a method computed itself; None where unknown.
      labels: labels that were bought.
      uncounted: names of computations whose FLOPs are not counted.
    """

    flops: int | None = 0
    labels: int = 0
    uncounted: frozenset[str] = frozenset()

    def __add__(self, other: "Cost") -> "Cost":
        """Adds costs; unknown FLOPs stay unknown."""
        flops = None if self.flops is None or other.flops is None else self.flops + other.flops
        return Cost(
            flops,
            self.labels + other.labels,
            self.uncounted | other.uncounted,
        )


@dataclass(frozen=True)
class Cells:
    """Samples to ask of each of m models; none twice, over all calls.

    Attributes:
      samples: int64[m, b], columns of the matrix.
      probabilities: float64[m, b], the probability with which each was drawn, given those asked
        before it; None where nothing was drawn at random. Weighted estimators need them.
    """

    samples: np.ndarray
    probabilities: np.ndarray | None = None


@dataclass(frozen=True)
class Answers:
    """What was asked, what came back, and what it cost.

    Attributes:
      cells: the cells, with the probabilities that a policy drew them with.
      values: [m, b]: uint8 outcomes, float32 scores in [0, 1], or int32 labels.
      cost: of these answers.
    """

    cells: Cells
    values: np.ndarray
    cost: Cost = field(default=Cost())

    @property
    def samples(self) -> np.ndarray:
        """int64[m, b], the samples that were asked."""
        return self.cells.samples

    def then(self, later: "Answers") -> "Answers":
        """Returns these answers followed by later ones, [m, b + b']; costs add up."""
        first, second = self.cells.probabilities, later.cells.probabilities
        probabilities = None
        if first is not None or second is not None:  # a fixed cell was certain to be asked
            first = np.ones(self.samples.shape) if first is None else first
            second = np.ones(later.samples.shape) if second is None else second
            probabilities = np.hstack([first, second])
        return Answers(
            Cells(np.hstack([self.samples, later.samples]), probabilities),
            np.hstack([self.values, later.values]),
            self.cost + later.cost,
        )


class Ask(Protocol):
    """Answers for m models, and says what that cost."""

    def __call__(self, cells: Cells) -> Answers:
        """Returns the values of the cells; BadInput where one is unknown or was asked before."""
        ...


@dataclass(frozen=True)
class Estimate:
    """An estimate of one quantity.

    Attributes:
      value: the estimate, NaN where there is none.
      low, high: its 95% interval, NaN where there is none.
      reason: why there is no interval (or no value); empty where there is one.
      asked: how many cells were asked for it.
      cost: of asking and of computing it.
    """

    value: float
    low: float = np.nan
    high: float = np.nan
    reason: str = ""
    asked: int = 0
    cost: Cost = Cost()
