"""Which task was initialised from which: the graph of fine-tunings along the stream, its hubs and
its chains.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from matplotlib.ticker import MaxNLocator

from nevis_stream.analysis.finetuning import (
    Node,
    build_graph,
    count_agreement,
    count_depths,
    find_hubs,
    find_longest_chain,
    list_isolated,
)
from nevis_stream.analysis.runs import Run
from nevis_stream.analysis.seeds import SeedGroup
from nevis_stream.report import palette, svg
from nevis_stream.report.names import to_letters
from nevis_stream.report.section import Section
from nevis_stream.report.styles import Style, assign_domain_styles
from nevis_stream.report.templates import render
from nevis_stream.run_directory.records import TrainRecord

TITLE = "Fine-tuning graph: what each task started from"
_WIDTH = 9.6  # inches
_NUMBERED = 30  # tasks up to which every one has its number
_CURVE = (Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4)
_STRONG = {"linewidth": 1.9, "alpha": 0.95, "zorder": 2}
_PALE = {"linewidth": 0.9, "alpha": 0.5, "zorder": 1}
_ENDS = 5  # tasks of a long chain that are named at each end


@dataclass(frozen=True)
class Graph:
    """One method's graph: that of the seed that has come furthest, the first of those.

    Attributes:
      label: the method.
      run: whose graph it is.
      nodes: its tasks.
      same: by task, in how many of how many seeds its source is the same.
    """

    label: str
    run: Run
    nodes: list[Node]
    same: dict[str, tuple[int, int]]

    @property
    def shared(self) -> tuple[int, int]:
        """Over all tasks but the first: sources that are the same in all seeds, and tasks that more
        than one seed trained.
        """
        compared = [
            self.same[node.task_id] for node in self.nodes[1:] if self.same[node.task_id][1] > 1
        ]
        return sum(same == seeds for same, seeds in compared), len(compared)

    @property
    def hubs(self) -> list[Node]:
        """The tasks from which most others started."""
        return find_hubs(self.nodes)

    @property
    def more_hubs(self) -> int:
        """How many other tasks are the start of two or more."""
        return len(find_hubs(self.nodes, len(self.nodes))) - len(self.hubs)

    @property
    def chain(self) -> list[Node]:
        """The longest chain."""
        return find_longest_chain(self.nodes)

    @property
    def chain_text(self) -> str:
        """The longest chain's tasks; of a long one the first and the last."""
        names = [node.task_id for node in self.chain]
        return " → ".join(
            names if len(names) <= 2 * _ENDS + 2 else [*names[:_ENDS], "…", *names[-_ENDS:]]
        )

    @property
    def isolated(self) -> list[Node]:
        """Tasks without parent or child."""
        return list_isolated(self.nodes)


def html(section: Section) -> Markup | None:
    """Returns a graph, hubs, chains and a table for each method that starts tasks from earlier
    ones; None if none does.
    """
    graphs = section.compute_once(_make_graphs)
    linked = [graph for graph in graphs if _has_edge(graph)]
    if not linked:
        return None
    styles = assign_domain_styles(task.domain for task in section.tasks)
    pictures = svg.render_pictures(figures(section), section.number)
    return render(
        "parts/finetuning_graph.html",
        section=section,
        graphs=[
            (
                graph,
                *(pictures[f"finetuning_{what}_{to_letters(i)}"] for what in ("graph", "depths")),
            )
            for i, graph in enumerate(linked)
        ],
        legend=[(style, domain) for domain, style in styles.items()],
        others=[
            (graph.label, _describe_sources(graph)) for graph in graphs if not _has_edge(graph)
        ],
    )


def tables(section: Section) -> dict[str, pd.DataFrame]:
    """Returns `finetuning`: every run's tasks with source, children and depth; tasks whose source
    no record names are left out.
    """
    rows = []
    for run in section.runs:
        head = {name: getattr(run.header, name) for name in ("learner", "budget", "seed")} | {
            "run": run.name
        }
        rows += [head | vars(node) for node in build_graph(run.ledger) if node.source != "unknown"]
    return {"finetuning": pd.DataFrame(rows)}


def figures(section: Section) -> dict[str, svg.Drawing]:
    """Returns `finetuning_graph_a`, `_b`, … and as many `finetuning_depths`, one for each method
    that starts tasks from earlier ones, in the page's order.
    """
    styles = assign_domain_styles(task.domain for task in section.tasks)
    linked = [graph for graph in section.compute_once(_make_graphs) if _has_edge(graph)]
    drawings = {}
    for i, graph in enumerate(linked):
        name, nodes = f"{graph.label}, seed {graph.run.header.seed}", graph.nodes
        drawings[f"finetuning_graph_{to_letters(i)}"] = svg.Drawing(
            f"Fine-tuning graph of {name}: {_describe(graph)}",
            lambda nodes=nodes: plot_arcs(nodes, styles),
            "Arc: from a task to one that started from its predictor, in one run (n = 1); no"
            " bands.",
        )
        drawings[f"finetuning_depths_{to_letters(i)}"] = svg.Drawing(
            f"Tasks by number of fine-tunings before them in {name}",
            lambda nodes=nodes: plot_depths(count_depths(nodes)),
            "Bar: tasks with this many fine-tunings before them, in one run (n = 1).",
        )
    return drawings


def _make_graphs(section: Section) -> list[Graph]:
    return [_make_graph(group) for group in section.groups]


def _make_graph(group: SeedGroup) -> Graph:
    run = max(group.runs, key=lambda run: len(run.ledger.of_kind(TrainRecord)))
    others = [other.ledger for other in group.runs if other is not run]
    return Graph(group.label, run, build_graph(run.ledger), count_agreement([run.ledger, *others]))


def _has_edge(graph: Graph) -> bool:
    return any(node.parent for node in graph.nodes)


def _describe(graph: Graph) -> str:
    edges = sum(node.parent is not None for node in graph.nodes)
    hubs = ", ".join(f"{hub.order} {hub.task_id} ({hub.children})" for hub in graph.hubs)
    return (
        f"{len(graph.nodes)} tasks, {edges} of them from an earlier one, longest chain"
        f" {len(graph.chain) - 1} fine-tunings; hubs: {hubs or 'none'}"
    )


def _describe_sources(graph: Graph) -> str:
    sources = sorted({node.source for node in graph.nodes})
    if sources in ([], ["unknown"]):
        return "does not record where its tasks start from"
    return f"starts every task from {' or '.join(sources)}"


def plot_arcs(nodes: Sequence[Node], styles: Mapping[str, Style]) -> Figure:
    """Draws the tasks along the stream, by their numbers; arcs have the colour of the domain
    that they come from, the longest chain is darker.

    Args:
      nodes: in stream order.
      styles: by domain.
    """
    places = {node.task_id: place for place, node in enumerate(nodes)}
    spans = [places[node.task_id] - places[node.parent] for node in nodes if node.parent]
    reach = max([*spans, len(nodes) // 3, 1])  # short arcs stay low where there are no long ones
    top = _measure_height(max(spans, default=1), reach) + 0.05
    figure, axes = svg.make_plot(_WIDTH, 2.6 * top + 0.6)
    axes.grid(False)
    axes.set_yticks([])
    chain = {node.task_id for node in find_longest_chain(nodes)[1:]}
    # one path a look: a page may hold many graphs
    arcs: dict[tuple[str, bool], list[list[tuple[float, float]]]] = {}
    for node in nodes:
        if node.parent:
            look = nodes[places[node.parent]].domain, node.task_id in chain
            arc = _make_arc(places[node.parent], places[node.task_id], reach)
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
            label=domain,
        )
    axes.set_xlim(-1, max(len(nodes), 2))
    axes.set_ylim(-0.06, top)
    every = len(nodes) // _NUMBERED + 1
    ticks = [place for place, node in enumerate(nodes) if node.order % every == 0]
    axes.set_xticks(ticks, [str(nodes[place].order) for place in ticks])
    axes.set_xlabel("tasks, by their number in the stream")
    return figure


def _measure_height(span: int, reach: int) -> float:
    """Returns how high an arc is, as a fraction of the highest that there may be."""
    return 0.12 + 0.88 * span / reach


def _make_arc(start: int, end: int, reach: int) -> list[tuple[float, float]]:
    depth = 1.33 * _measure_height(end - start, reach)  # a cubic curve reaches 3/4 of its handles
    return [(start, 0.0), (start, depth), (end, depth), (end, 0.0)]


def plot_depths(counts: Sequence[int]) -> Figure:
    """Draws how many tasks (`counts`) have 0, 1, 2, … fine-tunings before them."""
    figure, axes = svg.make_plot(_WIDTH, 1.7)
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
