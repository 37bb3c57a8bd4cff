"""Tasks: a row of a stream, and the part of a task that a learner gets to see."""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NoReturn

import numpy as np

from nevis_stream.datasets.dataset import MULTI_LABEL, SINGLE_LABEL, Samples
from nevis_stream.datasets.images import Images
from nevis_stream.errors import LeakError
from nevis_stream.vocabulary import EVENT_KINDS, SPLITS

__all__ = [
    "MULTI_LABEL",
    "SINGLE_LABEL",
    "SPLITS",
    "Draw",
    "Event",
    "LabelledImages",
    "Task",
    "TaskView",
]


@dataclass(frozen=True)
class Task:
    """One row of a stream.

    Attributes:
      order: position in the stream, from 1.
      year: when research met the task.
      task_id: unique in the stream; a repeat of a data set has its own.
      dataset_id: the data set, shared by repeats.
      meta_split: "train" (S_Tr) or "test" (S_Ts).
      kind: "single_label" or "multi_label".
      domain: object, scene, texture, ocr, face, medical, …
      num_classes: number of classes or labels.
    """

    order: int
    year: int
    task_id: str
    dataset_id: str
    meta_split: str
    kind: str
    domain: str
    num_classes: int

    def to_record(self) -> dict[str, Any]:
        """Returns the facts by the names that they have in a train record."""
        facts = asdict(self)
        facts["task_kind"] = facts.pop("kind")
        return facts


@dataclass(frozen=True)
class Draw:
    """What a schedule has drawn for a task from the results so far.

    Attributes:
      splits: those of the task that are not, or not as they are, those of its data set; "train" is
        one of them.
      labels: number of distinct samples in the training sets up to this task.
      labels_seen: the same, with those whose labels the schedule used.
    """

    splits: Mapping[str, Samples]
    labels: int | None = None
    labels_seen: int | None = None

    @property
    def digest(self) -> str:
        """16 hex digits of the ids of the training set."""
        ids = "\n".join(map(str, self.splits["train"].ids))
        return hashlib.sha256(ids.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Event:
    """One step of a run: train on a task, or predict one of its splits.

    Attributes:
      task: the task.
      split: the split to predict; None to train.
      draw: what was drawn for the task; None: it has the splits of its data set.
      after: the task that was trained on last, where this one is an earlier one that is predicted
        again.
    """

    task: Task
    split: str | None = None
    draw: Draw | None = field(default=None, compare=False, repr=False)
    after: str | None = None

    @property
    def kind(self) -> str:
        """One of `EVENT_KINDS`."""
        train, predict = EVENT_KINDS
        return train if self.split is None else predict

    @property
    def key(self) -> tuple[str, str | None, str | None]:
        """The task's id, the split and `after`, which are unique in a run; as a record's `key`."""
        return self.task.task_id, self.split, self.after


@dataclass(frozen=True)
class LabelledImages:
    """n images and their labels: int32[n] class ids, or uint8[n, labels] with 0 or 1."""

    images: Images
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.images)


@dataclass(frozen=True)
class TaskView:
    """What a learner may know about the current task: its train and dev splits and these facts.

    `single_head` says that the classes of all tasks so far are one set: labels begin after those of
    the tasks before, and `num_classes` counts all of them.
    """

    task_id: str
    year: int
    kind: str
    domain: str
    num_classes: int
    train: LabelledImages
    dev: LabelledImages
    single_head: bool = False

    def __getattr__(self, name: str) -> NoReturn:
        known = ", ".join(self.__dataclass_fields__)
        if name in SPLITS:
            raise LeakError(
                f"task {self.task_id!r}: the {name} split belongs to the runner; in training a"
                f" learner has: {known}."
            )
        raise LeakError(f"a task has no {name!r}; a learner may know: {known}.")
