"""Learning curves: dev error of the chosen trial against training steps, one small picture a task."""

import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure

from nevis_stream.analysis.curves import learning_curves
from nevis_stream.report.section import Section
from nevis_stream.report.small_multiples import small_multiple
from nevis_stream.report.templates import render

TITLE = "Learning curves"


def html(section: Section) -> Markup:
    """Returns one small picture a task."""
    told = [
        (section.styles[group.label], learning_curves(run.ledger)) for group in section.groups for run in group.runs
    ]
    pictures = []
    for row in section.tasks:
        curves = [(style, by_task[row.task_id]) for style, by_task in told if by_task.get(row.task_id)]
        title = f"Dev error against training steps on {row.task_id}"
        pictures.append((row.task_id, small_multiple(title, curves) if curves else None))
    legend = [
        (section.styles[group.label], f"{group.label} (n = {len(group.runs)})") for group in section.groups
    ]
    return render("parts/curves.html", pictures=pictures, legend=legend)


def tables(section: Section) -> dict[str, pd.DataFrame]:
    """Returns none."""
    return {}


def figures(section: Section) -> dict[str, Figure]:
    """Returns none."""
    return {}
