"""How values come into an evaluation cache and leave it: files are imported and exported, and an
oracle that answers for a new model, a file or anything else, is asked.
"""

import dataclasses
import io
import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nevis_stream.errors import BadInput, unknown
from nevis_stream.evaluation_cache import (
    cells,
    entries,
    facts,
    identity,
    integrity,
    records,
)
from nevis_stream.evaluation_cache.arguments import redact
from nevis_stream.evaluation_cache.evaluation_cache import EvaluationCache
from nevis_stream.evaluation_cache.facts import UNBOUNDED
from nevis_stream.evaluation_cache.files import ValueTable, format_source, read_values
from nevis_stream.evaluation_cache.identity import TASKS, count_missing, merge_tasks
from nevis_stream.evaluation_cache.packing import CONFIDENCE, CORRECT, OBSERVED, PREDICTED
from nevis_stream.evaluation_cache.records import Imported
from nevis_stream.evaluation_cache.values import ValueRange
from nevis_stream.progress import SILENT, Progress
from nevis_stream.queries.oracle import (
    Cost,
    Query,
    Responses,
)
from nevis_stream.queries.samples import (
    UNKNOWN,
    is_observed,
)
from nevis_stream.storage import write_file


def import_file(
    cache: EvaluationCache | Path,
    path: str | Path | Sequence[Path],
    threshold: float | None = None,
    value_range: ValueRange | Mapping[str, ValueRange] | None = None,
    features: Callable[[list[str]], tuple[np.ndarray, list[str]]] | None = None,
    progress: Progress = SILENT,
    dataset_weights: Mapping[str, float] | None = None,
    **how: Any,
) -> ValueTable:
    """Adds a file's values to a cache, all or nothing.

    The models' provenance gains the file's name, and the threshold if there is one.

    Args:
      cache: the cache; or its directory, in which it is created once the file has been read.
      path, threshold, value_range, **how: as of `read_values`.
      features: takes samples' ids; returns float32[n, d], NaN for a sample without features, and
        lines for people (see `read_features`).
      progress: is told the stages.
      dataset_weights: by data set, instead of those of the cache, which may have data sets of its
        own; None: they stay.

    Raises:
      BadInput: as `read_values`; or a value or range contradicts that of the cache; or its data
        sets have weights, and one of the file's has none.
    """
    progress.stage("read")
    table = read_values(path, threshold, value_range, **how)
    path = Path(format_source(path))
    if features is not None:
        vectors, lines = features(table.samples)
        table = dataclasses.replace(table, remarks=(*table.remarks, *lines), features=vectors)
    progress.stage(f"write {len(table.models)} models × {len(table.samples):,} samples")
    try:
        return write_table(cache, table, path.name, threshold, dataset_weights)
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from None


def write_table(
    cache: EvaluationCache | Path,
    table: ValueTable,
    file: str,
    threshold: float | None = None,
    dataset_weights: Mapping[str, float] | None = None,
) -> ValueTable:
    """Adds values that were read from a file of this name to a cache; other arguments, result and
    errors as of `import_file`.
    """
    cache = EvaluationCache(cache, create=True) if isinstance(cache, Path) else cache
    with cache.index.reading() as db:
        table = _rescale(db, table)
    provenances = table.sample_provenance or [{}] * len(table.samples)
    name = redact(file)
    origin = {"file": name} | ({} if threshold is None else {"threshold": threshold})
    with cache.index.writing() as db:
        table = _match_cache(db, table)
        planes, predicted = (
            cells.convert_arrays(table.models, table.samples, values)
            for values in (
                {CORRECT: table.values, CONFIDENCE: table.confidence},
                {CORRECT: table.predicted},
            )
        )
        if dataset_weights is not None:
            about = records.read_about(db) | {"dataset_weights": dict(dataset_weights)}
            records.write_about(db, about)
        columns = entries.add_samples(db, table.samples, provenances)
        rows = [
            (model, entries.add_model(db, model, origin | provenance))
            for model, provenance in zip(
                table.models, table.model_provenance or [{}] * len(table.models), strict=True
            )
        ]
        withheld = records.describe_withheld(db, table.models, table.samples, table.values)
        table = dataclasses.replace(table, remarks=(*table.remarks, *withheld))
        cells.write(db, cache.cells, OBSERVED, rows, columns, planes)
        if predicted:
            cells.write(db, cache.cells, PREDICTED, rows, columns, predicted, origin)
        if (vectors := table.features) is not None:
            has_features = ~np.isnan(vectors).any(axis=1)
            cells.write_features(db, cache.cells, columns[has_features], vectors[has_features])
        records.add_imports(db, [Imported(name, table.remarks, table.left_out)])
    return table


def _match_cache(db: sqlite3.Connection, table: ValueTable) -> ValueTable:
    """Returns a table with the names that its models and samples have in the cache, and with lines
    for people on what differs and what could not be compared.

    Raises:
      BadInput: what identifies a sample differs from the cache.
    """
    provenances = table.sample_provenance or [{}] * len(table.samples)
    names = entries.find_names(db, table.samples, provenances)
    places = dict(zip(names, map(table.format_place, table.samples), strict=True))
    missing = entries.compare_samples(db, names, provenances, places.__getitem__)
    table = dataclasses.replace(table, samples=names)
    table, lines = match_rows(table, entries.read_models(db))
    return dataclasses.replace(table, remarks=(*table.remarks, *lines, *count_missing(missing)))


def match_rows(
    table: ValueTable, stored: Mapping[str, Mapping[str, Any]]
) -> tuple[ValueTable, list[str]]:
    """Returns a table with the names that its models have in a cache, and lines for people. Rows of
    the table that are one row in the cache are joined.

    Args:
      table: the content of a file.
      stored: provenance of the cache's models.

    Raises:
      BadInput: such rows have different values in one cell.
    """
    stated = table.model_provenance or [{}] * len(table.models)
    rows, lines = identity.match_rows(list(zip(table.models, stated, strict=True)), stored)
    tasks = {task for _, each in rows for task in each.get(TASKS, {})}
    others = [(row, each) for row, each in stored.items() if tasks & each.get(TASKS, {}).keys()]
    if others:
        lines += [
            each
            for each in identity.compare_settings([*others, *rows])
            if each not in table.remarks
        ]
    names = [name for name, _ in rows]
    provenances: dict[str, dict[str, Any]] = {}
    for name, each in rows:
        merged = merge_tasks(name, provenances.get(name, {}), each)
        provenances[name] = provenances.get(name, {}) | each | ({TASKS: merged} if merged else {})
    arrays = {"values": table.values, "confidence": table.confidence, "predicted": table.predicted}
    if len(provenances) < len(names):
        arrays = {
            kind: None if values is None else _join_rows(names, values)
            for kind, values in arrays.items()
        }
    table = dataclasses.replace(
        table, models=list(provenances), model_provenance=list(provenances.values()), **arrays
    )
    return table, lines


def _join_rows(names: Sequence[str], values: np.ndarray) -> np.ndarray:
    """Returns one row for each name, in the order of the names: of the rows of a name, [k, n], each
    cell has the known value.

    Raises:
      BadInput: two of them have different values in one cell.
    """
    order = list(dict.fromkeys(names))
    joined = values[[names.index(name) for name in order]]
    for name, row in zip(names, values, strict=True):
        old, known = joined[order.index(name)], is_observed(row)
        if (differs := known & is_observed(old) & (old != row)).any():
            raise BadInput(
                f"model {name!r} has two values of a sample ({differs.sum()} such cells)."
            )
        old[known] = row[known]
    return joined


def _rescale(db: sqlite3.Connection, table: ValueTable) -> ValueTable:
    """Returns a table on the scale of a cache; see `_rescale_to`."""
    if not any(UNBOUNDED in each for each in table.sample_provenance):
        return table
    names = entries.find_names(db, table.samples, table.sample_provenance)
    columns = entries.find_numbers(db, "samples", names)
    stored = entries.spread_provenance(entries.read_batches(db))
    return _rescale_to(table, names, [stored[k] if k >= 0 else {} for k in columns.tolist()])


def _rescale_to(
    table: ValueTable, names: Sequence[str], stored: Sequence[Mapping[str, Any]]
) -> ValueTable:
    """Returns a table whose values of metrics without bounds have the scale of values that are
    known, where there are some.

    Args:
      table: the table.
      names: of its samples there.
      stored: what is known of each of its samples.

    Raises:
      BadInput: a value lies outside of that scale.
    """
    values, provenances = table.values.copy(), list(table.sample_provenance)
    for k, (theirs, ours) in enumerate(zip(table.sample_provenance, stored, strict=True)):
        if UNBOUNDED in ours and UNBOUNDED in theirs:
            (low, high), (first, last) = map(facts.read_range, (theirs, ours))
            values[:, k] = (low + values[:, k] * (high - low) - first) / (last - first)
            if (outside := (values[:, k] < 0) | (values[:, k] > 1)).any():
                model = table.models[int(outside.argmax())]
                raise BadInput(
                    f"model {model!r}, sample {names[k]!r}: its value lies outside of the scale"
                    f" {first:g} to {last:g} of this cache. Import all files into a new cache, with"
                    " a range: --range=LOW,HIGH."
                )
            provenances[k] = theirs | {"low": first, "high": last}
    return dataclasses.replace(table, values=values, sample_provenance=provenances)


def read_for_cache(cache: EvaluationCache, path: str | Path, **how: Any) -> ValueTable:
    """Reads a file whose values are to answer for new models of a cache. They must be of the same
    kind as those of the cache, and what identifies a sample must agree.

    Args:
      cache: the cache.
      path, **how: as of `read_values`.

    Raises:
      BadInput: as `read_values`; or the file has scores and the cache outcomes, or metric,
        direction, range or content of a sample differ.
    """
    table = read_values(path, **how)
    check_kind(table, cache.scores, path, str(cache.directory))
    try:
        with cache.index.reading() as db:
            table = _match_cache(db, _rescale(db, table))
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from None
    return table.as_scores() if cache.scores else table


def check_kind(table: ValueTable, scores: bool, path: str | Path, known: str) -> None:
    """Refuses scores that are to stand beside outcomes.

    Args:
      table: of the file at `path`.
      scores: whether the known values are scores.
      known: where these are, for the message.
    """
    if table.values.dtype != np.uint8 and not scores:
        raise BadInput(
            f"{path}: has real-valued scores, but {known} has outcomes. Import both into"
            " a new cache, with --threshold to turn scores into outcomes."
        )


def read_beside(known: ValueTable, path: str | Path, **how: Any) -> ValueTable:
    """Reads a file whose values are to answer for new models of a table; as `read_for_cache`."""
    table = read_values(path, **how)
    scores = known.values.dtype != np.uint8
    check_kind(table, scores, path, "the board")
    stated = known.sample_provenance or [{}] * len(known.samples)
    given = table.sample_provenance or [{}] * len(table.samples)
    metrics = [str(each.get(facts.METRIC) or "") for each in stated]
    names = identity.match_names(
        table.samples, given, dict(zip(known.samples, metrics, strict=True))
    )
    place = {name: column for column, name in enumerate(known.samples)}
    columns = np.array([place.get(name, -1) for name in names], np.int64)
    hashes = {column: str(each.get(facts.HASH) or "") for column, each in enumerate(stated)}
    batches = [(slice(column, column + 1), each) for column, each in enumerate(stated)]
    models = known.model_provenance or [{}] * len(known.models)
    try:
        if any(UNBOUNDED in each for each in given):
            ours = [stated[column] if column >= 0 else {} for column in columns.tolist()]
            table = _rescale_to(table, names, ours)
            given = table.sample_provenance
        places = dict(zip(names, map(table.format_place, table.samples), strict=True))
        identity.compare_samples(names, columns, batches, hashes, given, places.__getitem__)
        table, lines = match_rows(table, dict(zip(known.models, models, strict=True)))
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from None
    table = dataclasses.replace(table, samples=names, remarks=(*table.remarks, *lines))
    return table.as_scores() if scores else table


def export_npz(cache: EvaluationCache, path: str | Path) -> None:
    """Writes everything in a cache except class probabilities as one npz file, which `import_file`
    can read; models and samples that were removed as a whole are left out.

    Raises:
      DamagedCache: `verify` finds damage; no file is written.
    """
    integrity.refuse_damage(cache)
    models, samples = cache.models(), cache.samples()
    with cache.index.reading() as db:
        provenances = entries.list_provenances(db)
        removed_models, removed_samples = records.find_removed(db)
    columns = np.array(
        [k for k, name in enumerate(samples) if name not in removed_samples], np.int64
    )
    models = {name: each for name, each in models.items() if name not in removed_models}
    names, samples = list(models), [samples[k] for k in columns.tolist()]
    provenances = [provenances[k] for k in columns.tolist()]
    arrays: dict[str, Any] = {
        "models": np.array(list(models), str),
        "samples": np.array(samples, str),
        "model_provenance": np.array([json.dumps(each) for each in models.values()], str),
        "sample_provenance": np.array([json.dumps(each) for each in provenances], str),
    }
    values, states = cache.matrix(names, columns), cache.states(names, columns)
    if cache.scores:  # in their own ranges, as they were imported
        low, high = np.array([facts.read_range(each) for each in provenances]).T
        arrays["score"] = low + values.astype(np.float64) * (high - low)
    else:
        arrays["correct"] = values
    confidence, features = cache.confidence(names, columns), cache.features()
    features = None if features is None else features[columns]
    if not np.isnan(confidence).all():
        arrays["confidence"] = confidence
    if (states == 2).any():
        missing = np.nan if cache.scores else UNKNOWN
        arrays["predicted"] = np.where(states == 2, cache.predictions(names, columns), missing)
        arrays["predicted"] = arrays["predicted"].astype(values.dtype)
    if features is not None:
        arrays["features"] = features
    with io.BytesIO() as buffer:
        np.savez_compressed(buffer, **arrays)
        write_file(Path(path), buffer.getvalue())


IdsOfColumns = Callable[[np.ndarray], Sequence[str]]
"""Takes columns, int64[b]; returns the ids of these samples."""


class FileOracle:
    """An `Oracle` for one model whose values are in a file, for example to learn from a complete
    file what a budget would have given. The cost of the answers is unknown.

    Args:
      table: the file's values.
      model: the model's id.
      ids: returns the ids of columns.
      file: the file's name, for messages.

    Raises:
      BadInput: the file has no such model.
    """

    def __init__(self, table: ValueTable, model: str, ids: IdsOfColumns, file: str = "the file"):
        if model not in table.models:
            raise BadInput(f"{file}: {unknown('model', model, table.models)}")
        self._table, self._model, self._ids, self._file = table, model, ids, file
        self._row = list(table.models).index(model)
        self._columns = {sample: column for column, sample in enumerate(table.samples)}

    def available(self, samples: Sequence[str]) -> np.ndarray:
        """Returns on which of n samples the file has a value of the model, bool[n]."""
        columns = self._find_columns(samples)
        return (columns >= 0) & is_observed(self._table.values[self._row][columns])

    def _find_columns(self, samples: Sequence[str]) -> np.ndarray:
        """Returns the file's columns of samples, int64[n], −1 for others."""
        return np.array([self._columns.get(sample, -1) for sample in samples], np.int64)

    def __call__(self, query: Query) -> Responses:
        """Returns the values on the samples of a query, int64[1, b].

        Raises:
          BadInput: the file lacks one.
        """
        ids = self._ids(query.samples[0])
        columns, missing = self._find_columns(ids), np.flatnonzero(~self.available(ids))
        if len(missing):
            raise BadInput(
                f"{self._file}: has no value of model {self._model!r} on sample"
                f" {ids[missing[0]]!r}, which was asked."
            )
        confidence = self._table.confidence
        known = None if confidence is None else confidence[self._row][columns][None]
        return Responses(query, self._table.values[self._row][columns][None], Cost(None), known)
