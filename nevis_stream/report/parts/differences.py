"""Differences between methods, with intervals over tasks and seeds."""

import pandas as pd
from markupsafe import Markup

from nevis_stream.analysis import pairs
from nevis_stream.analysis.differences import Comparison
from nevis_stream.analysis.verdict import cautions, mark, span
from nevis_stream.report import svg
from nevis_stream.report.forest import forest
from nevis_stream.report.section import Section
from nevis_stream.report.templates import render

TITLE = "Differences in error between methods"
_WORDS = {"span": span, "mark": mark}


def html(section: Section) -> Markup | None:
    """Returns the forest plot and the table of all pairs; None for a single method."""
    if len(section.groups) < 2:
        return None
    compared, reasons = section.once(_pairs)
    return render(
        "parts/differences.html",
        number=section.number,
        picture=svg.pictures(figures(section), section.number).get("differences"),
        pairs=compared,
        against=section.against_reference,
        reasons=reasons,
        cautions=dict.fromkeys(caution for pair in compared for caution in cautions(pair)),
        **_WORDS,
    )


def tables(section: Section) -> dict[str, pd.DataFrame]:
    """Returns `pairs`: every pair of methods."""
    return {"pairs": pairs.table(section.once(_pairs)[0])}


def figures(section: Section) -> dict[str, svg.Drawing]:
    """Returns `differences`: every method against its reference."""
    against = section.against_reference
    title = "Difference of the mean error to the reference, one row per method"
    caption = (
        "n: see pairs.csv. Line: 95% interval over tasks and seeds; pale bar: over seeds alone."
    )
    drawing = svg.Drawing(title, lambda: forest(against, section.styles), caption)
    return {"differences": drawing} if against else {}


def _pairs(section: Section) -> tuple[list[Comparison], list[str]]:
    return pairs.pairs(section.groups)
