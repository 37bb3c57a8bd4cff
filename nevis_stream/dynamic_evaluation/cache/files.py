"""Files of outcomes, models × samples: npz, csv, parquet.

A table (csv, parquet) has a row a model: its id in the column `model`, optionally a `group`, and a
column a sample; or, in long form, a row a cell: columns `model`, `sample`, `outcome`, optionally
`confidence` and `group`, and no others. An npz file has `models`, `samples`, and `correct` or
`score`. Values are 0 and 1, or real ones in [0, 1], which count as correct above a threshold and
are kept as confidences; NaN, an empty field or 255 is a cell that nobody knows, and so is one that
is `imputed`.
"""

import csv
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from nevis_stream.dynamic_evaluation.cache.records import repeated
from nevis_stream.dynamic_evaluation.method import UNKNOWN
from nevis_stream.errors import BadInput, unknown
from nevis_stream.storage.npz import read_npz

THRESHOLD = 0.5
# columns of a table with a row a cell
_LONG, _LONG_TOO = ("model", "sample", "outcome"), ("confidence", "group")
# arrays of an npz file that are provenance
_OF_MODELS, _OF_SAMPLES = ("group",), ("dataset", "category")


@dataclass(frozen=True)
class Outcomes:
    """A matrix of outcomes that was read from a file.

    Args:
      models: m ids.
      samples: n ids.
      correct: uint8[m, n] of 0, 1 and 255.
      confidence: float16[m, n] with NaN, or None.
      model_provenance, sample_provenance: m and n of them.
      predicted: uint8[m, n] of 0, 1 and 255, what was predicted, or None.
      thresholded: what was lost where real-valued scores became outcomes; empty where none did.
    """

    models: list[str]
    samples: list[str]
    correct: np.ndarray
    confidence: np.ndarray | None = None
    model_provenance: list[dict[str, Any]] = field(default_factory=list)
    sample_provenance: list[dict[str, Any]] = field(default_factory=list)
    predicted: np.ndarray | None = None
    thresholded: str = ""

    @property
    def groups(self) -> list[str] | None:
        """Each model's group (checkpoints of one training run are one), or None where the file has
        none.
        """
        groups = [of.get("group") for of in self.model_provenance]
        return None if None in groups else [str(group) for group in groups]


def read_outcomes(path: str | Path, threshold: float = THRESHOLD) -> Outcomes:
    """Reads a file of outcomes.

    Args:
      path: ends in .npz, .csv or .parquet.
      threshold: a real value above it is a correct outcome.

    Raises:
      BadInput: the file cannot be read, or a value cannot be; the message names file, model, sample
        and value.
    """
    path = Path(path)
    readers = {".npz": _npz, ".csv": _csv, ".parquet": _parquet}
    if path.suffix not in readers:
        raise BadInput(f"{path}: {unknown('kind of file', path.suffix, readers)}")
    if not path.is_file():
        raise BadInput(f"{path}: there is no such file.")
    if not 0 <= threshold <= 1:
        raise BadInput(f"threshold {threshold}: must lie between 0 and 1.")
    return readers[path.suffix](path, threshold)


def _npz(path: Path, threshold: float) -> Outcomes:
    arrays = read_npz(path)
    missing = [name for name in ("models", "samples") if name not in arrays]
    if missing or not {"correct", "score"} & set(arrays):
        needs = "`models`, `samples`, and `correct` or `score`"
        raise BadInput(
            f"{path}: has the arrays {', '.join(sorted(arrays)) or '(none)'}; it needs {needs}."
        )
    models, samples = ([str(one) for one in arrays[name].ravel()] for name in ("models", "samples"))
    shape = len(models), len(samples)
    matrices = {
        name: arrays[name]
        for name in ("correct", "score", "imputed", "confidence", "predicted")
        if name in arrays
    }
    for name, values in [
        *matrices.items(),
        *((name, arrays[name]) for name in _OF_MODELS + _OF_SAMPLES if name in arrays),
    ]:
        expected = shape if name in matrices else shape[:1] if name in _OF_MODELS else shape[1:]
        if values.shape != expected:
            raise BadInput(
                f"{path}: `{name}` has shape {values.shape}; {expected} is expected ({shape} models"
                " and samples)."
            )
    values = np.asarray(matrices.get("score", matrices.get("correct")))
    if values.dtype.kind not in "biuf":
        raise BadInput(f"{path}: its values have type {values.dtype}, not numbers.")
    values = values.astype(np.float32)
    values[values == UNKNOWN] = np.nan
    if "imputed" in matrices:
        values[matrices["imputed"] != 0] = np.nan
    found = _outcomes(path, models, samples, values, threshold)
    of_models, of_samples = (_provenance(path, arrays, which, names, size) for which, names, size in (  # noqa: E501
        ("model_provenance", _OF_MODELS, shape[0]), ("sample_provenance", _OF_SAMPLES, shape[1])))  # fmt: skip  # noqa: E501
    confidence = matrices.get("confidence", found.confidence)
    return Outcomes(
        models,
        samples,
        found.correct,
        confidence,
        of_models,
        of_samples,
        matrices.get("predicted"),
        found.thresholded,
    )


def _provenance(
    path: Path, arrays, told: str, names: tuple[str, ...], size: int
) -> list[dict[str, Any]]:
    try:
        of = (
            [json.loads(str(text)) for text in arrays[told].ravel()]
            if told in arrays
            else [{} for _ in range(size)]
        )
    except ValueError as error:
        raise BadInput(f"{path}: `{told}` holds a text that is no JSON ({error}).") from None
    if len(of) != size or not all(isinstance(one, dict) for one in of):
        raise BadInput(f"{path}: `{told}` has {len(of)} entries; {size} JSON objects are expected.")
    return [
        one | {name: arrays[name][i].item() for name in names if name in arrays}
        for i, one in enumerate(of)
    ]


def _csv(path: Path, threshold: float) -> Outcomes:
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            header, *rows = [row for row in csv.reader(file, strict=True) if row] or [[]]
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"{path}: cannot be read as csv ({error}).") from error
    return _table(path, header, rows, threshold)


def _parquet(path: Path, threshold: float) -> Outcomes:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise BadInput(
            f"{path}: parquet needs pyarrow: `pip install pyarrow`; or convert the file to csv or"
            " npz."
        ) from None
    try:
        # `read_table` knows no columns of one name
        table = pyarrow.parquet.ParquetFile(path).read()
    except (OSError, pyarrow.ArrowException) as error:
        raise BadInput(f"{path}: cannot be read as parquet ({error}).") from error
    rows = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    return _table(path, table.column_names, rows, threshold)


def _table(path: Path, header: list[str], rows: list, threshold: float) -> Outcomes:
    if (twice := repeated(header)) is not None:
        places = ", ".join(
            str(place) for place, name in enumerate(header, start=1) if name == twice
        )
        raise BadInput(
            f"{path}: columns {places} have one name, {twice!r}; give each its own, or leave one"
            " out."
        )
    if "model" not in header:
        raise BadInput(
            f"{path}: has no column `model`; it begins with {', '.join(header[:3]) or 'nothing'}."
        )
    if set(_LONG) <= set(header) <= {*_LONG, *_LONG_TOO}:
        return _long(path, header, rows, threshold)
    keep = [k for k, name in enumerate(header) if name not in ("model", "group")]
    samples, at = [header[k] for k in keep], header.index("model")
    values = np.full((len(rows), len(keep)), np.nan, np.float32)
    for i, row in enumerate(rows):
        if len(row) != len(header):
            raise BadInput(
                f"{path}: row {i + 1} (it begins with {row[0]!r}) has {len(row)} fields, the header"
                f" {len(header)}."
            )
        for k, column in enumerate(keep):
            values[i, k] = _number(row[column], path, row[at], header[column])
    values[values == UNKNOWN] = np.nan
    models = [_id(row[at]) for row in rows]
    of_models = (
        [{"group": str(row[header.index("group")])} for row in rows]
        if "group" in header
        else [{} for _ in rows]
    )
    found = _outcomes(path, models, samples, values, threshold)
    return Outcomes(
        models,
        samples,
        found.correct,
        found.confidence,
        of_models,
        [{} for _ in samples],
        thresholded=found.thresholded,
    )


def _long(path: Path, header: list[str], rows: list, threshold: float) -> Outcomes:
    """Outcomes of a table with a row a cell; cells that have no row, or no outcome, are unknown."""
    models: dict[str, int] = {}
    samples: dict[str, int] = {}
    groups: dict[str, str] = {}
    cells: dict[tuple[int, int], tuple[float, float]] = {}
    for i, row in enumerate(rows):
        if len(row) != len(header):
            raise BadInput(
                f"{path}: row {i + 1} (it begins with {row[0]!r}) has {len(row)} fields, the header"
                f" {len(header)}."
            )
        of = dict(zip(header, row, strict=True))
        model, sample = _id(of["model"]), _id(of["sample"])
        cell = models.setdefault(model, len(models)), samples.setdefault(sample, len(samples))
        if cell in cells:
            raise BadInput(
                f"{path}: row {i + 1}: model {model!r} on sample {sample!r} stands twice."
            )
        cells[cell] = tuple(
            _number(of.get(name), path, model, sample) for name in ("outcome", "confidence")
        )
        if groups.setdefault(model, str(of.get("group", ""))) != str(of.get("group", "")):
            raise BadInput(
                f"{path}: row {i + 1}: model {model!r} is of group {of['group']!r}, but was of"
                f" {groups[model]!r}."
            )
    values, confidence = np.full((2, len(models), len(samples)), np.nan, np.float32)
    for cell, (outcome, sure) in cells.items():
        values[cell], confidence[cell] = outcome, sure
    values[values == UNKNOWN] = np.nan
    found = _outcomes(path, list(models), list(samples), values, threshold)
    kept = found.confidence
    if not np.isnan(confidence).all():
        if kept is not None:
            raise BadInput(
                f"{path}: has the column `confidence`, so `outcome` must be 0 or 1 (or empty), not"
                " real values."
            )
        # they lie between 0 and 1
        _outcomes(path, list(models), list(samples), confidence, threshold)
        kept = confidence.astype(np.float16)
    of_models = [{"group": groups[model]} if "group" in header else {} for model in models]
    return Outcomes(
        list(models),
        list(samples),
        found.correct,
        kept,
        of_models,
        [{} for _ in samples],
        thresholded=found.thresholded,
    )


def _id(value) -> str:
    """An id as text; of none an empty one, which is refused."""
    return "" if value is None else str(value)


def _number(text, path: Path, model: str, sample: str) -> float:
    if text in ("", None):
        return float("nan")
    try:
        return float(text)
    except (TypeError, ValueError):
        where = f"{path}: model {model!r}, sample {sample!r}"
        raise BadInput(f"{where}: {text!r} is not a number; leave unknown cells empty.") from None


def _outcomes(
    path: Path, models: list[str], samples: list[str], values: np.ndarray, threshold: float
) -> Outcomes:
    """Outcomes of float32[m, n] values; real ones are confidences, too."""
    for what, ids in (("model", models), ("sample", samples)):
        if not ids or "" in ids:
            raise BadInput(f"{path}: has " + (f"an empty {what} id." if ids else f"no {what}s."))
        if (twice := repeated(ids)) is not None:
            raise BadInput(f"{path}: {what} {twice!r} stands twice.")
    missing = np.isnan(values)
    with np.errstate(invalid="ignore"):
        good = missing | ((values >= 0) & (values <= 1))
    if not good.all():
        i, k = np.argwhere(~good)[0]
        raise BadInput(
            f"{path}: model {models[i]!r}, sample {samples[k]!r}: {values[i, k]:g} does not lie"
            " between 0 and 1."
        )
    binary = (missing | (values == 0) | (values == 1)).all()
    correct = np.where(missing, UNKNOWN, values > (0.5 if binary else threshold)).astype(np.uint8)
    if binary:
        return Outcomes(models, samples, correct)
    lost = _thresholded(values[~missing].astype(np.float64), threshold)
    return Outcomes(models, samples, correct, values.astype(np.float16), thresholded=lost)


def _thresholded(scores: np.ndarray, threshold: float) -> str:
    """Says what real-valued scores, float64[k], lose when they become outcomes."""
    near = np.abs(scores - threshold) <= 0.1
    return (
        f"real-valued scores became outcomes, right above {threshold:g}: {near.mean():.1%} of the"
        f" cells are within 0.1 of it; the mean score is {scores.mean():.4f}, the mean outcome"
        f" {(scores > threshold).mean():.4f}"
    )
