"""The known models as methods read them: sums and single cells, from a matrix in memory or from a
cache on disk; which models of a cache are known ones, their groups (the models of one run, and runs
that have copies of each other's models), and a model's place among them.
"""

import functools
import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Protocol

import numpy as np

from nevis_stream.errors import BadInput
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

# the fraction that must be observed of a model (or sample) for methods to learn from it
KNOWN_FRACTION = 0.5


class KnownModels(Protocol):
    """The values of m known models on n samples."""

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
        """Returns the sum of each sample's known values, [n], and their number, [n]; `models` are
        int64 rows, None for all.
        """

    def row_sums(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns the sum of each model's known values, [m], and their number, int64[m]."""

    def matrix(
        self, models: np.ndarray | None = None, samples: np.ndarray | None = None
    ) -> np.ndarray:
        """Returns uint8[models, samples] of 0, 1 and 255, or float32 scores with NaN; samples are
        int64 columns, None for all.
        """

    def packed_rows(self) -> Iterator[np.ndarray]:
        """Yields each model's values, in a form that is equal for equal models."""


@dataclass(frozen=True, eq=False)
class InMemory:
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
        correct = fill_unknown(self.values).sum(axis=1, dtype=np.float64)
        return correct, is_observed(self.values).sum(axis=1)

    def matrix(
        self, models: np.ndarray | None = None, samples: np.ndarray | None = None
    ) -> np.ndarray:
        """See `KnownModels`."""
        rows = self.values if models is None else self.values[models]
        return rows if samples is None else rows[:, samples]

    def packed_rows(self) -> Iterator[np.ndarray]:
        """See `KnownModels`."""
        yield from self.values

    def without(self, models: np.ndarray) -> "InMemory":
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
      groups: the models' groups.
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
        # the first ones: sums of whole rows are stored with them
        self._first = np.array_equal(self.columns, np.arange(len(self.columns)))
        self.groups, self.scores = groups, cache.scores

    @functools.cached_property
    def facts(self) -> SampleFacts:
        """See `KnownModels`."""
        return self._cache.facts().take(self.columns)

    def column_sums(self, models: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """See `KnownModels`; no row is unpacked."""
        total, seen = self._cache.column_sums(
            models=self._rows if models is None else self._rows[models]
        )
        return total[self.columns], seen[self.columns]

    def row_sums(self) -> tuple[np.ndarray, np.ndarray]:
        """See `KnownModels`; no row of the first samples is read."""
        if self._first:
            correct, known = self._cache.row_sums()
            return correct[self._rows], known[self._rows]
        rows = [self.matrix(np.array([row]))[0] for row in range(self.shape[0])]
        sums = [(fill_unknown(row).sum(dtype=np.float64), is_observed(row).sum()) for row in rows]
        correct, known = np.array(sums).T
        return correct, known.astype(np.int64)

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
    """Returns known models as methods read them, given some or a matrix (see `matrix`)."""
    if hasattr(known, "column_sums"):
        return known
    return InMemory(check_matrix(known), None if groups is None else list(groups), facts)


def set_prices(known: KnownModels, prices: Prices) -> None:
    """Sets the prices of the samples, with what each is at stake: weight times spread, as the known
    models say.
    """
    total, seen = known.column_sums()
    p = (total + 1) / (seen + 2)
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
    """Returns the number of groups of known models: models of one group are not independent."""
    return len(set(known.groups)) if known.groups else known.shape[0]


def draw_models(known: KnownModels, most: int, key: Any) -> np.ndarray | None:
    """Returns the rows of `most` known models, drawn at random by a JAX key, int64 ascending; None
    for all if there are no more.
    """
    if known.shape[0] <= most:
        return None
    return np.sort(make_numpy_generator(key).choice(known.shape[0], most, replace=False))


def divide_models(models: int, groups: Sequence[str] | None, most: int = 20) -> list[np.ndarray]:
    """Returns at most `most` sets of models to leave out in turn, int64 each, which keep groups
    together; [] if there is a single group.
    """
    _, group = np.unique(
        np.arange(models) if groups is None else np.asarray(groups), return_inverse=True
    )
    count = int(group.max()) + 1
    return (
        [np.flatnonzero(group % most == part) for part in range(min(count, most))]
        if count > 1
        else []
    )


def find_known(mask: np.ndarray) -> np.ndarray:
    """Returns which models are known, bool[m].

    For each model, the numbers of models observed on its observed samples are added up; it is known
    if its sum is at least half of the largest sum. So models stay known if a cache gains many
    samples on which few of them are asked, and models that were asked only few samples are not.

    Args:
      mask: bool[m, n], the observed cells.
    """
    models = mask.sum(axis=0)
    return _sharing(np.array([models[row].sum() for row in mask]))


def find_known_rows(
    cache: EvaluationCache, rows: np.ndarray, columns: np.ndarray | int
) -> np.ndarray:
    """Returns those of a cache's rows, int64, that are known on some samples, int64[n], or on the
    first n (see `find_known`), reading one row at a time.
    """
    columns = np.arange(columns) if isinstance(columns, int) else columns
    models = cache.column_sums(models=rows)[1][columns]
    if cache.scores:
        cells = (is_observed(cache.matrix(rows[i : i + 1])[0, columns]) for i in range(len(rows)))
        return rows[_sharing(np.array([models[row].sum() for row in cells]))]
    shared = np.full(len(rows), models.sum())
    for i, (_, mask) in enumerate(cache.packed_rows(rows)):
        if mask is not None:
            seen = np.unpackbits(mask.view(np.uint8)).view(bool)[columns]
            shared[i] = models[seen].sum()
    return rows[_sharing(shared)]


def _sharing(shared: np.ndarray) -> np.ndarray:
    return (shared > 0) & (shared >= KNOWN_FRACTION * shared.max(initial=0))


@dataclass(frozen=True)
class CompleteModel:
    """A model of a cache that is observed on every sample.

    Attributes:
      name: the model's id.
      dataset: "" for all samples; else the data set that the mean is of, where data sets differ in
        direction or range.
      accuracy: its mean over these samples.
      rank: its place by accuracy among the known models, of which it is one; 1 is the best.
      models: number of known models.
    """

    name: str
    dataset: str
    accuracy: float
    rank: int
    models: int


def complete_models(cache: EvaluationCache, models: Sequence[str]) -> list[CompleteModel]:
    """Returns those of these models that are observed on every sample, so that nothing is left to
    ask or to predict: one entry for each part of the samples that has a common mean.
    """
    samples = cache.shape[1]
    counts = count_observed_cells(cache, models)
    complete = [model for model in models if counts[model] == samples > 0]
    if not complete:
        return []
    places = []
    for part in cache.facts().parts:
        known, accuracies, names = read_known(cache, part.columns)
        by_name = dict(zip(names, accuracies.tolist(), strict=True))
        for model in complete:
            place = rank(accuracies, by_name[model], part) or 0
            places.append(CompleteModel(model, part.name, by_name[model], place, len(names)))
    return places


def count_observed_cells(cache: EvaluationCache, models: Sequence[str]) -> dict[str, int]:
    """Returns the number of observed cells of each model; 0 if the cache does not have it."""
    counts = dict(zip(cache.models(), cache.row_sums()[1].tolist(), strict=True))
    return {model: int(counts.get(model, 0)) for model in models}


def read_known(
    cache: EvaluationCache,
    columns: np.ndarray,
    without: Sequence[str] = (),
    prices: Prices | None = None,
) -> tuple[InCache, np.ndarray, list[str]]:
    """Returns the known models on some columns, int64[n], their accuracies float64[m] and their
    ids.

    Accuracies are means of observed and predicted cells: a model may be observed on easy samples
    only.
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


def rank(accuracies: np.ndarray, value: float | None, part: Part) -> int | None:
    """Returns the place among known models, 1 for the best; equal models share a place.

    Args:
      accuracies: float64[m], of the known models.
      value: of the model; None if it is unknown.
      part: says whether lower values are better.
    """
    if value is None:
        return None
    sign = -1 if part.lower else 1
    # sums in another order differ in the last digits
    return 1 + int((sign * accuracies > sign * value + 1e-9).sum())


DUPLICATES = 0.5  # two groups are one if at least this fraction of either's models are duplicates


def read_groups(
    cache: EvaluationCache, models: Sequence[str], outcomes: Iterable[np.ndarray]
) -> list[str] | None:
    """Returns each model's group: its run, or its `group` in an imported file; None if each model
    is a group of its own.

    Duplicates are in one group: in cross-validation, that of a left-out model would be known,
    and its error too small. Runs of one seed often share models to the last bit (FT-prev's first
    task is Indep's).

    Args:
      cache: has the models' provenance.
      models: m ids.
      outcomes: of the models, uint8[m, n]; or m rows in any form that is equal for equal models,
        read one at a time.
    """
    provenances = cache.models()
    facts = [provenances[model] for model in models]
    groups = [str(fact.get("group") or fact.get("run") or "") for fact in facts]
    names = merge_groups(
        [group or model for group, model in zip(groups, models, strict=True)], outcomes
    )
    return names if any(groups) or len(set(names)) < len(names) else None


def name_groups(cache: EvaluationCache) -> str:
    """Returns what the groups of a cache's models are: "runs", or "groups" of an imported file."""
    return "runs" if any("run" in facts for facts in cache.models().values()) else "groups"


def merge_groups(groups: Sequence[str], outcomes: Iterable[np.ndarray]) -> list[str]:
    """Returns the groups; two of them get one name if one has duplicates of at least half of
    the other's models.

    Args:
      groups: of m models.
      outcomes: m rows, equal for duplicates.
    """
    holders: dict[bytes, set[str]] = defaultdict(set)
    sizes: Counter[str] = Counter()
    for group, row in zip(groups, outcomes, strict=True):
        sharing = holders[hashlib.sha256(np.ascontiguousarray(row)).digest()]
        if group not in sharing:  # equal models of one group count once
            sharing.add(group)
            sizes[group] += 1
    shared = Counter(
        pair for sharing in holders.values() for pair in combinations(sorted(sharing), 2)
    )
    names = {group: group for group in groups}

    def first(group: str) -> str:
        while names[group] != group:
            group = names[group]
        return group

    for (first_group, second_group), count in shared.items():
        if count >= DUPLICATES * min(sizes[first_group], sizes[second_group]):
            low, high = sorted((first(first_group), first(second_group)))
            names[high] = low
    return [first(group) for group in groups]
