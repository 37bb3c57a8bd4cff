"""Reads a run directory in which another process works: locks nothing, writes nothing, and takes
what is whole.

Files come and go while they are read; what is missing, cut or half-written is left out.
"""

import csv
import functools
import json
import math
import os
import re
import socket
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nevis_stream.analysis.integrity import check
from nevis_stream.run_directory import scalars
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
      step: steps that it has told of; None: nothing yet.
      dev_error: the lowest so far; None where it told of none.
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
        read = json.loads((run_dir / "config.json").read_bytes())
    except (OSError, ValueError):
        return {}
    return read if isinstance(read, dict) else {}


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


def timing(run_dir: Path) -> dict[int, dict[str, float]]:
    """Returns the `seconds` and `compilation_seconds` of each event, by its number; lines that are
    not whole are left out.
    """
    found = {}
    for line in _lines(run_dir / "timing.jsonl"):
        try:
            row = json.loads(line)
            numbers = {name: float(row.get(name, 0)) for name in ("seconds", "compilation_seconds")}
            if all(map(math.isfinite, numbers.values())):
                found[int(row["event"])] = numbers
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
            continue
    return found


def _lines(path: Path) -> list[bytes]:
    try:
        data = path.read_bytes()
    except OSError:
        return []
    return data[: data.rfind(b"\n") + 1].splitlines()


def last_write(run_dir: Path, event: str | None) -> tuple[float | None, float | None]:
    """Returns when the event that runs began, and when the run last wrote, in seconds since the
    epoch; None where unknown.

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


def trials(run_dir: Path, event: str) -> list[Trial]:
    """Returns the trials of an event that have told of themselves, by their kept results, saved
    positions and scalars.

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
    found = []
    for number in sorted({*done, *steps, *shown}):
        points = scalars.read(live / f"trial-{number:03d}") if number in shown else {}
        saved = done.get(number) or (steps[number][max(steps[number])] if number in steps else None)
        told = [step for values in points.values() for step, _ in values] + list(
            steps.get(number, ())
        )
        errors = [value for _, value in points.get(f"{scalars.TRIAL}/dev_error", ())] or list(
            _dev_errors(saved)
        )
        found.append(
            Trial(number, number in done, max(told, default=None), min(errors, default=None))
        )
    return found


def _names(directory: Path) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _dev_errors(saved: Path | None) -> Iterator[float]:
    """Yields the dev error that stands in the manifest of a result or position, where the learner
    puts one there.
    """
    try:
        result = (
            json.loads((saved / "manifest.json").read_bytes())["trees"]["result"]["structure"]
            if saved
            else {}
        )
        for told in (result, result.get("info", {}), result.get("best", {})):
            for name in ("dev_error", "error"):
                if isinstance(told.get(name), int | float):
                    yield float(told[name])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return


def holder(run_dir: Path) -> Holder | None:
    """Returns the process that took the lock last and whether it still has it; None where no
    process ever had it.
    """
    try:
        text = (run_dir / "lock").read_text().strip()
        status = os.stat(run_dir / "lock")
    except (OSError, ValueError):
        return None
    match = re.fullmatch(r"(\d+)(?: on (\S+))?", text)
    if match is None:
        return None
    if match[2] not in (None, socket.gethostname()):
        return Holder(f"pid {text}", None)
    return Holder(f"pid {text}", _locked(status, int(match[1])))


def _locked(status: os.stat_result, pid: int) -> bool:
    """Whether a process of this machine has a lock on a file; asking by trying would lock out a run
    that starts.
    """
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"
    try:
        locks = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    except OSError:  # not Linux: the process may be another one by now
        return _exists(pid)
    for words in locks:
        place = next((word for word in words if word.count(":") == 2), "")
        where, _, inode = place.rpartition(":")
        if inode == str(status.st_ino) and (where == device or str(pid) in words):
            return True
    return False


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True
