"""The points: a table, and the plane of mean error against training FLOPs with the Pareto front."""

import math
from collections.abc import Mapping, Sequence

import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from nevis_stream.analysis import methods
from nevis_stream.analysis import tables as analysis_tables
from nevis_stream.analysis.methods import MethodPoint
from nevis_stream.analysis.seeds import shorten_names
from nevis_stream.report import palette, svg
from nevis_stream.report.section import Section
from nevis_stream.report.styles import Style
from nevis_stream.report.templates import render

TITLE = "Error against training FLOPs"
_TICKS = 8  # on the axis of costs, at most
_SUBS = ((1, 2, 5), (1, 3))  # labelled multiples of a power of ten, as many as there is room for


def html(section: Section) -> Markup:
    """Returns the plane, the table of points, and what each learner's budgets reach together."""
    drawn = [method for method in section.methods if is_drawable(method)]
    picture = svg.render_pictures(figures(section), section.number).get("points")
    lines = [method for method in section.methods if has_line(method)]
    undrawn = [method.group.label for method in section.methods if method not in (*drawn, *lines)]
    named = {
        name: [(section.styles[each.group.label], each.group.label) for each in shown]
        for name, shown in {"drawn": drawn, "lines": lines}.items()
    }
    markup = render("parts/points.html", section=section, plane=picture, undrawn=undrawn, **named)
    return markup + _render_fronts(section)


def tables(section: Section) -> dict[str, pd.DataFrame]:
    """Returns `points` (every method's and every run's), `hypervolume` and `flops_to_reach` by
    learner.
    """
    learners = methods.group_points(section.methods)
    return {
        "points": analysis_tables.tabulate_points(section.methods),
        "hypervolume": methods.measure_hypervolumes(learners),
        "flops_to_reach": methods.make_reach_table(learners),
    }


def figures(section: Section) -> dict[str, svg.Drawing]:
    """Returns `points`: the plane; nothing where no method has a place in it."""
    if not any(map(is_drawable, section.methods)):
        return {}
    title = "Mean error against training FLOPs, one mark per method, with the Pareto front"
    caption = (
        f"Mark: mean over a method's n seeds (points.csv). Bars: {svg.OVER_SEEDS}. Solid lines: the"
        " front; hollow marks: dominated."
    )
    return {
        "points": svg.Drawing(title, lambda: plot_plane(section.methods, section.styles), caption)
    }


def _render_fronts(section: Section) -> Markup:
    learners = methods.group_points(section.methods)
    if not learners:
        return Markup("")
    volumes = list(methods.measure_hypervolumes(learners).itertuples())
    reach = {
        (row.learner_a, row.learner_b): row
        for row in methods.make_reach_table(learners).itertuples()
    }
    return render(
        "parts/fronts.html",
        number=section.number,
        volumes=volumes,
        learners=shorten_names(learners),
        reach=reach,
    )


def is_drawable(method: MethodPoint) -> bool:
    """Returns whether a method has a place in the plane: its mean error is defined and its cost is
    above zero.
    """
    return not math.isnan(method.error.mean) and method.paper_total.mean > 0


def has_line(method: MethodPoint) -> bool:
    """Returns whether a method is a line across the plane: its mean error is defined, but its cost
    is unknown.
    """
    return not math.isnan(method.error.mean) and math.isnan(method.paper_total.mean)


def plot_plane(methods: Sequence[MethodPoint], styles: Mapping[str, Style]) -> Figure:
    """Draws error against training FLOPs (log axis); marks on the front are filled, others hollow.

    Args:
      methods: points of one stream and protocol, at least one of them `is_drawable`; one
        of unknown cost is drawn as a horizontal line (`has_line`), others are skipped.
      styles: by label.
    """
    figure, axes = svg.make_plot(8.4, 4.3)
    axes.set_xscale("log")
    axes.set_xlabel("training FLOPs, all trials (log scale)")
    axes.set_ylabel("mean error over the judged tasks")
    shown = [method for method in methods if is_drawable(method)]
    for method in shown:
        style = styles[method.group.label]
        axes.errorbar(
            float(method.paper_total.mean),
            method.error.mean,
            xerr=_find_bar_length(method.paper_total.std),
            yerr=_find_bar_length(method.error.std),
            marker=style.marker,
            markersize=7,
            color=palette.series(style.colour),
            markerfacecolor=_choose_fill(method, style),
            markeredgewidth=1.6,
            elinewidth=1.3,
            linestyle="none",
            zorder=3,
            label=method.group.label,
        )
    lines = [method for method in methods if has_line(method)]
    for method in lines:
        style = styles[method.group.label]
        line = axes.axhline(
            method.error.mean,
            color=palette.series(style.colour),
            linewidth=1.3,
            zorder=1,
            gid="published",
            label=method.group.label,
        )
        line.set_dashes(style.dash or (1, 3))
    _set_limits(axes, shown, [method.error.mean for method in lines])
    _draw_front(axes, shown)
    return figure


def _choose_fill(method: MethodPoint, style: Style) -> str:
    """Returns the colour inside a mark. A hollow mark has that of the background, which hides the
    line below it: a dominated point on a vertical piece of the front must not look like a member.
    """
    return palette.series(style.colour) if method.on_paper_front else palette.card()


def _find_bar_length(std: float) -> float | None:
    return None if math.isnan(std) or std == 0 else std


def _set_limits(axes, shown: Sequence[MethodPoint], levels: Sequence[float]) -> None:
    costs = [float(method.paper_total.mean) for method in shown]
    spreads = [0.0 if math.isnan(m.error.std) else m.error.std for m in shown]
    low = min([*levels, *(m.error.mean - s for m, s in zip(shown, spreads, strict=True))])
    high = max([*levels, *(m.error.mean + s for m, s in zip(shown, spreads, strict=True))])
    decades = math.log10(max(costs) / min(costs))
    margin = 10 ** max(0.25, 0.15 * decades)
    axes.set_xlim(min(costs) / margin, max(costs) * margin)
    room = max(0.15 * (high - low), 0.01)
    axes.set_ylim(low - room, high + room)
    shown_decades = decades + 2 * math.log10(margin)
    subs = next((s for s in _SUBS if len(s) * shown_decades <= _TICKS), (1,))
    axes.xaxis.set_major_locator(LogLocator(subs=subs, numticks=_TICKS))
    svg.format_flops_ticks(axes.xaxis)
    axes.xaxis.set_minor_formatter(NullFormatter())


def _draw_front(axes, shown: Sequence[MethodPoint]) -> None:
    """Draws the boundary of what is reached, from the left to the right."""
    front = sorted((float(m.paper_total.mean), m.error.mean) for m in shown if m.on_paper_front)
    corners: list[tuple[float, float]] = []
    height = axes.get_ylim()[1]
    for cost, error in front:
        corners += [(cost, height), (cost, error)]
        height = error
    if corners:
        corners.append((axes.get_xlim()[1], height))
        costs, errors = zip(*corners, strict=True)
        look = {"color": palette.muted(), "zorder": 2}
        axes.hlines(errors[1::2], costs[1::2], costs[2::2], linewidth=1.4, gid="front", **look)
        axes.vlines(
            costs[:-1:2], errors[1::2], errors[:-1:2], linewidth=0.8, linestyle=(0, (1, 3)), **look
        )
