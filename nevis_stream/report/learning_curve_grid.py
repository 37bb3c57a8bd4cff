"""All learning curves as one figure for print; the page draws them by its own script."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from nevis_stream.report import palette, svg
from nevis_stream.report.names import legend_at_the_foot, legend_height, sample_line
from nevis_stream.report.styles import Style

_COLUMNS = 5
_WIDTH, _ROW, _FOOT = 8.4, 1.25, 0.65  # inches


def curve_grid(data: Mapping[str, Any], legend: Sequence[tuple[Style, str]]) -> Figure:
    """Draws one panel per task: dev error against steps, on its own scales from zero.

    Args:
      data: as `curve_data` makes it, less the tasks without a line.
      legend: style and text of each method.
    """
    tasks = data["tasks"]
    columns = min(_COLUMNS, len(tasks))
    rows = math.ceil(len(tasks) / columns)
    named = {name: sample_line(style) for style, name in legend}
    foot = _FOOT + legend_height(named, _WIDTH)
    height = rows * _ROW + foot
    # the constrained layout takes minutes for 106 panels
    figure = svg.new_figure(_WIDTH, height, layout=None)
    low, high = foot / height, 1 - 0.25 / height
    figure.subplots_adjust(left=0.06, right=0.98, bottom=low, top=high, wspace=0.32, hspace=0.75)
    for place, task in enumerate(tasks, start=1):
        _panel(figure.add_subplot(rows, columns, place), task, data["runs"])
    with svg.any_script():
        style = {"ha": "center", "va": "top", "size": 8, "color": palette.ink()}
        tail = (
            "dev error of the chosen trial against training steps; a line is one run of n, no bands"
        )
        figure.text(0.5, low - 0.36 / height, tail, **style)
        legend_at_the_foot(figure, named)
    return figure


def _panel(axes, task: Mapping[str, Any], runs: Sequence[Mapping[str, Any]]) -> None:
    svg.style_axes(axes)
    axes.set_title(task["name"], loc="left", size=6.5, color=palette.ink(), pad=2, parse_math=False)
    axes.tick_params(labelsize=5.5, pad=1.5)
    for run, steps, errors in task["lines"]:
        dash = runs[run]["dash"]
        pattern = (0, [float(length) for length in dash.split()]) if dash != "none" else "solid"
        marker = "o" if len(errors) == 1 else None
        colour = palette.series(runs[run]["colour"])
        axes.plot(
            task["steps"][steps],
            errors,
            color=colour,
            linestyle=pattern,
            linewidth=0.9,
            marker=marker,
            markersize=2,
        )
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_locator(MaxNLocator(3))
    axes.yaxis.set_major_locator(MaxNLocator(3))
