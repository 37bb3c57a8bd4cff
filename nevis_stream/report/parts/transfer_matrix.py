"""Transfer matrices: what starting from each earlier task gains on each later one."""

import math

import matplotlib
import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from nevis_stream.analysis.transfer_matrix import (
    TransferMatrix,
    tabulate_best_sources,
    tabulate_sources,
)
from nevis_stream.report import palette, svg
from nevis_stream.report.names import to_letters
from nevis_stream.report.section import PageContents
from nevis_stream.report.styles import assign_domain_styles
from nevis_stream.report.templates import render
from nevis_stream.terminal import as_text

TITLE = "Transfer matrix: gain from each earlier task"
_SIDE = 8.8  # inches
_NAMED, _VALUED = 40, 12  # the most tasks whose names, and values, are written


def html(contents: PageContents) -> Markup | None:
    """Returns each matrix as a heat map with its best sources; None where no directory of a matrix
    was given.
    """
    if not contents.matrices:
        return None
    views = []
    for matrix, picture in zip(
        contents.matrices, svg.render_pictures(figures(contents)).values(), strict=True
    ):
        styles = assign_domain_styles(matrix.domains.values())
        legend = [(style, domain) for domain, style in styles.items()]
        rows = (
            tabulate_best_sources(matrix).to_dict("records"),
            tabulate_sources(matrix).to_dict("records"),
        )
        views.append((matrix, picture, legend, *rows))
    return render("parts/transfer_matrix.html", views=views)


def tables(contents: PageContents) -> dict[str, pd.DataFrame]:
    """Returns `transfer_matrix` (the pairs), `transfer_targets` and `transfer_sources` of all
    matrices.
    """
    frames = {
        "transfer_matrix": lambda matrix: matrix.pairs,
        "transfer_targets": tabulate_best_sources,
        "transfer_sources": tabulate_sources,
    }
    return {name: _join(contents, frame) for name, frame in frames.items() if contents.matrices}


def figures(contents: PageContents) -> dict[str, svg.Drawing]:
    """Returns `transfer_matrix_a`, `_b`, … one for each matrix."""
    return {
        f"transfer_matrix_{to_letters(i)}": svg.Drawing(
            f"Transfer matrix of {matrix.path}: gain over indep for each pair of tasks",
            lambda matrix=matrix: plot_heat_map(matrix),
            "Cell: one run (n = 1); no bands.",
        )
        for i, matrix in enumerate(contents.matrices)
    }


def _join(contents: PageContents, frame) -> pd.DataFrame:
    names = ("stream", "stream_digest", "seed")
    heads = [
        {"matrix": as_text(str(matrix.path))} | {name: matrix.facts.get(name, "") for name in names}
        for matrix in contents.matrices
    ]
    return pd.concat(
        [
            frame(matrix).assign(**head)
            for matrix, head in zip(contents.matrices, heads, strict=True)
        ]
    )


def plot_heat_map(matrix: TransferMatrix) -> Figure:
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
    figure, axes = svg.make_plot(width, margin + 0.5 + cell * len(rows))
    axes.grid(False)
    ground = Rectangle(
        (-0.5, -0.5), len(columns), len(rows), facecolor=palette.line(), linewidth=0, zorder=0
    )
    axes.add_patch(ground)  # what has no value differs from what is zero
    picture = axes.imshow(
        values, cmap="RdBu", vmin=-limit, vmax=limit, aspect="equal", interpolation="none"
    )
    if named:
        axes.set_xticks(range(len(columns)), columns, rotation=90, parse_math=False)
        axes.set_yticks(range(len(rows)), rows, parse_math=False)
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
    styles = assign_domain_styles(matrix.domains.values())
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
            label=domain,
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
