"""What shared models forget, under the protocol all_seen."""

import pandas as pd
from markupsafe import Markup

from nevis_stream.analysis.forgetting import Forgetting, measure_forgetting
from nevis_stream.analysis.runs import Run
from nevis_stream.analysis.seeds import SeedGroup, spread
from nevis_stream.report.section import Section
from nevis_stream.report.svg import Drawing
from nevis_stream.report.templates import render

TITLE = "Forgetting: earlier tasks, predicted again"
_MEASURES = ("final", "backward_transfer", "forgetting")
Measured = list[tuple[SeedGroup, list[tuple[Run, Forgetting]]]]


def html(section: Section) -> Markup | None:
    """Returns a row of measures for each method, and the accuracy matrix of its first run; None
    without a complete run under the protocol all_seen.
    """
    measured = section.compute_once(_measure)
    rows = [
        (
            group,
            [spread([getattr(each, name) for _, each in runs]) for name in _MEASURES],
            runs[0][1],
        )
        for group, runs in measured
    ]
    return render("parts/forgetting.html", number=section.number, rows=rows) if rows else None


def tables(section: Section) -> dict[str, pd.DataFrame]:
    """Returns `forgetting`, a row for each run, and `accuracy_matrix`, one for each run and pair of
    tasks.
    """
    runs = [
        ({"label": group.label, "seed": run.header.seed, "run": run.name}, each)
        for group, runs in section.compute_once(_measure)
        for run, each in runs
    ]
    cells = [
        about | {"after": after, "task_id": task, "accuracy": each.accuracy[row, column]}
        for about, each in runs
        for row, after in enumerate(each.tasks)
        for column, task in enumerate(each.tasks[: row + 1])
    ]
    measures = [about | {name: getattr(each, name) for name in _MEASURES} for about, each in runs]
    return {"forgetting": pd.DataFrame(measures), "accuracy_matrix": pd.DataFrame(cells)}


def figures(section: Section) -> dict[str, Drawing]:
    """Returns none."""
    return {}


def _measure(section: Section) -> Measured:
    groups = (
        (group, [(run, each) for run in group.runs if (each := measure_forgetting(run.ledger))])
        for group in section.groups
    )
    return [(group, runs) for group, runs in groups if runs]
