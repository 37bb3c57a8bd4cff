"""The table of data sets and the streams that the package carries, as csv files beside this module."""

import csv
import functools
from pathlib import Path

from nevis_stream.errors import BadInput

_DIRECTORY = Path(__file__).parent
_DATASETS = "datasets"


def read_csv(path: Path) -> list[dict[str, str]]:
    """Returns the rows of a csv file as dicts of stripped strings.

    Raises:
      BadInput: the file is not a csv in UTF-8.
    """
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            return [
                {(key or "").strip(): (value or "").strip() for key, value in row.items() if isinstance(value, str | None)}
                for row in csv.DictReader(file)
            ]
    except (UnicodeDecodeError, csv.Error, OSError) as error:
        raise BadInput(f"{path}: cannot be read as csv in UTF-8 ({error}).") from None


@functools.cache
def datasets() -> dict[str, dict[str, str]]:
    """Returns the catalogue's rows by dataset_id: name, kind, domain, num_classes, source, note."""
    return {row["dataset_id"]: row for row in read_csv(_DIRECTORY / f"{_DATASETS}.csv")}


def stream_names() -> tuple[str, ...]:
    """Returns the lower-case names of the streams that the package carries."""
    return tuple(sorted(path.stem for path in _DIRECTORY.glob("*.csv") if path.stem != _DATASETS))


def stream_path(name: str) -> Path:
    """Returns the csv file of a carried stream."""
    return _DIRECTORY / f"{name}.csv"
