"""What a report says of a cache: how well methods would do on it, what one order cannot tell, what
additions were worth.

`write` leaves `evaluation.json` and `outcomes.png` in the cache's directory; the report reads
these, not the cache.
"""

import io
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd

from nevis_stream.dynamic_evaluation import metrics, search
from nevis_stream.dynamic_evaluation.additions import Addition, read_additions
from nevis_stream.dynamic_evaluation.cache import EvaluationCache
from nevis_stream.dynamic_evaluation.known import learned_from
from nevis_stream.dynamic_evaluation.method import UNKNOWN
from nevis_stream.dynamic_evaluation.sort import sort
from nevis_stream.dynamic_evaluation.study import split
from nevis_stream.errors import BadInput
from nevis_stream.storage import write_file

SCHEMA = 1
FILE, PICTURE = "evaluation.json", "outcomes.png"
MEASURES = ("mae", "accuracy_error", "spearman", "kendall", "coverage95")
_WIDEST, _HIGHEST, _LOWEST = 480, 240, 160  # pixels of the picture
_RIGHT, _WRONG, _NOBODY = (44, 95, 138), (240, 232, 216), (150, 150, 150)


def complete_part(cache: EvaluationCache) -> tuple[np.ndarray, list[str], np.ndarray]:
    """Returns the largest part of a cache that methods can be tried on.

    Returns:
      uint8[m, n] of 0 and 1: the known models, on the samples that all of them have; the models'
      ids; the columns int64[n].

    Raises:
      BadInput: fewer than 5 models or 20 samples are left.
    """
    names, matrix = list(cache.models()), cache.matrix()
    there = matrix != UNKNOWN
    rows = np.flatnonzero(learned_from(there))
    columns = np.flatnonzero(there[rows].all(axis=0))
    if len(rows) < 5 or len(columns) < 20:
        raise BadInput(
            f"{cache.directory}: {len(rows)} models are observed on the same {len(columns)}"
            " samples; at least 5 models and 20 samples are needed to see how well methods do."
        )
    return matrix[np.ix_(rows, columns)], [names[row] for row in rows], columns


def write(
    cache: EvaluationCache, study: pd.DataFrame, known: float, groups: np.ndarray | None = None
) -> dict[str, Any]:
    """Writes and returns the summary of a cache.

    Args:
      cache: the cache.
      study: rows of methods tried on its complete part, with columns method, budget, seed and
        `MEASURES`.
      known: share of the models that were known in it.
      groups: str[m], the runs that were known or new as a whole; None: each model by itself.
    """
    outcomes, models, _ = complete_part(cache)
    summary = {
        "schema": SCHEMA,
        "about": cache.about,
        "models": len(outcomes),
        "samples": outcomes.shape[1],
        "mean_accuracy": float(outcomes.mean()),
        "known": known,
        "by_run": groups is not None,
        "seeds": int(study["seed"].nunique()),
        "methods": {method: curve(rows) for method, rows in study.groupby("method", sort=False)},
        "decomposition": _decomposition(
            outcomes,
            groups,
            known,
            sorted(study["budget"].unique()),
            sorted(study["seed"].unique()),
        ),
        "correlation": _mean_correlation(outcomes),
        "additions": _accounts(cache),
    }
    write_file(cache.directory / PICTURE, picture(outcomes))
    write_file(cache.directory / FILE, json.dumps(summary, indent=1, sort_keys=True).encode())
    return summary


def audit(cache: EvaluationCache, addition: Addition) -> dict[str, float | None]:
    """Returns what an addition was worth where the truth came later: `mae` over all samples,
    `accuracy_error`, and the `truth`.

    They are None unless every predicted cell of that model has been observed since.
    """
    unknown = {"mae": None, "accuracy_error": None, "truth": None}
    if addition.kind != "model":
        return unknown
    observed, predicted = cache.matrix([addition.name])[0], cache.predictions([addition.name])[0]
    if (observed == UNKNOWN).any() or (predicted == UNKNOWN).all():
        return unknown
    wrong = (predicted != UNKNOWN) & (predicted != observed)
    truth = float(observed.mean())
    error = None if addition.accuracy is None else abs(addition.accuracy - truth)
    return {"mae": float(wrong.mean()), "accuracy_error": error, "truth": truth}


def _accounts(cache: EvaluationCache) -> list[dict[str, Any]]:
    """The additions as the report tells them: with their worth, and what people call the models.

    A later addition of the same model has replaced an earlier one's predictions, so their MAE is
    not known.
    """
    models, additions = cache.models(), read_additions(cache.directory)
    latest, found = {addition.name: place for place, addition in enumerate(additions)}, []
    for place, addition in enumerate(additions):
        of = models.get(addition.name, {}) if addition.kind == "model" else {}
        told = (
            f"{of['learner']} seed {of['seed']}, trial {of['trial']}"
            if {"learner", "seed", "trial"} <= of.keys()
            else None
        )
        replaced = {} if place == latest[addition.name] else {"mae": None}
        found.append(asdict(addition) | audit(cache, addition) | replaced | {"told": told})
    return found


def picture(outcomes: np.ndarray) -> bytes:
    """Returns a PNG of outcomes: the best model on top, the easiest sample on the left; dark is
    right.

    Args:
      outcomes: uint8[m, n] of 0, 1 and 255; large ones are averaged to at most 240 × 480 pixels.
    """
    from PIL import Image

    there = outcomes != UNKNOWN
    skill = np.divide(
        (outcomes == 1).sum(axis=1),
        there.sum(axis=1),
        out=np.zeros(len(outcomes)),
        where=there.any(axis=1),
    )
    ordered = outcomes[np.argsort(-skill, kind="stable")][:, sort(outcomes).order]
    right, seen = (
        _averaged(plane.astype(np.float64)) for plane in (ordered == 1, ordered != UNKNOWN)
    )
    share = np.divide(right, seen, out=np.zeros_like(right), where=seen > 0)[..., None]
    colours = share * np.array(_RIGHT) + (1 - share) * np.array(_WRONG)
    colours = np.where(seen[..., None] > 0, colours, np.array(_NOBODY))
    colours = colours.repeat(-(-_LOWEST // len(colours)), axis=0)  # few models make thick lines
    with io.BytesIO() as buffer:
        Image.fromarray(colours.round().astype(np.uint8)).save(buffer, "PNG", optimize=True)
        return buffer.getvalue()


def _averaged(plane: np.ndarray) -> np.ndarray:
    """Means over blocks, so that no side is longer than the picture's."""
    for axis, most in ((0, _HIGHEST), (1, _WIDEST)):
        edges = np.linspace(0, plane.shape[axis], min(plane.shape[axis], most) + 1).astype(int)
        sums, sizes = np.add.reduceat(plane, edges[:-1], axis=axis), np.diff(edges)
        plane = sums / (sizes[:, None] if axis == 0 else sizes)
    return plane


def curve(rows: pd.DataFrame) -> dict[str, Any]:
    """Returns a method's measures by budget: mean and sample standard deviation over seeds, and the
    decay of its MAE.
    """
    by_budget = rows.groupby("budget")[list(MEASURES)]
    means, stds = by_budget.mean(), by_budget.std()
    found: dict[str, Any] = {"budgets": [int(budget) for budget in means.index]}
    for measure in MEASURES:
        found[measure] = [_number(value) for value in means[measure]]
        found[f"{measure}_std"] = [_number(value) for value in stds[measure]]
    fitted = means["mae"].notna().all() and len(means) >= 3
    found["decay"] = (
        asdict(metrics.fit_decay(means.index.to_numpy(), means["mae"].to_numpy()))
        if fitted
        else None
    )
    return found


def _decomposition(
    outcomes: np.ndarray,
    groups: np.ndarray | None,
    known: float,
    budgets: Sequence[int],
    seeds: Sequence[int],
) -> dict[str, Any]:
    """Sort & Search's error and its two parts by budget, means over new models and the study's
    splits.
    """
    budgets = [int(budget) for budget in budgets if budget <= outcomes.shape[1]]
    parts = np.zeros((3, len(budgets)))
    for seed in seeds:
        known_rows, new_rows = split(len(outcomes), groups, known, int(seed))
        rank, truth = sort(outcomes[known_rows]), outcomes[new_rows]
        for i, budget in enumerate(budgets):
            plan = search.plan(rank, budget, len(truth))
            estimate = search.predict(rank, plan, np.take_along_axis(truth, plan.samples, axis=1))
            found = metrics.decompose(truth, rank.order, estimate.outcomes)
            parts[:, i] += [found.total.mean(), found.aleatoric.mean(), found.epistemic.mean()]
    total, aleatoric, epistemic = (parts / len(seeds)).tolist()
    return {"budgets": budgets, "total": total, "aleatoric": aleatoric, "epistemic": epistemic}


def _mean_correlation(outcomes: np.ndarray) -> float | None:
    """The mean of Spearman's correlation over pairs of models."""
    above = metrics.model_correlations(outcomes)[np.triu_indices(len(outcomes), 1)]
    return _number(np.nanmean(above)) if np.isfinite(above).any() else None


def _number(value: float) -> float | None:
    return None if pd.isna(value) else float(value)
