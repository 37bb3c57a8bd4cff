"""What a command has left in a folder, in a form in which equal results are equal."""

import csv
import hashlib
import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from nevis_stream.evaluation_cache import EvaluationCache

_NOT_COMPARED = re.compile(r"-(wal|shm|journal)$|cells\.bin$")  # `verify` reads the cells
_NUMBERED = re.compile(r"\basked-\d{4}\b")
_LOGS = re.compile(r"^out/asked-\d+(/|$)")  # those of a harness that was killed are kept
_EVENTS = re.compile(r"(events\.out\.tfevents)\..*")  # TensorBoard's names have the time and more
_DIARIES = ("environment.jsonl", "timing.jsonl")  # a line for each start, and for each measurement
_MEASURED = ("seconds", "time", "pid")
_CHAINED = ("after", "check")  # checksums of a line with measured values, and of the one before it
_PLACES = {
    "about": ("end",),
    "tiles": ("number", "offset"),
    "text_checks": ("number",),
    "errata": ("digest",),  # of a text with the time; `verify` compares it
}
"""Columns of a cache's tables that say where something is, not what."""


def content(folder: Path) -> dict[str, str]:
    """Returns a digest of each file, by its path; "folder" for a folder.

    Caches are compared by their rows and must be intact; JSON and tables by their values but for
    those that are measured.
    """
    result = {}
    for path in sorted(folder.rglob("*")):
        name = _EVENTS.sub(r"\1", str(path.relative_to(folder)))
        if _LOGS.match(name):
            continue
        if path.is_dir():
            result[name] = "folder"
        elif path.name in _DIARIES:
            result[name] = "diary"
        elif not _NOT_COMPARED.search(name):
            result[name] = hashlib.sha256(_normal(path)).hexdigest()
    return result


def _normal(path: Path) -> bytes:
    if path.name == "index.sqlite":
        return _rows(path)
    data = path.read_bytes()
    if path.suffix == ".csv":
        return _unmeasured_table(data.decode(errors="replace"))
    if path.suffix in (".json", ".jsonl"):
        try:
            lines = data.splitlines() if path.suffix == ".jsonl" else [data]
            return json.dumps([_unmeasured(json.loads(line)) for line in lines]).encode()
        except ValueError:
            return data
    return data


def _unmeasured_table(text: str) -> bytes:
    head, *rows = csv.reader(text.splitlines())
    kept = [place for place, name in enumerate(head) if not _is_measured(name)]
    return repr(
        [[row[place] for place in kept if place < len(row)] for row in (head, *rows)]
    ).encode()


def _rows(index: Path) -> bytes:
    """Returns what is in a cache, wherever it is in its file of cells."""
    rows = EvaluationCache(index.parent).verify()
    with closing(sqlite3.connect(index)) as connection:
        connection.row_factory = sqlite3.Row
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        for name in sorted(row["name"] for row in tables):
            if name != "sqlite_sequence":
                for row in connection.execute(f"SELECT * FROM {name}"):  # noqa: S608
                    left_out = _PLACES.get(name, ())
                    there = dict(row).items()
                    values = [_unmeasured_text(v) for key, v in there if key not in left_out]
                    rows.append(f"{name} {values}")
    return "\n".join(sorted(rows)).encode()


def _unmeasured_text(value: Any) -> Any:
    if isinstance(value, str) and value.startswith("{"):
        return json.dumps(_unmeasured(json.loads(value)))
    return value


def _unmeasured(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: "" if _is_measured(name) else _unmeasured(each) for name, each in value.items()
        }
    if isinstance(value, str):  # a folder of logs has another number after a kill
        return _NUMBERED.sub("asked", value)
    return [_unmeasured(each) for each in value] if isinstance(value, list) else value


def _is_measured(name: str) -> bool:
    return name in _CHAINED or any(part in name for part in _MEASURED)
