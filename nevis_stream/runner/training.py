"""Train events: the states and predictors of a run, saved, loaded, and repaired where damaged."""

import functools
import json
import shutil
import warnings
from collections.abc import Callable, Sequence

import numpy as np

from nevis_stream.cost.meter import Counts
from nevis_stream.datasets.images import Images
from nevis_stream.errors import DamagedCheckpoint, RunWarning
from nevis_stream.learner import Context, Predictor, State
from nevis_stream.run_directory import checkpoint
from nevis_stream.run_directory.checkpoint import Checkpoint, Tree
from nevis_stream.run_directory.records import (
    TrainRecord,
    TrialRecord,
    parse,
    predictor_id,
    tree_name,
)
from nevis_stream.run_directory.thumbnails import write_thumbnails
from nevis_stream.runner.copies import count_leaked
from nevis_stream.runner.work import RunEvent, Work
from nevis_stream.storage.canonical import encode


class Training:
    """The train events of a run.

    Args:
      work: the run.
      last: how many tasks a learner knows as its past; None: all.
    """

    def __init__(self, work: Work, last: int | None):
        self.work, self.last = work, last
        self._events: dict[int, RunEvent] = {}

    def add(self, event: RunEvent) -> None:
        """Takes note of an event that the ledger has."""
        self._events[event.event] = event

    def forget(self) -> None:
        """Deletes the checkpoints of tasks that are no longer kept."""
        if self.last:
            for old in list(self._events.values())[: -self.last]:
                shutil.rmtree(self.work.checkpoint(old.name), ignore_errors=True)

    def initialise(self) -> tuple[State, Counts]:
        """Returns the state that the learner begins with, and what it cost."""
        ctx = self._context(None)
        return self.work.learner.init(ctx), ctx.meter.counts()

    def record(self, event: RunEvent) -> TrainRecord:
        """Trains on a task, or takes the record from its checkpoint where a kill came between
        checkpoint and ledger.
        """
        self.add(event)
        path = self.work.checkpoint(event.name)
        try:
            return parse(Checkpoint(path).record)
        except DamagedCheckpoint as error:
            if path.exists():
                _warn(f"{error} The state before it is used and the event is done again.")
        return self._train(event)

    def load(self, event: int, name: str) -> Tree:
        """Loads a tree of a train event; a damaged checkpoint is computed again from the state
        before it.
        """
        return self._load(self._events[event], name)

    def _load(self, event: RunEvent, name: str) -> Tree:
        task_id, path = event.task.task_id, self.work.checkpoint(event.name)
        try:
            return Checkpoint(path).load(name)
        except DamagedCheckpoint as error:
            _warn(f"{error} The state before it is used: task {task_id!r} is trained again.")
        record = self._train(event)
        self.work.workspace(event.name).remove()
        if record != (self.work.ledger.event(event.event) or record):
            _warn(
                f"task {task_id!r}: training again gave another record than the ledger has; the"
                " ledger stays as it is. Is this another kind of machine, or another version of a"
                " library?"
            )
        return Checkpoint(path).load(name)

    def _train(self, event: RunEvent) -> TrainRecord:
        """Trains on the event's task from the state before it, saves the checkpoint and returns the
        record.
        """
        work, task = self.work, event.task
        leaked = count_leaked(work, task)
        images = work.stream.splits(task)["train"].images
        write_thumbnails(work.path / "thumbnails" / f"{task.task_id}.png", images)
        ctx = self._context(event)
        state, predictors = work.learner.train(work.view(task), self._state_before(event), ctx)
        if not predictors or not all(isinstance(each, Predictor) for each in predictors):
            raise work.fault(
                task, "train must return (state, predictors), the chosen Predictor first"
            )
        if len({predictor.trial for predictor in predictors}) != len(predictors):
            raise work.fault(task, "two predictors name the same trial")
        record = self._record(event, predictors, leaked, ctx.meter.counts())
        kept = predictors if work.config.values["keep"] == "all" else predictors[:1]
        trees = {tree_name(predictor.trial): predictor.tree for predictor in kept}
        checkpoint.write(work.checkpoint(event.name), {"state": state} | trees, record.to_json())
        return record

    def _record(
        self, event: RunEvent, predictors: Sequence[Predictor], leaked: int, flops: Counts
    ) -> TrainRecord:
        work, task = self.work, event.task
        splits = work.stream.splits(task)
        trials = tuple(
            TrialRecord(
                trial=predictor.trial,
                predictor_id=predictor_id(
                    work.config.config_hash, task.task_id, predictor.trial, predictor.step
                ),
                step=predictor.step,
                info=dict(predictor.info),
            )
            for predictor in sorted(predictors, key=lambda predictor: predictor.trial)
        )
        record = TrainRecord(
            event=event.event,
            order=task.order,
            task_id=task.task_id,
            dataset_id=task.dataset_id,
            year=task.year,
            domain=task.domain,
            task_kind=task.kind,
            meta_split=task.meta_split,
            num_classes=task.num_classes,
            n_train=len(splits["train"]),
            n_dev=len(splits["dev"]),
            n_leaked=leaked or None,
            **_mean_size(splits["train"].images),
            flops=flops,
            chosen=predictors[0].trial,
            trials=trials,
        )
        try:
            return parse(json.loads(encode(record.to_json())))
        except (TypeError, ValueError) as error:
            raise work.fault(task, f"a predictor's info is not JSON ({error})") from None

    def _state_before(self, event: RunEvent) -> State:
        """Returns the state that the learner had when this event came."""
        if earlier := self._before(event):
            return self._load(earlier[-1], "state")
        path = self.work.checkpoint("init")
        try:
            return Checkpoint(path).load("state")
        except DamagedCheckpoint as error:
            _warn(f"{error} It is computed again.")
        state = checkpoint.to_host(self.initialise()[0])
        checkpoint.write(path, {"state": state}, self.work.ledger.header.to_json())
        return state

    def _before(self, event: RunEvent) -> list[RunEvent]:
        return [self._events[number] for number in sorted(self._events) if number < event.event]

    def _context(self, event: RunEvent | None) -> Context:
        """Returns the context of `init` (None) or of a train event."""
        work = self.work
        earlier = [] if event is None else self._before(event)
        earlier = earlier[-self.last :] if self.last else earlier
        return Context(
            path=(f"seed {work.seed}", event.task.task_id if event else "init"),
            phase="train" if event else "pretrain",
            past={each.task.task_id: self._loader(each) for each in earlier},
            past_views={
                each.task.task_id: functools.partial(work.view, each.task) for each in earlier
            },
            workspace=work.workspace(event.name) if event else None,
            progress=work.options.progress,
            executor=work.options.executor,
            devices=work.options.devices,
            scalars=work.scalars.of(event.name if event else "init"),
        )

    def _loader(self, event: RunEvent) -> Callable[[], Tree]:
        """Returns what loads the predictor that was chosen for a task."""
        return lambda: self._load(event, tree_name(self.work.ledger.event(event.event).chosen))


def _mean_size(images: Images) -> dict[str, float]:
    """The mean height and width of pictures, in pixels: facts by which results are sliced."""
    height, width = images.sizes.mean(axis=0, dtype=np.float64)
    return {"mean_height": round(float(height), 2), "mean_width": round(float(width), 2)}


def _warn(message: str) -> None:
    warnings.warn(message, RunWarning, stacklevel=3)
