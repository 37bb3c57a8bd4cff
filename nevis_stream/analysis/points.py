"""What a run's ledger says: each task's error and cost, its learning curves, and the run's mean
error and cost, the point (E, cFLOP) of NEVIS'22.
"""

import math
from dataclasses import dataclass
from typing import Any

from nevis_stream.cost.meter import NO_TRIAL
from nevis_stream.run_directory.ledger import Ledger
from nevis_stream.run_directory.records import Flops, PredictRecord, TrainRecord
from nevis_stream.vocabulary import PHASES, PROTOCOLS

TRAIN, SEARCH = "train", "search"
TRAINING = (TRAIN, SEARCH)
PARTS = (*TRAINING, "select", "validate", "predict", "pretrain")


@dataclass(frozen=True)
class TaskCost:
    """What one task cost in one run.

    Attributes:
      order: place in the stream; 0 for what was spent before the first task (`init`).
      task_id: the task; empty for `init`.
      flops: exact integers by part (`PARTS`). The parts are the ledger's phases, with the phase
        `train` divided in two: "train" for the chosen trials and what a learner trains outside of
        trials, "search" for all other trials.
    """

    order: int
    task_id: str
    flops: dict[str, int]


def list_costs_by_task(ledger: Ledger) -> list[TaskCost]:
    """Returns the cost of `init`, then that of every task begun (training and prediction together),
    in stream order.

    Together they are the full total of the run. The predictions of kept trials that were not chosen
    (`others`) serve the evaluation cache and are left out.
    """
    costs = {"": TaskCost(0, "", dict.fromkeys(PARTS, 0))}
    _add(costs[""], ledger.header.flops, None)
    for train in ledger.of_kind(TrainRecord):
        cost = TaskCost(train.order, train.task_id, dict.fromkeys(PARTS, 0))
        _add(costs.setdefault(train.task_id, cost), train.flops, train.chosen)
    for predicted in ledger.of_kind(PredictRecord):
        _add(costs[predicted.task_id], predicted.flops, predicted.trial)
    return list(costs.values())


def _add(cost: TaskCost, flops: Flops, chosen: int | None) -> None:
    """Adds the FLOPs of a record; `chosen` is the trial whose training is not search."""
    for phase, by_trial in flops.items():
        for trial, count in by_trial.items():
            searching = phase == TRAIN and trial not in (NO_TRIAL, str(chosen))
            cost.flops[SEARCH if searching else phase] += count


@dataclass(frozen=True)
class TaskError:
    """One task's error in one run.

    Attributes:
      order: place in the stream.
      task_id: the task.
      judged: whether the protocol judges this task.
      n: samples that were predicted; 0 if the task was not predicted or their number is unknown.
      error: lower is better (the error rate, or 1 - mAP); NaN if undefined.
      reason: why the error is NaN; empty otherwise.
    """

    order: int
    task_id: str
    judged: bool
    n: int
    error: float
    reason: str


def list_task_errors(ledger: Ledger) -> list[TaskError]:
    """Returns the error of every task that was trained, on the protocol's split, in stream order.

    Source: NEVIS'22, eq. 1; judged part: Algorithm 1 (meta-training: validation, here `dev_test`,
    of the meta-train tasks; meta-testing: test of the meta-test tasks).
    """
    meta_split, split = PROTOCOLS[ledger.header.protocol]
    results = {
        record.task_id: record for record in ledger.of_kind(PredictRecord) if record.split == split
    }
    errors = []
    for train in ledger.of_kind(TrainRecord):
        result = results.get(train.task_id)
        n, error, reason = 0, math.nan, f"not predicted on {split}"
        if result is not None:
            n, reason = result.n or 0, ""
            if result.error is None:
                reason = result.reason or "undefined, no reason recorded"
            else:
                error = float(result.error)
        judged = train.meta_split == meta_split
        errors.append(TaskError(train.order, train.task_id, judged, n, error, reason))
    return errors


@dataclass(frozen=True)
class Point:
    """The result of one run; lower is better in every number.

    Attributes:
      error: the mean error over the judged tasks (E in the paper); NaN if undefined.
      paper_total: FLOPs of the `train` phase over all trials of all tasks (cFLOP in the paper); NaN
        if the run is unfinished or its cost unknown.
      full_total: FLOPs of all phases, `init` included; NaN as `paper_total`, and if only a part of
        the cost is known.
      judged: number of judged tasks.
      reason: why a number is NaN; empty where all are defined.
    """

    error: float
    paper_total: int | float
    full_total: int | float
    judged: int
    reason: str


def point(ledger: Ledger) -> Point:
    """Returns the point of one run.

    An unfinished run has no point: a mean over some of the tasks, or the cost of a part of the
    stream, would be the result of another experiment.

    Source: NEVIS'22, section 3: eq. 2 (E, the mean error) and eq. 3 (cFLOP, every trial included).
    """
    judged = [result for result in list_task_errors(ledger) if result.judged]
    if not ledger.complete:
        return Point(math.nan, math.nan, math.nan, len(judged), describe_progress(ledger))
    costs = sum_phase_flops(ledger)
    totals = costs["train"], sum(costs.values())
    unknown = explain_unknown_costs(ledger)
    if not judged:
        reason = "the stream has no task that this protocol judges"
        return Point(math.nan, *totals, 0, _join_reasons(reason, unknown))
    undefined = [f"{r.task_id}: {r.reason}" for r in judged if math.isnan(r.error)]
    if undefined:
        more = f" and {len(undefined) - 3} more" if len(undefined) > 3 else ""
        reason = f"error undefined for {'; '.join(undefined[:3])}{more}"
        return Point(math.nan, *totals, len(judged), _join_reasons(reason, unknown))
    error = math.fsum(result.error for result in judged) / len(judged)
    return Point(error, *totals, len(judged), unknown)


def explain_unknown_costs(ledger: Ledger) -> str:
    """Returns why the costs of a run, or a part of them, are unknown; empty if they were counted.

    What nobody counted is unknown and not nothing: a learner that computes nothing charges 0.
    """
    if ledger.header.flops is None:
        return ledger.header.flops_reason
    missing = " and ".join(ledger.uncounted)
    return missing and (
        f"cost unknown: nothing was charged to {missing} (ctx.jit or ctx.charge; ctx.charge(0)"
        " says that it costs nothing)"
    )


def sum_phase_flops(ledger: Ledger) -> dict[str, int | float]:
    """Returns the FLOPs of each phase over all records and trials: exact integers, or NaN if they
    are unknown.

    The predictions of kept trials that were not chosen (`others`) are left out: they serve the
    evaluation cache, not the learner.
    """
    if ledger.header.flops is None:
        return dict.fromkeys(PHASES, math.nan)
    totals: dict[str, int | float] = dict.fromkeys(PHASES, 0)
    totals |= dict.fromkeys(ledger.uncounted, math.nan)
    charged = [e for e in ledger.events if isinstance(e, TrainRecord | PredictRecord)]
    for record in (ledger.header, *charged):
        for phase, by_trial in record.flops.items():
            totals[phase] += sum(by_trial.values())
    return totals


def _join_reasons(*reasons: str) -> str:
    return "; ".join(filter(None, reasons))


def describe_progress(ledger: Ledger) -> str:
    """Returns how far an incomplete run has come, in words."""
    tasks, events = len(ledger.of_kind(TrainRecord)), len(ledger.events)
    if ledger.header.tasks is None:  # the number follows from the results
        return f"unfinished: {tasks} tasks trained, {events} events done"
    return (
        f"unfinished: {tasks} of {ledger.header.tasks} tasks trained,"
        f" {events} of {ledger.header.events} events done"
    )


def list_learning_curves(ledger: Ledger) -> dict[str, list[tuple[float, float]]]:
    """Returns, for every trained task, the (step, dev error) pairs of its chosen trial.

    Points whose dev error is not a finite number are left out; a trial without a curve has an empty
    list. Learners may record anything (`info`), so every value is checked.
    """
    return {
        train.task_id: _pairs(train.chosen_trial and train.chosen_trial.info.get("curve"))
        for train in ledger.of_kind(TrainRecord)
    }


def _pairs(curve: Any) -> list[tuple[float, float]]:
    points = curve if isinstance(curve, list) else []
    triples = [p for p in points if isinstance(p, list) and len(p) == 3]
    return [(step, dev) for step, _, dev in triples if _is_usable(step) and _is_usable(dev)]


def _is_usable(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and abs(value) <= 2**53
