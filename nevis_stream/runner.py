"""The runner: takes a learner through a stream, event by event, into a run directory; start it
again to go on.

The runner owns labels, sample ids and time. A train event ends with a checkpoint that holds the
ledger's record, then the record is appended; so a kill at any instant leaves either the event done
or its finished trials ready to be used.
"""

import dataclasses
import functools
import hashlib
import json
import re
import shutil
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from nevis_stream.datasets.images import Images
from nevis_stream.datasets.overlap import to_csv
from nevis_stream.errors import (
    BadInput,
    DamagedCheckpoint,
    DataWarning,
    LearnerFault,
    RunWarning,
    unknown,
)
from nevis_stream.executor import Executor, Inline
from nevis_stream.learner import Context, Learner, Predictor, Progress, Silent, State
from nevis_stream.run_directory import checkpoint, mistakes, outcomes, timing
from nevis_stream.run_directory.checkpoint import Checkpoint, Tree
from nevis_stream.run_directory.description import describe
from nevis_stream.run_directory.environment import append_environment
from nevis_stream.run_directory.ledger import SCHEMA, Ledger, encode
from nevis_stream.run_directory.scalars import RunScalars
from nevis_stream.run_directory.thumbnails import write_thumbnails
from nevis_stream.run_directory.workspace import EventWorkspace
from nevis_stream.storage import exclusive, remove_leftovers, write_file
from nevis_stream.storage.identity import write_once
from nevis_stream.streams.stream import Event, Stream, load_stream
from nevis_stream.streams.task import LabelledImages, TaskView

KEEP = ("chosen", "all")
_ANOTHER_RUN = (
    "this directory holds another run ({difference}). Choose another run_dir, or give the config it"
    " was begun with."
)


def check_keep(keep: str) -> int | None:
    """Returns K where `keep` is "last_K", else None.

    Raises:
      BadInput: it is neither that nor one of `KEEP`.
    """
    if keep in KEEP:
        return None
    count = re.fullmatch(r"last_([1-9]\d*)", keep)
    if not count:
        raise BadInput(
            f"{unknown('keep', keep, KEEP)} Or last_K: the chosen predictors of the last K tasks,"
            " last_5 say."
        )
    return int(count[1])


def run(
    learner: Learner,
    stream: Stream | str,
    run_dir: str | Path,
    *,
    protocol: str = "meta_test",
    seed: int = 0,
    config: Mapping[str, Any] | None = None,
    keep: str = "chosen",
    checkpoint_seconds: float = 30.0,
    progress: Progress | None = None,
    executor: Executor | None = None,
    devices: int = 1,
    tensorboard: bool = True,
) -> Ledger:
    """Runs a learner over a stream, or goes on with a run that was interrupted.

    Args:
      learner: has `init`, `train` and `predict`.
      stream: a stream, or the name or csv of one.
      run_dir: directory of the run; made if missing.
      protocol: "meta_test" (test errors, judged on S_Ts) or "meta_train" (dev_test errors on S_Tr).
      seed: root of every random number.
      config: JSON values that, with stream, protocol, seed and keep, fully describe the run; its
        "learner" names the learner. None describes the learner's attributes.
      keep: which predictors are kept: "chosen", each task's chosen one; "all", those of all trials,
        which then answer the predicted split too; "last_K", the chosen ones of the last K tasks:
        checkpoints of older tasks are deleted, and a learner knows only those K tasks as its past.
      checkpoint_seconds: least time between saved positions inside a trial.
      progress: told what is going on.
      executor: runs the trials; None: one after the other in this process.
      devices: how many devices share each training batch.
      tensorboard: whether curves are written for TensorBoard while it runs.

    Returns:
      The complete ledger.

    Raises:
      NevisStreamError: of a kind that says what to do: bad input, a locked directory, a full disk,
        a faulty learner.
    """
    check_keep(keep)
    stream = load_stream(stream) if isinstance(stream, str) else stream
    events = stream.events(protocol)
    path = Path(run_dir)
    resolved = (describe(learner) if config is None else dict(config)) | {
        "stream": stream.name,
        "stream_digest": stream.digest,
        "protocol": protocol,
        "seed": seed,
        "keep": keep,
    }
    with exclusive(path / "lock"):
        how = _How(
            checkpoint_seconds, progress or Silent(), executor or Inline(), devices, tensorboard
        )
        return _Run(learner, stream, events, path, resolved, how).go()


@dataclasses.dataclass(frozen=True)
class _How:
    """How a run is carried out, which changes nothing of what it computes; see `run`."""

    checkpoint_seconds: float
    progress: Progress
    executor: Executor
    devices: int
    tensorboard: bool


class _Run:
    def __init__(
        self,
        learner: Learner,
        stream: Stream,
        events: tuple[Event, ...],
        path: Path,
        config: dict[str, Any],
        how: _How,
    ):
        self.learner = learner
        self.stream = stream
        self.events = events
        self.path = path
        self.config = config
        self.config_hash = hashlib.sha256(encode(config).encode()).hexdigest()[:16]
        self.how, self.progress = how, how.progress
        for directory in (path, path / "checkpoints", path / "outcomes", path / "thumbnails"):
            directory.mkdir(parents=True, exist_ok=True)
            remove_leftovers(directory)
        # last, so that a difference names a value
        identity = json.loads(encode(config)) | {"config_hash": self.config_hash}
        write_once(path / "config.json", json.dumps(identity, indent=1), _ANOTHER_RUN)
        write_once(path / "stream.csv", stream.csv, _ANOTHER_RUN)
        self.ledger = Ledger(path)
        self.last = check_keep(config["keep"])
        self.scalars = RunScalars(path, how.tensorboard and not self.ledger.complete)

    def go(self) -> Ledger:
        """Does every event that the ledger does not have yet."""
        for event in self.events:
            if self.ledger.event(event.index) is not None:
                self._workspace(event).remove()  # a kill may have come just before that
        if self.ledger.complete:
            return self.ledger
        how = {"executor": repr(self.how.executor), "devices_a_batch": self.how.devices}
        append_environment(self.path / "environment.jsonl", **how)
        if not self.ledger.records:
            self.ledger.append(self._initialise())
        self.scalars.show(self.ledger.records)
        self._check_copies()
        for event in self.events:
            if self.ledger.event(event.index) is not None:
                continue
            verb = "train on" if event.kind == "train" else f"predict {event.split} of"
            self.progress.event(event.index, len(self.events), f"{verb} {event.task.task_id}")
            begun = timing.clocks()
            record = self._recorded(event) if event.kind == "train" else self._predict(event)
            self.ledger.append(record)
            self.scalars.show(self.ledger.records)
            self._workspace(event).remove()
            self._forget(event)
            timing.append(
                self.path / "timing.jsonl", event.index, event.kind, event.task.task_id, begun
            )
            if event.kind == "predict":
                self.progress.result(f"{event.task.year} {event.task.task_id}: {_summary(record)}")
        self.ledger.append({"kind": "end", "events": len(self.events)})
        return self.ledger

    def _check_copies(self) -> None:
        """Warns of test pictures that are copies of training pictures, and records what tasks
        share.
        """
        for event in self.events:
            leaked = self._leaked(event) if event.kind == "predict" else 0
            if leaked:
                n = len(self.stream.splits(event.task)[event.split])
                warnings.warn(
                    f"task {event.task.task_id!r}: {leaked} of {n} pictures of its {event.split}"
                    " split are exact copies of pictures in its train or dev split, so its error"
                    " is too low. The ledger counts them (n_leaked) and the report shows them.",
                    DataWarning,
                    stacklevel=2,
                )
        file = self.path / "overlap.csv"
        if not file.exists():
            self.progress.event(-1, len(self.events), "compare the pictures of the tasks")
            write_file(file, to_csv(self.stream.overlaps()).encode())

    def _leaked(self, event: Event) -> int:
        """Counts the pictures that the event's task is tested on after training on copies."""
        tested = (e.split for e in self.events if e.kind == "predict" and e.task == event.task)
        return sum(self.stream.leaked(event.task, split) for split in tested)

    # -- init
    # -----------------------------------------------------------------------------------------------------------  # noqa: E501

    def _initialise(self) -> dict[str, Any]:
        """Calls `init` and saves its state, unless that was done before a kill; returns the `run`
        record.
        """
        path = self.path / "checkpoints" / "init"
        try:
            return Checkpoint(path).record
        except DamagedCheckpoint:
            pass
        self.progress.event(-1, len(self.events), "initialise")
        ctx = self._context("init", phase="pretrain")
        state = self.learner.init(ctx)
        record = {
            "kind": "run",
            "schema": SCHEMA,
            "learner": self._name,
            "budget": self.config.get("budget"),
            "stream": self.stream.name,
            "stream_digest": self.config["stream_digest"],
            "protocol": self.config["protocol"],
            "seed": self.config["seed"],
            "config_hash": self.config_hash,
            "tasks": len({event.task.task_id for event in self.events}),
            "events": len(self.events),
            "flops": ctx.meter.counts(),
        }
        checkpoint.write(path, {"state": state}, record)
        return record

    # -- train
    # ----------------------------------------------------------------------------------------------------------  # noqa: E501

    def _recorded(self, event: Event) -> dict[str, Any]:
        """Returns a train event's record, from its checkpoint where a kill came between checkpoint
        and ledger.
        """
        try:
            return Checkpoint(self._checkpoint(event)).record
        except DamagedCheckpoint as error:
            if self._checkpoint(event).exists():
                warnings.warn(
                    f"{error} The state before it is used and the event is done again.",
                    RunWarning,
                    stacklevel=2,
                )
        return self._train(event)

    def _train(self, event: Event) -> dict[str, Any]:
        """Trains on the event's task from the state before it, saves the checkpoint and returns the
        record.
        """
        task, leaked = event.task, self._leaked(event)
        splits, view = self.stream.splits(task), self._view(event)
        write_thumbnails(self.path / "thumbnails" / f"{task.task_id}.png", splits["train"].images)
        ctx = self._context(task.task_id, phase="train", event=event)
        state, predictors = self.learner.train(view, self._state_before(event), ctx)
        if not predictors or not all(isinstance(predictor, Predictor) for predictor in predictors):
            raise self._fault(
                task.task_id, "train must return (state, predictors), the chosen Predictor first"
            )
        if len({predictor.trial for predictor in predictors}) != len(predictors):
            raise self._fault(task.task_id, "two predictors name the same trial")
        chosen = predictors[0].trial
        record = {
            "kind": "train",
            "event": event.index,
            **{
                name: getattr(task, name)
                for name in ("order", "task_id", "dataset_id", "year", "domain", "meta_split")
            },
            "task_kind": task.kind,
            "num_classes": task.num_classes,
            "n_train": len(splits["train"]),
            "n_dev": len(splits["dev"]),
            **({"n_leaked": leaked} if leaked else {}),
            **_mean_size(splits["train"].images),
            "flops": ctx.meter.counts(),
            "chosen": chosen,
            "trials": [
                {
                    "trial": predictor.trial,
                    "predictor_id": self._predictor_id(
                        task.task_id, predictor.trial, predictor.step
                    ),
                    "step": predictor.step,
                    "info": dict(predictor.info),
                }
                for predictor in sorted(predictors, key=lambda predictor: predictor.trial)
            ],
        }
        try:
            record = json.loads(encode(record))
        except (TypeError, ValueError) as error:
            raise self._fault(task.task_id, f"a predictor's info is not JSON ({error})") from None
        kept = predictors if self.config["keep"] == "all" else predictors[:1]
        trees = {"state": state} | {
            _tree_name(predictor.trial): predictor.tree for predictor in kept
        }
        checkpoint.write(self._checkpoint(event), trees, record)
        return record

    def _state_before(self, event: Event) -> State:
        """Returns the state that the learner had when this event came."""
        before = [e for e in self.events[: event.index] if e.kind == "train"]
        if before:
            return self._load(before[-1], "state")
        try:
            return Checkpoint(self.path / "checkpoints" / "init").load("state")
        except DamagedCheckpoint as error:
            warnings.warn(f"{error} It is made again.", RunWarning, stacklevel=2)
        state = checkpoint.to_host(self.learner.init(self._context("init", phase="pretrain")))
        checkpoint.write(self.path / "checkpoints" / "init", {"state": state}, self.ledger.header)
        return state

    def _load(self, event: Event, name: str) -> Tree:
        """Loads a tree of a done train event; a damaged checkpoint is made again from the state
        before it.
        """
        try:
            return Checkpoint(self._checkpoint(event)).load(name)
        except DamagedCheckpoint as error:
            warnings.warn(
                f"{error} The state before it is used: task {event.task.task_id!r} is trained"
                " again.",
                RunWarning,
                stacklevel=2,
            )
        record = self._train(event)
        self._workspace(event).remove()
        if encode(record) != encode(self.ledger.event(event.index) or record):
            warnings.warn(
                f"task {event.task.task_id!r}: training again gave another record than the ledger"
                " has; the ledger stays as it is. Is this another kind of machine, or another"
                " version of a library?",
                RunWarning,
                stacklevel=2,
            )
        return Checkpoint(self._checkpoint(event)).load(name)

    # -- predict
    # --------------------------------------------------------------------------------------------------------  # noqa: E501

    def _predict(self, event: Event) -> dict[str, Any]:
        """Answers one split with every kept predictor; returns the record."""
        task, samples = event.task, self.stream.splits(event.task)[event.split]
        trained = self.ledger.event(event.index - 1)
        ids = {trial["trial"]: trial["predictor_id"] for trial in trained["trials"]}
        others = (
            [trial for trial in ids if trial != trained["chosen"]]
            if self.config["keep"] == "all"
            else []
        )
        answers = []
        for trial in [trained["chosen"], *others]:
            ctx = self._context(task.task_id, phase="predict", trial=trial)
            tree = self._load(self.events[event.index - 1], _tree_name(trial))
            probabilities = self.learner.predict(tree, samples.images, ctx)
            complaint = outcomes.complaint(probabilities, len(samples), task.kind, task.num_classes)
            if complaint:
                raise self._fault(task.task_id, f"predict {complaint}")
            file = f"outcomes/{event.index:04d}-{task.task_id}-{event.split}-trial-{trial:03d}.npz"
            probabilities = np.asarray(probabilities, np.float32)
            scores = outcomes.write(self.path / file, samples, task.kind, probabilities)
            if trial == trained["chosen"]:
                facts = {"task_id": task.task_id, "split": event.split, "predictor_id": ids[trial]}
                names = self.stream.dataset(task).class_names
                mistakes.write(
                    self.path / "thumbnails", facts, samples, task.kind, probabilities, names
                )
            answer = {
                "trial": trial,
                "predictor_id": ids[trial],
                "outcomes": file,
                "flops": ctx.meter.counts(),
            }
            answers.append(answer | scores)
        return {
            "kind": "predict",
            "event": event.index,
            "order": task.order,
            "task_id": task.task_id,
            "split": event.split,
            "n": len(samples),
            "others": answers[1:],
        } | answers[0]

    # -- small parts
    # ----------------------------------------------------------------------------------------------------  # noqa: E501

    def _context(
        self, scope: str, phase: str, trial: int | None = None, event: Event | None = None
    ) -> Context:
        earlier = (
            [] if event is None else [e for e in self.events[: event.index] if e.kind == "train"]
        )
        earlier = earlier[-self.last :] if self.last else earlier
        return Context(
            path=(
                f"seed {self.config['seed']}",
                scope,
                *(() if phase != "predict" else ("predict", f"trial {trial}")),
            ),
            phase=phase,
            trial=trial,
            past={e.task.task_id: self._loader(e) for e in earlier},
            past_views={e.task.task_id: functools.partial(self._view, e) for e in earlier},
            workspace=None if event is None else self._workspace(event),
            progress=self.progress,
            executor=self.how.executor,
            devices=self.how.devices,
            scalars=(
                None
                if phase == "predict"
                else self.scalars.of(self._checkpoint(event).name if event else scope)
            ),
        )

    def _forget(self, event: Event) -> None:
        """Deletes checkpoints of tasks that are no longer kept: those more than K tasks before."""
        if self.last:
            trained = [e for e in self.events[: event.index + 1] if e.kind == "train"]
            for old in trained[: -self.last]:
                shutil.rmtree(self._checkpoint(old), ignore_errors=True)

    def _loader(self, event: Event) -> Callable[[], Tree]:
        """Returns what loads the predictor chosen for a done task."""
        return lambda: self._load(event, _tree_name(self.ledger.event(event.index)["chosen"]))

    def _view(self, event: Event) -> TaskView:
        """Returns what a learner may see of a task that has come."""
        task, splits = event.task, self.stream.splits(event.task)
        return TaskView(
            task.task_id,
            task.year,
            task.kind,
            task.domain,
            task.num_classes,
            **{
                name: LabelledImages(splits[name].images, splits[name].labels)
                for name in ("train", "dev")
            },
        )

    def _workspace(self, event: Event) -> EventWorkspace:
        path = self._checkpoint(event)
        return EventWorkspace(path.with_name(path.name + ".progress"), self.how.checkpoint_seconds)

    def _checkpoint(self, event: Event) -> Path:
        return self.path / "checkpoints" / f"{event.index:04d}-{event.task.task_id}"

    def _predictor_id(self, task_id: str, trial: int, step: int) -> str:
        return hashlib.sha256(f"{self.config_hash}/{task_id}/{trial}/{step}".encode()).hexdigest()[
            :16
        ]

    def _fault(self, task_id: str, what: str) -> LearnerFault:
        return LearnerFault(f"learner {self._name}, task {task_id!r}: {what}.")

    @property
    def _name(self) -> str:
        return self.config.get("label") or self.config["learner"]


def _mean_size(images: Images) -> dict[str, float]:
    """The mean height and width of pictures, in pixels: facts by which results are sliced."""
    height, width = images.sizes.mean(axis=0, dtype=np.float64)
    return {"mean_height": round(float(height), 2), "mean_width": round(float(width), 2)}


def _tree_name(trial: int) -> str:
    return f"predictor-{trial:03d}"


def _summary(record: Mapping[str, Any]) -> str:
    if record["error"] is None:
        return f"error undefined ({record['reason']})"
    return f"error {record['error']:.4f} (n = {record['n']})"
