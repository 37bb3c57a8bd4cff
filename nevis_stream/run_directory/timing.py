"""timing.jsonl: the wall clock, CPU time and compilations of each event."""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from nevis_stream.cost import compilations
from nevis_stream.storage import append_line
from nevis_stream.storage.canonical import encode
from nevis_stream.storage.checks import json_object, number
from nevis_stream.storage.reading import parse_json, read_bytes
from nevis_stream.storage.record import Record

FILE_NAME = "timing.jsonl"
Seconds = Annotated[float, number(0, 1e12)]


@dataclass(frozen=True, kw_only=True)
class TimingRecord(Record):
    """The time of an event; after a kill and a restart, only that of the last process."""

    event: int
    kind: str
    task_id: str
    pid: int
    seconds: Seconds
    cpu_seconds: Seconds
    compilations: int | None = None
    compilation_seconds: Seconds | None = None


def clocks() -> dict[str, float]:
    """Returns the current values of all clocks and counters."""
    count, seconds = compilations.so_far()
    return {
        "seconds": time.perf_counter(),
        "cpu_seconds": time.process_time(),
        "compilations": count,
        "compilation_seconds": seconds,
    }


def append(run_dir: Path, event: int, kind: str, task_id: str, start: Mapping[str, float]) -> None:
    """Adds the line of an event that started when `clocks` returned `start`."""
    passed = {name: max(round(now - start[name], 4), 0) for name, now in clocks().items()}
    record = TimingRecord(event=event, kind=kind, task_id=task_id, pid=os.getpid(), **passed)
    append_line(run_dir / FILE_NAME, encode(record.to_json()))


def read_timing(run_dir: Path) -> list[TimingRecord]:
    """Returns the timing of a run's events; lines that are cut or damaged are left out."""
    records = []
    try:
        lines = read_bytes(run_dir / FILE_NAME).splitlines()
    except OSError:
        return []
    for line in lines:
        try:
            records.append(TimingRecord.from_json(json_object(parse_json(line))))
        except ValueError:
            continue
    return records
