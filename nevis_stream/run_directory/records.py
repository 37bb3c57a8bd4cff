"""The records of a ledger: a frozen dataclass for each kind of line, checked when it is read.

docs/run-directory.md says what each field means. `parse` turns the JSON object of a line into a
record and `to_json` turns it back, so that `encode(record.to_json())` is the line again. A field's
annotation says which values are valid (`checks.check_of`); a field with a default of None is left
out of the line where it is None.
"""

import dataclasses
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

from nevis_stream.run_directory.checks import (
    check_of,
    choice,
    flops_by_trial,
    json_object,
    number,
    shown,
    whole,
)
from nevis_stream.vocabulary import META_SPLITS, PROTOCOLS, SPLITS, TASK_KINDS

SCHEMA = 3
"""Of the ledgers that are written; older ones can be read."""

Flops = Annotated[Mapping[str, Mapping[str, int]], flops_by_trial]
"""Exact FLOPs by phase and trial; see `nevis_stream.cost.meter`."""
Share = Annotated[float, number(0, 1)]
Value = Annotated[float, number(-1e9, 1e9)]
Pixels = Annotated[float, number(0, 1e9)]


@dataclass(frozen=True, kw_only=True)
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
            if field.name in values:
                annotation: Any = field.type
                try:
                    read[field.name] = check_of(annotation)(values[field.name])
                except ValueError as error:
                    raise ValueError(f"{field.name} {error}") from None
            elif field.default is not None:
                raise ValueError(f"{field.name} is missing")
        return cls(**read)

    def to_json(self) -> dict[str, Any]:
        """Returns the JSON object of the record."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        optional = {field.name for field in dataclasses.fields(self) if field.default is None}
        kind = {"kind": self.kind} if hasattr(self, "kind") else {}
        return kind | {
            name: _to_json(value)
            for name, value in values.items()
            if not (name in optional and value is None)
        }


def _to_json(value: Any) -> Any:
    if isinstance(value, Record):
        return value.to_json()
    return [_to_json(each) for each in value] if isinstance(value, tuple) else value


@dataclass(frozen=True, kw_only=True)
class Header(Record):
    """The first record: which run this is, and the FLOPs of `init`.

    `tasks` and `events` are None where the stream decides as it goes; `rule` names what decides
    then. `source`, `flops_reason` and `left_out` belong to published results, whose `flops` are
    None.
    """

    kind: ClassVar[str] = "run"
    schema: Annotated[int, whole(1, SCHEMA)]
    learner: str
    budget: str | None
    stream: str
    stream_digest: str
    protocol: Annotated[str, choice("protocol", PROTOCOLS)]
    seed: Annotated[int, whole(high=2**63)]
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
    """A trial of a train event; `info` is the learner's own, so nothing in it is certain."""

    trial: int
    predictor_id: str
    step: int
    info: Mapping[str, Any]

    @property
    def diverged_at(self) -> int | None:
        """The step at which the loss stopped being finite; None where it did not, or unknown.

        Up to schema 2 the field was `diverged`: false, true, or the step.
        """
        step = self.info.get("diverged_at", self.info.get("diverged"))
        return step if isinstance(step, int) and not isinstance(step, bool) else None


@dataclass(frozen=True, kw_only=True)
class EventRecord(Record):
    """A task was trained on, or one of its splits predicted."""

    event: int
    order: int
    task_id: str

    @property
    def name(self) -> str:
        """What the event's files are called: number and task."""
        return event_name(self.event, self.task_id)

    @property
    def key(self) -> tuple[str, str | None]:
        """What occurs once in a run; compare `nevis_stream.streams.task.Event.key`."""
        return self.task_id, getattr(self, "split", None)


@dataclass(frozen=True, kw_only=True)
class TrainRecord(EventRecord):
    """A task was trained on; published results have `size` and no other counts."""

    kind: ClassVar[str] = "train"
    dataset_id: str
    year: Annotated[int, whole(high=9999)] | None
    domain: str
    task_kind: Annotated[str, choice("task_kind", TASK_KINDS)]
    meta_split: Annotated[str, choice("meta_split", META_SPLITS)]
    num_classes: int
    n_train: int | None
    n_dev: int | None
    n_leaked: int | None = None
    size: int | None = None
    mean_height: Pixels | None = None
    mean_width: Pixels | None = None
    flops: Flops | None
    chosen: int | None
    trials: tuple[TrialRecord, ...]

    @property
    def chosen_trial(self) -> TrialRecord | None:
        """The trial that was chosen; None in published results."""
        return next((trial for trial in self.trials if trial.trial == self.chosen), None)


@dataclass(frozen=True, kw_only=True)
class AnswerRecord(Record):
    """What a kept trial that was not chosen answered."""

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
    """A split of a task was predicted with what train event `train_event` made.

    `train_event` is None up to schema 2 and in published results, where a task has one train event.
    """

    kind: ClassVar[str] = "predict"
    train_event: int | None = None
    split: Annotated[str, choice("split", SPLITS)]
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


@dataclass(frozen=True, kw_only=True)
class EndRecord(Record):
    """The last record of a complete run."""

    kind: ClassVar[str] = "end"
    events: int


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
