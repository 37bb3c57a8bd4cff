"""Studies of evaluation methods: error against budget, policies crossed with predictors, cost, and
which method to use.
"""

import math
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from nevis_stream.experiments.evaluation_studies.plots import mark_budgets
from nevis_stream.report import palette, svg
from nevis_stream.report.section import PageContents
from nevis_stream.report.styles import Style, assign_styles
from nevis_stream.report.summaries import Study
from nevis_stream.report.templates import render
from nevis_stream.terminal import as_text

TITLE = "Methods of evaluation: error against cost"
MOST_LINES = 7
MARK = "•"  # of what cannot be distinguished from the best
_FEWEST = 2  # policies, and predictors, that a crossing must have to be drawn


def html(contents: PageContents) -> Markup | None:
    """Returns the curves, crossings and costs of each study; None where no study was given."""
    if not contents.studies:
        return None
    views = [_make_view(number, study) for number, study in enumerate(contents.studies, start=1)]
    return Markup("").join(
        render(f"{__package__}:report_of_studies.html", it=view) for view in views
    )


def tables(contents: PageContents) -> dict[str, pd.DataFrame]:
    """Returns `study_cells`: a row for each study, matrix, method and budget."""
    rows = [
        {"study": as_text(str(study.path)), "matrix": matrix["name"], **_add_names(study, cell)}
        for study in contents.studies
        for matrix in study.summary["matrices"]
        for cell in matrix["cells"]
    ]
    return {"study_cells": pd.DataFrame(rows)}


def figures(contents: PageContents) -> dict[str, svg.Drawing]:
    """Returns `study_error_1_1`, `study_crossing_1_1`, …, by study and matrix."""
    return {
        name: drawing
        for number, study in enumerate(contents.studies, start=1)
        for place, matrix in enumerate(study.summary["matrices"], start=1)
        for name, drawing in _make_drawings(study, matrix, f"{number}_{place}").items()
    }


def _add_names(study: Study, cell: dict) -> dict:
    policy, predictor = study.summary["pairs"][cell["method"]]
    return {"method": cell["method"], "policy": policy, "predictor": predictor} | cell


def _choose_crossed_budget(study: Study, matrix: dict) -> int | None:
    """Returns the budget of the crossing that is drawn, the middle one; None where too few policies
    or predictors were crossed.
    """
    budgets = sorted({cell["budget"] for cell in matrix["cells"]})
    budget = budgets[len(budgets) // 2]
    cells = cross_methods(matrix, study.summary["pairs"], budget)
    sizes = [len({key[k] for key in cells}) for k in (0, 1)]
    return budget if min(sizes) >= _FEWEST else None


def _make_drawings(study: Study, matrix: dict, number: str) -> dict[str, svg.Drawing]:
    drawn = choose_drawn_methods(matrix)
    drawings = {
        f"study_error_{number}": svg.Drawing(
            f"Error of the mean against budget on {matrix['name']}, n = {matrix['splits']} splits",
            lambda: plot_errors(matrix, assign_styles(drawn)),
            "Line: mean over n splits of the models, new models averaged. Bands: ± one standard"
            " error over splits.",
        )
    }
    if (budget := _choose_crossed_budget(study, matrix)) is not None:
        drawings[f"study_crossing_{number}"] = svg.Drawing(
            f"Policies and predictors on {matrix['name']}, n = {matrix['splits']} splits",
            lambda: plot_crossing(matrix, study.summary["pairs"], budget),
            "Cell: mean absolute error of the mean over n splits; no bands.",
        )
    return drawings


def _make_view(number: int, study: Study) -> SimpleNamespace:
    """Returns what the template shows of one study."""
    summary, matrices = study.summary, []
    for place, matrix in enumerate(summary["matrices"], start=1):
        ids = f"{number}_{place}"
        pictures = svg.render_pictures(_make_drawings(study, matrix, ids))
        drawn = choose_drawn_methods(matrix)
        styles = assign_styles(drawn)
        matrices.append(
            SimpleNamespace(
                matrix=matrix,
                legend=[(styles[name], name) for name in drawn],
                others=len({cell["method"] for cell in matrix["cells"]}) - len(drawn),
                error_figure=pictures[f"study_error_{ids}"],
                crossing_figure=pictures.get(f"study_crossing_{ids}"),
                rows=matrix["cells"],
            )
        )
    return SimpleNamespace(number=number, path=study.path, summary=summary, matrices=matrices)


def group_by_method(matrix: Mapping[str, Any]) -> dict[str, list[dict]]:
    """Returns the cells of one matrix of a summary by method, in order of their budgets."""
    cells: dict[str, list[dict]] = {}
    for cell in sorted(matrix["cells"], key=lambda cell: cell["budget"]):
        cells.setdefault(cell["method"], []).append(cell)
    return cells


def choose_drawn_methods(matrix: Mapping[str, Any]) -> list[str]:
    """Returns the methods whose curves are drawn: the best few by geometric mean error."""
    methods = group_by_method(matrix)
    complete = max(len(cells) for cells in methods.values())

    def make_sort_key(name: str) -> tuple[bool, float]:
        logs = [math.log(max(cell["error"], 1e-9)) for cell in methods[name]]
        return len(logs) < complete, sum(logs) / len(logs)

    return sorted(methods, key=make_sort_key)[:MOST_LINES]


def plot_errors(matrix: Mapping[str, Any], styles: Mapping[str, Style]) -> Figure:
    """Draws the error of the mean against the budget, for the methods that have a style: means over
    splits, and bands of ± 1 standard error.

    Args:
      matrix: of a summary.
      styles: by method.
    """
    figure, axes = svg.make_plot(8.4, 3.8)
    axes.set_yscale("log")
    mark_budgets(axes, {cell["budget"] for cell in matrix["cells"]})
    axes.set_xlabel(f"samples asked of each new model, of {matrix['samples']:,} (log scale)")
    axes.set_ylabel("absolute error of the mean (log scale)")
    methods = group_by_method(matrix)
    for name, style in styles.items():
        cells, colour = methods[name], palette.series(style.colour)
        x = [cell["budget"] for cell in cells]
        means = np.array([max(cell["error"], 1e-6) for cell in cells])
        errors = np.array([cell["error_sem"] or 0.0 for cell in cells])
        look = {"marker": style.marker, "markersize": 5, "dashes": style.dash or (None, None)}
        axes.plot(x, means, color=colour, linewidth=1.6, label=name, **look)
        low = np.maximum(means - errors, 0.3 * means)
        axes.fill_between(x, low, means + errors, color=colour, alpha=0.12, linewidth=0)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.tick_params(axis="y", which="both", labelsize=8)
    return figure


def cross_methods(
    matrix: Mapping[str, Any], pairs: Mapping[str, Sequence[str]], budget: int
) -> dict[tuple[str, str], dict]:
    """Returns the cells at one budget by (policy, predictor)."""
    cells = [cell for cell in matrix["cells"] if cell["budget"] == budget]
    return {(pairs[cell["method"]][0], pairs[cell["method"]][1]): cell for cell in cells}


def plot_crossing(
    matrix: Mapping[str, Any], pairs: Mapping[str, Sequence[str]], budget: int
) -> Figure:
    """Draws the error of the mean of each policy (row) with each predictor (column) at one budget.

    A dot marks those that cannot be distinguished from the best.

    Args:
      matrix: of a summary.
      pairs: policy and predictor of each method.
      budget: the budget.
    """
    cells = cross_methods(matrix, pairs, budget)
    policies, predictors = (list(dict.fromkeys(key[k] for key in cells)) for k in (0, 1))
    values = np.full((len(policies), len(predictors)), np.nan)
    for (policy, predictor), cell in cells.items():
        values[policies.index(policy), predictors.index(predictor)] = cell["error"]
    best, row = np.nanmin(values), 0.3
    figure, axes = svg.make_plot(8.4, 1.5 + row * len(policies))
    axes.grid(False)
    # relative to the best, up to three times its error
    shade = np.log(np.maximum(values / max(best, 1e-9), 1)) / math.log(3)
    axes.imshow(shade, cmap="Blues_r", vmin=-0.4, vmax=1.2, aspect="auto", interpolation="none")
    turned = {"rotation": 40, "ha": "right"} if len(predictors) > 5 else {}
    axes.set_xticks(range(len(predictors)), predictors, **turned)
    axes.set_yticks(range(len(policies)), policies)
    size = 8 if len(predictors) <= 9 else 6
    for (policy, predictor), cell in cells.items():
        i, k = policies.index(policy), predictors.index(predictor)
        text = f"{cell['error']:.4f}" + (f" {MARK}" if cell["among_best"] else "")
        colour = "#ffffff" if shade[i, k] < 0.4 else "#000000"
        axes.text(k, i, text, ha="center", va="center", size=size, color=colour)
    axes.set_xlabel("predictor")
    axes.set_ylabel("policy")
    title = f"K = {budget}; {MARK} not distinguishable from the best"
    axes.set_title(title, loc="left", size=9, color=palette.ink())
    return figure
