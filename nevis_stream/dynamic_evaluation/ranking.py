"""The known models of a cache, and a model's place among them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nevis_stream.dynamic_evaluation.known_models import InCache, learned_rows, set_prices
from nevis_stream.errors import BadInput
from nevis_stream.evaluation_cache import EvaluationCache
from nevis_stream.queries.matrix import is_observed, numbers
from nevis_stream.queries.prices import Prices
from nevis_stream.queries.samples import Part


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
    counts = observed_cells(cache, models)
    complete = [model for model in models if counts[model] == samples > 0]
    if not complete:
        return []
    places = []
    for part in cache.facts().parts:
        known, accuracies, names = known_models(cache, part.columns)
        by_name = dict(zip(names, accuracies.tolist(), strict=True))
        for model in complete:
            place = rank(accuracies, by_name[model], part) or 0
            places.append(CompleteModel(model, part.name, by_name[model], place, len(names)))
    return places


def observed_cells(cache: EvaluationCache, models: Sequence[str]) -> dict[str, int]:
    """Returns the number of observed cells of each model; 0 if the cache does not have it."""
    counts = dict(zip(cache.models(), cache.row_sums()[1].tolist(), strict=True))
    return {model: int(counts.get(model, 0)) for model in models}


def known_models(
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
    rows = learned_rows(cache, others, columns)
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
            known.facts.mean(part(row)) for part in (numbers, is_observed)
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
