"""Slices: where a method gains, by domain, number of training samples, resolution and year."""

import math
from collections.abc import Sequence

import pandas as pd
from markupsafe import Markup

from nevis_stream.analysis.slices import Slice, slices, table
from nevis_stream.report import svg
from nevis_stream.report.section import Section
from nevis_stream.report.slice_plot import slice_plot
from nevis_stream.report.templates import render
from nevis_stream.vocabulary import PROTOCOLS

TITLE = "Error by domain, size, resolution and year"
DRAWN = 6  # methods beyond these would hide each other


def html(section: Section) -> Markup | None:
    """Returns the figure and the table; None where no run is finished."""
    by_method = {label: each for label, each in section.once(_slices).items() if each}
    if not by_method:
        return None
    drawn = _draw(section)
    names = list(
        dict.fromkeys((cell.dimension, cell.name) for each in by_method.values() for cell in each)
    )
    by_name = {
        label: {(cell.dimension, cell.name): cell for cell in each}
        for label, each in by_method.items()
    }
    rows = [(*name, [by_name[label].get(name) for label in by_method]) for name in names]
    able = [label for label, each in by_method.items() if _has_difference(each)]
    remarks = [
        f"{label}: {each[0].reason}"
        for label, each in by_method.items()
        if label not in able and each[0].reason
    ]
    return render(
        "parts/slices.html",
        section=section,
        split=PROTOCOLS[section.header.protocol].split,
        picture=svg.pictures(figures(section), section.number).get("slices"),
        legend=[(section.styles[label], label) for label in drawn],
        undrawn=[label for label in able if label not in drawn],
        labels=list(by_method),
        rows=rows,
        remarks=remarks,
    )


def tables(section: Section) -> dict[str, pd.DataFrame]:
    """Returns `slices`: one row per method and slice."""
    return {"slices": table(section.once(_slices), section.groups)}


def figures(section: Section) -> dict[str, svg.Drawing]:
    """Returns `slices`; nothing where no method has a difference to indep."""
    drawn = _draw(section)
    title = "Difference of the error to indep's by slice, one mark per method"
    caption = (
        "n: tasks in a slice. Bars: 95% interval of the mean difference to indep (studentised"
        " bootstrap)."
    )
    drawing = svg.Drawing(title, lambda: slice_plot(drawn, section.styles), caption)
    return {"slices": drawing} if drawn else {}


def _slices(section: Section) -> dict[str, list[Slice]]:
    return {group.label: slices(group, section.runs) for group in section.groups}


def _has_difference(cells: Sequence[Slice]) -> bool:
    return any(not math.isnan(cell.difference) for cell in cells)


def _draw(section: Section) -> dict[str, Sequence[Slice]]:
    """The methods with the lowest mean errors that have a difference, in the page's order, without
    the slices by part of the stream.
    """
    by_method = section.once(_slices)
    able = [method for method in section.methods if _has_difference(by_method[method.group.label])]
    best = sorted(able, key=lambda m: math.inf if math.isnan(m.error.mean) else m.error.mean)[
        :DRAWN
    ]
    labels = [method.group.label for method in able if method in best]
    return {
        label: [cell for cell in by_method[label] if cell.dimension != "part of the stream"]
        for label in labels
    }
