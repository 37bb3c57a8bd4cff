"""The summary of a study of methods, for people and for the report: errors against budget, which
methods cannot be distinguished from the best, cost, and which method to use.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from nevis_stream.cost.meter import format_engineering
from nevis_stream.dynamic_evaluation import methods
from nevis_stream.errors import plural
from nevis_stream.experiments.evaluation_studies.method_study import (
    StudiedMatrix,
    StudyDesign,
    count_evaluated,
)
from nevis_stream.queries.samples import is_observed
from nevis_stream.storage import write_file

SCHEMA = 1
FILE = "study_summary.json"
# bounds, and the published script with its defects
NOT_ADVISED = ("published", "single_order_floor", "oracle_accuracy_prefix")


def summarise(
    matrices: Sequence[StudiedMatrix], design: StudyDesign, rows: pd.DataFrame
) -> dict[str, Any]:
    """Returns the summary of a study.

    Args:
      matrices: what was studied.
      design: the settings.
      rows: the results, by `method_study.COLUMNS`.
    """
    parts = [
        _summarise_matrix(matrix, design, rows[rows["matrix"] == matrix.name])
        for matrix in matrices
    ]
    return {
        "schema": SCHEMA,
        "known": design.known,
        "model_split": str(design.model_split),
        "split": design.model_split.describe(design.known),
        "hide": design.hide,
        "pairs": {name: _name_pair(name) for name in dict.fromkeys(rows["method"])},
        "matrices": parts,
        "advice": advise(parts),
    }


def write(folder: Path, summary: dict[str, Any]) -> None:
    """Writes a summary into the folder of its study."""
    text = json.dumps(summary, indent=1, sort_keys=True)
    write_file(folder / FILE, text.encode())


def _name_pair(name: str) -> list[str]:
    """Returns the names of a method's policy and predictor."""
    policy, predictor = (methods.PAIRS[name][0] if name in methods.PAIRS else name).split("+")
    return [policy, predictor]


def _summarise_matrix(
    matrix: StudiedMatrix, design: StudyDesign, rows: pd.DataFrame
) -> dict[str, Any]:
    known, new = design.model_split.divide(matrix.models, design.known, 0)
    is_drawn = design.model_split.is_drawn
    new_models = min(len(new), design.new or len(new))
    sizes = count_evaluated(matrix, design)
    evaluated, samples = zip(*sizes, strict=True)
    return {
        "name": matrix.name,
        "models": len(matrix.values),
        "samples": matrix.values.shape[1],
        "scores": matrix.values.dtype != np.uint8,
        "holes": int((~is_observed(matrix.values)).sum()),
        "known_models": len(known),
        "new_models": new_models,
        # fewest and most over the splits: without holes, all new models and all samples
        "measured_models": [min(evaluated), max(evaluated)],
        "measured_samples": [min(samples), max(samples)],
        "splits": int(rows["seed"].nunique()),
        "draws": is_drawn,
        "cells": _summarise_cells(rows, new_models / max(len(known), 1), is_drawn),
    }


def _summarise_cells(rows: pd.DataFrame, ratio: float, is_drawn: bool) -> list[dict[str, Any]]:
    """Returns a row for each method and budget: means over splits, the standard error of the mean
    absolute error, and whether the method cannot be distinguished from the best one.

    If the known models are not drawn, there is one split: no standard error, and nothing that
    distinguishes methods. `ratio` is that of `is_worse`.
    """
    cells = []
    for budget, of_budget in rows.groupby("budget"):
        errors = of_budget.pivot_table(index="seed", columns="method", values="accuracy_error")
        complete = errors.dropna()
        means = complete.mean() if len(complete) else errors.mean()
        usable = means.drop([name for name in NOT_ADVISED if name in means])
        best = (usable if len(usable) else means).idxmin()
        for method, of_method in of_budget.groupby("method", sort=False):
            numbers = of_method[["accuracy_error", "mae", "coverage95", "flops", "seconds"]].mean()
            paired = errors[[method, best]].dropna() if method != best else None
            cells.append(
                {
                    "method": method,
                    "budget": int(budget),
                    "splits": len(of_method),
                    "error": float(numbers["accuracy_error"]),
                    "error_sem": _drop_nan(of_method["accuracy_error"].sem()) if is_drawn else None,
                    "error_std": _drop_nan(of_method["accuracy_error"].std()),
                    "mae": float(numbers["mae"]),
                    "coverage": _drop_nan(numbers["coverage95"]),
                    "flops": _drop_nan(numbers["flops"]),
                    "seconds": float(numbers["seconds"]),
                    "among_best": paired is None
                    or not is_drawn
                    or not is_worse((paired[method] - paired[best]).to_numpy(), ratio),
                }
            )
    return cells


def is_worse(differences: np.ndarray, ratio: float) -> bool:
    """Returns whether a method is worse than the best one: the 95% interval of the mean difference
    of their errors is above 0. Splits share models, so the variance is that of the corrected
    resampled t-test.

    Args:
      differences: float[splits], of the errors; positive where the method is worse.
      ratio: number of new models divided by that of known ones.

    Source: Nadeau & Bengio 2003, Inference for the generalization error, section 5.
    """
    count = len(differences)
    if count < 2:
        return False
    variance = (1 / count + ratio) * differences.var(ddof=1)
    return bool(differences.mean() > stdtrit(count - 1, 0.975) * np.sqrt(variance))


def advise(matrices: Sequence[dict[str, Any]]) -> str:
    """Returns one sentence: which of the methods to use, and why.

    It is the one with the lowest geometric mean, over matrices and budgets, of the error divided by
    the lowest error there. A cheaper one is named if nothing distinguishes it from the best.

    Args:
      matrices: the parts of a summary, with their cells.
    """
    cells = pd.DataFrame(
        [{"matrix": matrix["name"], **cell} for matrix in matrices for cell in matrix["cells"]]
    )
    usable = cells[~cells["method"].isin(NOT_ADVISED)]
    if usable.empty:
        return "Only bounds were studied: none of them is a method to use."
    errors = usable.pivot_table(index=["matrix", "budget"], columns="method", values="error")
    complete = errors.dropna(axis=1)
    logs = np.log(np.maximum(complete if complete.size else errors, 1e-6))
    relative = np.exp(logs.sub(logs.min(axis=1), axis=0).mean())
    best = relative.idxmin()
    where = f"{len(matrices)} matrices" if len(matrices) > 1 else matrices[0]["name"]
    budgets = sorted(int(budget) for budget in usable["budget"].unique())
    span = f"budgets {budgets[0]} to {budgets[-1]}" if len(budgets) > 1 else f"budget {budgets[0]}"
    sentence = f"Use {best}: on {where}, at {span}, it has the lowest error of the mean"
    others = relative.drop(best)
    if not len(others):
        return f"{sentence}, as the only method that was studied."
    below = 100 * (1 - relative[best] / others.min())
    apart = f"{below:.0f}% below" if below >= 0.5 else "less than 1% below"
    sentence += f" on geometric average, {apart} that of {others.idxmin()}"
    if not all(matrix["draws"] for matrix in matrices):
        return f"{sentence}. There is one split of the models, so differences cannot be tested."
    by_method = usable.groupby("method")
    equal = by_method["among_best"].all()
    equal = [name for name in others.index if equal[name]]
    if not equal:
        return f"{sentence}, and every other method is distinguishably worse somewhere."
    if len(equal) == len(others):
        sentence += "; no other method is distinguishably worse"
    else:
        verb = "is" if len(equal) == 1 else "are"
        sentence += (
            f"; {len(equal)} of the other {plural(len(others), 'method')} {verb} nowhere"
            " distinguishably worse"
        )
    flops = by_method["flops"].mean()
    cheapest = flops[equal].idxmin()
    if flops[cheapest] < 0.5 * flops[best]:
        sentence += (
            f", and {cheapest} is the cheapest of these: {format_engineering(flops[cheapest])}"
            f" FLOPs instead of {format_engineering(flops[best])}"
        )
    return f"{sentence}."


def _drop_nan(value: float) -> float | None:
    """Returns None for NaN, which JSON does not have."""
    return None if pd.isna(value) else float(value)
