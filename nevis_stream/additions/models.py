"""New models are evaluated on a few samples of a cache, which keeps what they answered, what is
predicted of the other samples, and a record of the estimate and its cost.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nevis_stream.dynamic_evaluation import methods
from nevis_stream.dynamic_evaluation.estimates import Population, Widening
from nevis_stream.dynamic_evaluation.fits import Fits
from nevis_stream.dynamic_evaluation.known_models import rank_model, read_known
from nevis_stream.dynamic_evaluation.new_models import (
    AskedModel,
    Asking,
    NewModel,
    evaluate_new_models,
    fit_method,
)
from nevis_stream.errors import BadInput
from nevis_stream.evaluation_cache import EvaluationCache
from nevis_stream.evaluation_cache.additions import Addition, append, read_additions
from nevis_stream.evaluation_cache.cache_matrix import CacheMatrix
from nevis_stream.evaluation_cache.entries import FLOPS_PER_SAMPLE
from nevis_stream.queries.oracle import Oracle, Responses
from nevis_stream.queries.prices import Prices
from nevis_stream.queries.samples import Part


def open_fits(cache: EvaluationCache) -> Fits:
    """Returns the fits that are kept with a cache."""
    return Fits(cache.directory, read_additions(cache.directory))


def add_models(
    cache: EvaluationCache,
    oracles: Mapping[str, Oracle],
    budget: int | Prices,
    method: str | None = None,
    *,
    provenances: Mapping[str, dict[str, Any]] | None = None,
    report_values: Callable[[str, np.ndarray], None] = lambda model, values: None,
    **how: Any,
) -> list[Addition]:
    """Evaluates new models on a few of a cache's samples; observed and predicted values are added
    to the cache.

    Cells that the cache already has are not asked again, so an addition that was killed continues
    where it stopped. Models that are observed on every sample already (see `find_complete_models`)
    are left out, and have no record.

    Args:
      cache: the cache. The method learns from its known models (see `known_models.find_known`),
        except those that are added.
      oracles: by the id of each new model, what answers for it: takes columns of the cache,
        int64[1, b].
      budget, method, **how: as of `Asking`.
      provenances: of the models, by id; the price of an answer is added to them if it is missing.
      report_values: called with each model's name and values, float32[n]: the observed ones, and
        the expected ones of the other samples, which the cache has as 0 or 1 where it has outcomes.

    Returns:
      The record of each model that was not complete; one for each data set, or metric of a prompt,
      where there is no mean of all.

    Raises:
      BadInput: as `evaluate_new_models`.
    """
    asking = Asking(budget, method, **how)
    if method is not None:
        methods.get_within_budget(method)  # a wrong name is an error, whatever is complete
    complete = {each.name for each in find_complete_models(cache, list(oracles))}
    names = [name for name in oracles if name not in complete]
    if not names:
        return []
    added: list[Addition] = []

    def make_row(name: str, part: Part, image: np.ndarray | None, others: np.ndarray) -> AskedModel:
        provenance = (provenances or {}).get(name, {})
        return _open_model(cache, name, oracles[name], provenance, part, image, others)

    evaluate_new_models(
        *(CacheMatrix(cache), names, make_row, open_fits(cache), asking),
        place=str(cache.directory),
        report_values=report_values,
        record=lambda models: added.extend(_record(cache, models)),
    )
    return added


def _open_model(
    cache: EvaluationCache,
    name: str,
    oracle: Oracle,
    provenance: Mapping[str, Any],
    part: Part,
    image: np.ndarray | None,
    others: np.ndarray,
) -> AskedModel:
    """Returns what answers for a model: cells that the cache has are read; the others are asked,
    and added to the cache at once.
    """
    stored = name in cache.models()

    def keep(columns: np.ndarray, answers: Responses) -> None:
        nonlocal stored
        flops, confidence = answers.cost.flops, answers.confidence
        price = {} if flops is None else {FLOPS_PER_SAMPLE: flops / len(columns)}
        cache.append(
            *(name, cache.samples(columns), answers.values[0]),
            None if confidence is None else confidence[0],
            provenance=None if stored else price | dict(provenance),
        )
        stored = True

    def get_flops_each() -> float | None:
        return (cache.models()[name] if stored else provenance).get(FLOPS_PER_SAMPLE)

    return AskedModel(
        *(name, part.columns, oracle, cache.scores),
        image=image,
        others=others,
        row=cache.matrix([name])[0] if stored else None,
        keep=keep,
        get_flops_each=get_flops_each,
    )


def _record(cache: EvaluationCache, models: Sequence[NewModel]) -> list[Addition]:
    """Adds predictions of new models on a part of the samples to a cache, and their records."""
    if not models:
        return []
    first = models[0]
    predicted = np.stack([each.predicted for each in models])
    names, columns = [each.name for each in models], first.part.columns
    cache.append_predictions(names, columns, predicted, made_by=dict(first.made_by))
    added = [Addition.of(each) for each in models]
    for addition in added:
        append(cache.directory, addition)
    return added


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
      low, high: the 95% interval of the mean over the population that the samples are drawn from;
        NaN if none is given.
    """

    name: str
    dataset: str
    accuracy: float
    rank: int
    models: int
    low: float = np.nan
    high: float = np.nan


def find_complete_models(
    cache: EvaluationCache, models: Sequence[str], population: Population | None = None
) -> list[CompleteModel]:
    """Returns those of these models that are observed on every sample, so that nothing is left to
    ask or to predict: one entry for each part of the samples that has a common mean.

    Args:
      cache: with the models.
      models: their names, or of models that it does not have.
      population: that the samples are drawn from, if the mean is over it.
    """
    matrix, samples = CacheMatrix(cache), cache.shape[1]
    counts = count_observed_cells(cache, models)
    complete = [model for model in models if counts[model] == samples > 0]
    if not complete:
        return []
    places = []
    for part in matrix.facts.parts:
        known = read_known(matrix, part.columns, place=str(cache.directory))
        accuracies, names = known.means(), known.models
        by_name = dict(zip(names, accuracies.tolist(), strict=True))
        for model in complete:
            mean, low, high = by_name[model], np.nan, np.nan
            if population is not None:
                row = cache.matrix([model])[0, part.columns]
                widening = Widening(population, known, part.columns)
                _, low, high = widening.widen([mean] * 3, row, row.astype(np.float64))
            place = rank_model(accuracies, mean, part) or 0
            found = CompleteModel(model, part.name, mean, place, len(names), low, high)
            places.append(found)
    return places


def count_observed_cells(cache: EvaluationCache, models: Sequence[str]) -> dict[str, int]:
    """Returns the number of observed cells of each model; 0 if the cache does not have it."""
    counts = dict(zip(cache.models(), cache.row_sums()[1].tolist(), strict=True))
    return {model: int(counts.get(model, 0)) for model in models}


def fit_to_cache(
    cache: EvaluationCache, budget: int, method: str | None = None, **how: Any
) -> tuple[str, int]:
    """Fits a method to a cache's known models; `add_models` uses the stored fit until these models
    change, and the first addition is charged for it.

    Args:
      cache: the cache.
      budget, method, **how, and result: as of `fit_method`; or `prices` of the samples, of which
        the budget is then how many they afford.
    """
    if len(parts := cache.facts().parts) > 1:
        raise BadInput(
            f"{cache.directory}: its {len(parts)} data sets differ in direction or range, so there"
            " is no common mean to fit a method for; `add-model` fits one for each of them."
        )
    prices = how.pop("prices", None)
    place = str(cache.directory)
    known = read_known(CacheMatrix(cache), parts[0].columns, prices=prices, place=place)
    return fit_method(known, open_fits(cache), budget, method, **how)
