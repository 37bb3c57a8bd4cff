"""An evaluation cache as a matrix: blocks of cells are read when they are needed."""

import functools
from collections.abc import Iterator, Sequence

import numpy as np

from nevis_stream.evaluation_cache.evaluation_cache import EvaluationCache
from nevis_stream.evaluation_cache.facts import list_groups
from nevis_stream.queries.matrix import compute_means, sum_known, take_models
from nevis_stream.queries.samples import SampleFacts


class CacheMatrix:
    """Models of a cache on some of its samples, as a `Matrix`.

    Args:
      cache: the cache.
      rows: int64[m], of the models; None: all of today.
      columns: int64[n], of the samples; None: all of today. What is added later is not seen.
    """

    def __init__(
        self,
        cache: EvaluationCache,
        rows: np.ndarray | None = None,
        columns: np.ndarray | None = None,
    ):
        stored = cache.models()
        names, size = list(stored), cache.shape[1] if columns is None else len(columns)
        self._cache, self._rows = cache, np.arange(len(names)) if rows is None else rows
        self._columns = np.arange(size) if columns is None else columns
        self.shape, self.scores = (len(self._rows), size), cache.scores
        # the first samples of the cache, whose sums over whole rows are stored there
        self._first = columns is None or np.array_equal(columns, np.arange(size))
        self.models: Sequence[str] = [names[row] for row in self._rows.tolist()]
        groups = list_groups(stored[name] for name in self.models)
        self.groups: Sequence[str] | None = groups if any(groups) else None

    @functools.cached_property
    def facts(self) -> SampleFacts:
        """See `Matrix`."""
        facts = self._cache.facts()
        return facts if self._first and facts.n == self.shape[1] else facts.take(self._columns)

    def column_sums(self, models: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """See `Matrix`; no row is unpacked."""
        rows = self._rows if models is None else self._rows[models]
        total, counts = self._cache.column_sums(models=rows)
        return total[self._columns], counts[self._columns]

    def row_sums(self) -> tuple[np.ndarray, np.ndarray]:
        """See `Matrix`; of the first samples of a cache no row is read."""
        if self._first and self.shape[1] == self._cache.shape[1]:
            total, counts = self._cache.row_sums()
            return total[self._rows], counts[self._rows]
        rows = range(self.shape[0])
        sums = [np.concatenate(sum_known(self.matrix(np.array([row])), 1)) for row in rows]
        total, counts = np.array(sums).reshape(-1, 2).T
        return total, counts.astype(np.int64)

    def means(self) -> np.ndarray:
        """See `Matrix`; a model may be observed on easy samples only, so predictions count."""

        def read_row(row: int) -> np.ndarray:
            return self._cache.matrix(self._rows[row : row + 1], self._columns, predicted=True)

        return compute_means(self, read_row)

    def matrix(
        self, models: np.ndarray | None = None, samples: np.ndarray | None = None
    ) -> np.ndarray:
        """See `Matrix`."""
        rows = self._rows if models is None else self._rows[models]
        if samples is None and self._first:
            return self._cache.matrix(rows)[:, : self.shape[1]]
        columns = self._columns if samples is None else self._columns[samples]
        return self._cache.matrix(rows, columns)

    def packed_rows(self) -> Iterator[np.ndarray]:
        """See `Matrix`; outcomes of the first samples are packed, eight cells in a byte."""
        if self.scores or not self._first:
            yield from (self.matrix(np.array([row]))[0] for row in range(self.shape[0]))
            return
        for correct, known in self._cache.packed_rows(self._rows):
            yield correct if known is None else np.concatenate([correct, known])

    def take(self, models: np.ndarray | None, samples: np.ndarray | None) -> "CacheMatrix":
        """See `Matrix`."""
        rows = self._rows if models is None else self._rows[models]
        columns = self._columns if samples is None else self._columns[samples]
        part = CacheMatrix(self._cache, rows, columns)
        part.facts = self.facts if samples is None else self.facts.take(samples)
        part.groups = take_models(self, models)[0]
        return part
