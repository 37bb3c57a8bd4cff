"""Reads files of values, models × samples: npz, csv, parquet.

A table (csv, parquet) has one row for each model: its id in the column `model`, optionally a
`group`, and one column for each sample; or, in long form, one row for each cell: `model`, `sample`,
`outcome` or `score`, and optionally more (see `tables`). An npz file has `models`, `samples`, and
`correct` or `score`.

Values are outcomes, 0 and 1, or real-valued scores in a range, 0 to 1 unless the file states
another. A cell is unknown if it is NaN, empty or `imputed`; or 255, in tables only where the range
is 0 to 1, in npz files unless 255 is in the range.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from nevis_stream.errors import BadInput, unknown
from nevis_stream.evaluation_cache import directions
from nevis_stream.evaluation_cache import facts as sample_facts
from nevis_stream.evaluation_cache.directions import ValueRange
from nevis_stream.evaluation_cache.entries import repeat
from nevis_stream.evaluation_cache.facts import DIRECTION, HIGHER, METRIC, UNBOUNDED
from nevis_stream.evaluation_cache.imported import LeftOut, list_names
from nevis_stream.evaluation_cache.importers import is_log, read_logs
from nevis_stream.evaluation_cache.tables import RawTable, read_csv, read_parquet
from nevis_stream.queries.matrix import UNKNOWN
from nevis_stream.queries.samples import SampleFacts
from nevis_stream.storage.npz import read_npz
from nevis_stream.storage.reading import parse_json
from nevis_stream.storage.text import read_table
from nevis_stream.wording import plural

# arrays of an npz file that become provenance
_OF_MODELS = ("group",)
_OF_SAMPLES = (
    *("dataset", "category", "subject", "class", sample_facts.METRIC, sample_facts.DIRECTION),
    *(sample_facts.HASH, *sample_facts.RANGE, UNBOUNDED),
)
_MATRICES = ("correct", "score", "imputed", "confidence", "predicted")


@dataclass(frozen=True)
class ValueTable:
    """Values of m models on n samples that were read from a file.

    Attributes:
      models: m ids.
      samples: n ids.
      values: uint8[m, n] of outcomes, 0, 1 and 255; or float32[m, n] of outcomes and scores scaled
        to [0, 1], with NaN.
      confidence: float16[m, n] with NaN, or None.
      model_provenance, sample_provenance: m and n of them.
      predicted: uint8[m, n] or float32[m, n] of predicted values, or None.
      features: float32[n, d], NaN for a sample without features, or None.
      remarks: lines for people about the content of the file.
      left_out: what of the file was not read.
      places: of each sample in the file, for messages.
    """

    models: list[str]
    samples: list[str]
    values: np.ndarray
    confidence: np.ndarray | None = None
    model_provenance: list[dict[str, Any]] = field(default_factory=list)
    sample_provenance: list[dict[str, Any]] = field(default_factory=list)
    predicted: np.ndarray | None = None
    features: np.ndarray | None = None
    remarks: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    places: Mapping[str, str] = field(default_factory=dict)

    def place(self, sample: str) -> str:
        """Returns the place of a sample in the file, for example ", line 3"; "" if unknown."""
        return f", {self.places[sample]}," if sample in self.places else ""

    @property
    def groups(self) -> list[str] | None:
        """Each model's group (checkpoints of one training run are a group), or None if the file has
        no groups.
        """
        groups = [provenance.get("group") for provenance in self.model_provenance]
        return None if None in groups else [str(group) for group in groups]

    @cached_property
    def facts(self) -> SampleFacts:
        """Facts about the samples."""
        return sample_facts.facts(self.sample_provenance or [{}] * len(self.samples), self.features)


def read_values(
    path: str | Path | Sequence[Path],
    threshold: float | None = None,
    value_range: ValueRange | None = None,
    metrics: Sequence[str] = (),
    grades: Mapping[str, float] | None = None,
    lower_is_better: Sequence[str] = (),
    ignored: Sequence[str] = (),
) -> ValueTable:
    """Reads a file of values, or logs of evaluations.

    Args:
      path: ends in .npz, .csv or .parquet; or a log, or a directory of logs (see `logs`), or
        several of these, whose order does not matter.
      threshold: scores above it become the outcome 1, others 0; None: scores stay scores.
      value_range: of all values whose range the file does not state; "none" if the metric has no
        bounds: the range is then a scale that includes all values of the file.
      metrics: of logs, as of `read_logs`.
      grades: numbers of texts in logs and tables, for example {"A": 1, "B": 0.75}.
      lower_is_better: metrics or data sets of which lower values are better, or "all".
      ignored: columns of a table that are not read.

    Raises:
      BadInput: the file cannot be read, or a value is not valid; the message names file, model,
        sample and value.
    """
    logs = [] if isinstance(path, str | Path) else sorted(path)
    path = Path(source(path))
    readers = {".npz": _npz, ".csv": read_csv, ".parquet": read_parquet}
    if logs or (path.exists() and is_log(path)):
        raw = read_logs(
            logs or path, metrics, grades, None if value_range == directions.NONE else value_range
        )
    elif path.suffix not in readers:
        kinds = [*readers, "samples_TASK_DATE.jsonl", ".eval"]
        raise BadInput(f"{path}: {unknown('kind of file', path.suffix, kinds)}")
    elif not path.is_file():
        raise BadInput(f"{path}: no such file.")
    else:
        raw = readers[path.suffix](path, ignored, grades)
    for kind, ids in (("model", raw.models), ("sample", raw.samples)):
        if not ids or "" in ids:
            raise BadInput(f"{path}: has " + (f"an empty {kind} id." if ids else f"no {kind}s."))
        if (name := next((each for each in ids if "\0" in each), None)) is not None:
            raise BadInput(f"{path}: the {kind} id {name!r} contains a NUL character.")
        if (name := repeat(ids)) is not None:
            raise BadInput(f"{path}: {kind} {name!r} occurs twice.")
    remarks = directions.state(path, raw, lower_is_better, by_name=path.suffix in readers)
    remarks += directions.scale(raw, value_range)
    raw.remarks = [*remarks, *raw.remarks]
    return _check(path, raw, threshold, None if value_range == directions.NONE else value_range)


def source(path: str | Path | Sequence[Path]) -> str:
    """Returns the path of a file, or of several logs, as people read it."""
    return str(path) if isinstance(path, str | Path) else list_names(sorted(map(str, path)))


def read_features(path: str | Path, samples: list[str]) -> tuple[np.ndarray, list[str]]:
    """Reads features from an npz file: `features`, float[k, d], of the samples `samples`, str[k];
    without `samples`, of all samples in their order.

    Returns:
      float32[n, d], NaN for a sample without features; and lines for people, on the order of rows
      without ids and on samples without features.

    Raises:
      BadInput: there is no such array, its number of rows is wrong, a sample is unknown, or there
        are no ids where the order of rows is uncertain.
    """
    arrays, path = read_npz(Path(path), ("features", "samples")), Path(path)
    if "features" not in arrays:
        raise BadInput(f"{path}: needs the array `features`, float[samples, d].")
    ids = [str(sample) for sample in arrays["samples"]] if "samples" in arrays else samples
    features = _features(path, arrays["features"], ids)
    if (name := repeat(ids)) is not None:
        raise BadInput(f"{path}: sample {name!r} occurs twice.")
    columns = {sample: column for column, sample in enumerate(samples)}
    by_sample = np.full((len(samples), features.shape[1]), np.nan, np.float32)
    for sample, row in zip(ids, features, strict=True):
        if sample not in columns:
            raise BadInput(f"{path}: {unknown('sample', sample, samples)}")
        if np.isnan(row).any():
            raise BadInput(f"{path}: features of sample {sample!r}: not all are finite.")
        by_sample[columns[sample]] = row
    lines = []
    if "samples" not in arrays and samples:
        by_number = sorted(samples, key=natural)
        if samples != by_number and samples == sorted(samples):
            pairs = zip(samples, by_number, strict=True)
            here, there = next(pair for pair in pairs if pair[0] != pair[1])
            raise BadInput(
                f"{path}: has no ids, and the samples have two orders: {here!r} or {there!r} may"
                " come first, so a row could be another sample's. Add an array `samples` with the"
                " id of each row."
            )
        ends = ", ".join(samples[:2] if len(samples) < 3 else [*samples[:2], "…", samples[-1]])
        lines = [f"{path.name} has no ids (`samples`): its rows are taken in the order {ends}"]
    return by_sample, lines + _features_remark(by_sample)


def natural(name: str) -> list[tuple[int, str]]:
    """Returns a key that sorts as file managers do: numbers by value, capitals as small letters."""
    parts = re.split(r"(\d+)", name.casefold())
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def _features(path: Path, features: np.ndarray, samples: Sequence[str]) -> np.ndarray:
    """Returns features of samples as float32[n, d]; a row of NaN is a sample without features.

    Raises:
      BadInput: they are not numbers, their shape is wrong, or a row is partly NaN or infinite.
    """
    if features.dtype.kind not in "biuf":
        raise BadInput(f"{path}: `features` has type {features.dtype}; numbers are expected.")
    if features.ndim != 2 or len(features) != len(samples):
        raise BadInput(
            f"{path}: `features` has shape {features.shape}; [{len(samples)}, d] is expected, a row"
            " for each sample."
        )
    wrong = ~np.isfinite(features).all(axis=1) & ~np.isnan(features).all(axis=1)
    if wrong.any():
        name = samples[int(np.argmax(wrong))]
        raise BadInput(f"{path}: features of sample {name!r}: not all are finite.")
    return features.astype(np.float32)


def _features_remark(features: np.ndarray) -> list[str]:
    """Returns a line for people if some samples of features, float32[n, d], have none."""
    lacking = int(np.isnan(features).any(axis=1).sum())
    if not lacking:
        return []
    return [
        f"{lacking:,} of {len(features):,} samples have no features; features are used only where"
        " every sample has them"
    ]


def read_model_facts(path: str | Path, models: list[str]) -> dict[str, np.ndarray]:
    """Reads facts about models from a csv file: the column `model`, and any others.

    Returns: by column, str[m] in the order of `models`; "" for a model that is not in the file.

    Raises:
      BadInput: the file cannot be read, has no column `model` or no other, or names a model twice.
    """
    path = Path(path)
    if not path.is_file():
        raise BadInput(f"{path}: no such file.")
    table = read_table(path, str(path), {"model": ""})
    names = table.columns
    rows = [dict(zip(names, cells, strict=True)) for _, cells in table.rows]
    if len(names) < 2:
        raise BadInput(f"{path}: needs the column `model` and at least one other.")
    if (name := repeat([row["model"] for row in rows])) is not None:
        raise BadInput(f"{path}: model {name!r} occurs twice.")
    by_model = {row["model"]: row for row in rows}
    if not by_model.keys() & set(models):
        raise BadInput(f"{path}: has facts about none of the {len(models)} models.")
    return {
        name: np.array([(by_model.get(model, {}).get(name) or "") for model in models], str)
        for name in names
        if name != "model"
    }


def _npz(path: Path, ignored: Sequence[str] = (), grades=None) -> RawTable:
    arrays = read_npz(path)
    missing = [name for name in ("models", "samples") if name not in arrays]
    if missing or not {"correct", "score"} & set(arrays):
        raise BadInput(
            f"{path}: has the arrays {', '.join(sorted(arrays)) or '(none)'}; it needs `models`,"
            " `samples`, and `correct` or `score`."
        )
    models, samples = (
        [str(each) for each in arrays[name].ravel()] for name in ("models", "samples")
    )
    shape = len(models), len(samples)
    for names, expected in ((_MATRICES, shape), (_OF_MODELS, shape[:1]), (_OF_SAMPLES, shape[1:])):
        for name in names:
            if name in arrays and arrays[name].shape != expected:
                raise BadInput(
                    f"{path}: `{name}` has shape {arrays[name].shape}; {expected} is expected, for"
                    f" {plural(shape[0], 'model')} and {plural(shape[1], 'sample')}."
                )
    values = np.asarray(arrays.get("score", arrays.get("correct")))
    if values.dtype.kind not in "biuf":
        raise BadInput(f"{path}: its values have type {values.dtype}, not numbers.")
    values = values.astype(np.float64)
    if "imputed" in arrays:
        values[arrays["imputed"] != 0] = np.nan
    features = arrays.get("features")
    return RawTable(
        models,
        samples,
        values,
        _provenance(path, arrays, "model_provenance", _OF_MODELS, shape[0]),
        _provenance(path, arrays, "sample_provenance", _OF_SAMPLES, shape[1]),
        arrays.get("confidence"),
        arrays.get("predicted"),
        None if features is None else _features(path, features, samples),
        remarks=["`score` is read, not `correct`"] if {"correct", "score"} <= set(arrays) else [],
        coded=True,
    )


def _provenance(
    path: Path, arrays, name: str, columns: tuple[str, ...], size: int
) -> list[dict[str, Any]]:
    """Returns provenance from JSON texts, `name`, and from arrays of their own, `columns`."""
    provenances: list[dict[str, Any]] = [{} for _ in range(size)]
    if name in arrays:
        try:
            provenances = [parse_json(str(text)) for text in arrays[name].ravel()]
        except ValueError as error:
            raise BadInput(
                f"{path}: `{name}` contains a string that is not JSON ({error})."
            ) from None
    if len(provenances) != size or not all(isinstance(each, dict) for each in provenances):
        raise BadInput(
            f"{path}: `{name}` has {len(provenances)} entries; {size} JSON objects are expected."
        )
    for column in columns:
        for provenance, value in zip(provenances, arrays.get(column, ()), strict=False):
            provenance[column] = value.item()
    return provenances


def _check(path: Path, raw: RawTable, threshold, value_range) -> ValueTable:
    """Checks values, decides which are outcomes and which are scores, and scales scores to
    [0, 1].
    """
    low, high, kinds = _ranges(path, raw, value_range)
    values = raw.values
    coded = (high < UNKNOWN) if raw.coded else (low == 0) & (high == 1)
    values[(values == UNKNOWN) & coded] = np.nan
    known = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        outside = known & ~((values >= low) & (values <= high))
    if outside.any():
        i, k = np.argwhere(outside)[0]
        raise BadInput(
            f"{path}{raw.place(i, k)}: model {raw.models[i]!r}, sample {raw.samples[k]!r}:"
            f" {values[i, k]:g} is not between {low[k]:g} and {high[k]:g}. If the scores have"
            " another range, state it in columns (or arrays) `low` and `high`, or by"
            " --range=LOW,HIGH; or --range=none if the metric has no bounds."
        )
    scale_lines = directions.percentages(path, raw, kinds, low, high)
    has_values = known.any(axis=1)
    if raw.predicted is not None:
        has_values |= (raw.predicted != UNKNOWN).any(axis=1)
    if not has_values.all():
        row = int(np.argmin(has_values))
        raise BadInput(
            f"{path}: model {raw.models[row]!r} has no values; leave it out of the file."
        )
    scaled = ((values - low) / (high - low)).astype(np.float32)
    # for one data set and metric either all values are outcomes, or all are scores
    binary = (~known | (scaled == 0) | (scaled == 1)).all(axis=0) & (low == 0) & (high == 1)
    scores = (np.bincount(kinds, ~binary) > 0)[kinds]
    remarks = [*_remarks(raw, known, kinds, low, high, scores), *scale_lines, *raw.remarks]
    if raw.features is not None:
        remarks += _features_remark(raw.features)
    confidence = raw.confidence
    if confidence is not None and not np.isnan(confidence[:, scores]).all():
        sample = raw.samples[np.argmax(scores & ~np.isnan(confidence).all(axis=0))]
        raise BadInput(
            f"{path}: sample {sample!r} has scores; only outcomes (0 or 1) can have a confidence."
        )
    if scores.any() and threshold is not None:
        outside = scores & ~((low <= threshold) & (threshold <= high))
        if outside.any():
            k = int(np.argmax(outside))
            raise BadInput(
                f"--threshold={threshold:g} is outside the range {low[k]:g} to {high[k]:g} of"
                f" sample {raw.samples[k]!r}."
            )
        remarks.append(_threshold(values[:, scores][known[:, scores]], threshold))
        confidence = scaled.astype(np.float16) if confidence is None else confidence
        scaled = np.where(known, values > np.where(scores, threshold, 0.5), np.nan)
        scores[:] = False
    provenance = [
        {
            name: value
            for name, value in each.items()
            if name not in sample_facts.RANGE and (scores[k] or name != UNBOUNDED)
        }
        | ({"low": float(low[k]), "high": float(high[k])} if scores[k] else {})
        for k, each in enumerate(raw.sample_provenance)
    ]
    if not scores.any():
        scaled = np.where(known, scaled, UNKNOWN).astype(np.uint8)
    return ValueTable(
        raw.models,
        raw.samples,
        scaled,
        confidence,
        raw.model_provenance,
        provenance,
        raw.predicted,
        raw.features,
        tuple(remarks),
        tuple(raw.left_out),
        {
            raw.samples[cell[1]]: place
            for cell, place in reversed(raw.places.items())
            if isinstance(cell, tuple)
        },
    )


def _ranges(path: Path, raw: RawTable, value_range) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the lower and the upper end of each sample's range, float64[n] each, and the number
    of its data set and metric, int64[n].
    """
    default = dict(zip(sample_facts.RANGE, value_range, strict=True)) if value_range else {}
    kinds: dict[tuple, int] = {}
    ends, numbers = np.empty((2, len(raw.samples))), np.empty(len(raw.samples), np.int64)
    for k, provenance in enumerate(raw.sample_provenance):
        try:
            ends[:, k] = sample_facts.value_range(default | provenance)
        except BadInput as error:
            raise BadInput(f"{path}: sample {raw.samples[k]!r}: {error}") from None
        metric, higher = (provenance.get(name) for name in (METRIC, DIRECTION))
        if isinstance(metric, list | dict) or isinstance(higher, list | dict):
            raise BadInput(f"{path}: sample {raw.samples[k]!r}: {METRIC} or {DIRECTION} is a list.")
        kind = sample_facts.dataset(provenance), metric, higher, *ends[:, k]
        numbers[k] = kinds.setdefault(kind, len(kinds))
    return ends[0], ends[1], numbers


def _remarks(raw: RawTable, known: np.ndarray, kinds, low, high, scores):
    """Yields lines for people about the content of a file."""
    holes = known.size - int(known.sum())
    yield f"{plural(len(raw.models), 'model')} × {plural(len(raw.samples), 'sample')}" + (
        f", {plural(holes, 'cell')} unknown ({100 * holes / known.size:.2g}%)" if holes else ""
    )
    yield f"models: {list_names(raw.models)}"
    if raw.repeats:
        were = "was" if raw.repeats == 1 else "were"
        yield f"{plural(raw.repeats, 'repeated cell')} with the same value {were} left out"
    for kind, size in sorted(Counter(kinds.tolist()).items()):
        k = int(np.argmax(kinds == kind))
        provenance = raw.sample_provenance[k]
        name = " ".join(
            filter(None, (sample_facts.dataset(provenance), provenance.get("metric", "")))
        )
        value_type = f"scores from {low[k]:g} to {high[k]:g}" if scores[k] else "outcomes"
        if provenance.get(UNBOUNDED):
            value_type = f"scores without bounds (scale {low[k]:g} to {high[k]:g})"
        better = sample_facts.direction(provenance) or f"{HIGHER} (not stated)"
        cells = known & (kinds == kind)
        mean = f", mean {raw.values[cells].mean():.4f}" if cells.any() else ""
        yield f"{name or 'values'}: {plural(size, 'sample')}, {value_type}{mean}; {better}"


def _threshold(scores: np.ndarray, threshold: float) -> str:
    """Returns what scores, float64[k], lose when they become outcomes."""
    near = np.abs(scores - threshold) <= 0.1
    return (
        f"real-valued scores became outcomes, 1 if above {threshold:g}: {near.mean():.1%} of the"
        f" cells are within 0.1 of it; the mean score is {scores.mean():.4f}, the mean outcome"
        f" {(scores > threshold).mean():.4f}"
    )
