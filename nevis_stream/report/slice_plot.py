"""The figure of slices: difference to indep, one panel per dimension."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from nevis_stream.analysis.slices import DIMENSIONS, NOT_RECORDED, Slice
from nevis_stream.report import palette, svg
from nevis_stream.report.styles import Style

_CUT = 2.5  # intervals of few tasks are wide: panels reach this many times the largest difference


def slice_plot(methods: Mapping[str, Sequence[Slice]], styles: Mapping[str, Style]) -> Figure:
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
    figure = svg.new_figure(8.4, 2.9 * rows)
    grid = figure.subplots(rows, 2, squeeze=False)
    for axes, dimension in zip(grid.flat, dimensions, strict=False):
        panel = {
            label: [cell for cell in cells if cell.dimension == dimension]
            for label, cells in methods.items()
        }
        _panel(axes, panel, styles)
        axes.set_title(dimension, loc="left", color=palette.ink(), size=10)
    for axes in grid.flat[len(dimensions) :]:
        axes.set_visible(False)
    for axes in grid[:, 0]:
        axes.set_ylabel("error − indep's")
    return figure


def _panel(axes, panel: Mapping[str, Sequence[Slice]], styles: Mapping[str, Style]) -> None:
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
                [_bar(cell.difference - cell.low) for cell in shown],
                [_bar(cell.high - cell.difference) for cell in shown],
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
    with svg.any_script():
        labels = [f"{name} (n = {pairs[name]})".replace("$", r"\$") for name in names]
        axes.set_xticks(
            range(len(names)), labels, rotation=35, ha="right", rotation_mode="anchor", size=8
        )


def _bar(length: float) -> float:
    return 0.0 if math.isnan(length) else max(length, 0.0)
