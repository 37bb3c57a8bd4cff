"""Cross-validation on the known models: whole groups of them are left out in turn, evaluated as if
they were new, and the width of an interval follows from their errors.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from scipy.special import stdtrit

from nevis_stream.dynamic_evaluation.known_models import InMemory, KnownModels
from nevis_stream.estimation.intervals import FEWEST, PerModel
from nevis_stream.queries.samples import fill_unknown, is_observed

FOLDS = 5
HELD_OUT = 250  # at most this many known models are treated as new


def divide_into_folds(
    models: int, groups: Sequence[str] | None, random: np.random.Generator
) -> list[np.ndarray]:
    """Returns at most five sets of models to leave out, int64 each, that keep groups together; []
    if there is only one group.

    All folds have the same number of groups, so that they need only one compiled program: some
    groups may be left out twice. If there are very many models, not all of them are left out.
    """
    _, group = np.unique(
        np.arange(models) if groups is None else np.asarray(groups), return_inverse=True
    )
    count = int(group.max()) + 1
    if count < 2:
        return []
    size = min(-(-count // FOLDS), max(HELD_OUT * count // (FOLDS * models), 1))
    drawn = random.permutation(count)
    parts = [
        drawn[np.arange(start, start + size) % count]
        for start in range(0, min(FOLDS * size, count), size)
    ]
    return [np.flatnonzero(np.isin(group, part)) for part in parts]


def divide(
    known: KnownModels, random: np.random.Generator, columns: int | None = None
) -> Iterator[tuple[np.ndarray, InMemory]]:
    """Yields the values of the models of each fold, [k, n], and the other models.

    A fold is skipped if nothing is observed of the other models.

    Args:
      known: the known models.
      random: draws the folds.
      columns: if there are more samples, this number of them is drawn.
    """
    matrix, facts, n = known.matrix(), known.facts, known.shape[1]
    if columns and n > columns:
        chosen = np.sort(random.choice(n, columns, replace=False))
        matrix, facts = matrix[:, chosen], facts.take(chosen)
    whole = InMemory(matrix, known.groups, facts)
    for part in divide_into_folds(len(matrix), known.groups, random):
        rest = whole.without(part)
        if is_observed(rest.values).any():
            yield matrix[part], rest


def fill(values: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Fills the holes of models that are asked as if they were new: outcomes are drawn with the
    model's mean as probability, scores are that mean.
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
      prior: number of further errors of one unit that are assumed.
    """
    usable = unit > 0
    squares = ((errors[usable] / unit[usable]) ** 2).sum()
    freedom = min(usable.sum(), independent) + prior
    return (
        float(np.sqrt((squares + prior) / (usable.sum() + prior)) * stdtrit(freedom, 0.975))
        if freedom
        else np.nan
    )


def error_width(errors: PerModel, unit: PerModel, groups: Sequence) -> float:
    """Returns the half-width, in units, of the 95% interval of an accuracy, given cross-validation
    errors.

    Args:
      errors: float[k], of the accuracies of known models.
      unit: float[k], the unit of each error.
      groups: of all known models; errors within a group are not independent.

    Returns: NaN if there are fewer than `FEWEST` groups, or errors.
    """
    independent = min(len(set(groups)), len(errors))
    return compute_half_width(errors, unit, independent) if independent >= FEWEST else np.nan
