"""Dynamic evaluation: the caches of models × samples, what methods achieve on them, and what
additions were worth.
"""

from types import SimpleNamespace

import pandas as pd
from markupsafe import Markup

from nevis_stream.report import svg
from nevis_stream.report.across import Across
from nevis_stream.report.cache_summaries import Evaluation
from nevis_stream.report.evaluation_additions import judged_models, overview, truth_plot
from nevis_stream.report.evaluation_plots import (
    budget_plot,
    decomposition_plot,
    fit_text,
    outcomes_plot,
    styles_of,
)
from nevis_stream.report.templates import render
from nevis_stream.terminal import as_text

TITLE = "Dynamic evaluation: estimates from few samples"
MEASURES = ("mae", "accuracy_error", "spearman", "kendall", "coverage95")


def html(across: Across) -> Markup | None:
    """Returns each cache's picture, additions and curves; None where no cache was given."""
    if not across.evaluations:
        return None
    views = [
        _view(number, evaluation) for number, evaluation in enumerate(across.evaluations, start=1)
    ]
    first = render("parts/dynamic_evaluation_overview.html", rows=overview(across.evaluations))
    return first + Markup("").join(
        render("parts/dynamic_evaluation.html", it=view) for view in views
    )


def tables(across: Across) -> dict[str, pd.DataFrame]:
    """Returns `evaluation_methods` (a row for each cache, method, budget), `evaluation_additions`
    and their `evaluation_overview`, and the means by group of samples, `evaluation_sample_groups`.
    """
    frames = {
        name: [
            {"cache": as_text(str(e.path)), **row} for e in across.evaluations for row in rows(e)
        ]
        for name, rows in (
            ("methods", _rows),
            ("additions", lambda e: e.summary["additions"]),
            ("sample_groups", lambda e: e.summary.get("sample_groups", [])),
        )
    }
    frames["overview"] = overview(across.evaluations)
    return {f"evaluation_{name}": pd.DataFrame(rows) for name, rows in frames.items()}


def figures(across: Across) -> dict[str, svg.Drawing]:
    """Returns `evaluation_budget_1`, `_parts_1`, `_outcomes_1`, … for each cache, `_truth_1` where
    a truth is known.
    """
    return {
        f"evaluation_{name}_{number}": drawing
        for number, evaluation in enumerate(across.evaluations, start=1)
        for name, drawing in _drawings(evaluation).items()
    }


def _drawings(evaluation: Evaluation) -> dict[str, svg.Drawing]:
    """The figures of one cache."""
    summary, name = evaluation.summary, evaluation.name
    drawings = {
        "budget": svg.Drawing(
            f"Error of predicted outcomes against budget on {name}, n = {summary['seeds']} random"
            " splits",
            lambda: budget_plot(summary, styles_of(summary["methods"])),
            "Line: mean over n random splits of the models. Bands: ± one standard deviation over"
            " splits.",
        ),
        "outcomes": svg.Drawing(
            f"All values on {name}",
            lambda: outcomes_plot(evaluation.picture, summary),
            "Pixel: one outcome (n = 1), or the mean of several; no bands.",
        ),
    }
    if _has_parts(summary):
        drawings["parts"] = svg.Drawing(
            f"Aleatoric and epistemic error against budget on {name}",
            lambda: decomposition_plot(summary),
            "Line: mean over new models and n random splits; no bands.",
        )
    if judged := judged_models(summary):
        drawings["truth"] = svg.Drawing(
            f"Estimated accuracies of new models against the true ones on {name}",
            lambda: truth_plot(judged),
            "Dot: a new model. Bars: 95% intervals. Dashed line: the estimate equals the truth.",
        )
    return drawings


def _has_parts(summary: dict) -> bool:
    """Whether it has the parts of the error as they are defined: an earlier version wrote those of
    a prediction with the observed outcomes put back, and no decay beside them."""
    return "decay" in (summary["decomposition"] or {})


def _rows(evaluation: Evaluation) -> list[dict]:
    """A row for each method and budget, with the means over random splits."""
    return [
        {"method": method, "budget": budget} | {measure: curve[measure][i] for measure in MEASURES}
        for method, curve in evaluation.summary["methods"].items()
        for i, budget in enumerate(curve["budgets"])
    ]


def _dataset_errors(summary: dict) -> dict[str, dict[str, float]]:
    """The error of each data set's mean, by data set and method, at the largest budget of each."""
    errors = {
        method: curve["dataset_errors"][-1]
        for method, curve in summary["methods"].items()
        if curve.get("dataset_errors")
    }
    names = [each["dataset"] for each in summary.get("sample_groups", []) if not each["group"]]
    return {
        name: {method: of_sets[name] for method, of_sets in errors.items() if name in of_sets}
        for name in names
        if any(name in of_sets for of_sets in errors.values())
    }


def _view(number: int, evaluation: Evaluation) -> SimpleNamespace:
    """What the template shows of one cache."""
    summary = evaluation.summary
    styles = styles_of(summary["methods"])
    kind = summary.get("group_kind", "runs")  # summaries of earlier versions do not have it
    by = f"{kind} (with all of their models)" if summary.get("by_run") else "models"
    split = (
        f"{summary['known']:.0%} of the {by} are known, the rest are new; n = {summary['seeds']}"
        f" random split{'s'[: summary['seeds'] != 1]}."
    )
    drawings = {
        f"evaluation_{name}_{number}": drawing
        for name, drawing in _drawings(evaluation).items()
        if name != "outcomes"  # the page has its pixels
    }
    pictures = svg.pictures(drawings)
    return SimpleNamespace(
        number=number,
        name=evaluation.name,
        path=evaluation.path,
        summary=summary,
        picture=evaluation.picture,
        additions=[_account(row) for row in summary["additions"]],
        legend=[(styles[name], name) for name in summary["methods"]],
        rows=_rows(evaluation),
        sample_groups=summary.get("sample_groups", []),
        dataset_errors=_dataset_errors(summary),
        mean="mean score" if summary.get("scores") else "mean accuracy",
        split_text=split,
        fit=fit_text(summary),
        budget_figure=pictures[f"evaluation_budget_{number}"],
        old_parts=bool(summary["decomposition"]) and not _has_parts(summary),
        parts_figure=pictures.get(f"evaluation_parts_{number}"),
        truth_figure=pictures.get(f"evaluation_truth_{number}"),
    )


def _account(row: dict) -> dict:
    """An addition with the number of its cells, and its means in the range of the scores."""
    low, high = row.get("range") or (0, 1)  # summaries of earlier versions do not have it
    means = {
        name: low + row[name] * (high - low)
        for name in ("accuracy", "low", "high", "truth")
        if row.get(name) is not None
    }
    each = 1 if row["kind"] == "model" else int(row["name"].split()[0])
    return (
        {"label": "", "truth": None}
        | row
        | means
        | {"cells": each * (row["samples"] if row["kind"] == "model" else row["models"])}
    )
