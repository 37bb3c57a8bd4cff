"""Which results a protocol judges: each task's error on the protocol's split, in stream order."""

import math
from dataclasses import dataclass

from nevis_stream.run_directory.ledger import Ledger
from nevis_stream.run_directory.records import PredictRecord, TrainRecord
from nevis_stream.vocabulary import PROTOCOLS


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


def task_errors(ledger: Ledger) -> list[TaskError]:
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
