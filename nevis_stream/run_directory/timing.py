"""How long events take: wall clock, CPU time of the process and what XLA compiled, one line each in
timing.jsonl.
"""

import os
import time
from collections.abc import Mapping
from pathlib import Path

from nevis_stream.cost import compilations
from nevis_stream.run_directory.records import encode
from nevis_stream.storage import append_line


def clocks() -> dict[str, float]:
    """Returns what is timed, as it stands now."""
    count, seconds = compilations.so_far()
    return {
        "seconds": time.perf_counter(),
        "cpu_seconds": time.process_time(),
        "compilations": count,
        "compilation_seconds": seconds,
    }


def append(path: Path, event: int, kind: str, task_id: str, begun: Mapping[str, float]) -> None:
    """Adds the line of an event that began when the clocks stood at `begun`."""
    row = {"event": event, "kind": kind, "task_id": task_id, "pid": os.getpid()}
    passed = {name: round(now - begun[name], 4) for name, now in clocks().items()}
    append_line(path, encode(row | passed))
