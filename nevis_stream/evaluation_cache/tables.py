"""Reads tables of values, csv and parquet: one row for each model, or one row for each cell.

In long form, one row for each cell, the columns are `model`, `sample`, and `outcome` or `score`;
optionally `dataset` and `metric` (a sample's id is then DATASET/SAMPLE, and DATASET/SAMPLE#METRIC
if it has several metrics), `low` and `high` (the range of the score), `higher_is_better` (true or
false), `hash` (of the sample's content), `category`, `subject` or `class` (a group of samples),
`cluster` (samples drawn together), `confidence`, `group` (of models), and `tokens`, `dollars` and
`seconds` (of the cell; a sample's price is their mean). Values of several rows that a column
`trial` or `epoch` numbers are averaged.

Rows and columns of summaries (average, rank, …) are left out; `left_out` says so.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from nevis_stream.errors import BadInput, describe_installation, unknown
from nevis_stream.evaluation_cache import large_tables
from nevis_stream.evaluation_cache.facts import DIRECTION, HASH, METRIC, RANGE, find_repeat
from nevis_stream.evaluation_cache.records import LeftOut
from nevis_stream.evaluation_cache.values import (
    COLUMN_WORDS,
    SUMMARY_WORDS,
    NumberReader,
    average_known,
    find_mean_columns,
    is_row_number,
    is_summary,
    join_words,
    read_truth,
)
from nevis_stream.queries.prices import UNITS
from nevis_stream.storage.tables import find_first_line, parse_rows, read_header, read_text

_VALUES = ("score", "outcome")
_TEXTS = ("dataset", METRIC, "category", "subject", "class", "cluster", HASH)
TRIALS = ("trial", "epoch")  # columns that number repeated values of a cell, which are averaged
_COLUMNS = {"model", "sample", *_VALUES, *_TEXTS, *RANGE, DIRECTION, *TRIALS, *UNITS}
_COLUMNS |= {"confidence", "group"}  # of a table with a row for each cell
PERCENT = (0.0, 100.0)  # the range of values with percent signs
Rows = list[tuple[str, list]]  # the place of each row, for example "line 3", and its fields


@dataclass
class RawTable:
    """The content of a file before its values are checked.

    Attributes:
      models, samples: ids.
      values: float64[m, n] as in the file, NaN where unknown.
      model_provenance, sample_provenance: m and n of them; a sample's may have `low` and `high`.
      confidence, predicted: float or uint8 [m, n], or None.
      features: float32[n, d], or None.
      repeats: number of repeated cells.
      remarks: lines for people about the content of the file.
      left_out: what of the file is not read.
      places: by row of a model, or (row, column) of a cell, its place in the file ("line 3").
      coded: whether 255 stands for an unknown value in all ranges without it, not only in 0 to 1.
      failed: rows and columns of cells whose evaluation ended in an error.
      lines: int32[m, n], in place of `places`: the line of each cell; 0 where there is none.
      prices: by unit, what each sample costs, float64[n], NaN where the file does not say it.
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
    has_unknown_code: bool = False
    failed: list[tuple[int, int]] = field(default_factory=list)
    lines: np.ndarray | None = None
    prices: dict[str, np.ndarray] = field(default_factory=dict)

    def format_place(self, row: int, column: int) -> str:
        """Returns the place of a cell, for example ", line 3"; "" if the file has no lines."""
        if self.lines is not None:
            return f", line {self.lines[row, column]}" if self.lines[row, column] else ""
        place = self.places.get((row, column)) or self.places.get(row)
        return f", {place}" if place else ""

    def find_sample_places(self) -> dict[str, str]:
        """Returns the first place of each sample in the file, where it is known."""
        if self.lines is not None:
            first = np.where(self.lines, self.lines, np.iinfo(np.int32).max).min(axis=0)
            return {name: f"line {k}" for name, k in zip(self.samples, first, strict=True)}
        cells = reversed(self.places.items())
        return {self.samples[c[1]]: place for c, place in cells if isinstance(c, tuple)}

    def take(self, columns: Sequence[int]) -> "RawTable":
        """Returns the table of some samples."""
        place = {column: k for k, column in enumerate(columns)}

        def choose(values: np.ndarray | None) -> np.ndarray | None:
            return None if values is None else values[:, columns]

        return replace(
            self,
            samples=[self.samples[k] for k in columns],
            values=self.values[:, columns],
            sample_provenance=[self.sample_provenance[k] for k in columns],
            confidence=choose(self.confidence),
            predicted=choose(self.predicted),
            features=None if self.features is None else self.features[columns],
            places={
                (cell[0], place[cell[1]]) if isinstance(cell, tuple) else cell: text
                for cell, text in self.places.items()
                if not isinstance(cell, tuple) or cell[1] in place
            },
            failed=[(i, place[k]) for i, k in self.failed if k in place],
            lines=choose(self.lines),
            prices={unit: each[columns] for unit, each in self.prices.items()},
        )


def read_csv(
    path: Path, ignored: Sequence[str] = (), grades: Mapping[str, float] | None = None
) -> RawTable:
    """Reads a csv file, or one with tabs (.tsv); both may be compressed by gzip (.gz).

    Args:
      path: of the file.
      ignored: columns that are not read.
      grades: numbers of texts, for example {"A": 1}.

    Raises:
      BadInput: it cannot be read.
    """
    if not ignored and not grades and (large := _read_large(path)):
        return large
    text = read_text(path, str(path))
    rows = [(f"line {line}", cells) for line, cells in parse_rows(text, str(path), ("model",))]
    if not rows:
        raise BadInput(f"{path}: is empty.")
    # where a comma separates no field of the header, it may stand before decimals
    first = find_first_line(text)
    decimal_comma = ";" in first and "," not in first
    return _build(path, rows[0][1], rows[1:], ignored, NumberReader(path, decimal_comma, grades))


def _read_large(path: Path) -> RawTable | None:
    """Returns the content of a large file with a row for each cell if it is plain, else None."""
    if not path.is_file() or path.stat().st_size < large_tables.LARGE:
        return None
    delimiter, header = read_header(path, ("model",))
    value_columns = [name for name in _VALUES if name in header]
    if len(value_columns) != 1:
        return None
    numbers = [k for k, name in enumerate(header) if is_row_number(name)]
    cells = large_tables.read_cells(path, delimiter, header, value_columns[0], numbers)
    names = [] if cells is None else [*cells.models, *(sample for _, sample, _ in cells.keys)]
    if cells is None or any(is_summary(name, SUMMARY_WORDS) for name in names):
        return None
    facts = (("dataset", 0), (METRIC, 2))
    return RawTable(
        cells.models,
        _make_ids(cells.keys),
        cells.values,
        [{} for _ in cells.models],
        [{name: key[k] for name, k in facts if key[k]} for key in cells.keys],
        repeats=cells.repeats,
        lines=cells.lines,
        left_out=_leave_out("columns of row numbers", [header[k] for k in numbers]),
    )


def read_parquet(
    path: Path, ignored: Sequence[str] = (), grades: Mapping[str, float] | None = None
) -> RawTable:
    """Reads a parquet file; arguments and errors as of `read_csv`."""
    names, columns = _load_file(path)
    rows = [
        (f"row {number}", list(row))
        for number, row in enumerate(zip(*columns, strict=True), start=1)
    ]
    return _build(path, names, rows, ignored, NumberReader(path, grades=grades))


def read_columns(path: Path, wanted: Collection[str]) -> dict[str, list[Any]]:
    """Returns the wanted columns that a parquet file has, by name; errors as of `read_csv`."""
    return dict(zip(*_load_file(path, wanted), strict=True))


def _load_file(path: Path, wanted: Collection[str] | None = None) -> tuple[list[str], list[list]]:
    """Returns names and values of the wanted columns of a parquet file; None: of all."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise BadInput(
            f"{path}: parquet needs pyarrow: {describe_installation('data')}; or convert the file"
            " to csv or npz."
        ) from None
    try:
        # `read_table` fails if two columns have the same name
        file = pyarrow.parquet.ParquetFile(path)
        names = file.schema_arrow.names
        table = file.read() if wanted is None else file.read([n for n in names if n in wanted])
    except (OSError, pyarrow.ArrowException) as error:
        raise BadInput(f"{path}: cannot be read as parquet ({error}).") from error
    return table.column_names, [column.to_pylist() for column in table.columns]


def _build(
    path: Path, header: list[str], rows: Rows, ignored: Sequence[str], numbers: NumberReader
) -> RawTable:
    if (name := find_repeat(header)) is not None:
        places = ", ".join(str(place) for place, n in enumerate(header, start=1) if n == name)
        raise BadInput(
            f"{path}: columns {places} have the same name, {name!r}; give each its own, or leave"
            " one out."
        )
    if "model" not in header:
        raise BadInput(
            f"{path}: has no column `model`; it begins with {', '.join(header[:3]) or 'nothing'}."
            + _suggest_spelling(header)
        )
    ignored = join_words(ignored, header)
    for name in ignored:
        if name not in header:
            raise BadInput(f"{path}: --ignore_columns={name}: {unknown('column', name, header)}")
    for place, row in rows:
        if len(row) != len(header):
            raise BadInput(
                f"{path}, {place}: it begins with {row[0]!r} and has {len(row)} fields, the header"
                f" {len(header)}."
            )
    left_out = []
    if ignored:
        left_out.append(LeftOut("columns of --ignore_columns", len(ignored), ignored[0]))
        kept = [k for k, name in enumerate(header) if name not in ignored]
        header = [header[k] for k in kept]
        rows = [(place, [row[k] for k in kept]) for place, row in rows]
    model = header.index("model")
    summaries = [(place, row) for place, row in rows if is_summary(row[model], SUMMARY_WORDS)]
    if summaries and len(summaries) < len(rows):
        place, row = summaries[0]
        example = f"{row[model]!r} in {place}"
        left_out.append(LeftOut("rows of summaries", len(summaries), example))
        rows = [(place, row) for place, row in rows if not is_summary(row[model], SUMMARY_WORDS)]
    value_columns = [name for name in _VALUES if name in header]
    header, rows, others = _drop_row_numbers(header, rows)
    left_out += others
    if "sample" in header and value_columns and set(header) <= _COLUMNS:
        if len(value_columns) == 2:
            raise BadInput(f"{path}: has the columns `outcome` and `score`; leave one out.")
        table = _read_long(path, header, rows, value_columns[0], numbers)
    else:
        _check_wide(path, header, value_columns)
        table = _read_wide(path, header, rows, numbers)
    table.left_out[:0] = left_out
    table.remarks += numbers.list_remarks()
    return table


def _drop_row_numbers(header: list[str], rows: Rows) -> tuple[list[str], Rows, list[LeftOut]]:
    """Returns header and rows of a table with a row for each cell, without columns that number the
    rows, and what is left out; those of any other table as they are.
    """
    numbers = [k for k, name in enumerate(header) if is_row_number(name)]
    if not numbers or not {"model", "sample"} <= {*header}:
        return header, rows, []
    kept = [k for k in range(len(header)) if k not in numbers]
    rows = [(place, [row[k] for k in kept]) for place, row in rows]
    left_out = _leave_out("columns of row numbers", [header[k] for k in numbers])
    return [header[k] for k in kept], rows, left_out


def _check_wide(path: Path, header: list[str], value_columns: list[str]) -> None:
    """Refuses a table that seems to have a row for each cell, but lacks columns or has others."""
    lower = [name.strip().lower() for name in header]
    if "sample" in header or ("sample" in lower and not set(lower).isdisjoint(_VALUES)):
        others = [name for name in header if name not in _COLUMNS]
        reason = "has no column `outcome` or `score`"
        if value_columns and "sample" not in header:
            reason = "has no column `sample`"
        elif value_columns:
            reason = f"has other columns ({', '.join(map(repr, others[:3]))}) than " + ", ".join(
                sorted(_COLUMNS)
            )
        raise BadInput(
            f"{path}: {reason}, so it is not a table with one row per cell; in a table with one"
            f" row per model, every other column is a sample.{_suggest_spelling(header)}"
        )


def _suggest_spelling(header: list[str]) -> str:
    """Returns a hint on columns that seem to be meant as known ones; "" if there are none."""
    meant = [
        f"`{name.strip().lower()}` instead of {name!r}"
        for name in header
        if name not in _COLUMNS and name.strip().lower() in _COLUMNS
    ]
    meant += [
        f"`{DIRECTION}` (true or false) instead of {name!r}"
        for name in header
        if name.strip().lower() in ("direction", "better", "lower_is_better", "maximize")
    ]
    return f" Did you mean {', '.join(meant)}?" if meant else ""


def _read_wide(path: Path, header: list[str], rows: Rows, numbers: NumberReader) -> RawTable:
    trial = next((name for name in TRIALS if name in header), None)
    others = [
        k for k, name in enumerate(header) if name not in ("model", "group") and name != trial
    ]
    columns = [k for k in others if not is_summary(header[k], COLUMN_WORDS)]
    left_out = _leave_out("columns of summaries", [header[k] for k in others if k not in columns])
    model = header.index("model")
    names = [_to_id(row[model]) for _, row in rows]
    values = np.full((len(rows), len(columns)), np.nan)
    for i, (place, row) in enumerate(rows):
        for k, column in enumerate(columns):
            values[i, k] = numbers.read(row[column], place, names[i], header[column], column)
    means = find_mean_columns(values)
    left_out += _leave_out(
        "columns that are the mean of the others", [header[columns[k]] for k in means]
    )
    columns = [column for k, column in enumerate(columns) if k not in means]
    values = np.delete(values, means, axis=1)
    if trial is None:
        means = find_mean_columns(values.T)
        left_out += _leave_out("rows that are the mean of the others", [names[i] for i in means])
        kept = [i for i in range(len(rows)) if i not in means]
        rows, names, values = [rows[i] for i in kept], [names[i] for i in kept], values[kept]
    group = header.index("group") if "group" in header else None
    groups = [{} if group is None else {"group": str(row[group])} for _, row in rows]
    lines = [place for place, _ in rows]
    remarks = []
    if trial is not None:
        rows_of: dict[str, list[int]] = {}
        for i, name in enumerate(names):
            rows_of.setdefault(name, []).append(i)
        names = list(rows_of)
        remarks = _describe_trials(trial, [len(each) for each in rows_of.values()])
        values = np.stack([average_known(values[each]) for each in rows_of.values()])
        groups, lines = ([each[i[0]] for i in rows_of.values()] for each in (groups, lines))
    return RawTable(
        names,
        [header[k] for k in columns],
        values,
        groups,
        [dict(zip(RANGE, PERCENT, strict=True)) if numbers.percent.get(k) else {} for k in columns],
        places=dict(enumerate(lines)),
        left_out=left_out,
        remarks=remarks,
        failed=_find_failed(numbers, names, columns, values),
    )


def _find_failed(
    numbers: NumberReader, models: Iterable[str], samples: Iterable[Any], values: np.ndarray
) -> list[tuple[int, int]]:
    """Returns (row, column) of cells without a value that ended in an error, by samples' keys."""
    rows: dict[object, int] = {name: i for i, name in enumerate(models)}
    columns: dict[object, int] = {key: k for k, key in enumerate(samples)}
    cells = {(rows.get(m, -1), columns.get(key, -1)) for m, key in numbers.failed}
    return sorted(cell for cell in cells if min(cell) >= 0 and np.isnan(values[cell]))


def _leave_out(reason: str, names: Sequence[str]) -> list[LeftOut]:
    return [LeftOut(reason, len(names), repr(names[0]))] if names else []


def _describe_trials(name: str, counts: Sequence[int]) -> list[str]:
    """Returns a line for people if cells have several trials, given the numbers of these."""
    least, most = min(counts, default=0), max(counts, default=0)
    if most < 2:
        return []
    number = f"{most}" if least == most else f"{least} to {most}"
    return [f"the values of each cell are the means of its {number} trials (`{name}`)"]


def _read_long(
    path: Path, header: list[str], rows: Rows, value_column: str, numbers: NumberReader
) -> RawTable:
    """Reads a table with a row for each cell; cells without a row, or without a value, are
    unknown.
    """
    models: dict[str, dict[str, Any]] = {}
    samples: dict[tuple[str, ...], dict[str, Any]] = {}
    # value and confidence, of each trial
    cells: dict[tuple[int, int], dict[str, tuple[float, float]]] = {}
    indices: dict[Any, int] = {}  # of models by id, of samples by key
    places: dict[Any, str] = {}
    prices: dict[str, dict[Any, list[float]]] = {unit: {} for unit in UNITS if unit in header}
    trial = next((name for name in TRIALS if name in header), None)
    repeats, summaries = 0, []
    for place, row in rows:
        fields = dict(zip(header, row, strict=True))
        model, sample = _to_id(fields["model"]), _to_id(fields["sample"])
        if is_summary(sample, SUMMARY_WORDS):
            summaries.append(f"{sample!r} in {place}")
            continue
        key = sample and (_to_id(fields.get("dataset")), sample, _to_id(fields.get("metric")))
        group = {"group": str(fields["group"])} if "group" in header else {}
        facts = {name: _to_id(fields[name]) for name in _TEXTS if _to_id(fields.get(name))} | {
            name: numbers.read(fields[name], place, model, sample)
            for name in RANGE
            if fields.get(name) not in ("", None)
        }
        if fields.get(DIRECTION) not in ("", None):
            facts[DIRECTION] = read_truth(fields[DIRECTION], path, place)
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
        value = numbers.read(fields[value_column], place, model, sample, key)
        certainty = numbers.read(fields.get("confidence"), place, model, sample)
        for unit, paid in prices.items():
            paid.setdefault(key, []).append(numbers.read(fields[unit], place, model, sample))
        trials = cells.setdefault(cell, {})
        number = "" if trial is None else _to_id(fields[trial])
        if number in trials:
            earlier = trials[number]
            if not np.array_equal(earlier, (value, certainty), equal_nan=True):
                advice = "" if trial else "; number repeated trials in a column `trial`"
                raise BadInput(
                    f"{path}, {place}: model {model!r} on sample {sample!r} has the {value_column}"
                    f" {value:g}, but {earlier[0]:g} in {places[cell]}{advice}."
                )
            repeats += 1
        trials[number] = value, certainty
        places.setdefault(cell, place)
    values, confidence = np.full((2, len(models), len(samples)), np.nan)
    for cell, trials in cells.items():
        found = [*trials.values()]
        values[cell], confidence[cell] = (
            found[0] if len(found) == 1 else average_known(np.array(found))
        )
    for key, facts in samples.items():
        if numbers.percent.get(key):
            facts.update(zip(RANGE, PERCENT, strict=True)) if RANGE[0] not in facts else None
    return RawTable(
        list(models),
        _make_ids(samples),
        values,
        list(models.values()),
        list(samples.values()),
        _convert_confidence(path, confidence, list(models), list(samples)),
        repeats=repeats,
        places=places,
        left_out=[LeftOut("rows of summaries", len(summaries), summaries[0])] if summaries else [],
        remarks=[] if trial is None else _describe_trials(trial, [len(t) for t in cells.values()]),
        failed=_find_failed(numbers, models, samples, values),
        prices={
            unit: np.array([average_known(np.array(paid[key])) for key in samples])
            for unit, paid in prices.items()
        },
    )


def _convert_confidence(path: Path, confidence: np.ndarray, models, samples) -> np.ndarray | None:
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


def _make_ids(keys: Iterable[tuple[str, str, str]]) -> list[str]:
    """Returns samples' ids, given data set, id in the file, and metric of each."""
    keys, ids = list(keys), []
    several_metrics = len({key[:2] for key in keys if key}) < len(keys)
    for dataset, sample, metric in (key or ("", "", "") for key in keys):
        prefix = f"{dataset}/" if dataset and not sample.startswith(f"{dataset}/") else ""
        ids.append(prefix + sample + (f"#{metric}" if several_metrics and metric else ""))
    return ids


def _to_id(value) -> str:
    """Returns an id as text; "" for a missing one, which is refused later."""
    return "" if value is None else str(value)
