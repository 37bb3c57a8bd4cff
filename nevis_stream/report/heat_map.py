"""The figure of a transfer matrix."""

import math

import matplotlib
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from nevis_stream.analysis.transfer_matrix import TransferMatrix
from nevis_stream.report import palette, svg
from nevis_stream.report.domains import domain_styles
from nevis_stream.report.names import escape_mathtext

_SIDE = 8.8  # inches
_NAMED, _VALUED = 40, 12  # tasks up to which names and values are written


def heat_map(matrix: TransferMatrix) -> Figure:
    """Draws gains in percentage points: sources from top to bottom, targets from left to right,
    both in stream order, white at zero.

    Marks along the axes are the tasks' domains. Blue is a gain and red a loss, which colour-blind
    readers can distinguish.
    """
    gains = 100 * matrix.gains
    values, columns, rows = gains.to_numpy(), list(gains.columns), list(gains.index)
    limit = max(1.0, float(gains.abs().max().max())) if gains.notna().any().any() else 1.0
    cell = min(0.5, (_SIDE - 2.4) / len(columns))
    named = max(len(columns), len(rows)) <= _NAMED
    margin = 1.5 if named else 0.7
    width = min(_SIDE, 3.4 + cell * len(columns))
    figure = svg.new_figure(width, margin + 0.5 + cell * len(rows))
    axes = figure.subplots()
    svg.style_axes(axes)
    axes.grid(False)
    ground = Rectangle(
        (-0.5, -0.5), len(columns), len(rows), facecolor=palette.line(), linewidth=0, zorder=0
    )
    axes.add_patch(ground)  # what has no value differs from what is zero
    picture = axes.imshow(
        values, cmap="RdBu", vmin=-limit, vmax=limit, aspect="equal", interpolation="none"
    )
    if named:
        axes.set_xticks(range(len(columns)), columns, rotation=90)
        axes.set_yticks(range(len(rows)), rows)
        for label in [*axes.get_xticklabels(), *axes.get_yticklabels()]:
            label.set_parse_math(False)
    else:
        numbers = {task: place for place, task in enumerate(matrix.domains, start=1)}
        for axis, tasks in ((axes.xaxis, columns), (axes.yaxis, rows)):
            shown = [place for place, task in enumerate(tasks) if numbers[task] % 10 == 0]
            axis.set_ticks(shown, [str(numbers[tasks[place]]) for place in shown])
    _mark_domains(axes, matrix, columns, rows, cell)
    if max(len(columns), len(rows)) <= _VALUED:
        for row in range(len(rows)):
            for column in range(len(columns)):
                _write_value(axes, row, column, values[row][column], limit, cell)
    axes.set_xlabel("trained on" + ("" if named else " (place in the stream)"))
    axes.set_ylabel("started from" + ("" if named else " (place in the stream)"))
    bar = figure.colorbar(picture, ax=axes, shrink=0.7, location="right", pad=0.02)
    bar.outline.set_visible(False)
    bar.set_label("gain over indep, percentage points", color=palette.ink(), size=9)
    bar.ax.tick_params(colors=palette.muted(), length=0, labelsize=8)
    return figure


def _mark_domains(
    axes, matrix: TransferMatrix, columns: list[str], rows: list[str], cell: float
) -> None:
    styles = domain_styles(matrix.domains.values())
    size = min(28.0, max(3.0, (60 * cell) ** 2))
    edge = -0.5 - max(0.4, 0.07 / cell)
    for domain, style in styles.items():
        along = [place for place, task in enumerate(columns) if matrix.domains[task] == domain]
        down = [place for place, task in enumerate(rows) if matrix.domains[task] == domain]
        xs, ys = [*along, *[edge] * len(down)], [*[edge] * len(along), *down]
        axes.scatter(
            xs,
            ys,
            s=size,
            marker=style.marker,
            color=palette.series(style.colour),
            clip_on=False,
            linewidths=0,
            label=escape_mathtext(domain),
        )
    axes.set_xlim(edge - 0.5, len(columns) - 0.5)
    axes.set_ylim(len(rows) - 0.5, edge - 0.5)


def _write_value(axes, row: int, column: int, value: float, limit: float, cell: float) -> None:
    if not math.isnan(value):
        red, green, blue, _ = matplotlib.colormaps["RdBu"](0.5 + value / limit / 2)
        bright = 0.3 * red + 0.59 * green + 0.11 * blue > 0.5
        size = 8 if cell > 0.4 else 6.5
        text = (f"{value:+.1f}" if abs(value) < 10 else f"{value:+.0f}").replace("-", "−")
        axes.text(
            column,
            row,
            text,
            ha="center",
            va="center",
            size=size,
            color="#000000" if bright else "#ffffff",
        )
