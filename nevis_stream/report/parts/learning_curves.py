"""Learning curves: dev error of the chosen trial against training steps, one small figure
per task.
"""

import pandas as pd
from markupsafe import Markup

from nevis_stream.analysis.tables import curves
from nevis_stream.report.learning_curve_data import curve_data, embedded
from nevis_stream.report.learning_curve_grid import curve_grid
from nevis_stream.report.section import Section
from nevis_stream.report.svg import Drawing
from nevis_stream.report.templates import render

TITLE = "Learning curves: dev error against steps"


def html(section: Section) -> Markup:
    """Returns a frame for each task and the data, which the page's script draws there."""
    data = section.once(_data)
    return render(
        "parts/learning_curves.html",
        data=data,
        embedded=embedded(data),
        legend=_legend(section),
        number=section.number,
    )


def tables(section: Section) -> dict[str, pd.DataFrame]:
    """Returns `curves`: every point of every curve."""
    return {"curves": curves(section.runs)}


def figures(section: Section) -> dict[str, Drawing]:
    """Returns `curves`: all tasks in one grid; nothing if no run has a curve."""
    data = section.once(_data)
    drawn = {"tasks": [task for task in data["tasks"] if task["lines"]]}
    drawing = Drawing(TITLE, lambda: curve_grid(data | drawn, _legend(section)), "")
    return {"curves": drawing} if drawn["tasks"] else {}


def _data(section: Section) -> dict:
    return curve_data([row.task_id for row in section.tasks], section.groups, section.styles)


def _legend(section: Section) -> list[tuple]:
    return [
        (section.styles[group.label], f"{group.label} (n = {len(group.runs)})")
        for group in section.groups
    ]
