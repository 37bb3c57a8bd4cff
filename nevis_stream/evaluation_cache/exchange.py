"""Imports files of values into an evaluation cache, and exports a cache as a file."""

import dataclasses
import io
import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nevis_stream.errors import BadInput
from nevis_stream.evaluation_cache import (
    EvaluationCache,
    entries,
    facts,
    identity,
    integrity,
    records,
    writing,
)
from nevis_stream.evaluation_cache.facts import UNBOUNDED
from nevis_stream.evaluation_cache.files import ValueTable, read_values, source
from nevis_stream.evaluation_cache.identity import TASKS, merged_tasks, missing_line
from nevis_stream.evaluation_cache.packing import CONFIDENCE, CORRECT, OBSERVED, PREDICTED
from nevis_stream.evaluation_cache.records import Imported
from nevis_stream.evaluation_cache.values import ValueRange
from nevis_stream.progress import SILENT, Progress
from nevis_stream.queries.matrix import UNKNOWN, is_observed
from nevis_stream.storage import write_file


def import_file(
    cache: EvaluationCache | Path,
    path: str | Path | Sequence[Path],
    threshold: float | None = None,
    value_range: ValueRange | Mapping[str, ValueRange] | None = None,
    features: Callable[[list[str]], tuple[np.ndarray, list[str]]] | None = None,
    progress: Progress = SILENT,
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

    Raises:
      BadInput: as `read_values`; or a value or range contradicts that of the cache.
    """
    progress.stage("read")
    table = read_values(path, threshold, value_range, **how)
    path = Path(source(path))
    vectors = table.features
    if features is not None:
        vectors, lines = features(table.samples)
        table = dataclasses.replace(table, remarks=(*table.remarks, *lines))
    progress.stage(f"write {len(table.models)} models × {len(table.samples):,} samples")
    cache = EvaluationCache(cache, create=True) if isinstance(cache, Path) else cache
    with cache.index.reading() as db:
        table = _scale(db, table)
    provenances = table.sample_provenance or [{}] * len(table.samples)
    origin = {"file": path.name} | ({} if threshold is None else {"threshold": threshold})
    try:
        with cache.index.writing() as db:
            table = _compare(db, table)
            planes, predicted = (
                writing.arrays(table.models, table.samples, values)
                for values in (
                    {CORRECT: table.values, CONFIDENCE: table.confidence},
                    {CORRECT: table.predicted},
                )
            )
            columns = entries.add_samples(db, table.samples, provenances)
            rows = [
                (model, entries.add_model(db, model, origin | provenance))
                for model, provenance in zip(
                    table.models, table.model_provenance or [{}] * len(table.models), strict=True
                )
            ]
            kept_back = records.line_on_kept(db, table.models, table.samples, table.values)
            table = dataclasses.replace(table, remarks=(*table.remarks, *kept_back))
            writing.write(db, cache.cells, OBSERVED, rows, columns, planes)
            if predicted:
                writing.write(db, cache.cells, PREDICTED, rows, columns, predicted, origin)
            if vectors is not None:
                there = ~np.isnan(vectors).any(axis=1)
                writing.write_features(db, cache.cells, columns[there], vectors[there])
            records.add_imports(db, [Imported(path.name, table.remarks, table.left_out)])
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from None
    return table


def _compare(db: sqlite3.Connection, table: ValueTable) -> ValueTable:
    """Returns a table with the names that its models and samples have in the cache, and with lines
    for people on what differs and what could not be compared.

    Raises:
      BadInput: what identifies a sample differs from the cache.
    """
    provenances = table.sample_provenance or [{}] * len(table.samples)
    names = entries.names_in_cache(db, table.samples, provenances)
    places = dict(zip(names, map(table.place, table.samples), strict=True))
    missing = entries.compare(db, names, provenances, places.__getitem__)
    table = dataclasses.replace(table, samples=names)
    table, lines = _with_rows(table, entries.models(db))
    return dataclasses.replace(table, remarks=(*table.remarks, *lines, *missing_line(missing)))


def _with_rows(
    table: ValueTable, stored: Mapping[str, Mapping[str, Any]]
) -> tuple[ValueTable, list[str]]:
    """Returns a table with the names that its models have in a cache, and lines for people. Rows of
    the table that are one row there are joined.

    Raises:
      BadInput: such rows have different values in one cell.
    """
    stated = table.model_provenance or [{}] * len(table.models)
    rows, lines = identity.rows_in_cache(list(zip(table.models, stated, strict=True)), stored)
    tasks = {task for _, each in rows for task in each.get(TASKS, {})}
    others = [(row, each) for row, each in stored.items() if tasks & each.get(TASKS, {}).keys()]
    if others:
        lines += [
            each for each in identity.joined_settings([*others, *rows]) if each not in table.remarks
        ]
    names = [name for name, _ in rows]
    provenances: dict[str, dict[str, Any]] = {}
    for name, each in rows:
        merged = merged_tasks(name, provenances.get(name, {}), each)
        provenances[name] = provenances.get(name, {}) | each | ({TASKS: merged} if merged else {})
    arrays = {"values": table.values, "confidence": table.confidence, "predicted": table.predicted}
    if len(provenances) < len(names):
        arrays = {
            kind: None if values is None else _joined_rows(names, values)
            for kind, values in arrays.items()
        }
    table = dataclasses.replace(
        table, models=list(provenances), model_provenance=list(provenances.values()), **arrays
    )
    return table, lines


def _joined_rows(names: Sequence[str], values: np.ndarray) -> np.ndarray:
    """Returns one row for each name; cells that are unknown in one row are taken from the next."""
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


def _scale(db: sqlite3.Connection, table: ValueTable) -> ValueTable:
    """Returns a table whose metrics without bounds have the scale of the cache, if it has them.

    Raises:
      BadInput: a value lies outside of that scale.
    """
    if not any(UNBOUNDED in each for each in table.sample_provenance):
        return table
    names = entries.names_in_cache(db, table.samples, table.sample_provenance)
    columns, stored = entries.numbers(db, "samples", names), entries.of_each(entries.batches(db))
    values, provenances = table.values.copy(), list(table.sample_provenance)
    for k, column in enumerate(columns.tolist()):
        ours = stored[column] if column >= 0 else {}
        if UNBOUNDED in ours and UNBOUNDED in provenances[k]:
            (low, high), (first, last) = map(facts.value_range, (provenances[k], ours))
            values[:, k] = (low + values[:, k] * (high - low) - first) / (last - first)
            if (outside := (values[:, k] < 0) | (values[:, k] > 1)).any():
                model = table.models[int(outside.argmax())]
                raise BadInput(
                    f"model {model!r}, sample {names[k]!r}: its value lies outside of the scale"
                    f" {first:g} to {last:g} of this cache. Import all files into a new cache, with"
                    " a range: --range=LOW,HIGH."
                )
            provenances[k] = provenances[k] | {"low": first, "high": last}
    return dataclasses.replace(table, values=values, sample_provenance=provenances)


def read_for(cache: EvaluationCache, path: str | Path, **how: Any) -> ValueTable:
    """Reads a file from which new cells of a cache will be asked: its values must be of the same
    kind as those of the cache, and what identifies a sample must agree.

    Args:
      cache: the cache.
      path, **how: as of `read_values`.

    Raises:
      BadInput: as `read_values`; or the file has scores and the cache outcomes, or metric,
        direction, range or content of a sample differ.
    """
    table = read_values(path, **how)
    scores = cache.scores
    if table.values.dtype != np.uint8 and not scores:
        raise BadInput(
            f"{path}: has real-valued scores, but {cache.directory} has outcomes. Import both into"
            " a new cache, with --threshold to turn scores into outcomes."
        )
    try:
        with cache.index.reading() as db:
            table = _compare(db, _scale(db, table))
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from None
    if not scores or table.values.dtype != np.uint8:
        return table
    values = np.where(table.values == UNKNOWN, np.nan, table.values).astype(np.float32)
    return dataclasses.replace(table, values=values)


def export_npz(cache: EvaluationCache, path: str | Path) -> None:
    """Writes everything in a cache except class probabilities as one npz file, which `import_file`
    can read; models and samples that were removed as a whole are left out.

    Raises:
      DamagedCache: `verify` finds damage; no file is written.
    """
    integrity.check(cache)
    models, samples = cache.models(), cache.samples()
    with cache.index.reading() as db:
        provenances = entries.full_provenances(db)
        gone, lost = records.find_removed(db)
    columns = np.array([k for k, name in enumerate(samples) if name not in lost], np.int64)
    models = {name: each for name, each in models.items() if name not in gone}
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
        low, high = np.array([facts.value_range(each) for each in provenances]).T
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
