"""The state of a run, from its files: tasks done, current task, time left."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nevis_stream.analysis.points import phase_flops
from nevis_stream.errors import BadInput
from nevis_stream.launch.watching import files
from nevis_stream.run_directory.ledger import Ledger
from nevis_stream.run_directory.records import PredictRecord, TrainRecord, event_name
from nevis_stream.run_directory.scalars import TimingRecord, read_timing
from nevis_stream.storage import reading
from nevis_stream.vocabulary import PROTOCOLS

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
    holder: files.Holder | None = None
    trouble: str = ""
    doing: str = ""
    tasks: Sequence[TaskState] = ()
    length: int | None = 0
    trials: Sequence[files.TrialState] = field(default=())
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
    if not files.is_run(path):
        return RunState(path)
    config, holder = files.config(path), files.holder(path)
    try:
        ledger = files.ledger(path)
    except (BadInput, OSError) as error:
        trouble = reading.describe_fault(error) if isinstance(error, OSError) else str(error)
        return RunState(path, _title(config), holder=holder, trouble=trouble)
    if ledger.records:
        config = ledger.header.to_json() | config
    rows = _rows(path, config)
    now = None if ledger.complete else _now(path, ledger, rows)
    doing = "" if ledger.complete else now[1] if now and ledger.records else "initialise"
    event = now[0] if now and doing == "train" else None
    begun, wrote = files.last_write(path, event)
    working = holder is not None and holder.alive is not False and not ledger.complete
    passed = max(time.time() - begun, 0.0) if begun and working else 0.0
    timing = {record.event: record for record in read_timing(path)}
    tasks = _tasks(ledger, rows, timing, config)
    flops = phase_flops(ledger) if ledger.records else {}
    return RunState(
        path,
        _title(config),
        ledger.complete,
        holder,
        doing=doing,
        tasks=tasks,
        length=None if config.get("rule") and not ledger.complete else len(tasks),
        trials=files.trials(path, event) if event else (),
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
    return [row for row in files.stream(path) if not meta_train or row.get("meta_split") == "train"]


def _now(path: Path, ledger: Ledger, rows: Sequence[Mapping[str, str]]) -> tuple[str, str] | None:
    """Number and task of the current event ("0002-mnist"), and its kind; None if unknown."""
    number = len(ledger.events)
    trained = [record.task_id for record in ledger.of_kind(TrainRecord)]
    predicted = {record.task_id for record in ledger.of_kind(PredictRecord)}
    for task_id in trained:
        if task_id not in predicted:
            return event_name(number, task_id), "predict"
    for row in rows:
        if row["task_id"] not in trained:
            return event_name(number, row["task_id"]), "train"
    name = files.event_in_progress(path, number)
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


def _left(tasks: Sequence[TaskState], passed: float, rule: bool) -> float:
    """Estimates the seconds to the end: each task left takes as long as those done on average."""
    times = [t.seconds for t in tasks if t.state == DONE and not math.isnan(t.seconds)]
    if not times or rule:
        return math.nan
    mean = math.fsum(times) / len(times)
    current = [0.0 if math.isnan(t.seconds) else t.seconds for t in tasks if t.state == NOW]
    spent = math.fsum(current) + passed
    waiting = sum(task.state == TO_COME for task in tasks)
    return waiting * mean + (max(mean - spent, 0.0) if current else 0.0)
