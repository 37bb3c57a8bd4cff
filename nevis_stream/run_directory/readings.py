"""readings.json of a run: what the files of its data sets were understood as."""

import json
from collections.abc import Mapping
from pathlib import Path

from nevis_stream.datasets.reading import Reading
from nevis_stream.storage import write_file
from nevis_stream.storage.checks import json_object
from nevis_stream.storage.reading import read_json

FILE_NAME = "readings.json"
LARGEST = 2**22  # bytes; a stream of 106 tasks has fewer


def write_readings(directory: Path, readings: Mapping[str, Reading]) -> None:
    """Writes the readings by dataset_id, if any data set was read from files."""
    if readings:
        values = {name: reading.to_json() for name, reading in readings.items()}
        text = json.dumps(values, indent=1, ensure_ascii=False) + "\n"
        write_file(directory / FILE_NAME, text.encode())


def read_readings(file: Path) -> dict[str, Reading]:
    """Reads readings.json.

    Raises:
      OSError: it cannot be read.
      ValueError: it is damaged.
    """
    try:
        values = json_object(read_json(file, LARGEST))
        return {name: Reading.from_json(each) for name, each in values.items()}
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"is damaged ({error})") from None
