"""What `launch.evaluate metrics` left in an evaluation cache, as the page wants it."""

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nevis_stream.analysis.own_files import own_file
from nevis_stream.analysis.runs import NothingToRead
from nevis_stream.errors import BadInput
from nevis_stream.storage.reading import read_bytes, read_json

INDEX, FILE, PICTURE, SCHEMA = "index.sqlite", "evaluation.json", "outcomes.png", 2
_NEEDED = (
    "schema",
    "about",
    "models",
    "samples",
    "methods",
    "decomposition",
    "additions",
    "known",
    "seeds",
    "correlation",
)


@dataclass(frozen=True)
class Evaluation:
    """One cache: its directory, what `dynamic_evaluation.evaluation_summary` wrote, and its picture
    as a `data:` address.
    """

    path: Path
    summary: dict[str, Any]
    picture: str

    @property
    def name(self) -> str:
        """The data set, or what the directory is called."""
        return self.summary["about"].get("dataset_id") or self.path.name


def is_cache(path: Path) -> bool:
    """Whether a directory is an evaluation cache."""
    return (path / INDEX).is_file()


def read_evaluation(path: Path) -> Evaluation:
    """Reads a cache's summary.

    Raises:
      BadInput: there is none, it is damaged, or a later version wrote it.
    """
    if not (path / FILE).is_file():
        raise NothingToRead(
            "an evaluation cache without a summary; to make one: python -m launch.evaluate metrics"
            f" --cache={path}"
        )
    try:
        summary = read_json(own_file(path, FILE))
        if summary.get("schema", 0) > SCHEMA:
            raise BadInput(
                f"{FILE} has schema {summary['schema']}; this program reads up to {SCHEMA}"
            )
        missing = [name for name in _NEEDED if name not in summary]
        if missing:
            raise BadInput(
                f"{FILE} lacks {missing[0]!r}; to make it again: python -m launch.evaluate metrics"
                f" --cache={path}"
            )
        picture = read_bytes(own_file(path, PICTURE))
    except (OSError, ValueError, AttributeError) as error:
        raise BadInput(
            f"its summary cannot be read ({error}); to make it again: python -m launch.evaluate"
            " metrics"
            f" --cache={path}"
        ) from None
    return Evaluation(path, summary, "data:image/png;base64," + base64.b64encode(picture).decode())
