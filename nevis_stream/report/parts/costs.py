"""The cost of every method by phase."""

import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure

from nevis_stream.analysis import tables as analysis_tables
from nevis_stream.report.phase_table import phase_columns, phase_rows
from nevis_stream.report.section import Section
from nevis_stream.report.templates import render

TITLE = "Cost by phase"


def html(section: Section) -> Markup:
    """Returns the table of phases."""
    columns = phase_columns(section.runs)
    rows = phase_rows(section.groups, columns)
    return render("parts/costs.html", section=section, columns=columns, rows=rows)


def tables(section: Section) -> dict[str, pd.DataFrame]:
    """Returns `phases`: every run's FLOPs by phase."""
    return {"phases": analysis_tables.phases(section.runs)}


def figures(section: Section) -> dict[str, Figure]:
    """Returns none."""
    return {}
