"""Reads files of values, models × samples: npz, csv (or tsv, also gzipped), parquet; and logs.

A table (csv, parquet) has one row for each model: its id in the column `model`, optionally a
`group`, and one column for each sample; or, in long form, one row for each cell: `model`, `sample`,
`outcome` or `score`, and optionally more (see `tables`). An npz file has `models`, `samples`, and
`correct` or `score`.

Values are outcomes, 0 and 1, or real-valued scores in a range, 0 to 1 unless the file states
another. A cell is unknown if it is NaN, empty or `imputed`; or 255, in tables only where the range
is 0 to 1, in npz files unless 255 is in the range.
"""

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from nevis_stream.errors import BadInput, plural, unknown
from nevis_stream.evaluation_cache import facts as sample_facts
from nevis_stream.evaluation_cache.facts import (
    DIRECTION,
    HIGHER,
    METRIC,
    UNBOUNDED,
    check_features,
    find_repeat,
    remark_on_features,
)
from nevis_stream.evaluation_cache.importers import describe_kinds_of_logs, is_log, read_logs
from nevis_stream.evaluation_cache.records import LeftOut, list_names
from nevis_stream.evaluation_cache.tables import RawTable, read_csv, read_parquet
from nevis_stream.evaluation_cache.values import (
    NONE,
    Ranges,
    ValueRange,
    add_directions,
    find_percentages,
    join_words,
    scale_unbounded,
)
from nevis_stream.queries.samples import UNKNOWN, SampleFacts
from nevis_stream.storage.reading import explain_absence, load_array, parse_json, read_npz
from nevis_stream.storage.tables import note_similar_names

# arrays of an npz file that become provenance
_OF_MODELS = ("group",)
_OF_SAMPLES = (
    *("dataset", "category", "subject", "class", "cluster"),
    *(sample_facts.METRIC, sample_facts.DIRECTION),
    *(sample_facts.HASH, *sample_facts.RANGE, UNBOUNDED),
)
_MATRICES = ("correct", "score", "imputed", "confidence", "predicted")
UNKNOWN_ERRORS, WRONG_ERRORS = ERRORS = ("unknown", "wrong")  # what cells with an error count as


@dataclass(frozen=True)
class ValueTable:
    """Values of m models on n samples that were read from a file.

    Attributes:
      models: m ids.
      samples: n ids.
      values: uint8[m, n] of outcomes, 0, 1 and 255; or float32[m, n] of outcomes and scores scaled
        to [0, 1], with NaN.
      confidence: float16[m, n] with NaN, or None.
      model_provenance, sample_provenance: m and n of them; [] if the file states none.
      predicted: uint8[m, n] or float32[m, n] of predicted values, or None.
      features: float32[n, d], NaN for a sample without features, or None.
      remarks: lines for people about the content of the file.
      left_out: what of the file was not read.
      places: by sample, its place in the file, for messages.
      prices: by unit, what each sample costs, float64[n], NaN where the file does not say it.
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
    prices: Mapping[str, np.ndarray] = field(default_factory=dict)

    def format_place(self, sample: str) -> str:
        """Returns the place of a sample in the file, for example ", line 3"; "" if unknown."""
        return f", {self.places[sample]}," if sample in self.places else ""

    def as_scores(self) -> "ValueTable":
        """Returns the table with outcomes as scores."""
        if self.values.dtype != np.uint8:
            return self
        values = np.where(self.values == UNKNOWN, np.nan, self.values).astype(np.float32)
        return dataclasses.replace(self, values=values)

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
        return sample_facts.collect_facts(
            self.sample_provenance or [{}] * len(self.samples), self.features
        )


def read_values(
    path: str | Path | Sequence[Path],
    threshold: float | None = None,
    value_range: ValueRange | Mapping[str, ValueRange] | None = None,
    metrics: Sequence[str] = (),
    grades: Mapping[str, float] | None = None,
    lower_is_better: Sequence[str] = (),
    ignored: Sequence[str] = (),
    tasks: Sequence[str] = (),
    errors: str = UNKNOWN_ERRORS,
    every_log: bool = False,
) -> ValueTable:
    """Reads a file of values, or logs of evaluations.

    Args:
      path: ends in .npz, .csv, .tsv (both also .gz) or .parquet; or a log, or a directory of logs
        (see `importers`), or several of these, whose order does not matter.
      threshold: scores above it become the outcome 1, others 0; None: scores stay scores.
      value_range: of all values whose range the file does not state; "none" if the metric has no
        bounds: the range is then a scale that includes all values of the file. Or ranges by task or
        metric, "" for all others.
      metrics, every_log: of logs, as of `read_logs`.
      grades: numbers of texts in logs and tables, for example {"A": 1, "B": 0.75}.
      lower_is_better: metrics or data sets of which lower values are better, or "all".
      ignored: columns of a table that are not read.
      tasks: the only tasks (data sets) that are read; all if there is none.
      errors: what cells count as that ended in an error: "unknown", or "wrong", the worse end of
        their range.

    Raises:
      BadInput: the file cannot be read, or a value is not valid; the message names file, model,
        sample and value.
    """
    logs = [] if isinstance(path, str | Path) else sorted(path)
    path, ranges = Path(format_source(path)), Ranges.of(value_range)
    kind = get_file_kind(path)
    # .parquet is the one ending that both tables and logs have
    maybe_log = kind == ".parquet" or kind not in _READERS
    if logs or (maybe_log and path.exists() and is_log(path)):
        count_failed = errors == WRONG_ERRORS
        raw = read_logs(logs or path, metrics, grades, ranges, tasks, count_failed, every_log)
    elif not path.is_file() and (kind in _READERS or not path.is_dir()):
        raise BadInput(f"{path}: {explain_absence(path)}.")
    elif kind not in _READERS:
        kinds = ", ".join(_READERS)
        raise BadInput(
            f"{path}: is neither a file of values ({kinds}) nor a log: {describe_kinds_of_logs()}."
        )
    else:
        raw = _keep_tasks(path, _READERS[kind](path, ignored, grades), tasks)
        if raw.prices:
            raw.remarks.append(
                f"prices of samples in {', '.join(raw.prices)}, for budgets in this unit; a cache"
                " does not keep them: give it the file as --prices"
            )
    by_name = kind in _READERS
    return interpret(path, raw, threshold, ranges, lower_is_better, errors, by_name)


def interpret_array(
    values: np.ndarray,
    models: list[str],
    samples: list[str],
    value_range: ValueRange | Mapping[str, ValueRange] | None = None,
    lower_is_better: Sequence[str] = (),
    tasks: Sequence[str] = (),
    errors: str = UNKNOWN_ERRORS,
    **_: Any,
) -> ValueTable:
    """Returns an array, [m, n] of numbers, as a table; other arguments as of `read_values`, of
    which those about columns of files and logs have no effect.
    """
    path = Path("array")
    provenances: list[list[dict[str, Any]]] = [[{} for _ in ids] for ids in (models, samples)]
    raw = RawTable(models, samples, values.astype(np.float64), *provenances, has_unknown_code=True)
    raw = _keep_tasks(path, raw, tasks)
    return interpret(path, raw, None, Ranges.of(value_range), lower_is_better, errors)


def interpret(
    path: Path,
    raw: RawTable,
    threshold: float | None,
    ranges: Ranges,
    lower_is_better: Sequence[str],
    errors: str,
    by_name: bool = True,
) -> ValueTable:
    """Returns what was read from a file, after its ids and values were checked.

    Args:
      path: of the file, for messages.
      raw: its content.
      threshold, ranges, lower_is_better, errors: as of `read_values`.
      by_name: whether well-known names of metrics say which direction is better.
    """
    for kind_of_id, ids in (("model", raw.models), ("sample", raw.samples)):
        if not ids or "" in ids:
            reason = f"an empty {kind_of_id} id." if ids else f"no {kind_of_id}s."
            raise BadInput(f"{path}: has {reason}")
        if (name := next((each for each in ids if "\0" in each), None)) is not None:
            raise BadInput(f"{path}: the {kind_of_id} id {name!r} contains a NUL character.")
        if (name := find_repeat(ids)) is not None:
            raise BadInput(f"{path}: {kind_of_id} {name!r} occurs twice.")
    ranges.check_names(path, raw.sample_provenance)
    remarks = add_directions(path, raw, lower_is_better, by_name)
    remarks += scale_unbounded(raw, ranges)
    raw.remarks = [*remarks, *raw.remarks]
    return _interpret(path, raw, threshold, ranges, errors)


def get_file_kind(path: Path) -> str:
    """Returns the ending of a file's name, without that of its compression.

    >>> get_file_kind(Path("a.csv.gz")), get_file_kind(Path("b.npz"))
    ('.csv', '.npz')
    """
    return Path(path.stem).suffix if path.suffix == ".gz" else path.suffix


def _keep_tasks(path: Path, raw: RawTable, tasks: Sequence[str]) -> RawTable:
    """Returns a table without the samples of other data sets than those of --tasks."""
    if not tasks:
        return raw
    datasets = [sample_facts.get_dataset(each) for each in raw.sample_provenance]
    known = {*datasets} - {""}
    wanted = join_words(tasks, known)
    for name in wanted:
        if name not in known:
            raise BadInput(f"{path}: --tasks={name}: {unknown('data set', name, known)}")
    kept = [k for k, dataset in enumerate(datasets) if dataset in wanted]
    others = sorted({*datasets} - {*wanted})
    if others:
        raw.left_out.append(
            LeftOut("data sets that --tasks does not name", len(others), list_names(others))
        )
    return raw.take(kept)


def format_source(path: str | Path | Sequence[Path]) -> str:
    """Returns the path of a file, or the first few of several logs, as text for people."""
    return str(path) if isinstance(path, str | Path) else list_names(sorted(map(str, path)))


def _read_npz(path: Path, ignored: Sequence[str] = (), grades=None) -> RawTable:
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
        _read_provenance(path, arrays, "model_provenance", _OF_MODELS, shape[0]),
        _read_provenance(path, arrays, "sample_provenance", _OF_SAMPLES, shape[1]),
        arrays.get("confidence"),
        arrays.get("predicted"),
        None if features is None else check_features(path, features, samples),
        remarks=["`score` is read, not `correct`"] if {"correct", "score"} <= set(arrays) else [],
        has_unknown_code=True,
    )


def _read_npy(path: Path, ignored: Sequence[str] = (), grades=None) -> RawTable:
    """Reads a bare matrix, whose models and samples are named as by `matrix_files`."""
    try:
        values = load_array(path, mapped=False)
    except (OSError, ValueError, EOFError) as error:
        raise BadInput(f"{path}: cannot be read as .npy ({error}).") from None
    if values.ndim != 2 or values.dtype.kind not in "biuf":
        raise BadInput(
            f"{path}: has {values.dtype}{list(values.shape)}; a matrix of numbers, [models,"
            " samples], is expected."
        )
    models, samples = (
        [f"{kind}/{k}" for k in range(size)]
        for kind, size in zip(("model", "sample"), values.shape, strict=True)
    )
    provenances: list[list[dict[str, Any]]] = [[{} for _ in names] for names in (models, samples)]
    return RawTable(models, samples, values.astype(np.float64), *provenances, has_unknown_code=True)


_READERS: dict[str, Callable[[Path, Sequence[str], Mapping[str, float] | None], RawTable]] = {
    ".npz": _read_npz,
    ".npy": _read_npy,
    ".csv": read_csv,
    ".tsv": read_csv,
    ".parquet": read_parquet,
}


def _read_provenance(
    path: Path, arrays, name: str, columns: tuple[str, ...], size: int
) -> list[dict[str, Any]]:
    """Returns `size` provenances: JSON texts of the array `name`, and values of the arrays
    `columns`.
    """
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


def _interpret(path: Path, raw: RawTable, threshold, ranges: Ranges, errors: str) -> ValueTable:
    """Returns the content of a file with its values checked, told apart as outcomes or scores, and
    scaled to [0, 1]; arguments as of `read_values`.
    """
    low, high, kinds = _find_ranges(path, raw, ranges)
    values = raw.values
    if raw.failed:
        raw.remarks.append(_set_failed(path, raw, low, high, errors))
    has_unknown_code = (high < UNKNOWN) if raw.has_unknown_code else (low == 0) & (high == 1)
    values[(values == UNKNOWN) & has_unknown_code] = np.nan
    known = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        outside = known & ~((values >= low) & (values <= high))
    if outside.any():
        i, k = np.argwhere(outside)[0]
        raise BadInput(
            f"{path}{raw.format_place(i, k)}: model {raw.models[i]!r}, sample {raw.samples[k]!r}:"
            f" {values[i, k]:g} is not between {low[k]:g} and {high[k]:g}. If the scores have"
            " another range, state it in columns (or arrays) `low` and `high`, or by"
            f" --range={_format_range_name(raw, kinds, k)}LOW,HIGH; or"
            f" --range={_format_range_name(raw, kinds, k)}none if the metric has no bounds."
        )
    scale_lines = find_percentages(path, raw, kinds, low, high)
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
    remarks = [*_describe_content(raw, known, kinds, low, high, scores), *scale_lines, *raw.remarks]
    if raw.features is not None:
        remarks += remark_on_features(raw.features)
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
        remarks.append(_describe_threshold(values[:, scores][known[:, scores]], threshold))
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
        raw.find_sample_places(),
        raw.prices,
    )


def _format_range_name(raw: RawTable, kinds: np.ndarray, column: int) -> str:
    """Returns what --range needs before the range of a sample: "NAME=", or "" if all are of one
    kind.
    """
    provenance = raw.sample_provenance[column]
    name = sample_facts.get_dataset(provenance) or str(provenance.get(METRIC) or "")
    return f"{name}=" if name and (kinds != kinds[column]).any() else ""


def _set_failed(path: Path, raw: RawTable, low, high, errors: str) -> str:
    """Sets cells that ended in an error to the worse end of their range if they count as wrong;
    returns a line for people.
    """
    cells = plural(len(raw.failed), "cell")
    if errors != WRONG_ERRORS:
        return f"{cells} whose evaluation ended in an error: unknown; --errors=wrong counts them"
    for i, k in raw.failed:
        facts = raw.sample_provenance[k]
        if facts.get(UNBOUNDED):
            raise BadInput(
                f"{path}: sample {raw.samples[k]!r} of model {raw.models[i]!r} ended in an error,"
                " and its metric has no bounds, so that no value is the worst: leave"
                " --errors=wrong out, or state a range."
            )
        raw.values[i, k] = high[k] if facts.get(DIRECTION) is False else low[k]
    return f"{cells} whose evaluation ended in an error: count as wrong (--errors=wrong)"


def _find_ranges(
    path: Path, raw: RawTable, ranges: Ranges
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the lower and the upper end of each sample's range, float64[n] each, and the number
    of its data set and metric, int64[n].
    """
    kinds: dict[tuple, int] = {}
    ends, numbers = np.empty((2, len(raw.samples))), np.empty(len(raw.samples), np.int64)
    found: dict[tuple[str, str], Mapping[str, float]] = {}
    for k, provenance in enumerate(raw.sample_provenance):
        metric, higher = (provenance.get(name) for name in (METRIC, DIRECTION))
        if isinstance(metric, list | dict) or isinstance(higher, list | dict):
            raise BadInput(f"{path}: sample {raw.samples[k]!r}: {METRIC} or {DIRECTION} is a list.")
        names = sample_facts.get_dataset(provenance), str(metric or "")
        if names not in found:
            said = ranges.find(*names)
            is_range = said is not None and said != NONE
            found[names] = dict(zip(sample_facts.RANGE, said, strict=True)) if is_range else {}
        try:
            ends[:, k] = sample_facts.read_range({**found[names], **provenance})
        except BadInput as error:
            raise BadInput(f"{path}: sample {raw.samples[k]!r}: {error}") from None
        kind = sample_facts.get_dataset(provenance), metric, higher, *ends[:, k]
        numbers[k] = kinds.setdefault(kind, len(kinds))
    return ends[0], ends[1], numbers


def _describe_content(raw: RawTable, known: np.ndarray, kinds, low, high, scores):
    """Yields lines for people about the content of a file; arrays as in `_interpret`."""
    holes = known.size - int(known.sum())
    yield f"{plural(len(raw.models), 'model')} × {plural(len(raw.samples), 'sample')}" + (
        f", {plural(holes, 'cell')} unknown ({100 * holes / known.size:.2g}%)" if holes else ""
    )
    yield f"models: {list_names(raw.models)}"
    yield from note_similar_names(raw.models, "models")
    if raw.repeats:
        were = "was" if raw.repeats == 1 else "were"
        yield f"{plural(raw.repeats, 'repeated cell')} with the same value {were} left out"
    for kind, size in sorted(Counter(kinds.tolist()).items()):
        k = int(np.argmax(kinds == kind))
        provenance = raw.sample_provenance[k]
        name = " ".join(
            filter(None, (sample_facts.get_dataset(provenance), provenance.get("metric", "")))
        )
        value_type = f"scores from {low[k]:g} to {high[k]:g}" if scores[k] else "outcomes"
        if provenance.get(UNBOUNDED):
            value_type = f"scores without bounds (scale {low[k]:g} to {high[k]:g})"
        better = sample_facts.describe_direction(provenance) or f"{HIGHER} (not stated)"
        cells = known & (kinds == kind)
        mean = f", mean {raw.values[cells].mean():.4f}" if cells.any() else ""
        yield f"{name or 'values'}: {plural(size, 'sample')}, {value_type}{mean}; {better}"


def _describe_threshold(scores: np.ndarray, threshold: float) -> str:
    """Returns a line on what scores, float64[k], lose when they become outcomes."""
    near = np.abs(scores - threshold) <= 0.1
    return (
        f"real-valued scores became outcomes, 1 if above {threshold:g}: {near.mean():.1%} of the"
        f" cells are within 0.1 of it; the mean score is {scores.mean():.4f}, the mean outcome"
        f" {(scores > threshold).mean():.4f}"
    )
