"""The summary of a cache for the report: how well methods would do on it, what one order of its
samples cannot predict, and how good the predictions of additions were.

`write` writes `evaluation.json` and `outcomes.png` into the cache's directory; the report reads
these instead of the cache.
"""

import io
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import jax
import numpy as np
import pandas as pd

from nevis_stream.dynamic_evaluation import methods
from nevis_stream.dynamic_evaluation.estimates import compute_group_means
from nevis_stream.dynamic_evaluation.known_models import find_known, group_models
from nevis_stream.dynamic_evaluation.method import make_context
from nevis_stream.dynamic_evaluation.predictors.sort_and_search import predict_by_threshold
from nevis_stream.dynamic_evaluation.sorting import sort
from nevis_stream.errors import BadInput
from nevis_stream.evaluation_cache import EvaluationCache
from nevis_stream.evaluation_cache.additions import Addition, digest_errata, read_additions
from nevis_stream.evaluation_cache.cache_matrix import CacheMatrix
from nevis_stream.evaluation_cache.facts import name_groups
from nevis_stream.experiments.evaluation_studies import agreement
from nevis_stream.experiments.evaluation_studies.method_study import MEASURES, StudiedMatrix
from nevis_stream.experiments.evaluation_studies.model_splits import split
from nevis_stream.queries.oracle import MatrixOracle
from nevis_stream.queries.samples import SampleFacts, fill_unknown, is_observed
from nevis_stream.storage import write_file

SCHEMA = 2
FILE, PICTURE = "evaluation.json", "outcomes.png"
_FEWEST_MODELS, _FEWEST_SAMPLES = 5, 20
_FEWEST_GROUPS = 3  # fewer leave only one or two ways to divide them into known and new ones
_WIDEST, _HIGHEST, _LOWEST = 480, 240, 160  # pixels of the picture
_RIGHT, _WRONG, _UNKNOWN = (44, 95, 138), (240, 232, 216), (150, 150, 150)


class TooSmall(BadInput):
    """A cache has too few models or samples to measure methods on."""


def find_studied_part(cache: EvaluationCache) -> StudiedMatrix:
    """Returns the part of a cache that methods can be measured on: the known models, on the samples
    that at least half of them have.

    Raises:
      TooSmall: fewer than 5 models or 20 samples are left.
    """
    matrix = cache.matrix()
    mask = is_observed(matrix)
    rows = np.flatnonzero(find_known(mask))
    columns = np.flatnonzero(2 * mask[rows].sum(axis=0) >= max(len(rows), 1))
    if len(rows) < _FEWEST_MODELS or len(columns) < _FEWEST_SAMPLES:
        raise TooSmall(
            f"{cache.directory}: {len(rows)} models are observed on the same {len(columns)}"
            f" samples; at least {_FEWEST_MODELS} models and {_FEWEST_SAMPLES} samples are needed"
            " to measure methods."
        )
    values = matrix[np.ix_(rows, columns)]
    groups = group_models(CacheMatrix(cache, rows))
    several = groups and len(set(groups)) >= _FEWEST_GROUPS
    facts = cache.facts().take(columns)
    return StudiedMatrix(
        cache.directory.name, values, np.array(groups, str) if several else None, facts
    )


def write(
    cache: EvaluationCache, matrix: StudiedMatrix, study: pd.DataFrame, known_fraction: float
) -> dict[str, Any]:
    """Writes and returns the summary of a cache.

    Args:
      cache: the cache.
      matrix: its `find_studied_part`.
      study: rows of a study of it, with columns method, budget, seed and `MEASURES`.
      known_fraction: fraction of the models that were known in the study.
    """
    values, facts = matrix.values, matrix.facts
    budgets, seeds = (sorted(study[name].unique()) for name in ("budget", "seed"))
    summary = {
        "schema": SCHEMA,
        "about": cache.about,
        "models": len(values),
        "samples": values.shape[1],
        "scores": values.dtype != np.uint8,
        "holes": int((~is_observed(values)).sum()),
        "mean_accuracy": _compute_overall_mean(values, facts),
        "sample_groups": _describe_groups(values, facts),
        "known": known_fraction,
        "by_run": matrix.groups is not None,
        "group_kind": name_groups(cache),
        "seeds": len(seeds),
        "methods": {
            method: summarise_method(rows) for method, rows in study.groupby("method", sort=False)
        },
        "decomposition": None
        if len(facts.parts) > 1
        else _decompose_error(values, matrix.groups, known_fraction, budgets, seeds),
        "correlation": _compute_mean_correlation(values),
        "additions": _summarise_additions(cache),
        "lower": facts.lower is not None and bool(facts.lower.all()),
        "imports": [asdict(each) | {"lines": each.lines()} for each in cache.imports()],
    }
    write_file(cache.directory / PICTURE, draw_outcomes(values, facts.lower))
    write_file(cache.directory / FILE, json.dumps(summary, indent=1, sort_keys=True).encode())
    return summary


def _compute_overall_mean(values: np.ndarray, facts: SampleFacts) -> float | None:
    """Returns the mean over samples, with the data sets' weights, of the mean over models; None if
    data sets differ in direction or range.
    """
    if len(facts.parts) > 1:
        return None
    mask = is_observed(values)
    means = fill_unknown(values).sum(axis=0, dtype=np.float64) / mask.sum(axis=0)
    return facts.parts[0].unscale(float(facts.mean(means[None])[0]))


def _describe_groups(values: np.ndarray, facts: SampleFacts) -> list[dict[str, Any]]:
    """Returns data sets and groups of samples: size, range, and the mean over models."""
    names = ("dataset", "group", "samples", "low", "high", "lower")
    return [
        {name: getattr(group, name) for name in names} | {"mean": _to_number(group.mean)}
        for group in compute_group_means(facts, values)
    ]


def audit(cache: EvaluationCache, addition: Addition) -> dict[str, float | None]:
    """Returns how good the predictions of an addition were: `mae` over all samples,
    `accuracy_error`, and the true mean, `truth`.

    They are None unless every predicted cell of that model has been observed since.
    """
    unknown = {"mae": None, "accuracy_error": None, "truth": None}
    if addition.kind != "model":
        return unknown
    facts = cache.facts()
    columns = {part.name: part.columns for part in facts.parts}.get(addition.dataset or "")
    if columns is None:  # of earlier data sets
        return unknown
    truth, predicted = (
        values[0, columns]
        for values in (cache.matrix([addition.name]), cache.predictions([addition.name]))
    )
    if not is_observed(truth).all() or not is_observed(predicted).any():
        return unknown
    distance = np.abs(fill_unknown(truth) - fill_unknown(predicted))
    mae = np.where(is_observed(predicted), distance, 0).mean(dtype=np.float64)
    mean = float(facts.take(columns).mean(truth[None])[0])
    error = None if addition.accuracy is None else abs(addition.accuracy - mean)
    return {"mae": float(mae), "accuracy_error": error, "truth": mean}


def _summarise_additions(cache: EvaluationCache) -> list[dict[str, Any]]:
    """Returns the additions as the report shows them: with their `audit`, the range that their
    means are scaled from, and a label of each model for people.

    If a later addition of the same model has replaced the predictions of an earlier one, the
    earlier one's MAE is None.
    """
    models, additions = cache.models(), read_additions(cache.directory)
    errata = digest_errata(cache.directory)
    latest = {(each.name, each.dataset): place for place, each in enumerate(additions)}
    ranges = {part.name: [part.low, part.high] for part in cache.facts().parts}
    added = []
    for place, addition in enumerate(additions):
        facts = models.get(addition.name, {}) if addition.kind == "model" else {}
        label = (
            f"{facts['learner']} seed {facts['seed']}, trial {facts['trial']}"
            if {"learner", "seed", "trial"} <= facts.keys()
            else None
        )
        replaced = {} if place == latest[addition.name, addition.dataset] else {"mae": None}
        errors = audit(cache, addition) | replaced
        ends = {"range": ranges.get(addition.dataset or "")}
        marks = {"label": label, "outdated": addition.errata != errata}
        added.append(asdict(addition) | errors | ends | marks)
    return added


def draw_outcomes(values: np.ndarray, lower: np.ndarray | None = None) -> bytes:
    """Returns a PNG of values: the best model is on top, the easiest sample on the left; dark is
    right, or a good score.

    Args:
      values: [m, n] of outcomes or scores; large matrices are averaged to at most 240 × 480 pixels.
      lower: bool[n], whether lower values are better; None: higher ones are.
    """
    from PIL import Image

    mask, value = is_observed(values), fill_unknown(values)
    if lower is not None:
        value = np.where(mask & lower, 1 - value, value)
    means = [
        np.divide(
            value.sum(axis=axis, dtype=np.float64),
            mask.sum(axis=axis),
            out=np.zeros(values.shape[1 - axis]),
            where=mask.any(axis=axis),
        )
        for axis in (1, 0)
    ]
    rows, columns = (np.argsort(-mean, kind="stable") for mean in means)
    total, seen = (
        _average(plane[np.ix_(rows, columns)].astype(np.float64)) for plane in (value, mask)
    )
    fraction = np.divide(total, seen, out=np.zeros_like(total), where=seen > 0)[..., None]
    colours = fraction * np.array(_RIGHT) + (1 - fraction) * np.array(_WRONG)
    colours = np.where(seen[..., None] > 0, colours, np.array(_UNKNOWN))
    # with few models, each line is thick
    colours = colours.repeat(-(-_LOWEST // len(colours)), axis=0)
    with io.BytesIO() as buffer:
        Image.fromarray(colours.round().astype(np.uint8)).save(buffer, "PNG", optimize=True)
        return buffer.getvalue()


def _average(plane: np.ndarray) -> np.ndarray:
    """Returns means over blocks, so that no side is longer than the picture's."""
    for axis, most in ((0, _HIGHEST), (1, _WIDEST)):
        edges = np.linspace(0, plane.shape[axis], min(plane.shape[axis], most) + 1).astype(int)
        sums, sizes = np.add.reduceat(plane, edges[:-1], axis=axis), np.diff(edges)
        plane = sums / (sizes[:, None] if axis == 0 else sizes)
    return plane


def summarise_method(rows: pd.DataFrame) -> dict[str, Any]:
    """Returns a method's measures by budget: mean and sample standard deviation over seeds, and the
    error of each data set's mean if there are several.
    """
    by_budget = rows.groupby("budget")[list(MEASURES)]
    means, stds = by_budget.mean(), by_budget.std()
    by_measure: dict[str, Any] = {"budgets": [int(budget) for budget in means.index]}
    for measure in MEASURES:
        by_measure[measure] = [_to_number(value) for value in means[measure]]
        by_measure[f"{measure}_std"] = [_to_number(value) for value in stds[measure]]
    by_measure["dataset_errors"] = [
        pd.DataFrame(list(at_budget["dataset_errors"])).mean().to_dict()
        for _, at_budget in rows.groupby("budget")
    ]
    return by_measure


def _decompose_error(
    values: np.ndarray,
    groups: np.ndarray | None,
    known_fraction: float,
    budgets: Sequence[int],
    seeds: Sequence[int],
) -> dict[str, Any] | None:
    """Returns the error of Sort & Search's thresholded prediction and its two parts by budget,
    means over new models and the study's splits, for outcomes, on the samples that all models have;
    and the decay of that error with the budget, None for fewer than three budgets. None for scores,
    or if these samples are too few.
    """
    complete = np.flatnonzero(is_observed(values).all(axis=0))
    budgets = [int(budget) for budget in budgets if budget <= len(complete)]
    if values.dtype != np.uint8 or len(complete) < _FEWEST_SAMPLES or not budgets:
        return None
    outcomes = values[:, complete]
    sums = np.zeros((3, len(budgets)))
    for seed in seeds:
        known_rows, new_rows = split(len(outcomes), groups, known_fraction, int(seed))
        rank, truth = sort(outcomes[known_rows]), outcomes[new_rows]
        key = jax.random.key(int(seed))
        evaluator = methods.get("sort_and_search").fit(outcomes[known_rows], None, key)
        for i, budget in enumerate(budgets):
            estimates = evaluator.evaluate(MatrixOracle(truth), len(truth), budget, key)
            predicted = predict_by_threshold(rank, estimates.answers, make_context())
            errors = agreement.decompose(truth, rank.order, predicted)
            sums[:, i] += [each.mean() for each in vars(errors).values()]
    total, aleatoric, epistemic = (sums / len(seeds)).tolist()
    decay = asdict(agreement.fit_decay(budgets, total)) if len(budgets) >= 3 else None
    parts = {"total": total, "aleatoric": aleatoric, "epistemic": epistemic}
    return {"budgets": budgets, "decay": decay} | parts


def _compute_mean_correlation(values: np.ndarray) -> float | None:
    """Returns the mean correlation over pairs of models."""
    above = agreement.correlate_models(values)[np.triu_indices(len(values), 1)]
    return _to_number(np.nanmean(above)) if np.isfinite(above).any() else None


def _to_number(value: float) -> float | None:
    return None if pd.isna(value) else float(value)
