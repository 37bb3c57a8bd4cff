"""The state of a run, from its files: tasks done, current task, time left.

Another process may work in the run directory, and nothing is written there. Files come and go while
they are read; those that are missing, cut or half-written are left out.
"""

import fcntl
import functools
import math
import os
import re
import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nevis_stream.analysis.points import sum_phase_flops
from nevis_stream.errors import BadInput
from nevis_stream.run_directory import scalars
from nevis_stream.run_directory.config import read_config
from nevis_stream.run_directory.ledger import FILE_NAME, Ledger
from nevis_stream.run_directory.records import PredictRecord, TrainRecord, make_event_name
from nevis_stream.run_directory.scalars import TimingRecord, read_timing
from nevis_stream.storage import reading
from nevis_stream.storage.reading import open_file, read_bytes
from nevis_stream.storage.tables import parse_csv
from nevis_stream.vocabulary import PROTOCOLS

_TRIAL = re.compile(r"trial-(\d+)(?:\.step-(\d+))?")
_ID = re.compile(r"[\w.-]+")
_MARKS = (FILE_NAME, "config.json", "lock")
_WRITTEN = (FILE_NAME, "timing.jsonl", "environment.jsonl", "config.json")  # between events


@dataclass(frozen=True)
class TrialState:
    """A trial of the event that runs.

    Attributes:
      number: from 0.
      done: whether its result is kept.
      step: the last step that it logged or saved; None before the first one.
      dev_error: the lowest that it logged; NaN without any.
    """

    number: int
    done: bool
    step: int | None
    dev_error: float


@dataclass(frozen=True)
class Holder:
    """The process that works in a run directory, or the last one that did.

    Attributes:
      name: "pid N on MACHINE".
      alive: whether it works now; None if that cannot be seen from this machine.
    """

    name: str
    alive: bool | None


def is_run(run_dir: Path) -> bool:
    """Whether this is a run directory, even if nothing was trained yet."""
    return any((run_dir / name).is_file() for name in _MARKS)


def read_ledger(run_dir: Path) -> Ledger:
    """Returns the ledger, checked; it is read again only if the file has changed.

    Raises:
      BadInput: it is damaged; the message says where.
    """
    try:
        status = os.stat(run_dir / FILE_NAME)
        return _ledger(run_dir, status.st_size, status.st_mtime_ns)
    except FileNotFoundError:
        return _ledger(run_dir, 0, 0)


@functools.lru_cache(maxsize=256)
def _ledger(run_dir: Path, size: int, changed: int) -> Ledger:
    return Ledger(run_dir)


def read_values(run_dir: Path) -> dict[str, Any]:
    """Returns the config's values; empty if the file is missing or damaged."""
    try:
        return dict(read_config(run_dir).values)
    except BadInput:
        return {}


def read_rows(run_dir: Path) -> list[dict[str, str]]:
    """Returns the rows of stream.csv; empty if the file is missing or damaged."""
    try:
        rows = parse_csv(read_bytes(run_dir / "stream.csv").decode())
        return [row for row in rows if _ID.fullmatch(row.get("task_id", ""))]
    except (OSError, ValueError):
        return []


def find_last_write(run_dir: Path, event: str | None) -> tuple[float | None, float | None]:
    """Returns when the current event began and when the run last wrote, in seconds (epoch).

    Args:
      run_dir: the run directory.
      event: number and task of the event that trains now, or None.
    """
    files = [run_dir / name for name in _WRITTEN]
    begun = _newest(files)
    if event:
        files.append(run_dir / "checkpoints" / f"{event}.progress")
        files += (run_dir / scalars.FOLDER / event).glob("trial-*/events.*")
    return begun, _newest(files)


def _newest(paths: Iterable[Path]) -> float | None:
    times = []
    for path in paths:
        try:
            times.append(path.stat().st_mtime)
        except OSError:
            continue
    return max(times, default=None)


def find_current_event(run_dir: Path, number: int) -> str | None:
    """Returns number and task of a running train event, "0002-mnist", from the files it wrote."""
    for path in (
        *(run_dir / "checkpoints").glob(f"{number:04d}-*.progress"),
        *(run_dir / scalars.FOLDER).glob(f"{number:04d}-*"),
    ):
        return path.name.removesuffix(".progress")
    return None


def read_trials(run_dir: Path, event: str) -> list[TrialState]:
    """Returns the trials of an event that have written something: results, positions or scalars.

    Args:
      run_dir: the run directory.
      event: number and task of the event, "0002-mnist".
    """
    progress = run_dir / "checkpoints" / f"{event}.progress"
    curves = run_dir / scalars.FOLDER / event
    done: set[int] = set()
    steps: dict[int, list[int]] = {}
    errors: dict[int, list[float]] = {}
    for match in filter(None, map(_TRIAL.fullmatch, [*_names(progress), *_names(curves)])):
        steps.setdefault(int(match[1]), []).extend([int(match[2])] if match[2] else [])
    for number in steps:
        name = f"trial-{number:03d}"
        if (progress / name).exists():
            done.add(number)
        for tag, points in scalars.read(curves / name).items():
            steps[number] += [step for step, _ in points]
            if tag == f"{scalars.TRIAL}/dev_error":
                errors[number] = [value for _, value in points]
    return [
        TrialState(
            number,
            number in done,
            max(steps[number], default=None),
            min(errors.get(number, ()), default=math.nan),
        )
        for number in sorted(steps)
    ]


def _names(directory: Path) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


def find_holder(run_dir: Path) -> Holder | None:
    """Returns the last process that took the lock; None if there was none."""
    try:
        text = read_bytes(run_dir / "lock").decode().strip()
    except (OSError, ValueError):
        return None
    match = re.fullmatch(r"(\d+)(?: on (\S+))?", text)
    if match is None:
        return None
    elsewhere = match[2] not in (None, socket.gethostname())
    return Holder(f"pid {text}", None if elsewhere else _try_lock(run_dir / "lock"))


def _try_lock(lock: Path) -> bool | None:
    """Whether a process of this machine holds a lock; None if that cannot be tried.

    The attempt takes a shared lock for an instant; a run that is starting tries several times.
    """
    try:
        with open_file(lock) as file:
            reading.lock(file, lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except (OSError, BadInput):
        return None
    return False


DONE, NOW, TO_COME = "done", "now", "to come"


@dataclass(frozen=True)
class TaskState:
    """A task of the stream in a run.

    Attributes:
      task_id: the task.
      year: as the stream has it.
      judged: whether the protocol judges it.
      state: `DONE`, `NOW` or `TO_COME`.
      error: of the predicted split; NaN if undefined or not known yet.
      seconds: how long its events took; NaN if unknown.
    """

    task_id: str
    year: str
    judged: bool
    state: str
    error: float
    seconds: float


@dataclass(frozen=True)
class RunState:
    """A run at one moment.

    Attributes:
      path: the run directory.
      title: learner, budget, stream and seed.
      complete: whether it reached its end.
      holder: the process that works or worked here last.
      trouble: why the run cannot be read; empty if it can.
      doing: the current phase: "train", "predict", "initialise", or empty.
      tasks: those of the stream, in order; if the next task depends on results, those met so far.
      length: how many tasks the stream has; None if that depends on results.
      trials: of the task that is being trained.
      trials_wanted: how many the config asks for, or None.
      steps_wanted: of each trial, or None.
      training: FLOPs of the training of all trials so far; NaN if unknown.
      everything: FLOPs of all phases so far; NaN if unknown.
      worked: seconds of work so far, including the current event.
      left: estimated seconds to the end; NaN if there is nothing to estimate from.
      quiet: seconds since the run last wrote something; NaN if it wrote nothing.
    """

    path: Path
    title: str = ""
    complete: bool = False
    holder: Holder | None = None
    trouble: str = ""
    doing: str = ""
    tasks: Sequence[TaskState] = ()
    length: int | None = 0
    trials: Sequence[TrialState] = field(default=())
    trials_wanted: int | None = None
    steps_wanted: int | None = None
    training: float = 0
    everything: float = 0
    worked: float = 0.0
    left: float = math.nan
    quiet: float = math.nan

    @property
    def done(self) -> int:
        """How many tasks are done."""
        return sum(task.state == DONE for task in self.tasks)

    def mean_error(self, judged: bool) -> tuple[float, int]:
        """Returns the mean error so far over all tasks, or the judged ones, and their number."""
        errors = [
            t.error for t in self.tasks if not math.isnan(t.error) and (t.judged or not judged)
        ]
        return (math.fsum(errors) / len(errors) if errors else math.nan), len(errors)


def state_of(path: Path) -> RunState:
    """Reads the current state of a run directory, which need not exist yet."""
    if not is_run(path):
        return RunState(path)
    config, holder = read_values(path), find_holder(path)
    try:
        ledger = read_ledger(path)
    except (BadInput, OSError) as error:
        trouble = reading.describe_fault(error) if isinstance(error, OSError) else str(error)
        return RunState(path, _title(config), holder=holder, trouble=trouble)
    if ledger.records:
        config = ledger.header.to_json() | config
    rows = _rows(path, config)
    now = None if ledger.complete else _now(path, ledger, rows)
    doing = "" if ledger.complete else now[1] if now and ledger.records else "initialise"
    event = now[0] if now and doing == "train" else None
    begun, wrote = find_last_write(path, event)
    working = holder is not None and holder.alive is not False and not ledger.complete
    passed = max(time.time() - begun, 0.0) if begun and working else 0.0
    timing = {record.event: record for record in read_timing(path)}
    tasks = _tasks(ledger, rows, timing, config)
    flops = sum_phase_flops(ledger) if ledger.records else {}
    return RunState(
        path,
        _title(config),
        ledger.complete,
        holder,
        doing=doing,
        tasks=tasks,
        length=None if config.get("rule") and not ledger.complete else len(tasks),
        trials=read_trials(path, event) if event else (),
        trials_wanted=_find_wanted(config, "search", "trials"),
        steps_wanted=_find_wanted(config, "train", "steps"),
        training=flops.get("train", 0),
        everything=sum(flops.values()),
        worked=sum(record.seconds for record in timing.values()) + passed,
        left=0.0 if ledger.complete else _left(tasks, passed, bool(config.get("rule"))),
        quiet=max(time.time() - wrote, 0.0) if wrote else math.nan,
    )


def _title(config: Mapping[str, Any]) -> str:
    words = (
        config.get("label") or config.get("learner", "?"),
        config.get("budget") or "",
        "on",
        config.get("stream", "?"),
        f"seed {config.get('seed', '?')}",
    )
    return " ".join(str(word) for word in words if word)


def _rows(path: Path, config: Mapping[str, Any]) -> list[dict[str, str]]:
    """The rows of the tasks that the run will meet; empty if that depends on results."""
    if config.get("rule"):
        return []
    meta_train = config.get("protocol") == "meta_train"
    return [row for row in read_rows(path) if not meta_train or row.get("meta_split") == "train"]


def _now(path: Path, ledger: Ledger, rows: Sequence[Mapping[str, str]]) -> tuple[str, str] | None:
    """Number and task of the current event ("0002-mnist"), and its kind; None if unknown."""
    number = len(ledger.events)
    trained = [record.task_id for record in ledger.of_kind(TrainRecord)]
    predicted = {record.task_id for record in ledger.of_kind(PredictRecord)}
    for task_id in trained:
        if task_id not in predicted:
            return make_event_name(number, task_id), "predict"
    for row in rows:
        if row["task_id"] not in trained:
            return make_event_name(number, row["task_id"]), "train"
    name = find_current_event(path, number)
    return (name, "train") if name else None


def _tasks(
    ledger: Ledger,
    rows: Sequence[Mapping[str, str]],
    timing: Mapping[int, TimingRecord],
    config: Mapping[str, Any],
) -> list[TaskState]:
    """The tasks that were met, from their records, then those to come, from the stream's rows."""
    judged, split = PROTOCOLS.get(str(config.get("protocol")), PROTOCOLS["meta_test"])
    predicted = {r.task_id: r for r in ledger.of_kind(PredictRecord) if r.split == split}
    tasks = []
    for record in ledger.of_kind(TrainRecord):
        result = predicted.get(record.task_id)
        events = [record.event] if result is None else [record.event, result.event]
        seconds = [timing[event].seconds for event in events if event in timing]
        tasks.append(
            TaskState(
                record.task_id,
                "" if record.year is None else str(record.year),
                record.meta_split == judged,
                NOW if result is None else DONE,
                math.nan if result is None or result.error is None else float(result.error),
                sum(seconds) if seconds else math.nan,
            )
        )
    met = {task.task_id for task in tasks}
    current = NOW if all(task.state == DONE for task in tasks) else TO_COME
    for row in rows:
        if row["task_id"] not in met:
            in_judged = row.get("meta_split") == judged
            year = row.get("year", "")
            tasks.append(TaskState(row["task_id"], year, in_judged, current, math.nan, math.nan))
            current = TO_COME
    return tasks


def _find_wanted(config: Mapping[str, Any], section: str, name: str) -> int | None:
    """A number in the config: in a section, or an attribute of a user's own learner."""
    part = config.get(section) or config.get("options")
    value = part.get(name) if isinstance(part, Mapping) else None
    return value if isinstance(value, int) else None


def _left(tasks: Sequence[TaskState], passed: float, adaptive: bool) -> float:
    """Estimates the seconds to the end: each task left takes as long as those done on average. It
    is unknown if the stream is adaptive, as its tasks depend on results."""
    times = [t.seconds for t in tasks if t.state == DONE and not math.isnan(t.seconds)]
    if not times or adaptive:
        return math.nan
    mean = math.fsum(times) / len(times)
    current = [0.0 if math.isnan(t.seconds) else t.seconds for t in tasks if t.state == NOW]
    spent = math.fsum(current) + passed
    waiting = sum(task.state == TO_COME for task in tasks)
    return waiting * mean + (max(mean - spent, 0.0) if current else 0.0)
