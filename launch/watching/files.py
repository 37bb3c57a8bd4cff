"""Reads a run directory in which another process works: writes nothing, and takes what is whole.

Files come and go while they are read; what is missing, cut or half-written is left out.
"""

import csv
import fcntl
import functools
import json
import os
import re
import socket
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nevis_stream.analysis.integrity import check
from nevis_stream.errors import BadInput
from nevis_stream.run_directory import scalars
from nevis_stream.run_directory.config import read_config
from nevis_stream.run_directory.ledger import FILE_NAME, Ledger

_TRIAL = re.compile(r"trial-(\d+)(?:\.step-(\d+))?")
_ID = re.compile(r"[\w.-]+")
_MARKS = (FILE_NAME, "config.json", "lock")


@dataclass(frozen=True)
class Trial:
    """A trial of the event that runs.

    Attributes:
      number: from 0.
      done: whether its result is kept.
      step: the last step that it logged; None: none yet.
      dev_error: the lowest so far; None where it logged none.
    """

    number: int
    done: bool
    step: int | None
    dev_error: float | None


@dataclass(frozen=True)
class Holder:
    """The process that works, or worked last, in a run directory.

    Attributes:
      name: "pid N on MACHINE".
      alive: whether it works now; None where that cannot be seen from this machine.
    """

    name: str
    alive: bool | None


def is_run(run_dir: Path) -> bool:
    """Whether this is a run directory, begun or about to begin."""
    return any((run_dir / name).is_file() for name in _MARKS)


def ledger(run_dir: Path) -> Ledger:
    """Returns the ledger, checked; read again only when the file has changed.

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
    read = Ledger(run_dir)
    if read.records:  # a run's first line may be half written
        check(read)
    return read


def config(run_dir: Path) -> dict[str, Any]:
    """Returns the config's values; none where it is missing or damaged."""
    try:
        return dict(read_config(run_dir).values)
    except BadInput:
        return {}


def stream(run_dir: Path) -> list[dict[str, str]]:
    """Returns the rows of the tasks; none where they are missing."""
    try:
        text = (run_dir / "stream.csv").read_text()
        return [
            row
            for row in csv.DictReader(text.splitlines())
            if _ID.fullmatch(row.get("task_id") or "")
        ]
    except (OSError, ValueError, csv.Error):
        return []


def last_write(run_dir: Path, event: str | None) -> tuple[float | None, float | None]:
    """Returns when the current event began and when the run last wrote, in seconds (epoch).

    Args:
      run_dir: the run directory.
      event: number and task of the event that trains now, or None.
    """
    files = [
        run_dir / name
        for name in ("ledger.jsonl", "timing.jsonl", "environment.jsonl", "config.json")
    ]
    begun = _newest(files)
    if event:
        files += [
            run_dir / "checkpoints" / f"{event}.progress",
            *(run_dir / scalars.FOLDER / event).glob("trial-*/events.*"),
        ]
    return begun, _newest(files)


def _newest(paths: Iterable[Path]) -> float | None:
    times = []
    for path in paths:
        try:
            times.append(path.stat().st_mtime)
        except OSError:
            continue
    return max(times, default=None)


def event_in_progress(run_dir: Path, number: int) -> str | None:
    """Returns what the files of a train event that runs are called, by the files it has written."""
    for path in (
        *(run_dir / "checkpoints").glob(f"{number:04d}-*.progress"),
        *(run_dir / scalars.FOLDER).glob(f"{number:04d}-*"),
    ):
        return path.name.removesuffix(".progress")
    return None


def trials(run_dir: Path, event: str) -> list[Trial]:
    """Returns the trials of an event that have written something: results, positions or scalars.

    Args:
      run_dir: the run directory.
      event: number and task of the event, "0002-mnist".
    """
    progress, live = run_dir / "checkpoints" / f"{event}.progress", run_dir / scalars.FOLDER / event
    done: dict[int, Path] = {}
    steps: dict[int, dict[int, Path]] = {}
    for name in _names(progress):
        if match := _TRIAL.fullmatch(name):
            number = int(match[1])
            if match[2] is None:
                done[number] = progress / name
            else:
                steps.setdefault(number, {})[int(match[2])] = progress / name
    shown = {int(match[1]) for name in _names(live) if (match := _TRIAL.fullmatch(name))}
    trials_seen = []
    for number in sorted({*done, *steps, *shown}):
        points = scalars.read(live / f"trial-{number:03d}") if number in shown else {}
        saved = done.get(number) or (steps[number][max(steps[number])] if number in steps else None)
        logged = [step for values in points.values() for step, _ in values] + list(
            steps.get(number, ())
        )
        errors = [value for _, value in points.get(f"{scalars.TRIAL}/dev_error", ())] or list(
            _dev_errors(saved)
        )
        trials_seen.append(
            Trial(number, number in done, max(logged, default=None), min(errors, default=None))
        )
    return trials_seen


def _names(directory: Path) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _dev_errors(saved: Path | None) -> Iterator[float]:
    """Yields the dev error in the manifest of a result or position, where there is one."""
    try:
        result = (
            json.loads((saved / "manifest.json").read_bytes())["trees"]["result"]["structure"]
            if saved
            else {}
        )
        for facts in (result, result.get("info", {}), result.get("best", {})):
            for name in ("dev_error", "error"):
                if isinstance(facts.get(name), int | float):
                    yield float(facts[name])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return


def holder(run_dir: Path) -> Holder | None:
    """Returns the last process with the lock, and whether it still has it; None without one."""
    try:
        text = (run_dir / "lock").read_text().strip()
    except (OSError, ValueError):
        return None
    match = re.fullmatch(r"(\d+)(?: on (\S+))?", text)
    if match is None:
        return None
    if match[2] not in (None, socket.gethostname()):
        return Holder(f"pid {text}", None)
    return Holder(f"pid {text}", _locked(run_dir / "lock"))


def _locked(lock: Path) -> bool | None:
    """Whether a process of this machine holds a lock; None where that cannot be tried.

    The attempt takes a shared lock for an instant; a run that starts tries several times.
    """
    try:
        with open(lock) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
    return False
