"""What answers for a new model: a file, or anything else whose answers a cache keeps."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nevis_stream.errors import BadInput, unknown
from nevis_stream.evaluation_cache import EvaluationCache
from nevis_stream.evaluation_cache.entries import EACH
from nevis_stream.evaluation_cache.files import ValueTable
from nevis_stream.queries.matrix import is_observed, numbers, unknown_cells
from nevis_stream.queries.oracle import (
    MOST_WITHOUT_ANSWER,
    Cost,
    Oracle,
    Query,
    Responses,
    ask_checked,
)
from nevis_stream.queries.samples import SampleFacts, with_all_labels

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


class TooFewAnswers(Exception):
    """A model has answered fewer samples than the budget, and no other is left to be asked, or, as
    the message says, it seems to be out of order.
    """


class CachedOracle:
    """An `Oracle` for one new model: cells that the cache has are read; the others are asked, and
    added to the cache at once.

    Args:
      cache: the cache.
      model: the model's id.
      columns: int64[n], of the cache's samples that take part.
      provenance: of the model.
      ask: what answers for it.
      image: of each column (see `samples.SampleFacts`), or None; all columns of an image are asked
        and kept together.

    Attributes:
      values: [n], the observed values.
      failed: samples without an answer: they were asked, or would have been asked next.
      asked_before: number of cells that were observed before.
      cost: of everything that was asked.
    """

    def __init__(
        self,
        cache: EvaluationCache,
        model: str,
        columns: np.ndarray,
        provenance: dict[str, Any],
        oracle: Oracle,
        image: np.ndarray | None = None,
    ):
        self.model, self.cost, self.failed = model, Cost(), set[int]()
        self._cache, self._provenance, self._oracle = cache, provenance, oracle
        self._columns, self._scores, self._image = columns, cache.scores, image
        self._failures = 0  # in a row
        self.values = unknown_cells((len(columns),), self._scores)
        self._in_cache = model in cache.models()
        if self._in_cache:
            self.values = cache.matrix([model])[0, columns]
        self.asked_before = self.asked

    @property
    def asked(self) -> int:
        """Number of observed cells."""
        return int(np.count_nonzero(is_observed(self.values)))

    def __call__(self, query: Query) -> Responses:
        """Returns the values of int64[1, b], unknown where there is no answer, and the cost of
        those that had to be asked.

        Raises:
          TooFewAnswers: too many samples in a row have no answer; what was answered is kept.
        """
        (samples,), cost = query.samples, Cost()
        new = samples[~is_observed(self.values[samples])]
        if len(new):
            if self._image is not None:
                new = with_all_labels(new, self._image)
                new = new[~is_observed(self.values[new])]
            columns = self._columns[new]
            answers = ask_checked(self._oracle, Query(columns[None]), self._scores)
            cost, values = answers.cost, answers.values[0]
            known = is_observed(values)
            self.failed |= set(new[~known].tolist())
            flops_each = {} if cost.flops is None else {EACH: cost.flops / len(new)}
            provenance = None if self._in_cache else flops_each | self._provenance
            confidence = None if answers.confidence is None else answers.confidence[0]
            if known.any():
                ids = self._cache.samples(columns)
                self._cache.append(self.model, ids, values, confidence, provenance=provenance)
                self._in_cache = True
            self.values[new] = values
            self.cost += cost
            answered_last = np.flatnonzero(known)
            self._failures += len(new)
            if len(answered_last):
                self._failures = len(new) - 1 - int(answered_last[-1])
            if self._failures >= MOST_WITHOUT_ANSWER:
                raise TooFewAnswers(
                    f"model {self.model!r} had no answer to {MOST_WITHOUT_ANSWER} samples in a row,"
                    " so it is not asked any more. What it answered is kept; the same command"
                    " continues."
                )
        return Responses(query, self.values[samples][None], cost)

    @property
    def flops_each(self) -> float | None:
        """FLOPs of one answer, as the cache records it, or else the model's given provenance."""
        facts = self._cache.models()[self.model] if self._in_cache else self._provenance
        return facts.get(EACH)


def bound_means(values: np.ndarray, means: Sequence[float], facts: SampleFacts) -> np.ndarray:
    """Returns means, moved into the range that the observed values, [n], leave for the mean; if all
    values are observed, this is the mean itself.
    """
    low, high = numbers(values), np.where(is_observed(values), values, 1)
    least, most = facts.mean(np.stack([low, high]))
    return np.clip(means, least, most) if least < most else np.full(len(means), least)


def askable_cells(row: CachedOracle, available: np.ndarray | None, budget: int) -> np.ndarray:
    """Returns on which samples a new model can be asked, or has been, bool[n].

    Raises:
      BadInput: these are fewer than the budget.
    """
    if available is None:
        return np.ones(len(row.values), bool)
    cells = available | is_observed(row.values)
    if (count := int(cells.sum())) < budget:
        raise BadInput(
            f"model {row.model!r} has values on {count:,} of the cache's {len(cells):,} samples,"
            f" fewer than the budget of {budget:,}."
        )
    return cells
