"""Slices: where a method gains, by domain, number of training samples, resolution and year."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure

from nevis_stream.analysis.slices import DIMENSIONS, NOT_RECORDED, Slice, compare_slices, make_table
from nevis_stream.report import palette, svg
from nevis_stream.report.section import Section
from nevis_stream.report.styles import Style
from nevis_stream.report.templates import render
from nevis_stream.vocabulary import PROTOCOLS

TITLE = "Error by domain, size, resolution and year"
_CUT = 2.5  # intervals of few tasks are wide: panels reach this many times the largest difference
DRAWN = 6  # methods beyond these would hide each other


def html(section: Section) -> Markup | None:
    """Returns the figure and the table; None where no run is finished."""
    by_method = {
        label: each for label, each in section.compute_once(_compare_slices).items() if each
    }
    if not by_method:
        return None
    drawn = _select_drawn(section)
    names = list(
        dict.fromkeys((cell.dimension, cell.name) for each in by_method.values() for cell in each)
    )
    by_name = {
        label: {(cell.dimension, cell.name): cell for cell in each}
        for label, each in by_method.items()
    }
    rows = [(*name, [by_name[label].get(name) for label in by_method]) for name in names]
    with_difference = [label for label, each in by_method.items() if _has_difference(each)]
    remarks = [
        f"{label}: {each[0].reason}"
        for label, each in by_method.items()
        if label not in with_difference and each[0].reason
    ]
    return render(
        "parts/slices.html",
        section=section,
        split=PROTOCOLS[section.header.protocol].split,
        picture=svg.render_pictures(figures(section), section.number).get("slices"),
        legend=[(section.styles[label], label) for label in drawn],
        undrawn=[label for label in with_difference if label not in drawn],
        labels=list(by_method),
        rows=rows,
        remarks=remarks,
    )


def tables(section: Section) -> dict[str, pd.DataFrame]:
    """Returns `slices`: one row per method and slice."""
    return {"slices": make_table(section.compute_once(_compare_slices), section.groups)}


def figures(section: Section) -> dict[str, svg.Drawing]:
    """Returns `slices`; nothing where no method has a difference to indep."""
    drawn = _select_drawn(section)
    title = "Difference of the error to indep's by slice, one mark per method"
    caption = (
        "n: tasks of a slice with a difference. Bars: 95% interval of the mean difference to indep"
        " (studentised bootstrap)."
    )
    drawing = svg.Drawing(title, lambda: plot_slices(drawn, section.styles), caption)
    return {"slices": drawing} if drawn else {}


def _compare_slices(section: Section) -> dict[str, list[Slice]]:
    return {group.label: compare_slices(group, section.runs) for group in section.groups}


def _has_difference(cells: Sequence[Slice]) -> bool:
    return any(not math.isnan(cell.difference) for cell in cells)


def _select_drawn(section: Section) -> dict[str, Sequence[Slice]]:
    """Returns the slices of the methods with the lowest mean errors that have a difference, in the
    page's order, without those by part of the stream.
    """
    by_method = section.compute_once(_compare_slices)
    with_difference = [
        method for method in section.methods if _has_difference(by_method[method.group.label])
    ]
    best = sorted(
        with_difference, key=lambda m: math.inf if math.isnan(m.error.mean) else m.error.mean
    )[:DRAWN]
    labels = [method.group.label for method in with_difference if method in best]
    return {
        label: [cell for cell in by_method[label] if cell.dimension != "part of the stream"]
        for label in labels
    }


def plot_slices(methods: Mapping[str, Sequence[Slice]], styles: Mapping[str, Style]) -> Figure:
    """Draws the difference to indep of each slice: one mark per method, with bars for its 95%
    interval over tasks and runs; two panels in a row.

    Args:
      methods: slices by label, at least one of them with a difference.
      styles: by label.
    """
    every = [cell for cells in methods.values() for cell in cells]
    recorded = {cell.dimension for cell in every if cell.name != NOT_RECORDED}
    dimensions = [dimension for dimension in DIMENSIONS if dimension in recorded]
    rows = math.ceil(len(dimensions) / 2)
    figure = svg.make_figure(8.4, 2.9 * rows)
    grid = figure.subplots(rows, 2, squeeze=False)
    for axes, dimension in zip(grid.flat, dimensions, strict=False):
        panel = {
            label: [cell for cell in cells if cell.dimension == dimension]
            for label, cells in methods.items()
        }
        _draw_panel(axes, panel, styles)
        axes.set_title(dimension, loc="left", color=palette.ink(), size=10)
    for axes in grid.flat[len(dimensions) :]:
        axes.set_visible(False)
    for axes in grid[:, 0]:
        axes.set_ylabel("error − indep's")
    return figure


def _draw_panel(axes, panel: Mapping[str, Sequence[Slice]], styles: Mapping[str, Style]) -> None:
    svg.style_axes(axes)
    axes.axhline(0, color=palette.ink(), linewidth=1)
    names = list(dict.fromkeys(cell.name for cells in panel.values() for cell in cells))
    pairs = {
        name: max(cell.pairs for cells in panel.values() for cell in cells if cell.name == name)
        for name in names
    }
    for place, (label, cells) in enumerate(panel.items()):
        shift = 0.7 * ((place + 0.5) / len(panel) - 0.5)
        shown = [cell for cell in cells if not math.isnan(cell.difference)]
        style = styles[label]
        axes.errorbar(
            [names.index(cell.name) + shift for cell in shown],
            [cell.difference for cell in shown],
            yerr=[
                [_clip_length(cell.difference - cell.low) for cell in shown],
                [_clip_length(cell.high - cell.difference) for cell in shown],
            ],
            color=palette.series(style.colour),
            marker=style.marker,
            markersize=4.5,
            elinewidth=1,
            linestyle="none",
            label=label,
        )
    every = [cell for cells in panel.values() for cell in cells if not math.isnan(cell.difference)]
    reach = _CUT * max((abs(cell.difference) for cell in every), default=0) or 0.01
    lows = [np.nanmin([cell.difference, cell.low]) for cell in every]
    highs = [np.nanmax([cell.difference, cell.high]) for cell in every]
    low, high = max(-reach, min([0, *lows])), min(reach, max([0, *highs]))
    axes.set_ylim(1.1 * low - 0.002, 1.1 * high + 0.002)
    axes.set_xlim(-0.6, len(names) - 0.4)
    if not every:
        place = {"ha": "center", "va": "bottom", "transform": axes.transAxes}
        axes.text(0.5, 0.55, "no difference to indep known", color=palette.muted(), size=8, **place)
    with svg.allow_any_script():
        axes.set_xticks(
            range(len(names)),
            [f"{name} (n = {pairs[name]})" for name in names],
            rotation=35,
            ha="right",
            rotation_mode="anchor",
            size=8,
            parse_math=False,
        )


def _clip_length(length: float) -> float:
    return 0.0 if math.isnan(length) else max(length, 0.0)
