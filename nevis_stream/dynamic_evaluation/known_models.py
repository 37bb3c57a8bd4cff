"""The known models as methods read them: sums and single cells, from a matrix in memory or from a
cache on disk; which models of a cache are known ones, and a model's place among them; and
cross-validation on them: whole groups are left out in turn, evaluated as if they were new, and the
width of an interval follows from their errors.
"""

import functools
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from scipy.special import stdtrit

from nevis_stream.errors import BadInput
from nevis_stream.estimation.intervals import FEWEST, PerModel
from nevis_stream.evaluation_cache import EvaluationCache
from nevis_stream.queries.prices import Prices
from nevis_stream.queries.samples import (
    Part,
    SampleFacts,
    check_matrix,
    fill_unknown,
    is_observed,
    make_numpy_generator,
    sum_columns,
)
from nevis_stream.user_calls import ReadOnly

# fraction of the largest sum that makes a model a known one, see `find_known` (or a sample)
KNOWN_FRACTION = 0.5


class KnownModels(Protocol):
    """The values of m known models on n samples: outcomes, or scores in [0, 1], with holes."""

    @property
    def shape(self) -> tuple[int, int]:
        """m and n."""

    @property
    def groups(self) -> Sequence[str] | None:
        """The models' groups (checkpoints of one training run are a group), or None."""

    @property
    def facts(self) -> SampleFacts:
        """Facts about the samples."""

    @property
    def scores(self) -> bool:
        """Whether the values are scores instead of outcomes."""

    def column_sums(self, models: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Returns the sum of each sample's known values, float64[n], and their number, int64[n];
        `models` are int64 rows, None for all.
        """

    def row_sums(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns the sum of each model's known values, float64[m], and their number, int64[m]."""

    def matrix(
        self, models: np.ndarray | None = None, samples: np.ndarray | None = None
    ) -> np.ndarray:
        """Returns the values, uint8[models, samples] of 0, 1 and 255, or float32 scores with NaN;
        `models` are int64 rows and `samples` int64 columns, None for all.
        """

    def packed_rows(self) -> Iterator[np.ndarray]:
        """Yields each model's values, in a form that is equal for equal models."""


@dataclass(frozen=True, eq=False)
class InMemory(ReadOnly):
    """Known models as a matrix, uint8[m, n] of 0, 1 and 255 or float[m, n] of scores with NaN."""

    values: np.ndarray
    groups: Sequence[str] | None = None
    sample_facts: SampleFacts | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Models and samples."""
        return self.values.shape

    @property
    def scores(self) -> bool:
        """See `KnownModels`."""
        return self.values.dtype.kind == "f"

    @property
    def facts(self) -> SampleFacts:
        """See `KnownModels`."""
        return self.sample_facts or SampleFacts(self.shape[1])

    def column_sums(self, models: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """See `KnownModels`."""
        return sum_columns(self.values if models is None else self.values[models])

    def row_sums(self) -> tuple[np.ndarray, np.ndarray]:
        """See `KnownModels`."""
        total = fill_unknown(self.values).sum(axis=1, dtype=np.float64)
        return total, is_observed(self.values).sum(axis=1)

    def matrix(
        self, models: np.ndarray | None = None, samples: np.ndarray | None = None
    ) -> np.ndarray:
        """See `KnownModels`."""
        rows = self.values if models is None else self.values[models]
        return rows if samples is None else rows[:, samples]

    def packed_rows(self) -> Iterator[np.ndarray]:
        """See `KnownModels`."""
        yield from self.values

    def leave_out(self, models: np.ndarray) -> "InMemory":
        """Returns all but some models, int64 rows."""
        groups = None if self.groups is None else np.delete(self.groups, models).tolist()
        return InMemory(np.delete(self.values, models, axis=0), groups, self.sample_facts)


class InCache:
    """Some models of a cache on some of its samples, read when they are needed.

    Args:
      cache: the cache.
      rows: int64[m], of the models.
      columns: int64[n], of the samples; samples that are added to the cache later are not seen.
         Or n: the first n samples.
      groups: the models' groups, or None.
    """

    def __init__(
        self,
        cache: EvaluationCache,
        rows: np.ndarray,
        columns: np.ndarray | int,
        groups: Sequence[str] | None = None,
    ):
        self.columns = np.arange(columns) if isinstance(columns, int) else columns
        self._cache, self._rows = cache, np.asarray(rows)
        self.shape = len(rows), len(self.columns)
        # the first samples of the cache, whose sums over whole rows are stored there
        self._first = np.array_equal(self.columns, np.arange(len(self.columns)))
        self.groups, self.scores = groups, cache.scores

    @functools.cached_property
    def facts(self) -> SampleFacts:
        """See `KnownModels`."""
        return self._cache.facts().take(self.columns)

    def column_sums(self, models: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """See `KnownModels`; no row is unpacked."""
        total, counts = self._cache.column_sums(
            models=self._rows if models is None else self._rows[models]
        )
        return total[self.columns], counts[self.columns]

    def row_sums(self) -> tuple[np.ndarray, np.ndarray]:
        """See `KnownModels`; of the first samples of a cache no row is read."""
        if self._first:
            total, counts = self._cache.row_sums()
            return total[self._rows], counts[self._rows]
        rows = [self.matrix(np.array([row]))[0] for row in range(self.shape[0])]
        sums = [(fill_unknown(row).sum(dtype=np.float64), is_observed(row).sum()) for row in rows]
        total, counts = np.array(sums).T
        return total, counts.astype(np.int64)

    def matrix(
        self, models: np.ndarray | None = None, samples: np.ndarray | None = None
    ) -> np.ndarray:
        """See `KnownModels`."""
        rows = self._rows if models is None else self._rows[models]
        if samples is None and self._first:
            return self._cache.matrix(rows)[:, : self.shape[1]]
        return self._cache.matrix(rows, self.columns if samples is None else self.columns[samples])

    def packed_rows(self) -> Iterator[np.ndarray]:
        """See `KnownModels`; outcomes of the first samples are packed, eight cells in a byte."""
        if self.scores or not self._first:
            yield from (self.matrix(np.array([row]))[0] for row in range(self.shape[0]))
            return
        for correct, known in self._cache.packed_rows(self._rows):
            yield correct if known is None else np.concatenate([correct, known])


def wrap_known_models(
    known: "np.ndarray | KnownModels",
    groups: Sequence[str] | None = None,
    facts: SampleFacts | None = None,
) -> KnownModels:
    """Returns known models as methods read them, given these or a matrix (`KnownModels.matrix`).

    Args:
      known: the models; if they are `KnownModels`, they are returned as they are.
      groups, facts: of a matrix's models and samples, or None.
    """
    if hasattr(known, "column_sums"):
        return known
    return InMemory(check_matrix(known), None if groups is None else list(groups), facts)


def set_prices(known: KnownModels, prices: Prices) -> None:
    """Sets the prices of the samples, with their stakes (see `Prices`): each sample's weight in the
    mean times the standard deviation of an outcome, estimated from the known models.
    """
    total, counts = known.column_sums()
    p = (total + 1) / (counts + 2)
    stakes = known.facts.weights * np.sqrt(p * (1 - p))
    known.facts = replace(known.facts, prices=replace(prices, stakes=stakes))


def digest(known: KnownModels) -> str:
    """Returns a hash of what a method can learn from the known models."""
    dataset = known.facts.dataset
    names = None if dataset is None else dataset.tolist()
    header = (known.shape, known.scores, known.groups and list(known.groups), names)
    content = hashlib.sha256(repr(header).encode())
    if known.facts.lower is not None and known.facts.lower.all():
        content.update(b"lower")  # methods see 1 minus each value
    for row in known.packed_rows():
        content.update(np.ascontiguousarray(row))
    if (prices := known.facts.prices) is not None:
        content.update(repr((prices.unit, prices.budget)).encode())
        content.update(np.ascontiguousarray(prices.each))
    for values in (known.facts.features, known.facts.weights):
        content.update(b"-" if values is None else np.ascontiguousarray(values))
    return content.hexdigest()


def count_groups(known: KnownModels) -> int:
    """Returns the number of groups of known models, or of models if they have no groups; models of
    one group are not independent.
    """
    return len(set(known.groups)) if known.groups else known.shape[0]


def draw_models(known: KnownModels, most: int, key: Any) -> np.ndarray | None:
    """Returns the rows of `most` known models, drawn at random by a JAX key, int64 ascending; None
    for all if there are no more.
    """
    if known.shape[0] <= most:
        return None
    return np.sort(make_numpy_generator(key).choice(known.shape[0], most, replace=False))


def find_known(mask: np.ndarray) -> np.ndarray:
    """Returns which models are known, bool[m].

    A sample weighs as much as models were observed on it. A model is known if its observed samples
    weigh at least half as much as those of the model with the most. So models stay known if a cache
    gains many samples on which few of them are asked, and models that were asked only few samples
    are not known.

    Args:
      mask: bool[m, n], the observed cells.
    """
    counts = mask.sum(axis=0)
    return _mark_known(np.array([counts[row].sum() for row in mask]))


def find_known_rows(
    cache: EvaluationCache, rows: np.ndarray, columns: np.ndarray | int
) -> np.ndarray:
    """Returns those of a cache's rows, int64, that are known ones on some samples, int64[n], or on
    the first n samples (see `find_known`), reading one row at a time.
    """
    columns = np.arange(columns) if isinstance(columns, int) else columns
    counts = cache.column_sums(models=rows)[1][columns]
    if cache.scores:
        cells = (is_observed(cache.matrix(rows[i : i + 1])[0, columns]) for i in range(len(rows)))
        return rows[_mark_known(np.array([counts[row].sum() for row in cells]))]
    sums = np.full(len(rows), counts.sum())
    for i, (_, packed) in enumerate(cache.packed_rows(rows)):
        if packed is not None:
            mask = np.unpackbits(packed.view(np.uint8)).view(bool)[columns]
            sums[i] = counts[mask].sum()
    return rows[_mark_known(sums)]


def _mark_known(sums: np.ndarray) -> np.ndarray:
    return (sums > 0) & (sums >= KNOWN_FRACTION * sums.max(initial=0))


def read_known(
    cache: EvaluationCache,
    columns: np.ndarray,
    without: Sequence[str] = (),
    prices: Prices | None = None,
) -> tuple[InCache, np.ndarray, list[str]]:
    """Returns the known models on some columns, int64[n], their accuracies, float64[m], and their
    ids.

    Accuracies are means of observed and predicted cells: a model may be observed on easy samples
    only. Models with an id in `without` are left out; None for `prices`: all samples cost the same.
    """
    names = list(cache.models())
    others = np.array([row for row, name in enumerate(names) if name not in set(without)], np.int64)
    rows = find_known_rows(cache, others, columns)
    if not len(rows):
        present = [name for name in without if name in set(names)]
        reason = ""
        if present:
            reason = (
                f" The models to add are not known ones, although {len(present)} of them"
                f" ({present[0]!r}) are in the cache."
            )
        raise BadInput(
            f"{cache.directory}: no other model has been observed; import some models first."
            f"{reason}"
        )
    known = InCache(cache, rows, columns)
    if prices is not None:
        set_prices(known, prices)
    total_value, cells = (sums.astype(np.float64) for sums in known.row_sums())
    weighted = known.facts.dataset_weights is not None
    for i in range(len(rows)) if weighted else np.flatnonzero(cells < len(columns)):
        row = cache.matrix(rows[i : i + 1], columns, predicted=True)
        (total_value[i],), (cells[i],) = (
            known.facts.mean(part(row)) for part in (fill_unknown, is_observed)
        )
    return known, total_value / cells, [names[row] for row in rows]


def rank_model(accuracies: np.ndarray, value: float | None, part: Part) -> int | None:
    """Returns a model's place among known models, 1 for the best, or None if it is unknown; equal
    models share a place.

    Args:
      accuracies: float64[m], of the known models.
      value: accuracy of the model; None if it is unknown.
      part: says whether lower values are better.
    """
    if value is None:
        return None
    sign = -1 if part.lower else 1
    # sums in another order differ in the last digits
    return 1 + int((sign * accuracies > sign * value + 1e-9).sum())


FOLDS = 5
HELD_OUT = 250  # about this many known models, at most, are left out in all folds together


def divide_into_folds(
    models: int, groups: Sequence[str] | None, random: np.random.Generator
) -> list[np.ndarray]:
    """Returns at most five sets of models to leave out, int64 each, that keep groups together; []
    if there is only one group.

    All folds have the same number of groups, so that they need only one compiled program: some
    groups may be left out twice. If there are more than `HELD_OUT` models, not all are left out.
    """
    group, count = _number_groups(models, groups)
    if count < 2:
        return []
    size = min(-(-count // FOLDS), max(HELD_OUT * count // (FOLDS * models), 1))
    drawn = random.permutation(count)
    parts = [
        drawn[np.arange(start, start + size) % count]
        for start in range(0, min(FOLDS * size, count), size)
    ]
    return [np.flatnonzero(np.isin(group, part)) for part in parts]


def divide_models(models: int, groups: Sequence[str] | None, most: int = 20) -> list[np.ndarray]:
    """Returns at most `most` sets of models to leave out in turn, int64 rows each, which keep
    groups together; [] if there is only one group. Each model is left out once.
    """
    group, count = _number_groups(models, groups)
    sets = min(count, most) if count > 1 else 0
    return [np.flatnonzero(group % most == place) for place in range(sets)]


def _number_groups(models: int, groups: Sequence[str] | None) -> tuple[np.ndarray, int]:
    """Returns the number of each model's group, int64 from 0, and how many groups there are."""
    names = np.arange(models) if groups is None else np.asarray(groups)
    group = np.unique(names, return_inverse=True)[1]
    return group, int(group.max()) + 1


def make_folds(
    known: KnownModels, random: np.random.Generator, columns: int | None = None
) -> Iterator[tuple[np.ndarray, InMemory]]:
    """Yields the values of the models of each fold, [k, n] (see `KnownModels.matrix`), and the
    other models.

    A fold is skipped if nothing is observed of the other models.

    Args:
      known: the known models.
      random: draws the folds.
      columns: if there are more samples, this number of them is drawn; None: all are taken.
    """
    matrix, facts, n = known.matrix(), known.facts, known.shape[1]
    if columns and n > columns:
        chosen = np.sort(random.choice(n, columns, replace=False))
        matrix, facts = matrix[:, chosen], facts.take(chosen)
    whole = InMemory(matrix, known.groups, facts)
    for part in divide_into_folds(len(matrix), known.groups, random):
        rest = whole.leave_out(part)
        if is_observed(rest.values).any():
            yield matrix[part], rest


def fill_holes(values: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Returns values, [m, n], with holes filled, so that known models can be asked as if they were
    new: outcomes are drawn with the model's mean as probability, scores are that mean.
    """
    mask = is_observed(values)
    fraction = (fill_unknown(values).sum(axis=1, dtype=np.float64) + 1) / (mask.sum(axis=1) + 2)
    if values.dtype.kind == "f":
        return np.where(mask, values, fraction[:, None]).astype(np.float32)
    drawn = random.random(values.shape) < fraction[:, None]
    return np.where(mask, values, drawn).astype(np.uint8)


def compute_half_width(
    errors: PerModel, unit: PerModel, independent: int, prior: float = 0.0
) -> float:
    """Returns the half-width, in units, of the 95% interval of an estimate whose error is like some
    known errors: Student's t at 97.5% times their root mean square.

    Args:
      errors: float[m], the known errors.
      unit: float[m], the unit of each error; an error with unit 0 is left out.
      independent: number of independent errors (groups), which limits the degrees of freedom.
      prior: number of further errors that are assumed, each as large as its unit.
    """
    usable = unit > 0
    squares = ((errors[usable] / unit[usable]) ** 2).sum()
    freedom = min(usable.sum(), independent) + prior
    return (
        float(np.sqrt((squares + prior) / (usable.sum() + prior)) * stdtrit(freedom, 0.975))
        if freedom
        else np.nan
    )


def learn_half_width(errors: PerModel, unit: PerModel, groups: Sequence) -> float:
    """Returns the half-width, in units, of the 95% interval of an accuracy, by cross-validation
    errors; NaN if there are fewer than `FEWEST` of these, or of groups.

    Args:
      errors: float[k], of the accuracies of known models.
      unit: float[k], the unit of each error.
      groups: of all known models; errors within a group are not independent.
    """
    independent = min(len(set(groups)), len(errors))
    return compute_half_width(errors, unit, independent) if independent >= FEWEST else np.nan
