"""Where the FLOPs go: training of the chosen trials, search, selection, validation, prediction; and
along the stream.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from nevis_stream.analysis.points import PARTS, TaskCost, explain_unknown_costs, list_costs_by_task
from nevis_stream.analysis.runs import Run
from nevis_stream.analysis.seeds import SeedGroup, spread
from nevis_stream.cost.meter import format_engineering
from nevis_stream.report import palette, svg
from nevis_stream.report.names import shorten
from nevis_stream.report.section import Section
from nevis_stream.report.styles import Style
from nevis_stream.report.templates import render

TITLE = "FLOPs by phase and by task"
_HATCHES = ("", "///", "||", "\\\\\\", "xxx", "---", "++")  # dots would be paths of many points
_READABLE = 0.09  # the least share of a bar in which its percentage can be read
_FAR_APART = 20  # ratio of totals from which a linear axis would hide the cheaper method


@dataclass(frozen=True)
class MethodCost:
    """One method's mean cost over its finished runs; where there is none, the cost so far of the
    run that has come furthest.

    Attributes:
      label: the method.
      n: runs in the mean.
      partial: whether none is finished.
      parts: mean FLOPs by part, as `analysis.points` divides them.
      by_task: mean FLOPs of all parts by task id, in stream order; under "" what was spent before
        the first task.
    """

    label: str
    n: int
    partial: bool
    parts: dict[str, float]
    by_task: dict[str, float]

    @property
    def over(self) -> str:
        """What the mean is over, for a figure."""
        return "unfinished, cost so far" if self.partial else f"n = {self.n}"

    @property
    def total(self) -> float:
        """FLOPs of all parts."""
        return sum(self.parts.values())

    def share(self, part: str) -> float:
        """Returns a part's share of the total; NaN where nothing was spent."""
        return self.parts.get(part, 0) / self.total if self.total else math.nan


def html(section: Section) -> Markup:
    """Returns the shares as bars, the table of parts, the cost along the stream and the table of
    tasks.
    """
    methods = section.compute_once(_average_methods)
    unknown = {group.label: explain_unknown_costs(group.runs[0].ledger) for group in section.groups}
    return render(
        "parts/costs.html",
        section=section,
        methods=methods,
        columns=_list_parts(methods),
        pictures=svg.render_pictures(figures(section), section.number),
        legend=[(section.styles[m.label], f"{m.label} ({m.over})") for m in methods if m.total],
        unknown=[f"{label}: {reason}" for label, reason in unknown.items() if reason],
    )


def tables(section: Section) -> dict[str, pd.DataFrame]:
    """Returns `costs`, every run's FLOPs by part, and `costs_by_task`, as exact integers.

    Of an unfinished run these are those so far; a run whose costs are not known has no row.
    """
    names = ("learner", "budget", "seed")
    rows, by_task = [], []
    for run in (run for run in section.runs if not explain_unknown_costs(run.ledger)):
        head = {name: getattr(run.header, name) for name in names} | {"run": run.name}
        status = {"status": "ok" if run.ledger.complete else "partial"}
        costs = list_costs_by_task(run.ledger)
        total = sum(sum(cost.flops.values()) for cost in costs)
        for part in dict.fromkeys(part for cost in costs for part in cost.flops):
            flops = sum(cost.flops.get(part, 0) for cost in costs)
            rows.append(
                head
                | {"part": part, "flops": flops, "share": flops / total if total else math.nan}
                | status
            )
        for cost in costs:
            row = {"order": cost.order, "task_id": cost.task_id or "before the first task"}
            by_task.append(
                head | row | dict(cost.flops) | {"total": sum(cost.flops.values())} | status
            )
    return {
        "costs": pd.DataFrame(rows, dtype=object),
        "costs_by_task": pd.DataFrame(by_task, dtype=object),
    }


def figures(section: Section) -> dict[str, svg.Drawing]:
    """Returns `costs`, the bars, and `costs_along_the_stream`; {} where nothing was spent."""
    spent = [method for method in section.compute_once(_average_methods) if method.total]
    bars = svg.Drawing(
        "Share of each part in the FLOPs of each method",
        lambda: plot_shares(spent, _list_parts(spent)),
        "",
    )
    along = svg.Drawing(
        "Cumulative FLOPs along the stream, one line per method",
        lambda: plot_cumulative(spent, section.styles),
        "Line: mean over the n runs of a method; no bands.",
    )
    return {"costs": bars, "costs_along_the_stream": along} if spent else {}


def _average_methods(section: Section) -> list[MethodCost]:
    return [
        _average_method(group)
        for group in section.groups
        if not explain_unknown_costs(group.runs[0].ledger)
    ]


def _average_method(group: SeedGroup) -> MethodCost:
    finished = [run for run in group.runs if run.ledger.complete]
    runs: Sequence[Run] = finished or [max(group.runs, key=lambda run: len(run.ledger.records))]
    costs: list[list[TaskCost]] = [list_costs_by_task(run.ledger) for run in runs]
    names = dict.fromkeys(
        [*PARTS, *(part for each in costs for cost in each for part in cost.flops)]
    )
    tasks = {cost.task_id: cost.order for each in costs for cost in each}
    parts = {
        name: _compute_mean([sum(cost.flops.get(name, 0) for cost in each) for each in costs])
        for name in names
    }
    sums = [{cost.task_id: sum(cost.flops.values()) for cost in each} for each in costs]
    by_task = {
        task: _compute_mean([each.get(task, 0) for each in sums])
        for task in sorted(tasks, key=lambda task: tasks[task])
    }
    return MethodCost(group.label, len(runs), not finished, parts, by_task)


def _compute_mean(values: Sequence[int]) -> float:
    return spread(values).mean


def _list_parts(methods: Sequence[MethodCost]) -> list[str]:
    return list(dict.fromkeys(part for method in methods for part in method.parts))


def plot_shares(methods: Sequence[MethodCost], parts: Sequence[str]) -> Figure:
    """Draws one bar per method, 100% long and divided into parts, with its total.

    Args:
      methods: those that spent anything.
      parts: names, in the order of the pieces.
    """
    parts = [part for part in parts if any(method.parts.get(part) for method in methods)]
    figure, axes = svg.make_plot(8.4, 1.0 + 0.52 * len(methods))
    axes.grid(False, axis="y")
    for row, method in enumerate(methods):
        left = 0.0
        for number, part in enumerate(parts):
            share = method.share(part)
            bar = axes.barh(row, 100 * share, left=100 * left, height=0.42, linewidth=0.8)
            bar.patches[0].set(
                facecolor=palette.series(number % palette.SERIES + 1), edgecolor=palette.card()
            )
            bar.patches[0].set_hatch(_HATCHES[number % len(_HATCHES)])
            if not row:
                bar.set_label(part)
            if share >= _READABLE:
                _write_percentage(axes, row, 100 * (left + share / 2), share)
            left += share
        total = (
            f"{shorten(method.label, 80)}: {format_engineering(method.total)} FLOPs, {method.over}"
        )
        place = {
            "va": "bottom",
            "size": 9,
            "color": palette.ink(),
            "in_layout": False,
            "parse_math": False,
        }
        # above the bar, where a long name needs no room of its own
        axes.text(0, row - 0.24, total, **place)
    axes.set_xlim(0, 100)
    axes.set_ylim(len(methods) - 0.5, -0.7)
    axes.set_yticks([])
    axes.set_xlabel("share of all FLOPs, % (mean over n runs, no bands)")
    with svg.allow_any_script():
        figure.legend(
            loc="outside upper left",
            ncols=len(parts),
            frameon=False,
            fontsize=9,
            labelcolor=palette.ink(),
        )
    return figure


def plot_cumulative(methods: Sequence[MethodCost], styles: Mapping[str, Style]) -> Figure:
    """Draws the FLOPs spent after each task, one line per method.

    Args:
      methods: those that spent anything.
      styles: by label.
    """
    figure, axes = svg.make_plot(8.4, 3.4)
    for method in methods:
        before = method.by_task.get("", 0)
        sums = list(
            accumulate((flops for task, flops in method.by_task.items() if task), initial=before)
        )
        style = styles[method.label]
        axes.plot(
            range(len(sums)),
            [float(value) for value in sums],
            color=palette.series(style.colour),
            linewidth=1.8,
            dashes=style.dash or (None, None),
            label=f"{method.label} ({method.over})",
        )
    totals = [method.total for method in methods if not method.partial] or [1.0]
    logarithmic = max(totals) > _FAR_APART * min(totals)
    if logarithmic:
        axes.set_yscale("log", nonpositive="mask")  # no line from the zero before the first task
        axes.set_ylim(bottom=min(totals) / 1000)
        axes.yaxis.set_minor_formatter("")
    else:
        axes.set_ylim(bottom=0)
    svg.format_flops_ticks(axes.yaxis)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
    axes.set_xlim(left=0)
    axes.set_xlabel("tasks seen, in stream order")
    axes.set_ylabel("FLOPs so far" + (" (log scale)" if logarithmic else ""))
    return figure


def _write_percentage(axes, row: int, at: float, share: float) -> None:
    # letters on hatches can't be read
    box = {"facecolor": palette.card(), "edgecolor": "none", "pad": 1.2, "alpha": 0.85}
    axes.text(
        at,
        row,
        f"{100 * share:.0f}%",
        ha="center",
        va="center",
        size=8.5,
        color=palette.ink(),
        bbox=box,
    )
