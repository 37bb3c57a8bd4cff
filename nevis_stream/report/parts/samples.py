"""Sample images of every task."""

import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure

from nevis_stream.report.run_files import thumbnail
from nevis_stream.report.section import Section
from nevis_stream.report.templates import render

TITLE = "Sample images"


def html(section: Section) -> Markup:
    """Returns one row of training images a task."""
    thumbnails = [(row, thumbnail(row.task_id, section.runs)) for row in section.tasks]
    return render("parts/samples.html", thumbnails=thumbnails)


def tables(section: Section) -> dict[str, pd.DataFrame]:
    """Returns none."""
    return {}


def figures(section: Section) -> dict[str, Figure]:
    """Returns none: images are in the run directories."""
    return {}
