"""The figure of a fine-tuning graph: tasks in stream order on a line, an arc from each task to
where it started from.
"""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from matplotlib.ticker import MaxNLocator

from nevis_stream.analysis.finetuning import Node, longest_chain
from nevis_stream.report import palette, svg
from nevis_stream.report.names import escape_mathtext
from nevis_stream.report.styles import Style

_WIDTH = 9.6  # inches
_NUMBERED = 30  # tasks up to which every one has its number
_CURVE = (Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4)
_STRONG = {"linewidth": 1.9, "alpha": 0.95, "zorder": 2}
_PALE = {"linewidth": 0.9, "alpha": 0.5, "zorder": 1}


def arc_diagram(nodes: Sequence[Node], styles: Mapping[str, Style]) -> Figure:
    """Draws the tasks along the stream, by their numbers; arcs have the colour of the domain
    that they come from, the longest chain is darker.

    Args:
      nodes: in stream order.
      styles: by domain.
    """
    places = {node.task_id: place for place, node in enumerate(nodes)}
    spans = [places[node.task_id] - places[node.parent] for node in nodes if node.parent]
    reach = max([*spans, len(nodes) // 3, 1])  # short arcs stay low where there are no long ones
    top = _height(max(spans, default=1), reach) + 0.05
    figure = svg.new_figure(_WIDTH, 2.6 * top + 0.6)
    axes = figure.subplots()
    svg.style_axes(axes)
    axes.grid(False)
    axes.set_yticks([])
    chain = {node.task_id for node in longest_chain(nodes)[1:]}
    # one path a look: a page may hold many graphs
    arcs: dict[tuple[str, bool], list[list[tuple[float, float]]]] = {}
    for node in nodes:
        if node.parent:
            look = nodes[places[node.parent]].domain, node.task_id in chain
            arc = _arc(places[node.parent], places[node.task_id], reach)
            arcs.setdefault(look, []).append(arc)
    for (domain, strong), curves in arcs.items():
        path = Path.make_compound_path(*(Path(points, _CURVE) for points in curves))
        colour = palette.series(styles[domain].colour)
        axes.add_patch(
            PathPatch(path, fill=False, edgecolor=colour, **(_STRONG if strong else _PALE))
        )
    for domain, style in styles.items():
        tasks = [node for node in nodes if node.domain == domain]
        sizes = [14 + 9 * node.children for node in tasks]
        axes.scatter(
            [places[node.task_id] for node in tasks],
            [0.0] * len(tasks),
            s=[min(size, 130) for size in sizes],
            marker=style.marker,
            color=palette.series(style.colour),
            edgecolors=palette.card(),
            linewidths=0.6,
            zorder=3,
            clip_on=False,
            label=escape_mathtext(domain),
        )
    axes.set_xlim(-1, max(len(nodes), 2))
    axes.set_ylim(-0.06, top)
    every = len(nodes) // _NUMBERED + 1
    ticks = [place for place, node in enumerate(nodes) if node.order % every == 0]
    axes.set_xticks(ticks, [str(nodes[place].order) for place in ticks])
    axes.set_xlabel("tasks, by their number in the stream")
    return figure


def _height(span: int, reach: int) -> float:
    """How high an arc is, as a share of the highest that there may be."""
    return 0.12 + 0.88 * span / reach


def _arc(start: int, end: int, reach: int) -> list[tuple[float, float]]:
    depth = 1.33 * _height(end - start, reach)  # a cubic curve reaches 3/4 of its handles
    return [(start, 0.0), (start, depth), (end, depth), (end, 0.0)]


def depth_bars(counts: Sequence[int]) -> Figure:
    """Draws how many tasks (`counts`) have 0, 1, 2, … fine-tunings before them."""
    figure = svg.new_figure(_WIDTH, 1.7)
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
