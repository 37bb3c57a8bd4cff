"""The records of a ledger: a frozen dataclass for each kind of line, checked when it is read, and
what must hold between them.

docs/run-directory.md explains each field. `parse` turns the JSON object of a line into a record and
`to_json` turns it back, so that `encode(record.to_json())` is the line again. `check_events` checks
the lines of a file together: their order, number and costs.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np

from nevis_stream import metrics
from nevis_stream.cost.meter import NO_TRIAL
from nevis_stream.errors import BadInput, unknown
from nevis_stream.metrics import ERROR_RATE
from nevis_stream.storage.record import (
    Record,
    check_choice,
    check_object,
    check_whole,
    number,
    show_value,
)
from nevis_stream.vocabulary import META_SPLITS, PHASES, POOL, PROTOCOLS, SPLITS, TASK_KINDS

SCHEMA = 3
"""Version of the ledgers that are written; older ones can be read."""

LARGEST_FLOPS = 10**36
"""More than all computers of the world together have done so far."""


def parse_flops_by_trial(value: Any) -> Mapping[str, Mapping[str, int]]:
    """FLOPs by phase and trial."""
    for phase, by_trial in check_object(value).items():
        if phase not in PHASES:
            raise ValueError(f"is not valid: {unknown('phase', phase, PHASES)}")
        if not isinstance(by_trial, dict):
            raise ValueError(f"of {phase!r} is {show_value(by_trial)}, not whole numbers by trial")
        for trial, count in by_trial.items():
            if trial != NO_TRIAL and not (trial.isascii() and trial.isdigit()):
                raise ValueError(f"of {phase!r} names the trial {trial!r}; valid: a number, or -")
            try:
                check_whole(0, LARGEST_FLOPS)(count)
            except ValueError as error:
                raise ValueError(f"of {phase!r}, trial {trial} {error}") from None
    return value


Flops = Annotated[Mapping[str, Mapping[str, int]], parse_flops_by_trial]
"""Exact FLOPs by phase and trial; see `nevis_stream.cost.compute`."""
Share = Annotated[float, number(0, 1)]
Value = Annotated[float, number(-1e9, 1e9)]
Pixels = Annotated[float, number(0, 1e9)]


@dataclass(frozen=True, kw_only=True)
class Header(Record):
    """The first record: which run this is, and the FLOPs of `init`.

    `tasks` and `events` are None if the next task depends on results; then `rule` names what
    decides. `source`, `flops_reason` and `left_out` belong to published results, whose `flops` are
    None.
    """

    kind: ClassVar[str] = "run"
    schema: Annotated[int, check_whole(1, SCHEMA)]
    learner: str
    budget: str | None
    stream: str
    stream_digest: str
    protocol: Annotated[str, check_choice("protocol", PROTOCOLS)]
    seed: Annotated[int, check_whole(high=2**63)]
    config_hash: str
    tasks: int | None
    events: int | None
    flops: Flops | None
    rule: str | None = None
    source: str | None = None
    flops_reason: str | None = None
    left_out: Mapping[str, str] | None = None

    @property
    def published(self) -> bool:
        """Whether the results were copied from a publication."""
        return self.source is not None


@dataclass(frozen=True, kw_only=True)
class TrialRecord(Record):
    """A trial of a train event; `info` is the learner's own and may contain anything."""

    trial: int
    predictor_id: str
    step: int
    info: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class EventRecord(Record):
    """A task was trained on, or one of its splits predicted."""

    event: int
    order: int
    task_id: str

    @property
    def name(self) -> str:
        """The common part of the names of the event's files: its number and task."""
        return make_event_name(self.event, self.task_id)

    @property
    def key(self) -> tuple[str, str | None, str | None]:
        """Unique in a run; see `nevis_stream.streams.task.Event.key`."""
        return self.task_id, getattr(self, "split", None), getattr(self, "after", None)


@dataclass(frozen=True, kw_only=True)
class TrainRecord(EventRecord):
    """A task was trained on; published results have `size` and no other counts.

    An adaptive stream states the labels that it has used up to this task: `labels`, of the
    samples in training sets, and `labels_seen`, of these and of those that its rule looked at; and
    `drawn`, a digest of the ids of the training set.
    """

    kind: ClassVar[str] = "train"
    dataset_id: str
    year: Annotated[int, check_whole(high=9999)] | None
    domain: str
    task_kind: Annotated[str, check_choice("task_kind", TASK_KINDS)]
    meta_split: Annotated[str, check_choice("meta_split", META_SPLITS)]
    num_classes: int
    n_train: int | None
    n_dev: int | None
    n_leaked: int | None = None
    size: int | None = None
    mean_height: Pixels | None = None
    mean_width: Pixels | None = None
    labels: int | None = None
    labels_seen: int | None = None
    drawn: str | None = None
    flops: Flops | None
    chosen: int | None
    trials: tuple[TrialRecord, ...]

    @property
    def chosen_trial(self) -> TrialRecord | None:
        """The trial that was chosen; None in published results."""
        return next((trial for trial in self.trials if trial.trial == self.chosen), None)


@dataclass(frozen=True, kw_only=True)
class AnswerRecord(Record):
    """The answers of a kept trial; those of the chosen one stand in its `PredictRecord`."""

    trial: int
    predictor_id: str
    outcomes: str
    flops: Flops
    metric: str | None = None
    value: Value | None
    error: Share | None
    reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class PredictRecord(EventRecord):
    """A split of a task was predicted by the predictors of train event `train_event`, which is None
    up to schema 2 and in published results.
    """

    kind: ClassVar[str] = "predict"
    train_event: int | None = None
    split: Annotated[str, check_choice("split", (*SPLITS, POOL))]
    n: int | None
    metric: str
    value: Value | None
    error: Share | None
    reason: str | None = None
    predictor_id: str | None
    trial: int | None
    outcomes: str | None
    flops: Flops | None
    others: tuple[AnswerRecord, ...]

    @property
    def answers(self) -> tuple[AnswerRecord, ...]:
        """Those of all kept trials, the chosen one first."""
        own = {each.name: getattr(self, each.name) for each in fields(AnswerRecord)}
        return AnswerRecord(**own), *self.others


@dataclass(frozen=True, kw_only=True)
class RecallRecord(EventRecord):
    """Under the protocol all_seen, an earlier task was predicted again, by the model as it was
    `after` the task of train event `train_event`. Its FLOPs are no part of the cost of the run.
    """

    kind: ClassVar[str] = "recall"
    after: str
    train_event: int
    split: Annotated[str, check_choice("split", SPLITS)]
    n: int
    metric: str
    value: Value | None
    error: Share | None
    reason: str | None = None
    flops: Flops


@dataclass(frozen=True, kw_only=True)
class EndRecord(Record):
    """The last record of a complete run."""

    kind: ClassVar[str] = "end"
    events: int


RECORDS: dict[str, type[Record]] = {
    record.kind: record for record in (Header, TrainRecord, PredictRecord, RecallRecord, EndRecord)
}


def parse(values: Any) -> Record:
    """Returns the record of the JSON value of a ledger's line.

    Raises:
      ValueError: it is not a record; the message says why.
    """
    kind = check_object(values).get("kind")
    if not isinstance(kind, str) or kind not in RECORDS:
        raise ValueError(f"kind {show_value(kind)}; valid: {', '.join(RECORDS)}")
    try:
        return RECORDS[kind].from_json(values)
    except ValueError as error:
        raise ValueError(f"{kind} record: {error}") from None


def make_event_name(event: int, task_id: str) -> str:
    """Returns the common part of the names of an event's files: its number and task."""
    return f"{event:04d}-{task_id}"


def make_tree_name(trial: int) -> str:
    """Returns the name of a trial's predictor in its checkpoint."""
    return f"predictor-{trial:03d}"


def make_predictor_id(config_hash: str, task_id: str, trial: int, step: int) -> str:
    """Returns a predictor's id of 16 hex digits."""
    return hashlib.sha256(f"{config_hash}/{task_id}/{trial}/{step}".encode()).hexdigest()[:16]


_CHANGED = "They were changed after the run; use an unchanged copy of the run directory."


def check_events(path: Path, records: Sequence[Record]) -> None:
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
    kinds = TrainRecord | PredictRecord | RecallRecord
    events = [each for each in records if isinstance(each, kinds)]
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


def _check_tasks(
    path: Path, events: "Sequence[TrainRecord | PredictRecord | RecallRecord]"
) -> None:
    trained: set[str] = set()
    predicted: set[tuple[str, str | None, str | None]] = set()
    for record in events:
        task = record.task_id
        if isinstance(record, TrainRecord):
            if task in trained:
                raise BadInput(f"{path}: task {task!r} is trained twice.")
            trained.add(task)
        else:
            if task not in trained:
                raise BadInput(f"{path}: task {task!r} is predicted but never trained.")
            if record.key in predicted:
                raise BadInput(f"{path}: {task!r}, {record.split} is predicted twice.")
            predicted.add(record.key)


def _check_counts(path: Path, header: Record, events: Sequence[Record]) -> None:
    trained = sum(isinstance(record, TrainRecord) for record in events)
    for name, count in {"tasks": trained, "events": len(events)}.items():
        announced = getattr(header, name)
        if announced not in (None, count):
            raise BadInput(f"{path}: ends after {count} of {announced} {name}.")
