"""Checks that a ledger is consistent: no event is missing or repeated, so that sums are right.

The values of each record are checked where it is read (`nevis_stream.run_directory.records`).
"""

import math

from nevis_stream import metrics
from nevis_stream.errors import BadInput
from nevis_stream.run_directory.ledger import Ledger
from nevis_stream.run_directory.records import (
    EndRecord,
    EventRecord,
    Header,
    PredictRecord,
    Record,
    TrainRecord,
)


def check(ledger: Ledger) -> None:
    """Checks that no event is missing or repeated and that only published results lack costs.

    Args:
      ledger: a run's ledger, complete or not.

    Raises:
      BadInput: what is wrong, in which record of which file.
    """
    if not ledger.records:
        return
    for place, record in enumerate(ledger.records):
        try:
            _check_costs(ledger.header, record)
            _check_place(place, record, len(ledger.records))
        except ValueError as error:
            raise BadInput(f"{ledger.path}, line {place + 1}: {error}") from None
    _check_tasks(ledger)
    if ledger.complete:
        _check_counts(ledger)


def _check_costs(header: Header, record: Record) -> None:
    if not isinstance(record, Header | TrainRecord | PredictRecord):
        return
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
    value, error, metric = record.value, record.error, metrics.registry().get(record.metric)
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


def _check_tasks(ledger: Ledger) -> None:
    trained: set[str] = set()
    predicted: set[tuple[str, str]] = set()
    for record in ledger.events:
        task = record.task_id
        if isinstance(record, TrainRecord):
            if task in trained:
                raise BadInput(f"{ledger.path}: task {task!r} is trained twice.")
            trained.add(task)
        else:
            if task not in trained:
                raise BadInput(f"{ledger.path}: task {task!r} is predicted but never trained.")
            if (task, record.split) in predicted:
                raise BadInput(f"{ledger.path}: {task!r}, {record.split} is predicted twice.")
            predicted.add((task, record.split))


def _check_counts(ledger: Ledger) -> None:
    counts = {"tasks": len(ledger.of_kind(TrainRecord)), "events": len(ledger.events)}
    for name, count in counts.items():
        announced = getattr(ledger.header, name)
        if announced not in (None, count):
            raise BadInput(f"{ledger.path}: ends after {count} of {announced} {name}.")
