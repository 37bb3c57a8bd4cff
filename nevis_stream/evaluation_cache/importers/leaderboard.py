"""Reads the details of the Open LLM Leaderboard of 2023, `details_harness|TASK|SHOTS_DATE.parquet`.

The file has a row for each sample, in the order of the task, without an id; the values stand in a
column of objects, `metrics`, or in columns of their own. The model is named by the folder of the
download, details_ORG__MODEL. Follows what public programs read of these files; no real file was
seen. (The details of 2024 are read by `harness`.)
"""

import re
from pathlib import Path
from typing import Any

from nevis_stream.errors import BadInput
from nevis_stream.evaluation_cache.arguments import digest
from nevis_stream.evaluation_cache.importers.record import Format, Log, SharedFiles
from nevis_stream.evaluation_cache.tables import read_columns

_NAME = re.compile(
    r"^details_[^|]+\|(?P<task>.+)\|(?P<shots>\d+)_(?P<date>\d{4}-\d\d-\d\dT[\d.:-]+)\.parquet$"
)
# columns of values in files without `metrics`
_METRICS = ("acc", "acc_norm", "mc1", "mc2", "em", "f1", "exact_match", "qem")
_CONTENT = ("example", "question")


def read(path: Path, shared: SharedFiles) -> list[Log]:
    """Reads the details of a task.

    Raises:
      BadInput: the file cannot be read, or has neither `metrics` nor a known column of values.
    """
    match = _NAME.search(path.name)
    assert match
    columns = read_columns(path, {"metrics", "hash", "hashes", *_METRICS, *_CONTENT})
    if not {"metrics", *_METRICS} & columns.keys():
        raise BadInput(f"{path}: has neither `metrics` nor any of {', '.join(_METRICS)}.")
    log = Log(path, _find_model_name(path), match["task"], match["date"], grades=shared.grades)
    for number in range(len(next(iter(columns.values())))):
        row = {name: column[number] for name, column in columns.items()}
        sample, place = str(number), f"row {number + 1}"
        values = row.get("metrics")
        if not isinstance(values, dict):
            values = {name: row[name] for name in _METRICS if name in row}
        for name, value in values.items():
            log.add(name, sample, value, place)
        if content := _hash_content(row):
            log.hashes[sample] = content
    log.settings = {"num_fewshot": match["shots"]}
    return [log]


def _hash_content(row: dict[str, Any]) -> str:
    """Returns a hash of a sample's content without its examples, "" if the file has none."""
    for name in ("hashes", "hash"):
        hashes = row.get(name)
        stated = isinstance(hashes, dict) and (hashes.get("hash_example") or hashes.get("example"))
        if stated:
            return str(stated)
    text = next((row[name] for name in _CONTENT if isinstance(row.get(name), str)), "")
    return digest(text) if text else ""


def _find_model_name(path: Path) -> str:
    folders = [each.name for each in path.resolve().parents]
    named = (each.removeprefix("details_") for each in folders if each.startswith("details_"))
    return next(named, folders[0]).replace("__", "/")


FORMAT = Format(
    "Open LLM Leaderboard of 2023",
    "details_SUITE|TASK|SHOTS_DATE.parquet",
    _NAME,
    read,
)
