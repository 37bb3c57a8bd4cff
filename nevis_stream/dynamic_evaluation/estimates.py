"""A method's estimates of new models: every cell, and each model's mean with its interval."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nevis_stream.queries.oracle import Cost, Estimate, Responses


@dataclass(frozen=True)
class Estimates:
    """A method's estimates of m new models on n samples.

    Attributes:
      values: float32[m, n], the expected value of each cell: P(right), or the score; for an asked
        cell, the answer.
      answers: the asked cells, their values and their cost.
      accuracy: float64[m], the (weighted) mean over all n samples; may differ from that of
        `values`.
      low, high: float64[m], 95% interval of the accuracy; NaN if there is none.
      reason: why there is no interval; empty if there is one.
      cost: of asking and of computing all this, including a fit that was made for it.
    """

    values: np.ndarray
    answers: Responses
    accuracy: np.ndarray
    low: np.ndarray
    high: np.ndarray
    reason: str = ""
    cost: Cost = Cost()

    @property
    def outcomes(self) -> np.ndarray:
        """uint8[m, n], predicted outcomes: 1 for an expected value of at least 0.5."""
        return (self.values >= 0.5).astype(np.uint8)

    @property
    def observed(self) -> np.ndarray:
        """bool[m, n], which cells were asked."""
        asked = np.zeros(self.values.shape, bool)
        np.put_along_axis(asked, self.answers.samples, True, axis=1)
        return asked

    def __len__(self) -> int:
        """Number of models."""
        return len(self.accuracy)

    def __iter__(self) -> Iterator[Estimate]:
        """Yields the estimate of each model."""
        return (self[model] for model in range(len(self)))

    def __getitem__(self, model: int) -> Estimate:
        """Returns the estimate of one model's mean; its cost is that of all models together."""
        asked = self.answers.samples.shape[1]
        value, low, high = (float(each[model]) for each in (self.accuracy, self.low, self.high))
        return Estimate(value, low, high, self.reason, asked, self.cost)
