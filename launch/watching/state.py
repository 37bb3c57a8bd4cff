"""What the files of a run say together: which tasks are done, what runs now, how long it
will take.
"""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from launch.watching import files
from nevis_stream.analysis.judged import JUDGED, task_errors
from nevis_stream.analysis.points import phase_flops
from nevis_stream.errors import BadInput
from nevis_stream.run_directory.ledger import Ledger

DONE, NOW, TO_COME = "done", "now", "to come"


@dataclass(frozen=True)
class TaskState:
    """A task of the stream in a run.

    Attributes:
      task_id: the task.
      year: as the stream has it.
      judged: whether the protocol judges it.
      state: `DONE`, `NOW` or `TO_COME`.
      error: of the predicted split; NaN where undefined or not known yet.
      seconds: that its events took; NaN where unknown.
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
      trouble: what keeps the run from being read; empty where nothing does.
      doing: what goes on now: "train", "predict", "initialise", or empty.
      tasks: those of the stream, in order.
      trials: of the task that is trained now.
      trials_wanted: how many the config asks for, or None.
      steps_wanted: of each trial, or None.
      training: FLOPs of the training of all trials so far.
      everything: FLOPs of all phases so far.
      worked: seconds of work so far, the event that runs included.
      left: estimated seconds to the end; NaN where there is nothing to estimate from.
      quiet: seconds since the run last wrote something; NaN where it wrote nothing.
    """

    path: Path
    title: str = ""
    complete: bool = False
    holder: files.Holder | None = None
    trouble: str = ""
    doing: str = ""
    tasks: Sequence[TaskState] = ()
    trials: Sequence[files.Trial] = field(default=())
    trials_wanted: int | None = None
    steps_wanted: int | None = None
    training: int = 0
    everything: int = 0
    worked: float = 0.0
    left: float = math.nan
    quiet: float = math.nan

    @property
    def done(self) -> int:
        """How many tasks are done."""
        return sum(task.state == DONE for task in self.tasks)

    def mean_error(self, judged: bool) -> tuple[float, int]:
        """Returns the mean error so far over all tasks, or the judged ones, and over how many it
        is.
        """
        errors = [
            t.error for t in self.tasks if not math.isnan(t.error) and (t.judged or not judged)
        ]
        return (math.fsum(errors) / len(errors) if errors else math.nan), len(errors)


def state_of(path: Path) -> RunState:
    """Reads a run directory, which need not be there yet, as it stands now."""
    if not files.is_run(path):
        return RunState(path)
    config, holder, ledger, trouble = files.config(path), files.holder(path), None, ""
    try:
        ledger = files.ledger(path)
        config = (ledger.header.to_json() if ledger.records else {}) | config
    except (BadInput, OSError) as error:
        trouble = str(error)
    words = (
        config.get("label") or config.get("learner", "?"),
        config.get("budget") or "",
        "on",
        config.get("stream", "?"),
    )
    title = " ".join(str(word) for word in (*words, f"seed {config.get('seed', '?')}") if word)
    if ledger is None:
        return RunState(path, title, holder=holder, trouble=trouble)
    judged, split = JUDGED.get(str(config.get("protocol")), JUDGED["meta_test"])
    rows = [
        row for row in files.stream(path) if split != "dev_test" or row.get("meta_split") == judged
    ]
    timing, flops = files.timing(path), phase_flops(ledger) if ledger.records else {}
    now = None if ledger.complete or not ledger.records else len(ledger.records) - 1
    doing = (
        "" if ledger.complete else "initialise" if now is None else ("train", "predict")[now % 2]
    )
    event = (
        f"{now:04d}-{rows[now // 2]['task_id']}"
        if doing == "train" and now // 2 < len(rows)
        else None
    )
    begun, wrote = files.last_write(path, event)
    working = holder is not None and holder.alive is not False and not ledger.complete
    passed = max(time.time() - begun, 0.0) if begun and working else 0.0
    return RunState(
        path,
        title,
        ledger.complete,
        holder,
        doing=doing,
        tasks=_tasks(ledger, rows, timing, judged),
        trials=files.trials(path, event) if event else (),
        trials_wanted=_wanted(config, "search", "trials"),
        steps_wanted=_wanted(config, "train", "steps"),
        training=flops.get("train", 0),
        everything=sum(flops.values()),
        worked=sum(row["seconds"] for row in timing.values()) + passed,
        left=0.0 if ledger.complete else _left(rows, timing, now, passed, split),
        quiet=max(time.time() - wrote, 0.0) if wrote else math.nan,
    )


def _tasks(
    ledger: Ledger,
    rows: Sequence[Mapping[str, str]],
    timing: Mapping[int, Mapping[str, float]],
    judged: str,
) -> list[TaskState]:
    events = len(ledger.records) - 1  # done; -1 before the first record
    errors = (
        {result.task_id: result.error for result in task_errors(ledger)} if ledger.records else {}
    )
    found = []
    for number, row in enumerate(rows):
        state = DONE if 2 * number + 1 < events else NOW if 2 * number <= events else TO_COME
        took = [
            timing[event]["seconds"] for event in (2 * number, 2 * number + 1) if event in timing
        ]
        found.append(
            TaskState(
                row["task_id"],
                row.get("year", ""),
                row.get("meta_split") == judged,
                DONE if ledger.complete else state,
                errors.get(row["task_id"], math.nan),
                sum(took) if took else math.nan,
            )
        )
    return found


def _wanted(config: Mapping[str, Any], section: str, name: str) -> int | None:
    """A number of the config: that of a shipped learner's section, or an attribute of a learner of
    one's own.
    """
    part = config.get(section) or config.get("options")
    value = part.get(name) if isinstance(part, Mapping) else None
    return value if isinstance(value, int) else None


def _left(
    rows: Sequence[Mapping[str, str]],
    timing: Mapping[int, Mapping[str, float]],
    now: int | None,
    passed: float,
    split: str,
) -> float:
    """Estimates the seconds to the end: a task takes a part that is its own and a part for each of
    its pictures.

    Both parts are fitted to the tasks that are done, what was compiled left out; neither is less
    than zero.
    """
    sizes = [_pictures(row, split) for row in rows]
    took = {}
    for number in range(len(rows)):
        both = [timing[event] for event in (2 * number, 2 * number + 1) if event in timing]
        if len(both) == 2:
            took[number] = sum(max(row["seconds"] - row["compilation_seconds"], 0) for row in both)
    if not took or now is None:
        return math.nan
    mean_size = sum(sizes[number] for number in took) / len(took)
    mean = sum(took.values()) / len(took)
    spread = sum((sizes[number] - mean_size) ** 2 for number in took)
    slope = (
        sum((sizes[n] - mean_size) * (seconds - mean) for n, seconds in took.items()) / spread
        if spread
        else 0.0
    )
    slope = min(max(slope, 0.0), mean / mean_size if mean_size else 0.0)
    expected = [mean + slope * (size - mean_size) for size in sizes]
    current = now // 2
    spent = passed + (timing[now - 1]["seconds"] if now % 2 and now - 1 in timing else 0.0)
    return max(sum(expected[current : current + 1]) - spent, 0.0) + sum(expected[current + 1 :])


def _pictures(row: Mapping[str, str], split: str) -> int:
    counts = [row.get(f"n_{part}", "") or "0" for part in ("train", "dev", split)]
    return sum(int(count) if count.isdigit() else 0 for count in counts)
