"""The numbers of a report as csv files, one row a fact, every value with full precision."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd

from nevis_stream.analysis import tables
from nevis_stream.report.section import Section

_IDENTITY = ("stream", "stream_digest", "protocol")
_FILES: dict[str, Callable[[Section], pd.DataFrame]] = {
    "points.csv": lambda section: tables.points(section.methods),
    "per_task.csv": lambda section: tables.per_task(section.runs),
    "regret.csv": lambda section: tables.regrets(section.runs),
    "phases.csv": lambda section: tables.phases(section.runs),
}


def write_exports(sections: Sequence[Section], out: Path) -> None:
    """Writes points.csv, per_task.csv, regret.csv and phases.csv, each row with its stream.

    FLOPs that are sums are written as exact integers, errors with digits that read back equal.
    """
    for name, table in _FILES.items():
        frames = []
        for section in sections:
            frame = table(section)
            for place, column in enumerate(_IDENTITY):
                frame.insert(place, column, section.header[column])
            frames.append(frame.astype(object))
        text = pd.concat(frames).to_csv(index=False, na_rep="NaN", lineterminator="\n")
        write_text(out / name, text)


def write_text(path: Path, text: str) -> None:
    """Writes a file under a temporary name and renames it: no reader sees half of it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text, encoding="utf-8", newline="")
    os.replace(temporary, path)
