"""Reads a run directory in which another process works, and writes nothing.

Files come and go while they are read; those that are missing, cut or half-written are left out.
"""

import csv
import fcntl
import functools
import math
import os
import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nevis_stream.errors import BadInput
from nevis_stream.run_directory import scalars
from nevis_stream.run_directory.config import read_config
from nevis_stream.run_directory.ledger import FILE_NAME, Ledger
from nevis_stream.storage import reading
from nevis_stream.storage.reading import open_file, read_bytes

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


def ledger(run_dir: Path) -> Ledger:
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


def config(run_dir: Path) -> dict[str, Any]:
    """Returns the config's values; empty if the file is missing or damaged."""
    try:
        return dict(read_config(run_dir).values)
    except BadInput:
        return {}


def stream(run_dir: Path) -> list[dict[str, str]]:
    """Returns the rows of stream.csv; empty if the file is missing or damaged."""
    try:
        rows = list(csv.DictReader(read_bytes(run_dir / "stream.csv").decode().splitlines()))
        return [row for row in rows if _ID.fullmatch(row.get("task_id") or "")]
    except (OSError, ValueError, csv.Error):
        return []


def last_write(run_dir: Path, event: str | None) -> tuple[float | None, float | None]:
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


def event_in_progress(run_dir: Path, number: int) -> str | None:
    """Returns number and task of a running train event, "0002-mnist", from the files it wrote."""
    for path in (
        *(run_dir / "checkpoints").glob(f"{number:04d}-*.progress"),
        *(run_dir / scalars.FOLDER).glob(f"{number:04d}-*"),
    ):
        return path.name.removesuffix(".progress")
    return None


def trials(run_dir: Path, event: str) -> list[TrialState]:
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


def holder(run_dir: Path) -> Holder | None:
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
