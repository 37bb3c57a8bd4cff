"""Checks that a run's records agree: no event of the ledger is missing or repeated, so that sums
are right, and outcomes have the error that the ledger has.

The values of each record are checked where it is read (`nevis_stream.run_directory.records`).
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from nevis_stream import metrics
from nevis_stream.errors import BadInput
from nevis_stream.metrics.error_rate import ERROR_RATE
from nevis_stream.run_directory.records import (
    AnswerRecord,
    EndRecord,
    EventRecord,
    Header,
    PredictRecord,
    TrainRecord,
)
from nevis_stream.storage.record import Record

_CHANGED = "They were changed after the run; use an unchanged copy of the run directory."


def check(path: Path, records: Sequence[Record]) -> None:
    """Checks that no event is missing or repeated and that only published results lack costs.

    Args:
      path: the ledger.
      records: all that it has, of a complete run or not.

    Raises:
      BadInput: what is wrong, in which record of which file.
    """
    for place, record in enumerate(records):
        try:
            _check_place(place, record, len(records))
            _check_costs(records[0], record)
        except ValueError as error:
            raise BadInput(f"{path}, line {place + 1}: {error}") from None
    events = [each for each in records if isinstance(each, TrainRecord | PredictRecord)]
    _check_tasks(path, events)
    if records and isinstance(records[-1], EndRecord):
        _check_counts(path, records[0], events)


def check_outcomes(
    path: Path,
    arrays: Mapping[str, np.ndarray],
    predicted: PredictRecord,
    answer: AnswerRecord,
) -> None:
    """Checks that recorded outcomes are those of which the ledger has the error.

    Only an error rate is a mean of outcomes; those of several labels a sample are compared with
    their confidence instead.

    Args:
      path: their file.
      arrays: of the file: uint8[n] or uint8[n, labels] `correct`, and `confidence` alike.
      predicted: the record of the split that was predicted.
      answer: that of its `answers` whose outcomes these are.

    Raises:
      BadInput: `correct` is missing or not 0 and 1, or they contradict each other; the message
        names both errors.
    """
    correct = arrays.get("correct", np.zeros(0))
    if correct.dtype.kind not in "biu" or not np.isin(correct, (0, 1)).all():
        raise BadInput(f"{path}: has no array `correct` of 0 and 1.")
    if correct.ndim == 2 and "confidence" in arrays:
        confidence, sign = arrays["confidence"], 2.0 * correct - 1
        if confidence.shape != correct.shape or (sign * (confidence - 0.5) < 0).any():
            raise BadInput(f"{path}: `correct` and `confidence` contradict each other. {_CHANGED}")
    if answer.error is None or predicted.metric != ERROR_RATE.name:
        return
    if len(correct) != predicted.n:
        found, expected = f"{len(correct)} samples", f"{predicted.n}"
    else:
        error = 1 - float(correct.mean(dtype=np.float64))
        if math.isclose(error, answer.error, abs_tol=1e-9):
            return
        found, expected = f"an error of {error:.6g}", f"{answer.error:.6g}"
    raise BadInput(
        f"{path}: these outcomes on {predicted.split} of task {predicted.task_id!r} have {found},"
        f" but the ledger says {expected}. {_CHANGED}"
    )


def _check_costs(header: Record, record: Record) -> None:
    if not isinstance(record, Header | TrainRecord | PredictRecord):
        return
    assert isinstance(header, Header)  # `_check_place` has seen it
    if header.published:
        if record.flops is not None:
            raise ValueError("flops must be null in published results.")
        if record is header and not (header.source and header.flops_reason):
            raise ValueError("source or flops_reason is missing, which published results need.")
        if record is header and header.left_out is None:
            raise ValueError("left_out (reasons by task) is missing, which published results need.")
        return
    if record.flops is None:
        raise ValueError("flops is null; only published results may lack it.")
    if isinstance(record, PredictRecord) and record.n is None:
        raise ValueError("n of a predict record is null; only published results may lack it.")
    if isinstance(record, PredictRecord) and record.n == 0 and record.error is not None:
        raise ValueError("n of a predict record is 0, but it has an error.")
    if isinstance(record, PredictRecord):
        _check_error(record)


def _check_error(record: PredictRecord) -> None:
    value, error, metric = record.value, record.error, metrics.METRICS.get(record.metric)
    if value is None or error is None or metric is None:  # a metric of another package
        return
    if not math.isclose(metric.to_error(value), error, abs_tol=1e-9):
        raise ValueError(f"{record.metric} is {value}, which is not the error {error}.")


def _check_place(place: int, record: Record, length: int) -> None:
    if isinstance(record, Header) != (place == 0):
        raise ValueError(
            f"a {record.to_json()['kind']} record; the first line, and no other, is the run record."
        )
    if isinstance(record, EndRecord) and place != length - 1:
        raise ValueError("an end record before the last line.")
    if isinstance(record, EventRecord) and record.event != place - 1:
        raise ValueError(f"event {record.event}, but event {place - 1} is expected here.")


def _check_tasks(path: Path, events: Sequence[TrainRecord | PredictRecord]) -> None:
    trained: set[str] = set()
    predicted: set[tuple[str, str]] = set()
    for record in events:
        task = record.task_id
        if isinstance(record, TrainRecord):
            if task in trained:
                raise BadInput(f"{path}: task {task!r} is trained twice.")
            trained.add(task)
        else:
            if task not in trained:
                raise BadInput(f"{path}: task {task!r} is predicted but never trained.")
            if (task, record.split) in predicted:
                raise BadInput(f"{path}: {task!r}, {record.split} is predicted twice.")
            predicted.add((task, record.split))


def _check_counts(path: Path, header: Record, events: Sequence[Record]) -> None:
    trained = sum(isinstance(record, TrainRecord) for record in events)
    for name, count in {"tasks": trained, "events": len(events)}.items():
        announced = getattr(header, name)
        if announced not in (None, count):
            raise BadInput(f"{path}: ends after {count} of {announced} {name}.")
