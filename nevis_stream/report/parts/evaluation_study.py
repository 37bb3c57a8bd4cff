"""Studies of evaluation methods: error against budget, policies crossed with predictors, cost, and
which method to use.
"""

from types import SimpleNamespace

import pandas as pd
from markupsafe import Markup

from nevis_stream.report import svg
from nevis_stream.report.across import Across
from nevis_stream.report.evaluation_plots import styles_of
from nevis_stream.report.study_plots import crossing, crossing_plot, drawn_methods, error_plot
from nevis_stream.report.study_summaries import Study
from nevis_stream.report.templates import render
from nevis_stream.terminal import as_text

TITLE = "Methods of evaluation: error against cost"
_FEWEST = 2  # policies and predictors of a crossing that is drawn


def html(across: Across) -> Markup | None:
    """Returns the curves, crossings and costs of each study; None where no study was given."""
    if not across.studies:
        return None
    views = [_view(number, study) for number, study in enumerate(across.studies, start=1)]
    return Markup("").join(render("parts/evaluation_study.html", it=view) for view in views)


def tables(across: Across) -> dict[str, pd.DataFrame]:
    """Returns `study_cells`: a row for each study, matrix, method and budget."""
    rows = [
        {"study": as_text(str(study.path)), "matrix": matrix["name"], **_named(study, cell)}
        for study in across.studies
        for matrix in study.summary["matrices"]
        for cell in matrix["cells"]
    ]
    return {"study_cells": pd.DataFrame(rows)}


def figures(across: Across) -> dict[str, svg.Drawing]:
    """Returns `study_error_1_1`, `study_crossing_1_1`, …, by study and matrix."""
    return {
        name: drawing
        for number, study in enumerate(across.studies, start=1)
        for place, matrix in enumerate(study.summary["matrices"], start=1)
        for name, drawing in _drawings(study, matrix, f"{number}_{place}").items()
    }


def _named(study: Study, cell: dict) -> dict:
    policy, predictor = study.summary["pairs"][cell["method"]]
    return {"method": cell["method"], "policy": policy, "predictor": predictor} | cell


def _crossed_budget(study: Study, matrix: dict) -> int | None:
    """The budget of the crossing that is drawn, the middle one; None where too few were crossed."""
    budgets = sorted({cell["budget"] for cell in matrix["cells"]})
    budget = budgets[len(budgets) // 2]
    cells = crossing(matrix, study.summary["pairs"], budget)
    sizes = [len({key[k] for key in cells}) for k in (0, 1)]
    return budget if min(sizes) >= _FEWEST else None


def _drawings(study: Study, matrix: dict, number: str) -> dict[str, svg.Drawing]:
    drawn = drawn_methods(matrix)
    drawings = {
        f"study_error_{number}": svg.Drawing(
            f"Error of the mean against budget on {matrix['name']}, n = {matrix['splits']} splits",
            lambda: error_plot(matrix, styles_of(drawn)),
            "Line: mean over n splits of the models, new models averaged. Bands: ± one standard"
            " error over splits.",
        )
    }
    if (budget := _crossed_budget(study, matrix)) is not None:
        drawings[f"study_crossing_{number}"] = svg.Drawing(
            f"Policies and predictors on {matrix['name']}, n = {matrix['splits']} splits",
            lambda: crossing_plot(matrix, study.summary["pairs"], budget),
            "Cell: mean absolute error of the mean over n splits; no bands.",
        )
    return drawings


def _view(number: int, study: Study) -> SimpleNamespace:
    """What the template shows of one study."""
    summary, matrices = study.summary, []
    for place, matrix in enumerate(summary["matrices"], start=1):
        ids = f"{number}_{place}"
        pictures = svg.pictures(_drawings(study, matrix, ids))
        drawn = drawn_methods(matrix)
        styles = styles_of(drawn)
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
