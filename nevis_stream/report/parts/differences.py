"""Differences between methods, with intervals over tasks and seeds."""

import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure

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
    found, reasons = section.once(_pairs)
    against = section.against_reference
    picture = None
    if against:
        title = "Difference in E to the reference, one row a method, with 95% intervals"
        name = f"differences-{section.number}"
        picture = svg.wide_and_narrow(
            name, title, lambda wide: forest(against, section.styles, wide)
        )
    said = dict.fromkeys(caution for pair in found for caution in cautions(pair))
    values = {"pairs": found, "against": against, "reasons": reasons, "cautions": said}
    return render(
        "parts/differences.html", number=section.number, picture=picture, **values, **_WORDS
    )


def tables(section: Section) -> dict[str, pd.DataFrame]:
    """Returns `pairs`: every pair of methods."""
    return {"pairs": pairs.table(section.once(_pairs)[0])}


def figures(section: Section) -> dict[str, Figure]:
    """Returns `differences`: every method against its reference."""
    against = section.against_reference
    return {"differences": forest(against, section.styles, wide=True)} if against else {}


def _pairs(section: Section) -> tuple[list[Comparison], list[str]]:
    return pairs.pairs(section.groups)
