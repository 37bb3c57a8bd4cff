"""Every task's error by method."""

import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure

from nevis_stream.analysis import tables as analysis_tables
from nevis_stream.report.section import Section
from nevis_stream.report.templates import render

TITLE = "Error by task"


def html(section: Section) -> Markup:
    """Returns the table of errors and what is missing from it."""
    cells = [(row.task_id, cell) for row in section.tasks for cell in row.cells]
    gaps = [f"{task}: {cell.reason}" for task, cell in cells if cell.gap not in ("", "partial")]
    return render("parts/per_task.html", section=section, gaps=gaps)


def tables(section: Section) -> dict[str, pd.DataFrame]:
    """Returns `per_task`: one row for every run, task and predicted split."""
    return {"per_task": analysis_tables.per_task(section.runs)}


def figures(section: Section) -> dict[str, Figure]:
    """Returns none."""
    return {}
