"""Where the FLOPs go: training of the chosen trials, search, selection, validation, prediction; and
along the stream.
"""

import math
from collections.abc import Sequence

import pandas as pd
from markupsafe import Markup

from nevis_stream.analysis.costs import PARTS, TaskCost, costs_by_task
from nevis_stream.analysis.points import costs_unknown
from nevis_stream.analysis.runs import Run
from nevis_stream.analysis.seeds import SeedGroup, spread
from nevis_stream.report import svg
from nevis_stream.report.cost_plots import MethodCost, cumulative_plot, share_bars
from nevis_stream.report.section import Section
from nevis_stream.report.templates import render

TITLE = "FLOPs by phase and by task"


def html(section: Section) -> Markup:
    """Returns the shares as bars, the table of parts, the cost along the stream and the table of
    tasks.
    """
    methods = section.once(_methods)
    unknown = {group.label: costs_unknown(group.runs[0].ledger) for group in section.groups}
    return render(
        "parts/costs.html",
        section=section,
        methods=methods,
        columns=_columns(methods),
        pictures=svg.pictures(figures(section), section.number),
        legend=[(section.styles[m.label], f"{m.label} ({m.over})") for m in methods if m.total],
        unknown=[f"{label}: {reason}" for label, reason in unknown.items() if reason],
    )


def tables(section: Section) -> dict[str, pd.DataFrame]:
    """Returns `costs`, every run's FLOPs by part, and `costs_by_task`, as exact integers.

    Of an unfinished run these are those so far; a run whose costs are not known has no row.
    """
    names = ("learner", "budget", "seed")
    rows, by_task = [], []
    for run in (run for run in section.runs if not costs_unknown(run.ledger)):
        head = {name: getattr(run.header, name) for name in names} | {"run": run.name}
        status = {"status": "ok" if run.ledger.complete else "partial"}
        costs = costs_by_task(run.ledger)
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
    """Returns `costs`, the bars, and `costs_along_the_stream`; nothing where nothing was spent."""
    spent = [method for method in section.once(_methods) if method.total]
    bars = svg.Drawing(
        "Share of each part in the FLOPs of each method",
        lambda: share_bars(spent, _columns(spent)),
        "",
    )
    along = svg.Drawing(
        "Cumulative FLOPs along the stream, one line per method",
        lambda: cumulative_plot(spent, section.styles),
        "Line: mean over the n runs of a method; no bands.",
    )
    return {"costs": bars, "costs_along_the_stream": along} if spent else {}


def _methods(section: Section) -> list[MethodCost]:
    return [_method(group) for group in section.groups if not costs_unknown(group.runs[0].ledger)]


def _method(group: SeedGroup) -> MethodCost:
    finished = [run for run in group.runs if run.ledger.complete]
    runs: Sequence[Run] = finished or [max(group.runs, key=lambda run: len(run.ledger.records))]
    costs: list[list[TaskCost]] = [costs_by_task(run.ledger) for run in runs]
    names = dict.fromkeys(
        [*PARTS, *(part for each in costs for cost in each for part in cost.flops)]
    )
    tasks = {cost.task_id: cost.order for each in costs for cost in each}
    parts = {
        name: _mean([sum(cost.flops.get(name, 0) for cost in each) for each in costs])
        for name in names
    }
    sums = [{cost.task_id: sum(cost.flops.values()) for cost in each} for each in costs]
    by_task = {
        task: _mean([each.get(task, 0) for each in sums])
        for task in sorted(tasks, key=lambda task: tasks[task])
    }
    return MethodCost(group.label, len(runs), not finished, parts, by_task)


def _mean(values: Sequence[int]) -> float:
    return spread(values).mean


def _columns(methods: Sequence[MethodCost]) -> list[str]:
    return list(dict.fromkeys(part for method in methods for part in method.parts))
