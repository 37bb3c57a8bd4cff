"""What was found, in plain words, and what is left out of it."""

import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure

from nevis_stream.report.section import Section
from nevis_stream.report.summary_words import sentences
from nevis_stream.report.templates import render

TITLE = "Summary"


def html(section: Section) -> Markup:
    """Returns the sentences, the statement about unfinished runs, and the facts of the stream."""
    told = sentences(section.methods, section.header["tasks"], section.judged)
    return render("parts/summary.html", section=section, sentences=told)


def tables(section: Section) -> dict[str, pd.DataFrame]:
    """Returns none: the points are the summary's numbers."""
    return {}


def figures(section: Section) -> dict[str, Figure]:
    """Returns none."""
    return {}
