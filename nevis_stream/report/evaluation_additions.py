"""What additions to evaluation caches were worth: a row for each cache and method, and estimates
against the truth.
"""

from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from nevis_stream.report import palette, svg
from nevis_stream.report.cache_summaries import Evaluation
from nevis_stream.report.styles import MARKERS

_BY = ["method", "asked", "models", "samples"]


def overview(evaluations: Sequence[Evaluation]) -> list[dict[str, Any]]:
    """Returns a row for each cache, method and number of asked samples, over the new models that
    were added so.

    MAE, the error of the mean and the share of intervals that contain the truth are means over the
    models whose other values were observed later, `judged` of `new`; FLOPs are sums. NaN where
    unknown.
    """
    rows = []
    for evaluation in evaluations:
        added = pd.DataFrame(of_models(evaluation.summary))
        if added.empty:
            continue
        for column in (
            "mae",
            "accuracy_error",
            "truth",
            "low",
            "high",
            "flops_spent",
            "flops_saved",
        ):
            added[column] = pd.to_numeric(added[column]) if column in added else float("nan")
        for by, of in added.groupby(_BY, sort=False):
            rows.append({"cache": evaluation.name, **dict(zip(_BY, by, strict=True)), **_worth(of)})
    return rows


def of_models(summary: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the accounts of added models, the latest of each model and method."""
    return list(
        {
            (row["name"], row["method"]): row
            for row in summary["additions"]
            if row["kind"] == "model"
        }.values()
    )


def _worth(of: pd.DataFrame) -> dict[str, Any]:
    judged = of[of["truth"].notna()]
    bounded = judged[judged["low"].notna() & judged["high"].notna()]
    inside = ((bounded["low"] <= bounded["truth"]) & (bounded["truth"] <= bounded["high"])).sum()
    spent, saved = (of[name].sum(skipna=False) for name in ("flops_spent", "flops_saved"))
    return {
        "new": len(of),
        "judged": len(judged),
        "mae": judged["mae"].mean(),
        "accuracy_error": judged["accuracy_error"].mean(),
        "inside": int(inside) if len(bounded) else float("nan"),
        "intervals": len(bounded),
        "flops_spent": spent,
        "flops_saved": saved,
        "share_saved": saved / (spent + saved) if spent + saved else float("nan"),
    }


def truth_plot(summary: dict[str, Any], wide: bool) -> Figure | None:
    """Draws each added model's estimated accuracy, with its 95% interval, against the truth; None
    where no truth is known.

    Args:
      summary: of a cache, as `evaluation.json` has it.
      wide: proportions for a screen, else for a phone.
    """
    judged = [
        row
        for row in of_models(summary)
        if row.get("truth") is not None and row["accuracy"] is not None
    ]
    if not judged:
        return None
    figure = svg.new_figure(8.4, 3.8) if wide else svg.new_figure(4.2, 3.8)
    axes = figure.subplots()
    svg.style_axes(axes)
    truths = [row["truth"] for row in judged]
    axes.axline(
        (truths[0], truths[0]), slope=1, color=palette.ink(), linewidth=1, linestyle=(0, (4, 3))
    )
    for number, method in enumerate(dict.fromkeys(row["method"] for row in judged)):
        colour = palette.series(number % palette.SERIES + 1)
        of = [row for row in judged if row["method"] == method]
        for row in of:
            if row["low"] is not None and row["high"] is not None:
                axes.plot(
                    [row["truth"]] * 2,
                    [row["low"], row["high"]],
                    color=colour,
                    linewidth=2,
                    alpha=0.45,
                )
        places = [row["truth"] for row in of], [row["accuracy"] for row in of]
        axes.plot(
            *places,
            color=colour,
            marker=MARKERS[number % len(MARKERS)],
            markersize=6,
            linestyle="none",
            label=method,
        )
    axes.margins(x=0.06)
    axes.set_xlabel("accuracy over all samples, observed later")
    axes.set_ylabel("estimate, and its 95% interval")
    if len({row["method"] for row in judged}) > 1:
        axes.legend(frameon=False, fontsize=8, labelcolor=palette.ink())
    return figure
