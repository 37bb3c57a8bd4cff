"""The figures of dynamic evaluation: error against budget, and what that error is made of."""

import math
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from nevis_stream.report import palette, svg
from nevis_stream.report.names import add_legend
from nevis_stream.report.run_files import decode_picture
from nevis_stream.report.styles import Style


def plot_outcomes(picture: str, summary: Mapping[str, Any]) -> Figure:
    """Draws all values of a cache, models by samples, from its picture (a `data:` address)."""
    figure = svg.make_figure(8.4, 3.4)
    axes = figure.subplots()
    axes.imshow(decode_picture(picture), interpolation="nearest", aspect="auto")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_xlabel(
        f"{summary['samples']:,} samples, the easiest on the left", size=9, color=palette.ink()
    )
    axes.set_ylabel(f"{summary['models']} models, the best on top", size=9, color=palette.ink())
    meaning = "dark: high, light: low" if summary.get("scores") else "dark: right, light: wrong"
    if summary.get("lower"):
        meaning = "dark: low, which is better, light: high"
    elif summary.get("mean_accuracy", 0) is None:  # data sets differ in direction
        meaning = "dark: better, light: worse"
    axes.set_title(meaning, loc="left", size=9, color=palette.ink())
    return figure


def plot_budgets(summary: Mapping[str, Any], styles: Mapping[str, Style]) -> Figure:
    """Draws each method's error over all samples against its budget: mean, ± 1 standard deviation
    over random splits.

    Args:
      summary: of a cache, as `evaluation.json` has it.
      styles: by method.
    """
    figure, axes = svg.make_plot(8.4, 3.8)
    _mark_budgets(axes, summary)
    if summary.get("scores"):
        error = "MAE: mean absolute error of a cell"
    else:
        error = "MAE: share of samples predicted wrongly"
    axes.set_ylabel(error)
    shade = 0.15 if len(summary["methods"]) < 4 else 0.07  # many bands overlap
    for name, curve in summary["methods"].items():
        colour = palette.series(styles[name].colour)
        means = [math.nan if value is None else value for value in curve["mae"]]
        stds = [0.0 if value is None else value for value in curve["mae_std"]]
        axes.plot(
            curve["budgets"],
            means,
            color=colour,
            linewidth=1.6,
            marker=styles[name].marker,
            markersize=5,
            dashes=styles[name].dash or (None, None),
            label=name,
        )
        low, high = np.subtract(means, stds), np.add(means, stds)
        axes.fill_between(curve["budgets"], low, high, color=colour, alpha=shade, linewidth=0)
    return figure


def plot_decomposition(summary: Mapping[str, Any]) -> Figure:
    """Draws the error of Sort & Search's thresholded prediction against its budget, with its
    aleatoric and epistemic parts and its fitted decay."""
    figure, axes = svg.make_plot(8.4, 3.2)
    _mark_budgets(axes, summary)
    axes.set_ylabel("share of samples")
    parts = summary["decomposition"]
    for number, (name, dash) in enumerate(
        (("total", ()), ("aleatoric", (6, 2)), ("epistemic", (2, 2))), start=1
    ):
        colour = palette.series(number)
        look = {"linewidth": 1.6, "marker": "o", "markersize": 4, "dashes": dash or (None, None)}
        axes.plot(parts["budgets"], parts[name], color=colour, label=name, **look)
    if decay := parts["decay"]:
        budgets = np.geomspace(parts["budgets"][0], parts["budgets"][-1], 60)
        fit = decay["a"] * np.exp(-decay["rate"] * budgets) + decay["plateau"]
        axes.plot(budgets, fit, color=palette.ink(), linewidth=1)
    axes.set_ylim(0, 1.1 * max(parts["total"]))
    add_legend(figure)
    return figure


def describe_fit(summary: Mapping[str, Any]) -> str:
    """Returns the fitted decay of the error in words; "" where there is none."""
    decay = (summary["decomposition"] or {}).get("decay")
    if not decay:
        return ""
    half = "it does not fall"
    if decay["rate"] > 0:
        half = (
            f"half of the reducible error is gone after {math.log(2) / decay['rate']:.0f} samples"
        )
    return (
        f"Fit of the total: {decay['a']:.3f} exp(−{decay['rate']:.4f} b) + {decay['plateau']:.3f};"
        f" {half}. It is the thin line without marks."
    )


def mark_budgets(axes, budgets: Collection[int]) -> None:
    """Gives axes a logarithmic scale of budgets, whose ticks are the budgets."""
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(sorted(budgets)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticklabels([f"{budget:,}" for budget in sorted(budgets)])


def _mark_budgets(axes, summary: Mapping[str, Any]) -> None:
    mark_budgets(axes, {each for curve in summary["methods"].values() for each in curve["budgets"]})
    asked = f"samples asked of each new model, of {summary['samples']:,}"
    axes.set_xlabel(f"budget: {asked} (log scale)")
