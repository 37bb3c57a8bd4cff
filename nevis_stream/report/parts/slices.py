"""Slices: where a method gains, by domain, number of training samples, resolution and year."""

import math
from collections.abc import Sequence

import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure

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
    found = {label: each for label, each in section.once(_slices).items() if each}
    if not found:
        return None
    drawn, picture = _drawn(section), None
    if drawn:
        title = "Difference of error to Indep by slice, one mark a method"
        name = f"slices-{section.number}"
        picture = svg.wide_and_narrow(
            name, title, lambda wide: slice_plot(drawn, section.styles, wide)
        )
    names = list(
        dict.fromkeys((one.dimension, one.name) for each in found.values() for one in each)
    )
    by_name = {
        label: {(one.dimension, one.name): one for one in each} for label, each in found.items()
    }
    rows = [(*name, [by_name[label].get(name) for label in found]) for name in names]
    able = [label for label, each in found.items() if _has_difference(each)]
    remarks = [
        f"{label}: {each[0].reason}"
        for label, each in found.items()
        if label not in able and each[0].reason
    ]
    return render(
        "parts/slices.html",
        section=section,
        split=PROTOCOLS[section.header.protocol].split,
        picture=picture,
        legend=[
            (section.styles[label], f"{section.styles[label].glyph} {label}") for label in drawn
        ],
        undrawn=[label for label in able if label not in drawn],
        labels=list(found),
        rows=rows,
        remarks=remarks,
    )


def tables(section: Section) -> dict[str, pd.DataFrame]:
    """Returns `slices`: one row a method and slice."""
    return {"slices": table(section.once(_slices), section.groups)}


def figures(section: Section) -> dict[str, Figure]:
    """Returns `slices`; nothing where no method has a difference to Indep."""
    drawn = _drawn(section)
    return {"slices": slice_plot(drawn, section.styles, wide=True, legend=True)} if drawn else {}


def _slices(section: Section) -> dict[str, list[Slice]]:
    return {group.label: slices(group, section.runs) for group in section.groups}


def _has_difference(found: Sequence[Slice]) -> bool:
    return any(not math.isnan(one.difference) for one in found)


def _drawn(section: Section) -> dict[str, Sequence[Slice]]:
    """The methods of lowest E that have a difference, in the page's order, without the slices by
    part of the stream.
    """
    found = section.once(_slices)
    able = [method for method in section.methods if _has_difference(found[method.group.label])]
    best = sorted(able, key=lambda m: math.inf if math.isnan(m.error.mean) else m.error.mean)[
        :DRAWN
    ]
    labels = [method.group.label for method in able if method in best]
    return {
        label: [one for one in found[label] if one.dimension != "part of the stream"]
        for label in labels
    }
