"""The records of a ledger: a frozen dataclass for each kind of line, checked when it is read.

docs/run-directory.md says what each field means. `parse` turns the JSON object of a line into a
record and `to_json` turns it back, so that `encode(record.to_json())` is the line again.
"""

import dataclasses
import hashlib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass
from typing import Any, ClassVar, Self, dataclass_transform

from nevis_stream.run_directory.checks import (
    Check,
    choice,
    flops_by_trial,
    json_object,
    nullable,
    number,
    shown,
    text,
    whole,
)
from nevis_stream.vocabulary import META_SPLITS, PROTOCOLS, SPLITS, TASK_KINDS

SCHEMA = 3
"""Of the ledgers that are written; older ones can be read."""

Flops = Mapping[str, Mapping[str, int]]
"""Exact FLOPs by phase and trial; see `nevis_stream.cost.meter`."""


def checked(check: Check, *, default: Any = MISSING) -> Any:
    """Declares a field of a record.

    Args:
      check: returns a valid JSON value as the field's value; raises ValueError otherwise.
      default: None: the field is optional, and left out of the line where it is None.
    """
    metadata = {"check": check, "optional": default is None}
    return dataclasses.field(default=default, metadata=metadata)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(checked,))
def record_type(cls: type[Any]) -> Any:
    """Makes a class of checked fields a type of records."""
    return dataclass(frozen=True, kw_only=True)(cls)


@record_type
class Record:
    """What all records have in common."""

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Returns the record of a JSON object; fields that it does not know are ignored.

        Raises:
          ValueError: a field is missing or its value is not valid; the message names it.
        """
        read = {}
        for field in dataclasses.fields(cls):
            if field.name not in values:
                if field.metadata["optional"]:
                    continue
                raise ValueError(f"{field.name} is missing")
            try:
                read[field.name] = field.metadata["check"](values[field.name])
            except ValueError as error:
                raise ValueError(f"{field.name} {error}") from None
        return cls(**read)

    def to_json(self) -> dict[str, Any]:
        """Returns the JSON object of the record."""
        values = {
            field.name: _to_json(getattr(self, field.name))
            for field in dataclasses.fields(self)
            if not (field.metadata["optional"] and getattr(self, field.name) is None)
        }
        kind = getattr(self, "kind", None)
        return values if kind is None else values | {"kind": kind}


def _to_json(value: Any) -> Any:
    if isinstance(value, Record):
        return value.to_json()
    return [_to_json(each) for each in value] if isinstance(value, tuple) else value


def several(record: type[Record]) -> Check:
    """A list of records of one type."""

    def check(value: Any) -> tuple[Record, ...]:
        if not isinstance(value, list):
            raise ValueError(f"is {shown(value)}, not a list")
        read = []
        for place, each in enumerate(value):
            try:
                read.append(record.from_json(json_object(each)))
            except ValueError as error:
                raise ValueError(f"[{place}] {error}") from None
        return tuple(read)

    return check


@record_type
class Header(Record):
    """The first record: which run this is, and the FLOPs of `init`.

    `tasks` and `events` are None where the stream decides as it goes; `rule` names what decides
    then. `source`, `flops_reason` and `left_out` belong to published results, whose `flops` are
    None.
    """

    kind: ClassVar[str] = "run"
    schema: int = checked(whole(1, SCHEMA))
    learner: str = checked(text)
    budget: str | None = checked(nullable(text))
    stream: str = checked(text)
    stream_digest: str = checked(text)
    protocol: str = checked(choice("protocol", PROTOCOLS))
    seed: int = checked(whole(high=2**63))
    config_hash: str = checked(text)
    tasks: int | None = checked(nullable(whole()))
    events: int | None = checked(nullable(whole()))
    flops: Flops | None = checked(nullable(flops_by_trial))
    rule: str | None = checked(nullable(text), default=None)
    source: str | None = checked(text, default=None)
    flops_reason: str | None = checked(text, default=None)
    left_out: Mapping[str, str] | None = checked(json_object, default=None)

    @property
    def published(self) -> bool:
        """Whether the results were copied from a publication."""
        return self.source is not None


@record_type
class TrialRecord(Record):
    """A trial of a train event; `info` is the learner's own, so nothing in it is certain."""

    trial: int = checked(whole())
    predictor_id: str = checked(text)
    step: int = checked(whole())
    info: Mapping[str, Any] = checked(json_object)

    @property
    def diverged_at(self) -> int | None:
        """The step at which the loss stopped being finite; None where it did not, or unknown.

        Up to schema 2 the field was `diverged`: false, true, or the step.
        """
        step = self.info.get("diverged_at", self.info.get("diverged"))
        return step if isinstance(step, int) and not isinstance(step, bool) else None


@record_type
class TrainRecord(Record):
    """A task was trained on. `size` belongs to published results; there the other counts are
    None.
    """

    kind: ClassVar[str] = "train"
    event: int = checked(whole())
    order: int = checked(whole())
    task_id: str = checked(text)
    dataset_id: str = checked(text)
    year: int | None = checked(nullable(whole(high=9999)))
    domain: str = checked(text)
    task_kind: str = checked(choice("task_kind", TASK_KINDS))
    meta_split: str = checked(choice("meta_split", META_SPLITS))
    num_classes: int = checked(whole())
    n_train: int | None = checked(nullable(whole()))
    n_dev: int | None = checked(nullable(whole()))
    n_leaked: int | None = checked(nullable(whole()), default=None)
    size: int | None = checked(nullable(whole()), default=None)
    mean_height: float | None = checked(nullable(number(0, 1e9)), default=None)
    mean_width: float | None = checked(nullable(number(0, 1e9)), default=None)
    flops: Flops | None = checked(nullable(flops_by_trial))
    chosen: int | None = checked(nullable(whole()))
    trials: tuple[TrialRecord, ...] = checked(several(TrialRecord))

    @property
    def name(self) -> str:
        """What the event's files are called: number and task."""
        return event_name(self.event, self.task_id)

    @property
    def key(self) -> tuple[str, None]:
        """What occurs once in a run; compare `nevis_stream.streams.task.Event.key`."""
        return self.task_id, None

    @property
    def chosen_trial(self) -> TrialRecord | None:
        """The trial that was chosen; None in published results."""
        return next((trial for trial in self.trials if trial.trial == self.chosen), None)


@record_type
class AnswerRecord(Record):
    """What a kept trial that was not chosen answered."""

    trial: int = checked(whole())
    predictor_id: str = checked(text)
    outcomes: str = checked(text)
    flops: Flops = checked(flops_by_trial)
    metric: str | None = checked(text, default=None)
    value: float | None = checked(nullable(number(-1e9, 1e9)))
    error: float | None = checked(nullable(number(0, 1)))
    reason: str | None = checked(text, default=None)


@record_type
class PredictRecord(Record):
    """A split of a task was predicted with what train event `train_event` made.

    `train_event` is None up to schema 2 and in published results, where a task has one train event.
    """

    kind: ClassVar[str] = "predict"
    event: int = checked(whole())
    train_event: int | None = checked(nullable(whole()), default=None)
    order: int = checked(whole())
    task_id: str = checked(text)
    split: str = checked(choice("split", SPLITS))
    n: int | None = checked(nullable(whole()))
    metric: str = checked(text)
    value: float | None = checked(nullable(number(-1e9, 1e9)))
    error: float | None = checked(nullable(number(0, 1)))
    reason: str | None = checked(nullable(text), default=None)
    predictor_id: str | None = checked(nullable(text))
    trial: int | None = checked(nullable(whole()))
    outcomes: str | None = checked(nullable(text))
    flops: Flops | None = checked(nullable(flops_by_trial))
    others: tuple[AnswerRecord, ...] = checked(several(AnswerRecord))

    @property
    def name(self) -> str:
        """What the event's files are called: number and task."""
        return event_name(self.event, self.task_id)

    @property
    def key(self) -> tuple[str, str]:
        """What occurs once in a run; compare `nevis_stream.streams.task.Event.key`."""
        return self.task_id, self.split


@record_type
class EndRecord(Record):
    """The last record of a complete run."""

    kind: ClassVar[str] = "end"
    events: int = checked(whole())


RECORDS: dict[str, type[Record]] = {
    record.kind: record for record in (Header, TrainRecord, PredictRecord, EndRecord)
}


def parse(values: Any) -> Record:
    """Returns the record of the JSON value of a ledger's line.

    Raises:
      ValueError: it is not a record; the message says why.
    """
    kind = json_object(values).get("kind")
    if not isinstance(kind, str) or kind not in RECORDS:
        raise ValueError(f"kind {shown(kind)}; valid: {', '.join(RECORDS)}")
    try:
        return RECORDS[kind].from_json(values)
    except ValueError as error:
        raise ValueError(f"{kind} record: {error}") from None


def event_name(event: int, task_id: str) -> str:
    """Returns what an event's files are called: its number and its task."""
    return f"{event:04d}-{task_id}"


def tree_name(trial: int) -> str:
    """Returns what a trial's predictor is called in its checkpoint."""
    return f"predictor-{trial:03d}"


def predictor_id(config_hash: str, task_id: str, trial: int, step: int) -> str:
    """Returns the 16 hex digits by which a predictor is known."""
    return hashlib.sha256(f"{config_hash}/{task_id}/{trial}/{step}".encode()).hexdigest()[:16]
