"""What is compared, and what is left out of the comparison."""

import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure

from nevis_stream.report.section import Section
from nevis_stream.report.templates import render

TITLE = "Summary"


def html(section: Section) -> Markup:
    """Returns the facts of the stream, and the statement about unfinished runs."""
    published = [run for run in section.runs if run.published]
    return render("parts/summary.html", section=section, published=published)


def tables(section: Section) -> dict[str, pd.DataFrame]:
    """Returns none: the points are the summary's numbers."""
    return {}


def figures(section: Section) -> dict[str, Figure]:
    """Returns none."""
    return {}
