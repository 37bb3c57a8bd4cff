"""Tables of runs as data frames: points, every task's errors, regret, learning curves."""

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from nevis_stream.analysis.methods import SPREADS, Find, MethodPoint
from nevis_stream.analysis.points import PARTS, describe_progress, list_learning_curves
from nevis_stream.analysis.regret import (
    compute_error_regret,
    compute_flops_regret,
    find_reference,
    make_empty_regret,
)
from nevis_stream.analysis.runs import Run
from nevis_stream.run_directory.records import PredictRecord, TrainRecord
from nevis_stream.vocabulary import PROTOCOLS

_RUN = ("learner", "budget", "seed")
_TASK = ("order", "task_id", "dataset_id", "year", "domain", "task_kind", "meta_split")
_RESULT = ("split", "n", "metric", "value", "error", "trial")
PER_TASK = (*_TASK, "judged", *_RESULT, "n_leaked", *_RUN, "run", "status", "reason")


def tabulate_points(methods: Sequence[MethodPoint]) -> pd.DataFrame:
    """Returns one row for every method (`row` is "method") and for every run of it ("run").

    Columns: label, learner, budget, seed (of a method: all its seeds), run (of a method: empty),
    `n` (seeds in the mean), judged_tasks, error, paper_total and full_total in FLOPs, each followed
    by its sample standard deviation over seeds (NaN for n < 2), the two fronts (methods only) and
    why a number is NaN.
    """
    rows: list[dict[str, Any]] = []
    for method in methods:
        group = method.group
        head = {"label": group.label, "learner": group.learner, "budget": group.budget}
        seeds = " ".join(str(run.header.seed) for run in group.runs)
        row = {"row": "method"} | head | {"seed": seeds, "run": "", "n": method.error.n}
        row |= {"judged_tasks": max(point.judged for point in method.points)}
        for name in SPREADS:
            row |= {name: getattr(method, name).mean, f"{name}_std": getattr(method, name).std}
        fronts = method.on_paper_front, method.on_full_front
        row |= dict(zip(("on_paper_front", "on_full_front"), fronts, strict=True))
        rows.append(row | {"reason": "; ".join(method.reasons)})
        for run, point in zip(group.runs, method.points, strict=True):
            row = {"row": "run"} | head | {"seed": run.header.seed, "run": run.name}
            row |= {"n": int(point.error == point.error), "judged_tasks": point.judged}
            row |= {name: getattr(point, name) for name in SPREADS} | {"reason": point.reason}
            rows.append(row)
    columns = list(rows[0]) if rows else []
    frame = pd.DataFrame(rows, columns=columns, dtype=object)
    return frame.astype({f"{name}_std": float for name in SPREADS} | {"error": float})


def tabulate_regrets(runs: Sequence[Run], find: Find = find_reference) -> pd.DataFrame:
    """Returns every run's regret curve: one row for each task and part ("judged" tasks, "whole"
    stream).

    Columns: the run's, `reference` (the indep run's name), part, position (from 1), order, task_id,
    difference and regret (cumulative). A run without a curve has one row with the reason.
    """
    rows: list[dict[str, Any]] = []
    for run in runs:
        reference, remark = find(run, runs)
        for part in ("judged", "whole"):
            head = _head(run, reference) | {"part": part}
            curve = make_empty_regret(remark)
            if reference:
                curve = compute_error_regret(run.ledger, reference.ledger, part == "judged")
            if not curve.values:
                rows.append(head | {"reason": curve.reason})
            for i, task_id in enumerate(curve.task_ids):
                row = {"position": i + 1, "order": curve.orders[i], "task_id": task_id}
                row |= {"difference": curve.differences[i], "regret": curve.values[i]}
                reason = curve.reason if math.isnan(curve.values[i]) else remark
                rows.append(head | row | {"reason": reason})
    columns = [*_RUN, "run", "reference", "part", "position", "order", "task_id"]
    frame = pd.DataFrame(rows, columns=[*columns, "difference", "regret", "reason"])
    return frame.astype({"position": "Int64", "order": "Int64"})


def tabulate_flops_regrets(runs: Sequence[Run]) -> pd.DataFrame:
    """Returns every run's regret in FLOPs, one row for each task of the whole stream, as
    `tabulate_regrets`.

    Columns: the run's, reference, position, order, task_id, flops (cumulative, training of all
    trials, minus the reference's), full_flops (the same of all phases) as exact integers, and
    reason.
    """
    rows: list[dict[str, Any]] = []
    for run in runs:
        reference, remark = find_reference(run, runs)
        head = _head(run, reference)
        curve = compute_flops_regret(run, reference) if reference else make_empty_regret(remark)
        if not reference or not curve.values:
            rows.append(head | {"reason": curve.reason})
            continue
        full = compute_flops_regret(run, reference, PARTS).values
        for i, task_id in enumerate(curve.task_ids):
            row = {"position": i + 1, "order": curve.orders[i], "task_id": task_id}
            row |= {"flops": curve.values[i], "full_flops": full[i], "reason": remark}
            rows.append(head | row)
    columns = [
        *_RUN,
        "run",
        "reference",
        "position",
        "order",
        "task_id",
        "flops",
        "full_flops",
        "reason",
    ]
    frame = pd.DataFrame(rows, columns=columns, dtype=object)
    return frame.astype({"position": "Int64", "order": "Int64"})


def tabulate_tasks(runs: Sequence[Run]) -> pd.DataFrame:
    """Returns one row for every run, task and predicted split, also for tasks that a run lacks.

    Columns: the task's (order to meta_split), `judged` (whether the protocol judges this task on
    this split), the result's (n in samples; value of the metric; error, lower is better),
    `n_leaked` (of the n, duplicates of training images), the run's and `status`: `ok`, `undefined`
    (predicted, but the metric has no value), `missing` (the run finished without it) or `partial`
    (an unfinished run has not reached it); `reason` says why a number is NaN.

    Args:
      runs: runs of one stream and protocol.
    """
    tasks = _tasks(runs)
    rows: list[dict[str, Any]] = []
    for run in runs:
        results: dict[str, list[PredictRecord]] = {}
        for result in run.ledger.of_kind(PredictRecord):
            results.setdefault(result.task_id, []).append(result)
        judged_part, split = PROTOCOLS[run.header.protocol]
        for task_id, task in tasks.items():
            judged = task.meta_split == judged_part
            predicted = results.get(task_id, [])
            rows += [
                _row(run, task, judged and result.split == split) | _result(result)
                for result in predicted
            ]
            if split not in {result.split for result in predicted}:
                rows.append(_row(run, task, judged) | _absent(run, task_id, split))
    return pd.DataFrame(rows, columns=list(PER_TASK)).astype({"n": "Int64"})


def tabulate_curves(runs: Sequence[Run]) -> pd.DataFrame:
    """Returns one row for every point of every run's learning curves: task_id, step, dev_error of
    the chosen trial.
    """
    rows = [
        (*(getattr(run.header, name) for name in _RUN), run.name, task, step, error)
        for run in runs
        for task, points in list_learning_curves(run.ledger).items()
        for step, error in points
    ]
    return pd.DataFrame(rows, columns=[*_RUN, "run", "task_id", "step", "dev_error"])


def _head(run: Run, reference: Run | None) -> dict[str, Any]:
    head = {name: getattr(run.header, name) for name in _RUN} | {"run": run.name}
    return head | {"reference": reference.name if reference else ""}


def _tasks(runs: Sequence[Run]) -> dict[str, TrainRecord]:
    tasks: dict[str, TrainRecord] = {}
    for run in runs:
        for train in run.ledger.of_kind(TrainRecord):
            tasks.setdefault(train.task_id, train)
    return dict(sorted(tasks.items(), key=lambda item: (item[1].order, item[0])))


def _absent(run: Run, task_id: str, split: str) -> dict[str, Any]:
    reasons = run.header.left_out or {}
    status, reason = "missing", reasons.get(task_id, f"not predicted on {split}")
    if not run.ledger.complete:
        status, reason = "partial", describe_progress(run.ledger)
    gap = {"split": split, "n": 0, "value": math.nan, "error": math.nan}
    return gap | {"status": status, "reason": reason}


def _row(run: Run, task: TrainRecord, judged: bool) -> dict[str, Any]:
    row = {name: getattr(task, name) for name in _TASK} | {"judged": judged}
    row |= {"n_leaked": task.n_leaked or 0}
    return row | {name: getattr(run.header, name) for name in _RUN} | {"run": run.name}


def _result(predicted: PredictRecord) -> dict[str, Any]:
    row = {name: getattr(predicted, name) for name in _RESULT}
    if predicted.error is None:
        reason = predicted.reason or "no reason recorded"
        return row | {"value": math.nan, "error": math.nan, "status": "undefined", "reason": reason}
    value = math.nan if predicted.value is None else predicted.value
    return row | {"value": value, "status": "ok", "reason": ""}
