"""A method's estimates of new models: every cell, and each model's mean with its interval."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from nevis_stream.queries.oracle import NOT_STATED, Cost, Estimate, Responses


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
      holds_for: for whom each interval holds, m texts (see `oracle.Estimate`).
      notes: for people, on each estimate, m texts.
      others: float64[3, m], value, low and high of an estimate that holds for others, where it
        differs, else NaN; or None.
    """

    values: np.ndarray
    answers: Responses
    accuracy: np.ndarray
    low: np.ndarray
    high: np.ndarray
    reason: str = ""
    cost: Cost = Cost()
    holds_for: Sequence[str] = ()
    notes: Sequence[str] = ()
    others: np.ndarray | None = None

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
        holds_for = self.holds_for[model] if self.holds_for else NOT_STATED
        note = self.notes[model] if self.notes else ""
        reason = self.reason if np.isnan(low) else ""
        others = np.full(3, np.nan) if self.others is None else self.others[:, model]
        other = None if np.isnan(others[0]) else tuple(others.tolist())
        return Estimate(
            value, low, high, reason, asked, self.cost, holds_for=holds_for, note=note, other=other
        )
