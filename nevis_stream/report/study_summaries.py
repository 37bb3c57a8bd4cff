"""What `launch.evaluate study` left in its folder, as the page wants it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nevis_stream.analysis.own_files import own_file
from nevis_stream.analysis.runs import NothingToRead
from nevis_stream.errors import BadInput
from nevis_stream.storage.reading import read_json

SETTINGS, FILE, SCHEMA = "study.json", "study_summary.json", 1
_NEEDED = ("schema", "split", "hide", "pairs", "matrices", "advice")


@dataclass(frozen=True)
class Study:
    """A study of methods: its directory, and what `dynamic_evaluation.study_summary` wrote."""

    path: Path
    summary: dict[str, Any]


def is_study(path: Path) -> bool:
    """Whether a directory holds a study of methods."""
    return (path / SETTINGS).is_file()


def read_study(path: Path) -> Study:
    """Reads a study's summary.

    Raises:
      BadInput: there is none yet, it is damaged, or a later version wrote it.
    """
    if not (path / FILE).is_file():
        raise NothingToRead("a study without a summary; let `launch.evaluate study` finish first")
    try:
        summary = read_json(own_file(path, FILE))
        if summary.get("schema", 0) > SCHEMA:
            raise BadInput(
                f"{FILE} has schema {summary['schema']}; this program reads up to {SCHEMA}"
            )
        if missing := [name for name in _NEEDED if name not in summary]:
            raise BadInput(f"{FILE} lacks {missing[0]!r}; run the study again")
    except (OSError, ValueError, AttributeError) as error:
        raise BadInput(f"its summary cannot be read ({error}); run the study again") from None
    return Study(path, summary)
