"""The known models: which models of a matrix are known ones, their groups, and the place of a model
among them; and cross-validation on them: whole groups are left out in turn, evaluated as if they
were new, and the width of an interval follows from their errors.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
from scipy.special import stdtrit

from nevis_stream.errors import BadInput
from nevis_stream.estimation.intervals import FEWEST, PerModel
from nevis_stream.queries.matrix import ArrayMatrix, Matrix
from nevis_stream.queries.prices import Prices
from nevis_stream.queries.samples import (
    Part,
    fill_unknown,
    is_observed,
    make_numpy_generator,
)

# fraction of the largest sum that makes a model a known one, see `find_known` (or a sample)
KNOWN_FRACTION = 0.5

SIMULATED_MODELS, SIMULATED_SAMPLES = 30, 2_000  # most of a simulation


def set_prices(known: Matrix, prices: Prices) -> None:
    """Sets the prices of the samples, with their stakes (see `Prices`): each sample's weight in the
    mean times the standard deviation of an outcome, estimated from the known models.
    """
    total, counts = known.column_sums()
    p = (total + 1) / (counts + 2)
    stakes = known.facts.weights * np.sqrt(p * (1 - p))
    known.facts = replace(known.facts, prices=replace(prices, stakes=stakes))


def digest(known: Matrix) -> str:
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


def count_groups(known: Matrix) -> int:
    """Returns the number of groups of known models, or of models if they have no groups; models of
    one group are not independent.
    """
    return len(set(known.groups)) if known.groups else known.shape[0]


def draw_models(known: Matrix, most: int, key: Any) -> np.ndarray | None:
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


def find_known_rows(matrix: Matrix, rows: np.ndarray) -> np.ndarray:
    """Returns those of a matrix's rows, int64, that are known models (see `find_known`); it reads
    only rows with holes, one at a time.
    """
    counts, cells = matrix.column_sums(rows)[1], matrix.row_sums()[1]
    sums = np.full(len(rows), counts.sum())
    for i, row in enumerate(rows):
        if cells[row] < len(counts):
            sums[i] = counts[is_observed(matrix.matrix(rows[i : i + 1])[0])].sum()
    return rows[_mark_known(sums)]


def _mark_known(sums: np.ndarray) -> np.ndarray:
    return (sums > 0) & (sums >= KNOWN_FRACTION * sums.max(initial=0))


def read_known(
    matrix: Matrix,
    columns: np.ndarray,
    without: Sequence[str] = (),
    prices: Prices | None = None,
    place: str = "this board",
) -> Matrix:
    """Returns the known models on some columns, int64[n], with their groups.

    Args:
      matrix: all models.
      columns: the samples.
      without: ids of models that are left out.
      prices: of these samples; None: all cost the same.
      place: of the matrix, for a message.

    Raises:
      BadInput: no other model has been observed.
    """
    part, names = matrix.take(None, columns), matrix.models
    left_out = set(without)
    others = np.array([row for row, name in enumerate(names) if name not in left_out], np.int64)
    rows = find_known_rows(part, others)
    if not len(rows):
        present = [name for name in without if name in set(names)]
        reason = ""
        if present:
            reason = (
                f" The models to add are not known ones, although {len(present)} of them"
                f" ({present[0]!r}) are in the cache."
            )
        raise BadInput(
            f"{place}: no other model has been observed; import some models first.{reason}"
        )
    known = part.take(rows, None)
    known.groups = group_models(known)
    if prices is not None:
        set_prices(known, prices)
    return known


# two groups are one if at least this fraction of the models of either has duplicates in the other
DUPLICATE_FRACTION = 0.5


def group_models(matrix: Matrix) -> list[str] | None:
    """Returns each model's group; None if each model is a group of its own.

    Duplicates are in one group: in cross-validation, that of a left-out model would be known,
    and its error too small. Runs of one seed often share models to the last bit (FT-prev's first
    task is Indep's).

    Args:
      matrix: has the groups that are stated, "" for a model without one.
    """
    stated = matrix.groups or [""] * matrix.shape[0]
    names = matrix.models or range(matrix.shape[0])
    own = [group or str(name) for group, name in zip(stated, names, strict=True)]
    groups = merge_groups(own, matrix.packed_rows())
    return groups if any(stated) or len(set(groups)) < len(groups) else None


def merge_groups(groups: Sequence[str], outcomes: Iterable[np.ndarray]) -> list[str]:
    """Returns each model's group; two groups get one name if one has duplicates of at least half of
    the other's models.

    Args:
      groups: of m models.
      outcomes: a row of each model, equal for duplicates and for them only.
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

    def find_first(group: str) -> str:
        while names[group] != group:
            group = names[group]
        return group

    for (first_group, second_group), count in shared.items():
        if count >= DUPLICATE_FRACTION * min(sizes[first_group], sizes[second_group]):
            low, high = sorted((find_first(first_group), find_first(second_group)))
            names[high] = low
    return [find_first(group) for group in groups]


def rank_model(accuracies: np.ndarray, value: float | None, part: Part) -> int | None:
    """Returns a model's place among known models, 1 for the best, or None if it is unknown; equal
    models share a place.

    Args:
      accuracies: float64[m], of the known models.
      value: accuracy of the model; None or NaN if it is unknown.
      part: says whether lower values are better.
    """
    if value is None or np.isnan(value):
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
    known: Matrix, random: np.random.Generator, columns: int | None = None
) -> Iterator[tuple[np.ndarray, ArrayMatrix]]:
    """Yields the values of the models of each fold, [k, n] (see `Matrix.matrix`), and the
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
    whole = ArrayMatrix(matrix, known.groups, facts)
    for part in divide_into_folds(len(matrix), known.groups, random):
        rest = whole.take(np.setdiff1d(np.arange(len(matrix)), part), None)
        if is_observed(rest.values).any():
            yield matrix[part], rest


def leave_out(
    known: Matrix, random: np.random.Generator
) -> Iterator[tuple[np.ndarray, ArrayMatrix]]:
    """Yields known models as if they were new, [k, n] without holes, and the others; each once. Of
    many models and samples some are drawn (`SIMULATED_MODELS`, `SIMULATED_SAMPLES`).
    """
    if (models := known.shape[0]) > SIMULATED_MODELS:
        rows = np.sort(random.choice(models, SIMULATED_MODELS, replace=False))
        known = known.take(rows, None)
    for values, rest in make_folds(known, random, SIMULATED_SAMPLES):
        yield fill_holes(values, random), rest


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
