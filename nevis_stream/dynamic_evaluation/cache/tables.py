"""Reads tables of values, csv and parquet: one row for each model, or one row for each cell.

In long form, one row for each cell, the columns are `model`, `sample`, and `outcome` or `score`;
optionally `dataset` and `metric` (a sample's id is then DATASET/SAMPLE, and DATASET/SAMPLE#METRIC
if it has several metrics), `low` and `high` (the range of the score), `higher_is_better` (true or
false), `hash` (of the sample's content), `category`, `subject` or `class` (a group of samples),
`confidence`, and `group` (of models).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from nevis_stream.dynamic_evaluation.cache.entries import repeated
from nevis_stream.dynamic_evaluation.cache.facts import DIRECTION, HASH, METRIC, RANGE
from nevis_stream.dynamic_evaluation.cache.imported import LeftOut
from nevis_stream.errors import BadInput
from nevis_stream.storage.text import read_rows

_VALUE = ("score", "outcome")
_TEXTS = ("dataset", METRIC, "category", "subject", "class", HASH)
_LONG = {"model", "sample", *_VALUE, *_TEXTS, *RANGE, DIRECTION, "confidence", "group"}
_TRUTHS = {"true": 1.0, "false": 0.0}  # as pandas and spreadsheets write outcomes
Rows = list[tuple[str, list]]  # the place of each row, for example "line 3", and its fields


@dataclass
class RawTable:
    """The content of a file before its values are checked.

    Attributes:
      models, samples: ids.
      values: float64[m, n] as in the file, NaN where unknown.
      model_provenance, sample_provenance: m and n of them; a sample's may have `low` and `high`.
      confidence, predicted: [m, n], or None.
      features: float32[n, d], or None.
      repeats: number of repeated cells.
      remarks: further lines for people.
      left_out: what of the file is not read.
      places: the place in the file of each model's row, or of each cell (row, column).
      coded: whether 255 stands for an unknown value in any range that does not contain it, and not
        only where the range is 0 to 1.
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
    remarks: list[str] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    places: dict[Any, str] = field(default_factory=dict)
    coded: bool = False

    def place(self, row: int, column: int) -> str:
        """Returns the place of a cell, for example ", line 3"; "" if the file has no lines."""
        place = self.places.get((row, column)) or self.places.get(row)
        return f", {place}" if place else ""


def read_csv(path: Path) -> RawTable:
    """Reads a csv file; raises BadInput if it cannot be read."""
    rows = [(f"line {line}", cells) for line, cells in read_rows(path, str(path), ("model",))]
    if not rows:
        raise BadInput(f"{path}: is empty.")
    return _table(path, rows[0][1], rows[1:])


def read_parquet(path: Path) -> RawTable:
    """Reads a parquet file; raises BadInput if it cannot be read."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise BadInput(
            f"{path}: parquet needs pyarrow: `pip install pyarrow`; or convert the file to csv or"
            " npz."
        ) from None
    try:
        # `read_table` fails if two columns have the same name
        table = pyarrow.parquet.ParquetFile(path).read()
    except (OSError, pyarrow.ArrowException) as error:
        raise BadInput(f"{path}: cannot be read as parquet ({error}).") from error
    columns = zip(*(column.to_pylist() for column in table.columns), strict=True)
    rows = [(f"row {number}", list(row)) for number, row in enumerate(columns, start=1)]
    return _table(path, table.column_names, rows)


def _table(path: Path, header: list[str], rows: Rows) -> RawTable:
    if (name := repeated(header)) is not None:
        places = ", ".join(str(place) for place, n in enumerate(header, start=1) if n == name)
        raise BadInput(
            f"{path}: columns {places} have the same name, {name!r}; give each its own, or leave"
            " one out."
        )
    if "model" not in header:
        raise BadInput(
            f"{path}: has no column `model`; it begins with {', '.join(header[:3]) or 'nothing'}."
            + _spelling(header)
        )
    for place, row in rows:
        if len(row) != len(header):
            raise BadInput(
                f"{path}, {place}: it begins with {row[0]!r} and has {len(row)} fields, the header"
                f" {len(header)}."
            )
    value_columns = [name for name in _VALUE if name in header]
    if "sample" in header and value_columns and set(header) <= _LONG:
        if len(value_columns) == 2:
            raise BadInput(f"{path}: has the columns `outcome` and `score`; leave one out.")
        return _long(path, header, rows, value_columns[0])
    lower = [name.strip().lower() for name in header]
    if "sample" in header or ("sample" in lower and not set(lower).isdisjoint(_VALUE)):
        others = [name for name in header if name not in _LONG]
        reason = "has no column `outcome` or `score`"
        if value_columns and "sample" not in header:
            reason = "has no column `sample`"
        elif value_columns:
            reason = f"has other columns ({', '.join(map(repr, others[:3]))}) than " + ", ".join(
                sorted(_LONG)
            )
        raise BadInput(
            f"{path}: {reason}, so it is not a table with one row per cell; in a table with one"
            f" row per model, every other column is a sample.{_spelling(header)}"
        )
    return _wide(path, header, rows)


def _spelling(header: list[str]) -> str:
    """Returns a hint on columns whose names differ from the expected ones in case or spaces."""
    meant = [
        f"`{name.strip().lower()}` instead of {name!r}"
        for name in header
        if name not in _LONG and name.strip().lower() in _LONG
    ]
    return f" Did you mean {', '.join(meant)}?" if meant else ""


def _wide(path: Path, header: list[str], rows: Rows) -> RawTable:
    columns = [k for k, name in enumerate(header) if name not in ("model", "group")]
    samples, model = [header[k] for k in columns], header.index("model")
    values = np.full((len(rows), len(columns)), np.nan)
    for i, (place, row) in enumerate(rows):
        for k, column in enumerate(columns):
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
    """Reads a table with a row for each cell; cells without a row, or without a value, are
    unknown.
    """
    models: dict[str, dict[str, Any]] = {}
    samples: dict[tuple[str, ...], dict[str, Any]] = {}
    cells: dict[tuple[int, int], tuple[float, float]] = {}  # value and confidence
    indices: dict[Any, int] = {}  # of models by id, of samples by key
    places: dict[Any, str] = {}
    repeats = 0
    for place, row in rows:
        fields = dict(zip(header, row, strict=True))
        model, sample = _id(fields["model"]), _id(fields["sample"])
        key = sample and (_id(fields.get("dataset")), sample, _id(fields.get("metric")))
        group = {"group": str(fields["group"])} if "group" in header else {}
        facts = {name: _id(fields[name]) for name in _TEXTS if _id(fields.get(name))} | {
            name: _number(fields[name], path, place, model, sample)
            for name in RANGE
            if fields.get(name) not in ("", None)
        }
        if fields.get(DIRECTION) not in ("", None):
            facts[DIRECTION] = _truth(fields[DIRECTION], path, place)
        for kind, name, old, new in (
            ("model", model, models.setdefault(model, group), group),
            ("sample", sample, samples.setdefault(key, facts), facts),
        ):
            if old != new:
                fact = next(fact for fact in {**old, **new} if old.get(fact) != new.get(fact))
                raise BadInput(
                    f"{path}, {place}: {kind} {name!r} has {fact} = {new.get(fact)}, but had"
                    f" {old.get(fact)} before."
                )
        cell = (
            indices.setdefault(("model", model), len(models) - 1),
            indices.setdefault(key, len(samples) - 1),
        )
        numbers = tuple(
            _number(fields.get(name), path, place, model, sample)
            for name in (value_column, "confidence")
        )
        if cell in cells:
            if not np.array_equal(cells[cell], numbers, equal_nan=True):
                raise BadInput(
                    f"{path}, {place}: model {model!r} on sample {sample!r} has the {value_column}"
                    f" {numbers[0]:g}, but {cells[cell][0]:g} in {places[cell]}."
                )
            repeats += 1
        cells[cell] = numbers
        places.setdefault(cell, place)
    values, confidence = np.full((2, len(models), len(samples)), np.nan)
    for cell, numbers in cells.items():
        values[cell], confidence[cell] = numbers
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
    """Returns float16[m, n] of confidences, or None if there are none."""
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
    """Returns samples' ids, given data set, id in the file, and metric."""
    keys, ids = list(keys), []
    several_metrics = len({key[:2] for key in keys if key}) < len(keys)
    for dataset, sample, metric in (key or ("", "", "") for key in keys):
        prefix = f"{dataset}/" if dataset and not sample.startswith(f"{dataset}/") else ""
        ids.append(prefix + sample + (f"#{metric}" if several_metrics and metric else ""))
    return ids


def _id(value) -> str:
    """Returns an id as text; "" for a missing one, which is refused later."""
    return "" if value is None else str(value)


def _truth(text, path: Path, place: str) -> bool:
    """Returns whether a field of `higher_is_better` is true."""
    truths = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    word = str(text).strip().lower().removesuffix(".0")
    if word not in truths:
        raise BadInput(f"{path}, {place}: {DIRECTION} is {text!r}; true or false is expected.")
    return truths[word]


def _number(text, path: Path, place: str, model, sample) -> float:
    """Returns a number; NaN for an empty field, 1 for "True" and 0 for "False"."""
    if text in ("", None):
        return float("nan")
    if isinstance(text, str) and (truth := _TRUTHS.get(text.strip().lower())) is not None:
        return truth
    try:
        return float(text)
    except (TypeError, ValueError):
        raise BadInput(
            f"{path}, {place}: model {model!r}, sample {sample!r}: {text!r} is not a number; leave"
            " unknown cells empty."
        ) from None
