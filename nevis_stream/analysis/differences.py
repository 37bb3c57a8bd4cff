"""Two methods compared: the difference of their errors, per task and overall, and what each
cost.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from nevis_stream.analysis.bootstrap import Interval, over_seeds, over_tasks
from nevis_stream.analysis.judged import TaskError, task_errors
from nevis_stream.analysis.points import point, unfinished
from nevis_stream.analysis.runs import Run
from nevis_stream.analysis.seeds import SeedGroup, spread
from nevis_stream.errors import BadInput

EQUAL = 0.05  # costs within this share of each other are called equal


@dataclass(frozen=True)
class TaskDifference:
    """One task: errors of A and B, each the mean over seeds, and the difference with its interval
    over seeds.
    """

    order: int
    task_id: str
    n: int
    a: float
    b: float
    difference: Interval


@dataclass(frozen=True)
class Cost:
    """cFLOP of A and B by one total, each the mean over its runs; NaN where a method has no
    finished run.
    """

    a: float
    b: float

    @property
    def ratio(self) -> float:
        """A's over B's; NaN where B cost nothing."""
        return self.a / self.b if self.b else math.nan

    @property
    def equal(self) -> bool:
        """Whether the two differ by at most 5%; False where a cost is not known."""
        return self.a == self.b or (
            self.ratio > 0 and abs(math.log(self.ratio)) <= math.log1p(EQUAL)
        )


@dataclass(frozen=True)
class Comparison:
    """Method A against method B; differences are A's error minus B's, so below zero A is better.

    Attributes:
      a, b: the runs that were used.
      tasks: the compared tasks, in stream order.
      over_tasks, over_seeds: the mean difference with the interval for other tasks like these, and
        for these very tasks.
      paper, full: cFLOP of the train phase, and of all phases.
      remarks: what was left out, and why.
    """

    a: SeedGroup
    b: SeedGroup
    tasks: tuple[TaskDifference, ...]
    over_tasks: Interval
    over_seeds: Interval
    paper: Cost
    full: Cost
    remarks: tuple[str, ...]


def compare(
    a: SeedGroup, b: SeedGroup, judged_only: bool = True, across_streams: bool = False
) -> Comparison:
    """Returns A against B on the tasks that all their runs have.

    Finished runs are used where a method has any. One that has none is compared on the tasks that
    it has come to, without costs. Tasks whose error is undefined in a run, or that were scored on
    other samples, are left out; every omission is a remark.

    Args:
      a, b: runs of the same protocol and, but for `across_streams`, of the same stream.
      judged_only: compare the tasks that the protocol judges, else the whole stream.
      across_streams: compare what two streams have in common: learner and stream then differ.

    Raises:
      BadInput: different streams or protocols, or no common task.
    """
    remarks = _check(a, b, across_streams)
    (a, left_a), (b, left_b) = _finished(a), _finished(b)
    errors = [[_errors(run, judged_only) for run in group.runs] for group in (a, b)]
    every = [of_run for of_group in errors for of_run in of_group]
    common, left = _common(every)
    if not common:
        why = (*left_a, *left_b, *left) or ("no run has come to a task that is judged",)
        raise BadInput(f"no task to compare: {'; '.join(why)}.")
    matrices = [
        np.array([[run[task].error for run in of_group] for task in common]) for of_group in errors
    ]
    tasks = []
    for place, task_id in enumerate(common):
        rows = [matrix[place : place + 1] for matrix in matrices]
        task = every[0][task_id]
        means = (float(row.mean()) for row in rows)
        tasks.append(
            TaskDifference(task.order, task_id, task.n, *means, over_seeds(*rows).possible)
        )
    return Comparison(
        a=a,
        b=b,
        tasks=tuple(tasks),
        over_tasks=over_tasks(*matrices).possible,
        over_seeds=over_seeds(*matrices).possible,
        paper=_cost(a, b, "paper_total"),
        full=_cost(a, b, "full_total"),
        remarks=(*remarks, *left_a, *left_b, *left),
    )


def _check(a: SeedGroup, b: SeedGroup, across_streams: bool) -> tuple[str, ...]:
    ours, theirs = a.runs[0].header, b.runs[0].header
    if ours.protocol != theirs.protocol:
        raise BadInput(
            f"different protocols: {a.label} is judged by {ours.protocol}, {b.label} by"
            f" {theirs.protocol}; their errors are on different splits of different tasks and"
            " cannot be compared."
        )
    if ours.stream_digest == theirs.stream_digest:
        return ()
    streams = (
        f"different streams: {a.label} ran on {ours.stream} ({ours.stream_digest[:8]}),"
        f" {b.label} on {theirs.stream} ({theirs.stream_digest[:8]})"
    )
    if across_streams:
        return (
            (
                f"{streams}; the difference is that of learner and stream together, and so are the"
                " costs"
            ),
        )
    raise BadInput(
        f"{streams}. With --across_streams the tasks that both hold are compared; the difference is"
        " then that of learner and stream together."
    )


def _finished(group: SeedGroup) -> tuple[SeedGroup, tuple[str, ...]]:
    """Returns the group's finished runs, or all where none is, with remarks on the others."""
    done = tuple(run for run in group.runs if run.ledger.complete)
    others = [run for run in group.runs if run not in done]
    verdict = (
        "left out" if done else "compared on the tasks that it has come to, so not E of the stream"
    )
    remarks = tuple(f"{run.name}: {unfinished(run.ledger)}; {verdict}" for run in others)
    return SeedGroup(done or group.runs, group.apart), remarks


def _errors(run: Run, judged_only: bool) -> dict[str, TaskError]:
    found = task_errors(run.ledger)
    return {error.task_id: error for error in found if error.judged or not judged_only}


def _common(every: Sequence[dict[str, TaskError]]) -> tuple[list[str], list[str]]:
    """Returns the tasks that every run can be compared on, and why the others are left out."""
    common, left = [], []
    tasks = dict.fromkeys(task for run in every for task in run)
    missing = 0
    for task in tasks:
        found = [run[task] for run in every if task in run]
        samples = sorted({error.n for error in found if error.n})
        undefined = [error.reason for error in found if math.isnan(error.error)]
        if len(found) < len(every):
            missing += 1
        elif undefined:
            left.append(f"{task}: no error in every run ({undefined[0]})")
        elif len(samples) > 1:
            left.append(f"{task}: scored on {' and on '.join(map(str, samples))} samples")
        else:
            common.append(task)
    if missing:
        left.append(f"{missing} of {len(tasks)} tasks are not in every run")
    return common, left


def _cost(a: SeedGroup, b: SeedGroup, total: str) -> Cost:
    return Cost(
        *(
            spread([getattr(point(run.ledger), total) for run in group.runs]).mean
            for group in (a, b)
        )
    )


def table(found: Comparison) -> pd.DataFrame:
    """Returns one row a task, the one where A gains most first, and last a row for all of them.

    Columns: task_id (empty in the last row), order, n (samples), error_a, error_b, difference (A -
    B), low and high (95% over
    seeds, on this very task or these very tasks), tasks_low and tasks_high (95% over tasks and
    seeds; last row only), seeds_a, seeds_b, label_a, label_b and reason (why there is no interval).
    """
    rows = [
        {"task_id": t.task_id, "order": t.order, "n": t.n, "error_a": t.a, "error_b": t.b}
        | _ends(t.difference)
        for t in sorted(found.tasks, key=lambda t: (t.difference.estimate, t.order))
    ]
    means = {
        f"error_{side}": math.fsum(getattr(t, side) for t in found.tasks) / len(found.tasks)
        for side in "ab"
    }
    overall = {"task_id": ""} | means | _ends(found.over_seeds)
    overall |= {"tasks_low": found.over_tasks.low, "tasks_high": found.over_tasks.high}
    overall["reason"] = "; ".join(filter(None, (overall["reason"], found.over_tasks.reason)))
    seeds = dict(zip(("seeds_a", "seeds_b"), found.over_seeds.seeds, strict=True))
    labels = {"label_a": found.a.label, "label_b": found.b.label}
    frame = pd.DataFrame([row | seeds | labels for row in (*rows, overall)], columns=_COLUMNS)
    return frame.astype({"order": "Int64", "n": "Int64"})


_COLUMNS = [
    "task_id",
    "order",
    "n",
    "error_a",
    "error_b",
    "difference",
    "low",
    "high",
    "tasks_low",
    "tasks_high",
]
_COLUMNS += ["seeds_a", "seeds_b", "label_a", "label_b", "reason"]


def _ends(interval: Interval) -> dict:
    return {
        "difference": interval.estimate,
        "low": interval.low,
        "high": interval.high,
        "reason": interval.reason,
    }
