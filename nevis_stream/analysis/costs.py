"""Where the FLOPs of a run went, task by task: training of the chosen trials, the search for them,
and every other phase.
"""

from dataclasses import dataclass

from nevis_stream.cost.meter import NO_TRIAL
from nevis_stream.run_directory.ledger import Ledger
from nevis_stream.run_directory.records import Flops, PredictRecord, TrainRecord

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


def costs_by_task(ledger: Ledger) -> list[TaskCost]:
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
