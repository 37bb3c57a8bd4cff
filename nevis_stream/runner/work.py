"""What all parts of a run share: the learner, the stream, the directory and its ledger."""

import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nevis_stream.errors import BadInput, DamagedCheckpoint, LearnerFault, RunWarning, unknown
from nevis_stream.executor import Executor
from nevis_stream.learner import Context, Learner
from nevis_stream.progress import Progress
from nevis_stream.run_directory import config as config_file
from nevis_stream.run_directory import environment
from nevis_stream.run_directory.config import RecordedConfig
from nevis_stream.run_directory.environment import Digests, write_readings
from nevis_stream.run_directory.ledger import Ledger
from nevis_stream.run_directory.records import Header
from nevis_stream.run_directory.scalars import RunScalars
from nevis_stream.run_directory.workspace import EventWorkspace
from nevis_stream.storage import make_directory, remove_leftovers
from nevis_stream.storage.checkpoint import Checkpoint
from nevis_stream.storage.reading import read_bytes
from nevis_stream.storage.record import refuse_other, write_once
from nevis_stream.streams.stream import Stream
from nevis_stream.streams.task import Event, LabelledImages, Task, TaskView
from nevis_stream.vocabulary import KEEP

_OTHER_RUN = (
    "this directory contains another run ({difference}). Choose another run_dir, or give the config"
    " with which that run was started."
)


@dataclass(frozen=True)
class Work:
    """A run in progress.

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

    def workspace(self, name: str) -> EventWorkspace:
        """Returns where an event's trials are kept until its record is written."""
        path = self.checkpoint(name)
        return EventWorkspace(path.with_name(path.name + ".progress"), self.checkpoint_seconds)

    def view(self, event: Event) -> TaskView:
        """Returns what a learner may see of an event's task."""
        task, splits = event.task, self.stream.splits_of(event)
        parts = {
            name: LabelledImages(splits[name].images, splits[name].labels)
            for name in ("train", "dev")
        }
        return TaskView(task.task_id, task.year, task.kind, task.domain, task.num_classes, **parts)

    def fault(self, task: Task, problem: str) -> LearnerFault:
        """Returns an error of the learner that names it and the task."""
        return LearnerFault(f"learner {self.name}, task {task.task_id!r}: {problem}.")


def open_directory(path: Path, config: RecordedConfig, stream: Stream) -> Ledger:
    """Prepares a directory for a run, or checks that it contains this run; returns its ledger.

    Raises:
      BadInput: it contains another run, one in the format of an earlier version, or an unfinished
        one that was begun under other conventions.
    """
    for directory in (path, path / "checkpoints", path / "outcomes", path / "thumbnails"):
        make_directory(directory)
        remove_leftovers(directory)
    file = path / config_file.FILE_NAME
    versions = config.values.get(environment.CONVENTIONS_KEY, {})
    ledger = Ledger(path)
    header = ledger.header if ledger.records else _header_of_init(path)
    begun = _versions(path, versions if header is None else environment.conventions(path))
    values = {
        name: value for name, value in config.values.items() if name != environment.CONVENTIONS_KEY
    }
    if begun:
        values[environment.CONVENTIONS_KEY] = begun
    expected = config_file.config_of(values)
    if file.exists():
        found = read_bytes(file).decode(errors="replace")
        refuse_other(file, found, expected.to_text(), _OTHER_RUN)
    if header is not None:
        _refuse_other_header(ledger.path, header, expected)
    write_once(file, expected.to_text(), _OTHER_RUN)
    write_once(path / "stream.csv", stream.csv, _OTHER_RUN)
    write_readings(path, stream.readings)
    if not ledger.complete:
        environment.refuse_other_conventions(path, begun, versions)
    return ledger


def _header_of_init(path: Path) -> Header | None:
    """Returns the header in the checkpoint of `init`, which a kill may have left alone."""
    try:
        return Header.from_json(Checkpoint(path / "checkpoints" / "init").record)
    except (DamagedCheckpoint, ValueError):
        return None


def _refuse_other_header(file: Path, header: Header, config: RecordedConfig) -> None:
    """Refuses a run that was begun with another config, also if its config.json is missing."""
    if header.config_hash == config.config_hash:
        return
    now = {name: config.values.get(name) for name in ("budget", "stream", "protocol", "seed")}
    now = {"learner": config.values.get("label") or config.values["learner"]} | now
    recorded = {name: getattr(header, name) for name in now}
    differing = [
        f"{n}: there {recorded[n]!r}, now {now[n]!r}" for n in now if recorded[n] != now[n]
    ]
    difference = differing or [f"config hash: there {header.config_hash}, now {config.config_hash}"]
    raise BadInput(f"{file}: {_OTHER_RUN.format(difference=difference[0])}")


def _versions(path: Path, without_config: Mapping[str, int]) -> Mapping[str, int]:
    """Returns the versions of conventions with which a run was begun; `without_config` if its
    config.json is missing.
    """
    if not (path / config_file.FILE_NAME).exists():
        return without_config
    recorded = config_file.read_config(path)
    if recorded.schema < config_file.SCHEMA:
        raise BadInput(
            f"{path}: this run was started by an earlier version of nevis_stream. It can be read"
            " (report, compare, watch) but not continued. Choose another run_dir."
        )
    versions = recorded.values.get(environment.CONVENTIONS_KEY)
    return versions if isinstance(versions, dict) else {}


def refuse_changed_code(ledger: Ledger, code: Digests, accepted: bool) -> None:
    """Refuses a run whose results so far came from other code of the user's, and says in one line
    if the project or a package changed.

    Raises:
      BadInput: the user's code changed, and this was not accepted.
    """
    if not ledger.records and _header_of_init(ledger.run_dir) is None:
        return
    changed = ", ".join(environment.code_difference(environment.last_code(ledger.run_dir), code))
    if changed and not accepted:
        done, reason, wish = (
            ("was done", "this is not the learner that it ran", "show its results")
            if ledger.complete
            else ("was begun", "its results would come from two learners under one name", "go on")
        )
        raise BadInput(
            f"{ledger.run_dir}: the code of {changed} has changed since this run {done}, so"
            f" {reason}. Choose another run_dir; or, if the change does not matter, {wish} with"
            " --accept_changed_code (in Python: accept_changed_code=True)."
        )
    versions = [] if ledger.complete else environment.changed_versions(ledger.run_dir)
    if versions:
        warnings.warn(
            f"{ledger.run_dir}: this run is continued with other versions: {'; '.join(versions)}.",
            RunWarning,
            stacklevel=3,
        )


def last_kept(keep: str) -> int | None:
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
