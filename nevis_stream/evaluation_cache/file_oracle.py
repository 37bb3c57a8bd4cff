"""Answers from a file: only the asked cells are used."""

from collections.abc import Callable, Sequence

import numpy as np

from nevis_stream.errors import BadInput, unknown
from nevis_stream.evaluation_cache.files import ValueTable
from nevis_stream.queries.matrix import is_observed
from nevis_stream.queries.oracle import Cost, Query, Responses

IdsOfColumns = Callable[[np.ndarray], Sequence[str]]
"""int64[b], columns -> the ids of these samples."""


class FileOracle:
    """An `Oracle` for one model whose values are in a file; a complete file shows what a budget
    would have given. The cost of the answers is unknown.

    Args:
      table: the file's values.
      model: the model's id.
      ids: returns the ids of columns.
      file: the file's name, for messages.

    Raises:
      BadInput: the file has no such model.
    """

    def __init__(self, table: ValueTable, model: str, ids: IdsOfColumns, file: str = "the file"):
        if model not in table.models:
            raise BadInput(f"{file}: {unknown('model', model, table.models)}")
        self._table, self._model, self._ids, self._file = table, model, ids, file
        self._row = list(table.models).index(model)
        self._columns = {sample: column for column, sample in enumerate(table.samples)}

    def available(self, samples: Sequence[str]) -> np.ndarray:
        """Returns on which of n samples the file has a value of the model, bool[n]."""
        columns = np.array([self._columns.get(sample, -1) for sample in samples], np.int64)
        return (columns >= 0) & is_observed(self._table.values[self._row][columns])

    def __call__(self, query: Query) -> Responses:
        """Returns the values of int64[1, b]; BadInput if the file lacks one."""
        ids = self._ids(query.samples[0])
        columns = np.array([self._columns.get(sample, -1) for sample in ids], np.int64)
        values = self._table.values[self._row][columns]
        missing = np.flatnonzero((columns < 0) | ~is_observed(values))
        if len(missing):
            raise BadInput(
                f"{self._file}: has no value of model {self._model!r} on sample"
                f" {ids[missing[0]]!r}, which was asked."
            )
        confidence = self._table.confidence
        known = None if confidence is None else confidence[self._row][columns][None]
        return Responses(query, values[None], Cost(None), known)
