"""Dynamic evaluation: the caches of models × samples, what methods achieve on them, and what
additions were worth.
"""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure

from nevis_stream.experiments.evaluation_studies.plots import (
    describe_fit,
    plot_budgets,
    plot_decomposition,
    plot_outcomes,
)
from nevis_stream.report import palette, svg
from nevis_stream.report.section import PageContents
from nevis_stream.report.styles import MARKERS, assign_styles
from nevis_stream.report.summaries import Evaluation
from nevis_stream.report.templates import render
from nevis_stream.terminal import as_text

TITLE = "Dynamic evaluation: estimates from few samples"
_GROUP_COLUMNS = ["method", "asked", "models", "samples"]
_NUMBER_COLUMNS = pd.Index(
    ["mae", "accuracy_error", "truth", "low", "high", "flops_spent", "flops_saved"]
)
MEASURES = ("mae", "accuracy_error", "spearman", "kendall", "coverage95")


def html(contents: PageContents) -> Markup | None:
    """Returns each cache's picture, additions and curves; None where no cache was given."""
    if not contents.evaluations:
        return None
    views = [
        _make_view(number, evaluation)
        for number, evaluation in enumerate(contents.evaluations, start=1)
    ]
    first = render(
        f"{__package__}:report_of_caches_overview.html",
        rows=summarise_additions(contents.evaluations),
    )
    return first + Markup("").join(
        render(f"{__package__}:report_of_caches.html", it=view) for view in views
    )


def tables(contents: PageContents) -> dict[str, pd.DataFrame]:
    """Returns `evaluation_methods` (a row for each cache, method, budget), `evaluation_additions`
    and their `evaluation_overview`, and the means by group of samples, `evaluation_sample_groups`.
    """
    frames = {
        name: [
            {"cache": as_text(str(e.path)), **row} for e in contents.evaluations for row in rows(e)
        ]
        for name, rows in (
            ("methods", _list_rows),
            ("additions", lambda e: e.summary["additions"]),
            ("sample_groups", lambda e: e.summary.get("sample_groups", [])),
        )
    }
    frames["overview"] = summarise_additions(contents.evaluations)
    return {f"evaluation_{name}": pd.DataFrame(rows) for name, rows in frames.items()}


def figures(contents: PageContents) -> dict[str, svg.Drawing]:
    """Returns `evaluation_budget_1`, `_parts_1`, `_outcomes_1`, … for each cache, `_truth_1` where
    a truth is known.
    """
    return {
        f"evaluation_{name}_{number}": drawing
        for number, evaluation in enumerate(contents.evaluations, start=1)
        for name, drawing in _make_drawings(evaluation).items()
    }


def _make_drawings(evaluation: Evaluation) -> dict[str, svg.Drawing]:
    """Returns the figures of one cache."""
    summary, name = evaluation.summary, evaluation.name
    drawings = {
        "budget": svg.Drawing(
            f"Error of predicted outcomes against budget on {name}, n = {summary['seeds']} random"
            " splits",
            lambda: plot_budgets(summary, assign_styles(summary["methods"])),
            "Line: mean over n random splits of the models. Bands: ± one standard deviation over"
            " splits.",
        ),
        "outcomes": svg.Drawing(
            f"All values on {name}",
            lambda: plot_outcomes(evaluation.picture, summary),
            "Pixel: one outcome (n = 1), or the mean of several; no bands.",
        ),
    }
    if _has_parts(summary):
        drawings["parts"] = svg.Drawing(
            f"Aleatoric and epistemic error against budget on {name}",
            lambda: plot_decomposition(summary),
            "Line: mean over new models and n random splits; no bands.",
        )
    if judged := list_judged_models(summary):
        drawings["truth"] = svg.Drawing(
            f"Estimated accuracies of new models against the true ones on {name}",
            lambda: plot_truth(judged),
            "Dot: a new model. Bars: 95% intervals. Dashed line: the estimate equals the truth.",
        )
    return drawings


def _has_parts(summary: dict) -> bool:
    """Returns whether a summary has the parts of the error as they are defined. An earlier version
    wrote those of a prediction with the observed outcomes put back, and no `decay` beside them.
    """
    return "decay" in (summary["decomposition"] or {})


def _list_rows(evaluation: Evaluation) -> list[dict]:
    """Returns a row for each method and budget, with the means over random splits."""
    return [
        {"method": method, "budget": budget} | {measure: curve[measure][i] for measure in MEASURES}
        for method, curve in evaluation.summary["methods"].items()
        for i, budget in enumerate(curve["budgets"])
    ]


def _list_dataset_errors(summary: dict) -> dict[str, dict[str, float]]:
    """Returns the error of each data set's mean, by data set and method, at the method's largest
    budget.
    """
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


def _make_view(number: int, evaluation: Evaluation) -> SimpleNamespace:
    """Returns what the template shows of one cache."""
    summary = evaluation.summary
    styles = assign_styles(summary["methods"])
    kind = summary.get("group_kind", "runs")  # summaries of earlier versions do not have it
    by = f"{kind} (with all of their models)" if summary.get("by_run") else "models"
    split = (
        f"{summary['known']:.0%} of the {by} are known, the rest are new; n = {summary['seeds']}"
        f" random split{'s'[: summary['seeds'] != 1]}."
    )
    drawings = {
        f"evaluation_{name}_{number}": drawing
        for name, drawing in _make_drawings(evaluation).items()
        if name != "outcomes"  # the page has its pixels
    }
    pictures = svg.render_pictures(drawings)
    return SimpleNamespace(
        number=number,
        name=evaluation.name,
        path=evaluation.path,
        summary=summary,
        picture=evaluation.picture,
        additions=[_describe_addition(row) for row in summary["additions"]],
        legend=[(styles[name], name) for name in summary["methods"]],
        rows=_list_rows(evaluation),
        sample_groups=summary.get("sample_groups", []),
        dataset_errors=_list_dataset_errors(summary),
        mean="mean score" if summary.get("scores") else "mean accuracy",
        split_text=split,
        fit=describe_fit(summary),
        budget_figure=pictures[f"evaluation_budget_{number}"],
        old_parts=bool(summary["decomposition"]) and not _has_parts(summary),
        parts_figure=pictures.get(f"evaluation_parts_{number}"),
        truth_figure=pictures.get(f"evaluation_truth_{number}"),
    )


def _describe_addition(row: dict) -> dict:
    """Returns an addition with the number of its cells, and its means in the scores' range."""
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


def summarise_additions(evaluations: Sequence[Evaluation]) -> list[dict[str, Any]]:
    """Returns a row for each cache, method and number of asked samples, over the new models that
    this method added with this number.

    MAE, the error of the mean and the share of intervals that contain the truth are means over the
    models whose other values were observed later, `judged` of `new`; FLOPs are sums. NaN where
    unknown.
    """
    rows = []
    for evaluation in evaluations:
        additions = pd.DataFrame(list_added_models(evaluation.summary))
        if additions.empty:
            continue
        additions = additions.reindex(
            columns=[*additions, *_NUMBER_COLUMNS.difference(additions.columns)]
        )
        additions[[*_NUMBER_COLUMNS]] = additions[[*_NUMBER_COLUMNS]].apply(pd.to_numeric)
        for keys, group in additions.groupby(_GROUP_COLUMNS, sort=False):
            head = {"cache": evaluation.name, **dict(zip(_GROUP_COLUMNS, keys, strict=True))}
            rows.append(head | _summarise(group))
    return rows


def list_added_models(summary: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the records of added models, the latest of each model, data set and method."""
    models = [row for row in summary["additions"] if row["kind"] == "model"]
    return list({(row["name"], row.get("dataset"), row["method"]): row for row in models}.values())


def list_judged_models(summary: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the records of added models whose true accuracy is known."""
    known = (row for row in list_added_models(summary) if row.get("truth") is not None)
    return [row for row in known if row["accuracy"] is not None]


def _summarise(additions: pd.DataFrame) -> dict[str, Any]:
    judged = additions[additions["truth"].notna()]
    bounded = judged[judged["low"].notna() & judged["high"].notna()]
    inside = bounded["truth"].between(bounded["low"], bounded["high"]).sum()
    spent, saved = (additions[name].sum(skipna=False) for name in ("flops_spent", "flops_saved"))
    return {
        "new": len(additions),
        "judged": len(judged),
        "mae": judged["mae"].mean(),
        "accuracy_error": judged["accuracy_error"].mean(),
        "inside": int(inside) if len(bounded) else float("nan"),
        "intervals": len(bounded),
        "flops_spent": spent,
        "flops_saved": saved,
        "share_saved": saved / (spent + saved) if spent + saved else float("nan"),
    }


def plot_truth(judged: Sequence[dict[str, Any]]) -> Figure:
    """Draws each added model's estimated accuracy, with its 95% interval, against the truth.

    Args:
      judged: one or more records, as `list_judged_models` returns them.
    """
    figure, axes = svg.make_plot(8.4, 3.8)
    start = judged[0]["truth"]
    look = {"color": palette.ink(), "linewidth": 1, "linestyle": (0, (4, 3))}
    axes.axline((start, start), slope=1, **look)
    methods = list(dict.fromkeys(row["method"] for row in judged))
    for number, method in enumerate(methods):
        colour = palette.series(number % palette.SERIES + 1)
        marker = MARKERS[number % len(MARKERS)]
        rows = [row for row in judged if row["method"] == method]
        truths = [row["truth"] for row in rows]
        bounds = [
            (row["truth"], row["low"], row["high"])
            for row in rows
            if row["low"] is not None and row["high"] is not None
        ]
        if bounds:
            axes.vlines(*zip(*bounds, strict=True), color=colour, linewidth=2, alpha=0.45)
        look = {"color": colour, "marker": marker, "markersize": 6, "linestyle": "none"}
        axes.plot(truths, [row["accuracy"] for row in rows], label=method, **look)
    axes.margins(x=0.06)
    axes.set_xlabel("accuracy over all samples, observed later")
    axes.set_ylabel("estimate, and its 95% interval")
    if len(methods) > 1:
        axes.legend(frameon=False, fontsize=8, labelcolor=palette.ink())
    return figure
