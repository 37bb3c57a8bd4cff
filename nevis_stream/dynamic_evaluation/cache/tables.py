"""Tables of values, csv and parquet: one row per model, or one row per cell.

In long form, one row per cell, the columns are `model`, `sample`, and `outcome` or `score`;
optionally `dataset` and `metric` (a sample's id is then DATASET/SAMPLE, and DATASET/SAMPLE#METRIC
where it has several metrics), `low` and `high` (the range of the score), `category`, `subject` or
`class` (a group of samples), `confidence`, and `group` (of models).
"""

import csv
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from nevis_stream.dynamic_evaluation.cache.entries import repeated
from nevis_stream.dynamic_evaluation.cache.facts import RANGE
from nevis_stream.errors import BadInput

_VALUE = ("score", "outcome")
_TEXTS = ("dataset", "metric", "category", "subject", "class")
_LONG = {"model", "sample", *_VALUE, *_TEXTS, *RANGE, "confidence", "group"}
Rows = list[tuple[str, list]]  # where each is, "line 3" for example, and its fields


@dataclass
class RawTable:
    """What a file says, before it is checked.

    Attributes:
      models, samples: ids.
      values: float64[m, n] as in the file, NaN where unknown.
      model_provenance, sample_provenance: m and n of them; a sample's may have `low` and `high`.
      confidence, predicted: [m, n], or None.
      features: float32[n, d], or None.
      repeats: how many cells occur more than once.
      places: where each cell, model row or (row, column), is in the file.
    """

    models: list[str]
    samples: list[str]
    values: np.ndarray
    model_provenance: list[dict[str, Any]]
    sample_provenance: list[dict[str, Any]]
    confidence: np.ndarray | None = None
    predicted: np.ndarray | None = None
    features: np.ndarray | None = None
    repeats: int = 0
    places: dict[Any, str] = field(default_factory=dict)

    def place(self, row: int, column: int) -> str:
        """Returns ", line 3" of a cell for example; "" where the file has no lines."""
        place = self.places.get((row, column)) or self.places.get(row)
        return f", {place}" if place else ""


def read_csv(path: Path) -> RawTable:
    """Reads a csv file; raises BadInput where it cannot be read."""
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, strict=True)
            rows = [(f"line {reader.line_num}", row) for row in reader if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"{path}: cannot be read as csv ({error}).") from error
    return _table(path, rows[0][1] if rows else [], rows[1:])


def read_parquet(path: Path) -> RawTable:
    """Reads a parquet file; raises BadInput where it cannot be read."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise BadInput(
            f"{path}: parquet needs pyarrow: `pip install pyarrow`; or convert the file to csv or"
            " npz."
        ) from None
    try:
        # `read_table` fails where two columns have one name
        table = pyarrow.parquet.ParquetFile(path).read()
    except (OSError, pyarrow.ArrowException) as error:
        raise BadInput(f"{path}: cannot be read as parquet ({error}).") from error
    columns = zip(*(column.to_pylist() for column in table.columns), strict=True)
    rows = [(f"row {number}", list(row)) for number, row in enumerate(columns, start=1)]
    return _table(path, table.column_names, rows)


def _table(path: Path, header: list[str], rows: Rows) -> RawTable:
    if (twice := repeated(header)) is not None:
        places = ", ".join(
            str(place) for place, name in enumerate(header, start=1) if name == twice
        )
        raise BadInput(
            f"{path}: columns {places} have the same name, {twice!r}; give each its own, or leave"
            " one out."
        )
    if "model" not in header:
        raise BadInput(
            f"{path}: has no column `model`; it begins with {', '.join(header[:3]) or 'nothing'}."
        )
    for place, row in rows:
        if len(row) != len(header):
            raise BadInput(
                f"{path}, {place}: it begins with {row[0]!r} and has {len(row)} fields, the header"
                f" {len(header)}."
            )
    value = [name for name in _VALUE if name in header]
    if "sample" in header and value and set(header) <= _LONG:
        if len(value) == 2:
            raise BadInput(f"{path}: has the columns `outcome` and `score`; leave one out.")
        return _long(path, header, rows, value[0])
    return _wide(path, header, rows)


def _wide(path: Path, header: list[str], rows: Rows) -> RawTable:
    keep = [k for k, name in enumerate(header) if name not in ("model", "group")]
    samples, model = [header[k] for k in keep], header.index("model")
    values = np.full((len(rows), len(keep)), np.nan)
    for i, (place, row) in enumerate(rows):
        for k, column in enumerate(keep):
            values[i, k] = _number(row[column], path, place, row[model], header[column])
    group = header.index("group") if "group" in header else None
    return RawTable(
        [_id(row[model]) for _, row in rows],
        samples,
        values,
        [{} if group is None else {"group": str(row[group])} for _, row in rows],
        [{} for _ in samples],
        places={i: place for i, (place, _) in enumerate(rows)},
    )


def _long(path: Path, header: list[str], rows: Rows, value_column: str) -> RawTable:
    """Values of a table with a row per cell; cells that have no row, or no value, are unknown."""
    models: dict[str, dict[str, Any]] = {}
    samples: dict[tuple[str, ...], dict[str, Any]] = {}
    cells: dict[tuple[int, int], tuple[float, float]] = {}
    numbers: dict[Any, int] = {}  # of models by id, of samples by key
    places: dict[Any, str] = {}
    repeats = 0
    for place, row in rows:
        fields = dict(zip(header, row, strict=True))
        model, sample = _id(fields["model"]), _id(fields["sample"])
        key = sample and (_id(fields.get("dataset")), sample, _id(fields.get("metric")))
        of_model = {"group": str(fields["group"])} if "group" in header else {}
        of_sample = {name: _id(fields[name]) for name in _TEXTS if _id(fields.get(name))} | {
            name: _number(fields[name], path, place, model, sample)
            for name in RANGE
            if fields.get(name) not in ("", None)
        }
        if models.setdefault(model, of_model) != of_model:
            raise BadInput(
                f"{path}, {place}: model {model!r} is of group {of_model['group']!r}, but was of"
                f" {models[model]['group']!r}."
            )
        if (old := samples.setdefault(key, of_sample)) != of_sample:
            name = next(n for n in {**old, **of_sample} if old.get(n) != of_sample.get(n))
            raise BadInput(
                f"{path}, {place}: sample {sample!r} has {name} = {of_sample.get(name)}, but had"
                f" {old.get(name)}."
            )
        cell = (
            numbers.setdefault(("model", model), len(models) - 1),
            numbers.setdefault(key, len(samples) - 1),
        )
        numbers_in_row = tuple(
            _number(fields.get(name), path, place, model, sample)
            for name in (value_column, "confidence")
        )
        if cell in cells:
            if not np.array_equal(cells[cell], numbers_in_row, equal_nan=True):
                raise BadInput(
                    f"{path}, {place}: model {model!r} on sample {sample!r} has the {value_column}"
                    f" {numbers_in_row[0]:g}, but {cells[cell][0]:g} in {places[cell]}."
                )
            repeats += 1
        cells[cell] = numbers_in_row
        places.setdefault(cell, place)
    values, confidence = np.full((2, len(models), len(samples)), np.nan)
    for cell, numbers_in_row in cells.items():
        values[cell], confidence[cell] = numbers_in_row
    return RawTable(
        list(models),
        _ids(samples),
        values,
        list(models.values()),
        list(samples.values()),
        _confidence(path, confidence, list(models), list(samples)),
        repeats=repeats,
        places=places,
    )


def _confidence(path: Path, confidence: np.ndarray, models, samples) -> np.ndarray | None:
    """Returns float16[m, n] of confidences, or None where there is none."""
    if np.isnan(confidence).all():
        return None
    outside = (confidence < 0) | (confidence > 1)
    if outside.any():
        i, k = np.argwhere(outside)[0]
        raise BadInput(
            f"{path}: model {models[i]!r}, sample {samples[k][1]!r}: the confidence"
            f" {confidence[i, k]:g} is not between 0 and 1."
        )
    return confidence.astype(np.float16)


def _ids(keys: Iterable[tuple[str, str, str]]) -> list[str]:
    """Returns samples' ids by data set, id in the file, and metric."""
    keys = list(keys)
    several = len({key[:2] for key in keys if key}) < len(keys)
    return [
        ""
        if not key
        else (f"{key[0]}/" if key[0] and not key[1].startswith(f"{key[0]}/") else "")
        + key[1]
        + (f"#{key[2]}" if several and key[2] else "")
        for key in keys
    ]


def _id(value) -> str:
    """An id as text; "" for none, which is refused."""
    return "" if value is None else str(value)


def _number(text, path: Path, place: str, model, sample) -> float:
    if text in ("", None):
        return float("nan")
    try:
        return float(text)
    except (TypeError, ValueError):
        raise BadInput(
            f"{path}, {place}: model {model!r}, sample {sample!r}: {text!r} is not a number; leave"
            " unknown cells empty."
        ) from None
