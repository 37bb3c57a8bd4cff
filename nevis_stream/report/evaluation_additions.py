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
_NUMBERS = pd.Index(["mae", "accuracy_error", "truth", "low", "high", "flops_spent", "flops_saved"])


def overview(evaluations: Sequence[Evaluation]) -> list[dict[str, Any]]:
    """Returns a row for each cache, method and number of asked samples, over the new models that
    this method added with this number.

    MAE, the error of the mean and the share of intervals that contain the truth are means over the
    models whose other values were observed later, `judged` of `new`; FLOPs are sums. NaN where
    unknown.
    """
    rows = []
    for evaluation in evaluations:
        additions = pd.DataFrame(added_models(evaluation.summary))
        if additions.empty:
            continue
        additions = additions.reindex(columns=[*additions, *_NUMBERS.difference(additions.columns)])
        additions[[*_NUMBERS]] = additions[[*_NUMBERS]].apply(pd.to_numeric)
        for keys, group in additions.groupby(_BY, sort=False):
            head = {"cache": evaluation.name, **dict(zip(_BY, keys, strict=True))}
            rows.append(head | _worth(group))
    return rows


def added_models(summary: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the accounts of added models, the latest of each model, data set and method."""
    models = [row for row in summary["additions"] if row["kind"] == "model"]
    return list({(row["name"], row.get("dataset"), row["method"]): row for row in models}.values())


def judged_models(summary: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the accounts of added models whose true accuracy is known."""
    known = (row for row in added_models(summary) if row.get("truth") is not None)
    return [row for row in known if row["accuracy"] is not None]


def _worth(additions: pd.DataFrame) -> dict[str, Any]:
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


def truth_plot(judged: Sequence[dict[str, Any]]) -> Figure:
    """Draws each added model's estimated accuracy, with its 95% interval, against the truth.

    Args:
      judged: one or more accounts, as `judged_models` returns them.
    """
    figure = svg.new_figure(8.4, 3.8)
    axes = figure.subplots()
    svg.style_axes(axes)
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
