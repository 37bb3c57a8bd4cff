"""The figure of a fine-tuning graph: tasks in stream order on a line, an arc from each task to
where it started from.
"""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from matplotlib.ticker import MaxNLocator

from nevis_stream.analysis.finetuning import Node, hubs, longest_chain
from nevis_stream.report import palette, svg
from nevis_stream.report.names import plain
from nevis_stream.report.styles import Style

_MOST_LABELS = 9  # of hubs on a wide screen; a phone has every task's name
_ALL_LABELLED = 24  # tasks up to which every one is named
_WIDTH, _LETTER = 9.6, 0.063  # inches
_CURVE = (Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4)
_ROW = 0.26  # inches between rows of names
_STRONG = {"linewidth": 1.9, "alpha": 0.95, "zorder": 2}
_PALE = {"linewidth": 0.9, "alpha": 0.5, "zorder": 1}


def arc_diagram(nodes: Sequence[Node], styles: Mapping[str, Style], wide: bool) -> Figure:
    """Draws the tasks along the stream; arcs have the colour of the domain that they come from, the
    longest chain is darker.

    Args:
      nodes: in stream order.
      styles: by domain.
      wide: the stream from left to right with hubs named, else from top to bottom with every task
        named, for a phone.
    """
    places = {node.task_id: place for place, node in enumerate(nodes)}
    spans = [places[node.task_id] - places[node.parent] for node in nodes if node.parent]
    reach = max([*spans, len(nodes) // 3, 1])  # short arcs stay low where there are no long ones
    top = _height(max(spans, default=1), reach) + 0.05
    named = _names(nodes, places) if wide else []
    below = _ROW * (1 + max((row for *_, row in named), default=-1)) + 0.2
    figure = svg.new_figure(
        *((_WIDTH, 2.6 * top + below) if wide else (4.2, 0.9 + 0.155 * len(nodes)))
    )
    axes = figure.subplots()
    axes.set_axis_off()
    chain = {node.task_id for node in longest_chain(nodes)[1:]}
    # one path a look: a page may hold many graphs
    arcs: dict[tuple[str, bool], list[list[tuple[float, float]]]] = {}
    for node in nodes:
        if node.parent:
            look = nodes[places[node.parent]].domain, node.task_id in chain
            arcs.setdefault(look, []).append(
                _arc(places[node.parent], places[node.task_id], reach, wide)
            )
    for (domain, strong), curves in arcs.items():
        path = Path.make_compound_path(*(Path(points, _CURVE) for points in curves))
        colour = palette.series(styles[domain].colour)
        axes.add_patch(
            PathPatch(path, fill=False, edgecolor=colour, **(_STRONG if strong else _PALE))
        )
    for domain, style in styles.items():
        tasks = [node for node in nodes if node.domain == domain]
        along, across = [places[node.task_id] for node in tasks], [0.0] * len(tasks)
        sizes = [14 + 9 * node.children for node in tasks]
        axes.scatter(
            *((along, across) if wide else (across, along)),
            s=[min(size, 130) for size in sizes],
            marker=style.marker,
            color=palette.series(style.colour),
            edgecolors=palette.card(),
            linewidths=0.6,
            zorder=3,
            clip_on=False,
            label=plain(domain),
        )
    with svg.any_script():
        _name_across(axes, len(nodes), named, below, top) if wide else _name_down(axes, nodes)
    return figure


def _height(span: int, reach: int) -> float:
    """How high an arc is, as a share of the highest that there may be."""
    return 0.12 + 0.88 * span / reach


def _arc(start: int, end: int, reach: int, wide: bool) -> list[tuple[float, float]]:
    depth = 1.33 * _height(end - start, reach)  # a cubic curve reaches 3/4 of its handles
    points = [(start, 0.0), (start, depth), (end, depth), (end, 0.0)]
    return points if wide else [(-depth, place) for place, depth in points]


def _names(nodes: Sequence[Node], places: Mapping[str, int]) -> list[tuple[int, str, bool, int]]:
    """Place, text, whether it runs to the left, and row of the names below a wide figure, so that
    none meets another.

    Hubs are named; of a few tasks all are.
    """
    letter = _LETTER / _WIDTH * (len(nodes) + 1)
    chosen = (
        nodes
        if len(nodes) <= _ALL_LABELLED
        else sorted(hubs(nodes, _MOST_LABELS), key=lambda node: node.order)
    )
    names, rows = [], []
    # from the right: a name's line runs down through rows that end to the right of it
    for node in reversed(chosen):
        text = _short(node.task_id) + (f" ({node.children})" if node.children > 1 else "")
        place, width = places[node.task_id], letter * (len(text) + 2)
        leftwards = place + width > len(nodes)
        begin, end = (
            (place - width, place + letter) if leftwards else (place - letter / 2, place + width)
        )
        row = next((r for r, left in enumerate(rows) if end < left), len(rows))
        rows[row:] = [begin] if row == len(rows) else [begin, *rows[row + 1 :]]
        rows[:row] = [min(left, place - letter / 2) for left in rows[:row]]
        names.append((place, text, leftwards, row))
    return names


def _name_across(
    axes, count: int, named: Sequence[tuple[int, str, bool, int]], below: float, top: float
) -> None:
    scale = 1 / 2.6  # heights above the line in an inch
    for place, text, leftwards, row in named:
        foot = -scale * (_ROW * row + 0.3)
        axes.plot([place, place], [-0.04, foot], color=palette.muted(), linewidth=0.5, zorder=0)
        axes.text(
            place + (-0.004 if leftwards else 0.004) * count,
            foot,
            text,
            color=palette.ink(),
            ha="right" if leftwards else "left",
            va="center",
            size=9,
            in_layout=False,
            parse_math=False,
        )
    axes.set_xlim(-1, max(count, 2))
    axes.set_ylim(-scale * below, top)


def _name_down(axes, nodes: Sequence[Node]) -> None:
    axes.set_xlim(-1.05, 0.95)
    axes.set_ylim(len(nodes) - 0.5, -0.5)
    for place, node in enumerate(nodes):
        children = f" ({node.children})" if node.children > 1 else ""
        axes.text(
            0.06,
            place,
            f"{node.order} {_short(node.task_id)}{children}",
            va="center",
            size=8,
            color=palette.ink() if children else palette.muted(),
            parse_math=False,
            in_layout=False,
        )


def depth_bars(counts: Sequence[int], wide: bool) -> Figure:
    """Draws how many tasks (`counts`) have 0, 1, 2, … fine-tunings before them."""
    figure = svg.new_figure(*((9.6, 1.7) if wide else (4.2, 1.8)))
    axes = figure.subplots()
    svg.style_axes(axes)
    axes.grid(False, axis="x")
    axes.stairs(
        counts,
        [place - 0.5 for place in range(len(counts) + 1)],
        fill=True,
        color=palette.series(1),
    )
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=10))
    axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=3))
    axes.set_xlim(-0.6, max(len(counts) - 0.4, 4.6))
    axes.set_xlabel("fine-tunings before a task")
    axes.set_ylabel("tasks")
    return figure


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 28 else text[:27] + "…"
