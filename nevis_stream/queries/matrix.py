"""A matrix of models × samples as methods see it: sums, and blocks of its cells. An array in memory
is one; what keeps values elsewhere, such as an evaluation cache, has an adapter of its own.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from nevis_stream.queries.samples import (
    SampleFacts,
    check_matrix,
    fill_unknown,
    is_observed,
)
from nevis_stream.user_calls import ReadOnly


class Matrix(Protocol):
    """The values of m models on n samples: outcomes, or scores in [0, 1], with holes.

    Attributes:
      models: m ids.
      groups: of the models (checkpoints of one training run are a group), or None.
      facts: about the samples.
    """

    models: Sequence[str]
    groups: Sequence[str] | None
    facts: SampleFacts

    @property
    def scores(self) -> bool:
        """Whether the values are scores instead of outcomes."""

    @property
    def shape(self) -> tuple[int, int]:
        """m and n."""

    def column_sums(self, models: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Returns the sum of each sample's known values, float64[n], and their number, int64[n];
        `models` are int64 rows, None for all.
        """

    def row_sums(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns the sum of each model's known values, float64[m], and their number, int64[m]."""

    def means(self) -> np.ndarray:
        """Returns each model's weighted mean, float64[m]; predictions count where there are any."""

    def matrix(
        self, models: np.ndarray | None = None, samples: np.ndarray | None = None
    ) -> np.ndarray:
        """Returns a block of the values, uint8[models, samples] of 0, 1 and 255, or float32 scores
        with NaN; `models` are int64 rows and `samples` int64 columns, None for all.
        """

    def packed_rows(self) -> Iterator[np.ndarray]:
        """Yields each model's values, in a form that is equal for equal models."""

    def take(self, models: np.ndarray | None, samples: np.ndarray | None) -> "Matrix":
        """Returns some models, int64 rows, on some samples, int64 columns; None for all."""


@dataclass(eq=False)
class ArrayMatrix(ReadOnly):
    """An array as a `Matrix`: uint8[m, n] of 0, 1 and 255, or float[m, n] of scores with NaN."""

    values: np.ndarray
    groups: Sequence[str] | None = None
    facts: SampleFacts = field(default=None)
    models: Sequence[str] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        self.facts = self.facts or SampleFacts(self.shape[1])

    @property
    def shape(self) -> tuple[int, int]:
        """Models and samples."""
        return self.values.shape

    @property
    def scores(self) -> bool:
        """See `Matrix`."""
        return self.values.dtype.kind == "f"

    def column_sums(self, models: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """See `Matrix`."""
        values = self.values if models is None else self.values[models]
        return sum_known(values, 0)

    def row_sums(self) -> tuple[np.ndarray, np.ndarray]:
        """See `Matrix`."""
        return sum_known(self.values, 1)

    def means(self) -> np.ndarray:
        """See `Matrix`; there are no predictions."""
        return compute_means(self, lambda row: self.values[row : row + 1])

    def matrix(
        self, models: np.ndarray | None = None, samples: np.ndarray | None = None
    ) -> np.ndarray:
        """See `Matrix`."""
        rows = self.values if models is None else self.values[models]
        return rows if samples is None else rows[:, samples]

    def packed_rows(self) -> Iterator[np.ndarray]:
        """See `Matrix`; outcomes are packed as `numpy.packbits` does it, those that are right and,
        where there are holes, those that are known, each filled up to words of 64 cells.
        """
        if self.scores:
            yield from self.values
            return
        padding = ((0, 0), (0, -self.shape[1] % 64))
        for row in self.values:
            mask = is_observed(row)
            planes = np.stack([row == 1] if mask.all() else [row == 1, mask])
            yield np.packbits(np.pad(planes, padding), axis=1).ravel().view(np.uint64)

    def take(self, models: np.ndarray | None, samples: np.ndarray | None) -> "ArrayMatrix":
        """See `Matrix`."""
        facts = self.facts if samples is None else self.facts.take(samples)
        groups, names = take_models(self, models)
        return ArrayMatrix(self.matrix(models, samples), groups, facts, names)


def take_models(
    matrix: Matrix, models: np.ndarray | None
) -> tuple[Sequence[str] | None, Sequence[str]]:
    """Returns the groups and the ids of some models of a matrix, int64 rows, None for all."""
    if models is None:
        return matrix.groups, matrix.models
    groups, names = matrix.groups, matrix.models
    rows = models.tolist()
    return groups and [groups[row] for row in rows], names and [names[row] for row in rows]


def sum_known(values: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the sums of the known values along an axis, float64, and their numbers, int64."""
    mask = is_observed(values)
    return np.where(mask, values, 0).sum(axis=axis, dtype=np.float64), mask.sum(axis=axis)


def compute_means(matrix: Matrix, read_row: Callable[[int], np.ndarray]) -> np.ndarray:
    """Returns each model's weighted mean, float64[m].

    Args:
      matrix: of the models.
      read_row: returns a model's values, [1, n], with those that stand for unknown ones.
    """
    total, cells = (sums.astype(np.float64) for sums in matrix.row_sums())
    weighted = matrix.facts.dataset_weights is not None
    n = matrix.shape[1]
    for row in range(len(total)) if weighted else np.flatnonzero(cells < n).tolist():
        values = read_row(row)
        (total[row],), (cells[row],) = (
            matrix.facts.mean(part(values)) for part in (fill_unknown, is_observed)
        )
    return total / cells


def wrap_matrix(known: "np.ndarray | Matrix", groups: Sequence[str] | None = None) -> Matrix:
    """Returns a `Matrix` as it is; or that of an array, with the groups of its models."""
    if hasattr(known, "column_sums"):
        return known
    return ArrayMatrix(check_matrix(known), None if groups is None else list(groups))


def turn(values: np.ndarray) -> np.ndarray:
    """Returns 1 minus each known value; unknown ones stay unknown."""
    return np.where(is_observed(values), 1 - values, values).astype(values.dtype)


class TurnedMatrix:
    """A `Matrix` with 1 minus each value, read when it is needed: errors as outcomes."""

    def __init__(self, matrix: Matrix):
        self._matrix, self.shape, self.models = matrix, matrix.shape, matrix.models
        self.groups, self.scores = matrix.groups, matrix.scores
        self.facts = replace(matrix.facts, lower=None)

    def column_sums(self, models: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """See `Matrix`."""
        total, seen = self._matrix.column_sums(models)
        return seen - total, seen

    def row_sums(self) -> tuple[np.ndarray, np.ndarray]:
        """See `Matrix`."""
        total, seen = self._matrix.row_sums()
        return seen - total, seen

    def means(self) -> np.ndarray:
        """See `Matrix`."""
        return 1 - self._matrix.means()

    def matrix(
        self, models: np.ndarray | None = None, samples: np.ndarray | None = None
    ) -> np.ndarray:
        """See `Matrix`."""
        return turn(self._matrix.matrix(models, samples))

    def packed_rows(self) -> Iterator[np.ndarray]:
        """See `Matrix`."""
        return self._matrix.packed_rows()

    def take(self, models: np.ndarray | None, samples: np.ndarray | None) -> "TurnedMatrix":
        """See `Matrix`."""
        return TurnedMatrix(self._matrix.take(models, samples))
