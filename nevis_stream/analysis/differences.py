"""Two methods compared: the difference of their errors, by task and overall, and their costs."""

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from nevis_stream.analysis import verdict
from nevis_stream.analysis.bootstrap import Interval, bound_over_seeds, bound_over_tasks
from nevis_stream.analysis.points import TaskError, describe_progress, list_task_errors, point
from nevis_stream.analysis.runs import Run, read_fingerprints
from nevis_stream.analysis.seeds import SeedGroup, spread
from nevis_stream.errors import BadInput, plural

EQUAL = 0.05  # costs within this share of each other are called equal


@dataclass(frozen=True)
class TaskDifference:
    """One task: the errors of A and B, each a mean over seeds, and their difference with its
    interval over seeds. `n` is the number of samples.
    """

    order: int
    task_id: str
    n: int
    a: float
    b: float
    difference: Interval


@dataclass(frozen=True)
class CostPair:
    """What A and B cost in FLOPs, each a mean over its runs; NaN where a method has no finished
    run.
    """

    a: float
    b: float

    @property
    def ratio(self) -> float:
        """A's cost divided by B's; NaN where B cost nothing."""
        return self.a / self.b if self.b else math.nan

    @property
    def equal(self) -> bool:
        """Whether the two differ by at most 5%; False where a cost is unknown."""
        return self.a == self.b or (
            self.ratio > 0 and abs(math.log(self.ratio)) <= math.log1p(EQUAL)
        )


@dataclass(frozen=True)
class Comparison:
    """Method A against method B; differences are A's error minus B's, so below zero A is better.

    Attributes:
      a, b: the runs that were used.
      tasks: the compared tasks, in stream order.
      over_tasks: the mean difference with its interval for other tasks like these.
      over_seeds: the same with its interval for these same tasks.
      paper, full: the cost of the train phase, and of all phases.
      remarks: what was left out, and why.
    """

    a: SeedGroup
    b: SeedGroup
    tasks: tuple[TaskDifference, ...]
    over_tasks: Interval
    over_seeds: Interval
    paper: CostPair
    full: CostPair
    remarks: tuple[str, ...]

    def __str__(self) -> str:
        """Says in words what the runs can tell, at what cost, and what was left out."""
        remarks = [f"note: {each}" for each in (*verdict.list_cautions(self), *self.remarks)]
        return "\n".join([verdict.state_verdict(self), verdict.state_costs(self), *remarks])

    def _repr_html_(self) -> str:
        """Shows the words and the table in a notebook."""
        words = "".join(f"<p>{html.escape(line)}</p>" for line in str(self).splitlines())
        return words + self.to_pandas().to_html(index=False, float_format="{:.4f}".format)

    def to_pandas(self) -> pd.DataFrame:
        """Returns a row for each task and one for all; see `make_table`."""
        return make_table(self)


def compare_groups(
    a: SeedGroup, b: SeedGroup, judged_only: bool = True, across_streams: bool = False
) -> Comparison:
    """Returns A against B on the tasks that all their runs have.

    If a method has finished runs, only those are used. A method without any is compared on the
    tasks that it has reached, without costs. Tasks whose error is undefined in a run, or that were
    scored on different samples or are other data of the same name, are left out; every omission is
    a remark.

    Args:
      a, b: runs of the same protocol and, unless `across_streams`, of the same stream.
      judged_only: whether to compare only the tasks that the protocol judges.
      across_streams: whether to compare the tasks that two streams have in common, with the same
        data; differences are then those of learner and stream together.

    Raises:
      BadInput: different streams or protocols, or no common task.
    """
    remarks = _check(a, b, across_streams)
    (a, remarks_a), (b, remarks_b) = _select_finished(a), _select_finished(b)
    runs = [*a.runs, *b.runs]
    errors = [_list_errors(run, judged_only) for run in runs]
    # runs of one stream have the same data
    data = [read_fingerprints(run) for run in runs] if remarks else []
    common, omissions = _find_common(errors, data)
    if not common:
        # without the consequence (after "; "), which speaks of tasks that are compared
        unfinished_runs = [each.partition("; ")[0] for each in (*remarks_a, *remarks_b)]
        reasons = (*unfinished_runs, *omissions)
        reasons = reasons or ("no run has reached a task that is judged",)
        raise BadInput(f"no task to compare: {'; '.join(reasons)}.")
    sides = [
        np.array([[of_run[task].error for of_run in side] for task in common])
        for side in (errors[: len(a.runs)], errors[len(a.runs) :])
    ]
    tasks = []
    for place, task_id in enumerate(common):
        task, rows = errors[0][task_id], [side[place : place + 1] for side in sides]
        first, second = (float(row.mean()) for row in rows)
        difference = bound_over_seeds(*rows).possible
        tasks.append(TaskDifference(task.order, task_id, task.n, first, second, difference))
    return Comparison(
        a=a,
        b=b,
        tasks=tuple(tasks),
        over_tasks=bound_over_tasks(*sides).possible,
        over_seeds=bound_over_seeds(*sides).possible,
        paper=CostPair(average_cost(a, "paper_total"), average_cost(b, "paper_total")),
        full=CostPair(average_cost(a, "full_total"), average_cost(b, "full_total")),
        remarks=(*remarks, *remarks_a, *remarks_b, *omissions),
    )


def _check(a: SeedGroup, b: SeedGroup, across_streams: bool) -> tuple[str, ...]:
    """Returns a remark where the streams differ, as `across_streams` permits."""
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
    if not across_streams:
        raise BadInput(
            f"{streams}. With --across_streams the tasks in both are compared if their data are the"
            " same; differences are then those of learner and stream together."
        )
    return (f"{streams}; differences and costs are those of learner and stream together",)


def _select_finished(group: SeedGroup) -> tuple[SeedGroup, tuple[str, ...]]:
    """Returns the group's finished runs, or all if there is none, with remarks on the others."""
    finished = tuple(run for run in group.runs if run.ledger.complete)
    consequence = (
        "left out"
        if finished
        else "compared on the tasks it has reached, so this is not the mean error of the stream"
    )
    remarks = tuple(
        f"{run.name}: {describe_progress(run.ledger)}; {consequence}"
        for run in group.runs
        if run not in finished
    )
    return SeedGroup(finished or group.runs, group.apart), remarks


def _list_errors(run: Run, judged_only: bool) -> dict[str, TaskError]:
    errors = list_task_errors(run.ledger)
    return {error.task_id: error for error in errors if error.judged or not judged_only}


def _find_common(
    errors_by_run: Sequence[dict[str, TaskError]], data: Sequence[Mapping[str, str]]
) -> tuple[list[str], list[str]]:
    """Returns the tasks on which all runs can be compared, and remarks: why the others are left
    out, and of how many it is not known whether their data are the same.

    Args:
      errors_by_run: of each run, the errors by task.
      data: of each run, what identifies the data of a task; none if all have the same.
    """
    common, omissions, missing, unknown = [], [], 0, 0
    tasks = dict.fromkeys(task for of_run in errors_by_run for task in of_run)
    for task in tasks:
        errors = [of_run[task] for of_run in errors_by_run if task in of_run]
        samples = sorted({error.n for error in errors if error.n})
        stated = [of_run.get(task, "") for of_run in data]
        different = sorted({*stated} - {""})
        undefined = [error.reason for error in errors if math.isnan(error.error)]
        if len(errors) < len(errors_by_run):
            missing += 1
        elif undefined:
            omissions.append(f"{task}: its error is undefined in a run ({undefined[0]})")
        elif len(samples) > 1:
            omissions.append(f"{task}: scored on {' and on '.join(map(str, samples))} samples")
        elif len(different) > 1:
            texts = " and ".join(each[:8] for each in different)
            omissions.append(f"{task}: other data under the same name (fingerprints {texts})")
        else:
            common.append(task)
            unknown += "" in stated
    if unknown:
        omissions.append(f"{plural(unknown, 'task')}: whether the data are the same is not known")
    if missing:
        omissions.append(f"{missing} of {len(tasks)} tasks are not in every run")
    return common, omissions


def average_cost(group: SeedGroup, total: str) -> float:
    """Returns a total of a method (`paper_total` or `full_total` of `points.Point`), as a mean over
    its finished runs; NaN without any.
    """
    return spread([getattr(point(run.ledger), total) for run in group.runs]).mean


def make_table(comparison: Comparison) -> pd.DataFrame:
    """Returns one row for each task, the one where A gains most first, and a last row for all.

    Columns: task_id (empty in the last row), order, n (samples), error_a, error_b, difference (A -
    B), low and high (95% over seeds, on these same tasks), tasks_low and tasks_high (95% over tasks
    and seeds; last row only), seeds_a, seeds_b, label_a, label_b and reason (why there is no
    interval).
    """
    tasks = sorted(comparison.tasks, key=lambda task: (task.difference.estimate, task.order))
    rows: list[dict[str, Any]] = [
        {
            "task_id": task.task_id,
            "order": task.order,
            "n": task.n,
            "error_a": task.a,
            "error_b": task.b,
        }
        | _list_ends(task.difference)
        for task in tasks
    ]
    over_seeds, over_tasks = comparison.over_seeds, comparison.over_tasks
    overall = {
        "task_id": "",
        "error_a": math.fsum(task.a for task in tasks) / len(tasks),
        "error_b": math.fsum(task.b for task in tasks) / len(tasks),
        **_list_ends(over_seeds),
        "tasks_low": over_tasks.low,
        "tasks_high": over_tasks.high,
        "reason": "; ".join(filter(None, (over_seeds.reason, over_tasks.reason))),
    }
    frame = pd.DataFrame([*rows, overall], columns=_COLUMNS)
    frame["seeds_a"], frame["seeds_b"] = over_seeds.seeds
    frame["label_a"], frame["label_b"] = comparison.a.label, comparison.b.label
    return frame.astype({"order": "Int64", "n": "Int64"})


_ERRORS = ["task_id", "order", "n", "error_a", "error_b"]
_INTERVALS = ["difference", "low", "high", "tasks_low", "tasks_high"]
_METHODS = ["seeds_a", "seeds_b", "label_a", "label_b", "reason"]
_COLUMNS = [*_ERRORS, *_INTERVALS, *_METHODS]


def _list_ends(interval: Interval) -> dict[str, Any]:
    return {"difference": interval.estimate} | {
        name: getattr(interval, name) for name in ("low", "high", "reason")
    }
