"""Summaries that the page shows: of an evaluation cache, as `launch.evaluate metrics` left it, and
of a study of methods, as `launch.evaluate study` did.
"""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nevis_stream.analysis.own_files import find_own_file
from nevis_stream.analysis.runs import NothingToRead
from nevis_stream.errors import BadInput
from nevis_stream.extensions import REPORT_PARTS, explain_absence
from nevis_stream.storage.reading import read_bytes, read_json

_CACHE_FILE, _STUDY_FILE = "index.sqlite", "study.json"  # they show that a directory is one
_EVALUATION, _PICTURE, _STUDY = "evaluation.json", "outcomes.png", "study_summary.json"
# keys that a summary must have
_CACHE_KEYS = "schema about models samples methods decomposition additions known seeds correlation"
_STUDY_KEYS = "schema split hide pairs matrices advice"


@dataclass(frozen=True)
class Evaluation:
    """One cache: its directory, what `evaluate metrics` wrote, and its picture
    as a `data:` address.
    """

    path: Path
    summary: dict[str, Any]
    picture: str

    @property
    def name(self) -> str:
        """The data set, or else the name of the directory."""
        return self.summary["about"].get("dataset_id") or self.path.name


@dataclass(frozen=True)
class Study:
    """A study of methods: its directory, and what `evaluate study` wrote."""

    path: Path
    summary: dict[str, Any]


def is_cache(path: Path) -> bool:
    """Returns whether a directory is an evaluation cache."""
    return (path / _CACHE_FILE).is_file()


def is_study(path: Path) -> bool:
    """Returns whether a directory is that of a study of methods."""
    return (path / _STUDY_FILE).is_file()


def read_evaluation(path: Path) -> Evaluation:
    """Reads a cache's summary.

    Raises:
      BadInput: there is none, it is damaged, or a later version wrote it.
    """
    command = f"python -m launch.evaluate metrics --cache={path}"
    if not (path / _EVALUATION).is_file():
        raise NothingToRead(f"an evaluation cache without a summary; to make one: {command}")
    again = f"to make it again: {command}"
    summary = _read_summary(path, _EVALUATION, 2, _CACHE_KEYS.split(), again)
    try:
        picture = read_bytes(find_own_file(path, _PICTURE))
    except (OSError, ValueError) as error:
        raise BadInput(f"its picture cannot be read ({error}); {again}") from None
    return Evaluation(path, summary, "data:image/png;base64," + base64.b64encode(picture).decode())


def read_study(path: Path) -> Study:
    """Reads a study's summary.

    Raises:
      BadInput: there is none yet, it is damaged, or a later version wrote it.
    """
    if not (path / _STUDY).is_file():
        raise NothingToRead("a study without a summary; let `launch.evaluate study` finish first")
    return Study(path, _read_summary(path, _STUDY, 1, _STUDY_KEYS.split(), "run the study again"))


def _read_summary(
    path: Path, name: str, schema: int, needed: Sequence[str], remedy: str
) -> dict[str, Any]:
    if absence := explain_absence(REPORT_PARTS):  # else the page would lack it without a word
        raise NothingToRead(absence.strip())
    try:
        summary = read_json(find_own_file(path, name))
        version = summary.get("schema", 0)
        if version > schema:
            raise BadInput(f"{name} has schema {version}; this program reads up to {schema}")
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise BadInput(f"its summary cannot be read ({error}); {remedy}") from None
    if missing := [each for each in needed if each not in summary]:
        raise BadInput(f"{name} lacks {missing[0]!r}; {remedy}")
    return summary
