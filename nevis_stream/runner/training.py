"""What all parts of a run share; and its train events, whose states and predictors are saved,
loaded, and repaired if damaged.
"""

import functools
import json
import re
import shutil
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nevis_stream.cost.meter import Counts
from nevis_stream.errors import (
    BadInput,
    DamagedCheckpoint,
    DataWarning,
    LearnerFault,
    RunWarning,
    unknown,
)
from nevis_stream.executor import Executor
from nevis_stream.learner import Context, Learner, Predictor, State, call
from nevis_stream.progress import Progress
from nevis_stream.run_directory.config import RecordedConfig
from nevis_stream.run_directory.environment import Digests
from nevis_stream.run_directory.ledger import Ledger
from nevis_stream.run_directory.outcomes import name_thumbnails, write_thumbnails
from nevis_stream.run_directory.records import (
    TrainRecord,
    TrialRecord,
    make_event_name,
    make_predictor_id,
    make_tree_name,
)
from nevis_stream.run_directory.scalars import RunScalars
from nevis_stream.storage import checkpoint
from nevis_stream.storage.checkpoint import Checkpoint, EventWorkspace, Tree
from nevis_stream.storage.record import encode
from nevis_stream.streams.stream import Stream
from nevis_stream.streams.task import Event, LabelledImages, Task, TaskView
from nevis_stream.vocabulary import KEEP, PROTOCOLS


@dataclass(frozen=True)
class Work:
    """A run in progress: the learner, the stream, the directory and its ledger.

    Attributes:
      learner: the learner.
      stream: the stream.
      path: the run directory.
      config: the content of config.json.
      ledger, scalars: of the directory.
      checkpoint_seconds, progress, executor, devices: see `run`.
      code: digests of the user's code.
    """

    learner: Learner
    stream: Stream
    path: Path
    config: RecordedConfig
    ledger: Ledger
    scalars: RunScalars
    checkpoint_seconds: float
    progress: Progress
    executor: Executor
    devices: int
    code: Digests

    @property
    def name(self) -> str:
        """The run's name: the label in its config, else the learner's name."""
        return self.config.values.get("label") or self.config.values["learner"]

    def context(self, *path: str, **options: Any) -> Context:
        """Returns a context of this run; `path` names the use of its random numbers."""
        return Context(
            path=(f"seed {self.config.values['seed']}", *path),
            progress=self.progress,
            executor=self.executor,
            devices=self.devices,
            **options,
        )

    def checkpoint(self, name: str) -> Path:
        """Returns the directory of an event's checkpoint, or of "init"."""
        return self.path / "checkpoints" / name

    def thumbnails(self, task: Task) -> Path:
        """Returns the beginning of the paths of a task's files for people to see."""
        return self.path / "thumbnails" / name_thumbnails(self.ledger, task.task_id)

    def workspace(self, name: str) -> EventWorkspace:
        """Returns where an event's trials are kept until its record is written."""
        path = self.checkpoint(name)
        return EventWorkspace(path.with_name(path.name + ".progress"), self.checkpoint_seconds)

    def view(self, event: Event) -> TaskView:
        """Returns what a learner may see of an event's task, with labels of its own."""
        task, splits = event.task, self.stream.splits_of(event)
        parts = {
            name: LabelledImages(splits[name].images, np.array(splits[name].labels))
            for name in ("train", "dev")
        }
        return TaskView(
            task.task_id,
            task.year,
            task.kind,
            task.domain,
            task.num_classes,
            parts["train"],
            parts["dev"],
            self.stream.single_head,
        )

    def fault(self, task: Task, problem: str) -> LearnerFault:
        """Returns an error of the learner that names it and the task."""
        return LearnerFault(f"{self._about(task)}: {problem}.")

    def call(self, method: str, task: Task | None, *arguments: Any) -> Any:
        """Calls a method of the learner, for a task or for `init` (`learner.call`)."""
        return call(self._about(task), self.learner, method, *arguments)

    def _about(self, task: Task | None) -> str:
        return f"learner {self.name}" + (f", task {task.task_id!r}" if task else "")


def parse_last_kept(keep: str) -> int | None:
    """Returns K if `keep` is "last_K", else None.

    Raises:
      BadInput: it is neither "last_K" nor one of `KEEP`.
    """
    if keep in KEEP:
        return None
    count = re.fullmatch(r"last_([1-9]\d*)", keep)
    if not count:
        raise BadInput(
            f"{unknown('keep', keep, KEEP)} Or last_K, for example last_5: the chosen predictors of"
            " the last K tasks."
        )
    return int(count[1])


class TrainEvents:
    """The train events of a run, each with its number in the run.

    Args:
      work: the run.

    Attributes:
      events: those so far, by their number, in order.
    """

    def __init__(self, work: Work):
        self.work, self.last = work, parse_last_kept(work.config.values["keep"])
        self.events: dict[int, Event] = {}

    def delete_old(self) -> None:
        """Deletes the checkpoints of tasks that are no longer kept."""
        if self.last:
            for event in list(self.events)[: -self.last]:
                shutil.rmtree(self._path(event), ignore_errors=True)

    def initialise(self) -> tuple[State, Counts]:
        """Calls the learner's `init`; returns the state and its cost."""
        ctx = self._context(None)
        return self.work.call("init", None, ctx), ctx.meter.counts()

    def record(self, event: int) -> TrainRecord:
        """Trains on a task and returns the record; after a kill, the one in its checkpoint."""
        path = self._path(event)
        try:
            return TrainRecord.from_json(Checkpoint(path).record)
        except (DamagedCheckpoint, ValueError) as error:
            if path.exists():
                _warn(
                    f"{path}: cannot be used ({error}). The event is done again from the state"
                    " before it."
                )
        return self._train(event)

    def load(self, event: int, name: str) -> Tree:
        """Loads a tree of a train event; a damaged checkpoint is computed again."""
        path, task_id = self._path(event), self.events[event].task.task_id
        try:
            return Checkpoint(path).load(name)
        except DamagedCheckpoint as error:
            _warn(f"{error} Task {task_id!r} is trained again from the state before it.")
        record = self._train(event)
        self.work.workspace(record.name).remove()
        if record != (self._read_recorded(event) or record):
            _warn(
                f"task {task_id!r}: training again gave a record that differs from the ledger's;"
                " the ledger stays as it is. Is this another kind of machine, or another version of"
                " a library?"
            )
        return Checkpoint(path).load(name)

    def _path(self, event: int) -> Path:
        return self.work.checkpoint(make_event_name(event, self.events[event].task.task_id))

    def _train(self, event: int) -> TrainRecord:
        """Trains from the state before the event, saves the checkpoint and returns the record."""
        work, own = self.work, self.events[event]
        task, leaked = own.task, _count_leaked(work, own)
        images = work.stream.splits_of(own)["train"].images
        write_thumbnails(work.thumbnails(task), images)
        ctx = self._context(event)
        returned = work.call("train", task, work.view(own), self._state_before(event), ctx)
        if complaint := _find_fault(returned):
            raise work.fault(task, complaint)
        state, predictors = returned
        record = self._record(event, predictors, leaked, ctx.meter.counts())
        saved = predictors if work.config.values["keep"] == "all" else predictors[:1]
        trees = {make_tree_name(predictor.trial): predictor.tree for predictor in saved}
        checkpoint.write(self._path(event), {"state": state} | trees, record.to_json())
        return record

    def _record(
        self, event: int, predictors: Sequence[Predictor], leaked: int, flops: Counts
    ) -> TrainRecord:
        work, own = self.work, self.events[event]
        task, splits, draw = own.task, work.stream.splits_of(own), own.draw
        config_hash = work.config.config_hash
        # the mean size of the images, in pixels, is a fact by which results are sliced
        height, width = splits["train"].images.sizes.mean(axis=0, dtype=np.float64)
        trials = tuple(
            TrialRecord(
                trial=each.trial,
                predictor_id=make_predictor_id(config_hash, task.task_id, each.trial, each.step),
                step=each.step,
                info=dict(each.info),
            )
            for each in sorted(predictors, key=lambda predictor: predictor.trial)
        )
        record = TrainRecord(
            event=event,
            **task.to_record(),
            n_train=len(splits["train"]),
            n_dev=len(splits["dev"]),
            n_leaked=leaked or None,
            mean_height=round(float(height), 2),
            mean_width=round(float(width), 2),
            labels=draw.labels if draw else None,
            labels_seen=draw.labels_seen if draw else None,
            drawn=draw.digest if draw else None,
            flops=flops,
            chosen=predictors[0].trial,
            trials=trials,
        )
        try:  # what could not be read from the ledger again is not written
            return TrainRecord.from_json(json.loads(encode(record.to_json())))
        except (TypeError, ValueError) as error:
            raise work.fault(task, f"a predictor's info is not valid JSON ({error})") from None

    def _state_before(self, event: int) -> State:
        """Returns the learner's state before this event."""
        if earlier := self._before(event):
            return self.load(earlier[-1], "state")
        path = self.work.checkpoint("init")
        try:
            return Checkpoint(path).load("state")
        except DamagedCheckpoint as error:
            _warn(f"{error} It is computed again.")
        state = checkpoint.to_host(self.initialise()[0], copy=True)
        checkpoint.write(path, {"state": state}, self.work.ledger.header.to_json())
        return state

    def _read_recorded(self, event: int) -> TrainRecord | None:
        """Returns the ledger's record of a train event."""
        records = self.work.ledger.of_kind(TrainRecord)
        return next((record for record in records if record.event == event), None)

    def _before(self, event: int) -> list[int]:
        return [number for number in self.events if number < event]

    def _context(self, event: int | None) -> Context:
        """Returns the context of `init` (None) or of a train event."""
        work = self.work
        if event is None:
            scalars = work.scalars.part("init")
            return work.context("init", phase="pretrain", scalars=scalars)
        task = self.events[event].task
        name, past = make_event_name(event, task.task_id), self._before(event)
        if self.last:
            past = past[-self.last :]
        name_of = {e: self.events[e].task.task_id for e in past}
        return work.context(
            task.task_id,
            phase="train",
            past={name_of[e]: functools.partial(self._choose, e) for e in past},
            past_views={name_of[e]: functools.partial(work.view, self.events[e]) for e in past},
            workspace=work.workspace(name),
            scalars=work.scalars.part(name),
        )

    def _choose(self, event: int) -> Tree:
        """Loads the predictor that was chosen for a task."""
        record = self._read_recorded(event)
        if record is None or record.chosen is None:
            raise ValueError(f"event {event} has no chosen predictor")
        return self.load(event, make_tree_name(record.chosen))


def _count_leaked(work: Work, event: Event) -> int:
    """Counts the test images of a task that are exact copies of its training images, and warns."""
    split = PROTOCOLS[work.config.values["protocol"]].split
    leaked = work.stream.count_leaks(event, split)
    if leaked:
        n = len(work.stream.splits_of(event)[split])
        warnings.warn(
            f"task {event.task.task_id!r}: {leaked} of {n} images of its {split} split are exact"
            " copies of images in its train or dev split, so its error is too low. The ledger"
            " counts them (n_leaked) and the report shows them.",
            DataWarning,
            stacklevel=2,
        )
    return leaked


def _find_fault(returned: Any) -> str:
    """Returns what is wrong with what `train` returned; empty if nothing is."""
    expected = "train must return (state, predictors), a list with the chosen Predictor first"
    if not isinstance(returned, tuple) or len(returned) != 2:
        return f"{expected}; it returned {_describe(returned)}"
    predictors = returned[1]
    if not isinstance(predictors, list | tuple) or not predictors:
        return f"{expected}; instead of the list it returned {_describe(predictors)}"
    for place, each in enumerate(predictors):
        if not isinstance(each, Predictor):
            return f"{expected}; element {place} of the list is {_describe(each)}"
        for name in ("trial", "step"):
            number = getattr(each, name)
            if type(number) is not int or number < 0:
                return f"{name} of predictor {place} is {number!r}; an int from 0 is expected"
        if not isinstance(each.info, Mapping):
            return f"info of predictor {place} is {_describe(each.info)}; a dict is expected"
    if len({predictor.trial for predictor in predictors}) != len(predictors):
        return "two predictors have the same trial number"
    return ""


def _describe(value: Any) -> str:
    if value is None:
        return "None"
    kind = f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
    return f"{kind} of length {len(value)}" if isinstance(value, list | tuple | dict) else kind


def _warn(message: str) -> None:
    warnings.warn(message, RunWarning, stacklevel=3)
