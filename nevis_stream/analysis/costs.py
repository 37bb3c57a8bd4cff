"""Where the FLOPs of a run went: trials that were chosen, the search for them, and every other
phase, task by task.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nevis_stream.run_directory.ledger import Ledger
from nevis_stream.run_directory.records import Flops, PredictRecord, TrainRecord

TRAIN, SEARCH = "train", "search"
PARTS = (TRAIN, SEARCH, "select", "validate", "predict", "pretrain")


@dataclass(frozen=True)
class TaskCost:
    """What one task cost in one run.

    Attributes:
      order: place in the stream; 0 for what was spent before it (`init`).
      task_id: the task; empty for `init`.
      flops: exact integers by part, see `cost_parts`.
    """

    order: int
    task_id: str
    flops: Mapping[str, int]


def cost_parts(ledger: Ledger) -> dict[str, int]:
    """Returns FLOPs by part, as exact integers that add up to the full total.

    The parts are the ledger's phases, `train` divided in two: "train" of the chosen trials (and
    what a learner trains outside of trials), "search" of all others. Kept trials' predictions
    (`others`) serve the evaluation cache and are left out.
    """
    return _added(cost.flops for cost in costs_by_task(ledger))


def costs_by_task(ledger: Ledger) -> list[TaskCost]:
    """Returns the cost of `init`, then of every task that was begun, training and prediction
    together, in stream order.
    """
    found: dict[str, list[dict[str, int]]] = {"": [_parts(ledger.header.flops, None)]}
    orders = {"": 0}
    for record in ledger.of_kind(TrainRecord):
        orders[record.task_id] = record.order
        found[record.task_id] = [_parts(record.flops, record.chosen)]
    for record in ledger.of_kind(PredictRecord):
        found[record.task_id].append(_parts(record.flops, record.trial))
    return [TaskCost(orders[task], task, _added(parts)) for task, parts in found.items()]


def _parts(flops: Flops, chosen: int | None) -> dict[str, int]:
    parts = dict.fromkeys(PARTS, 0)
    for phase, by_trial in flops.items():
        if phase == TRAIN:
            own = sum(by_trial.get(trial, 0) for trial in ("-", str(chosen)))
            parts[TRAIN] += own
            parts[SEARCH] += sum(by_trial.values()) - own
        else:
            parts[phase] += sum(by_trial.values())
    return parts


def _added(all_parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total = dict.fromkeys(PARTS, 0)
    for parts in all_parts:
        for part, flops in parts.items():
            total[part] += flops
    return total
