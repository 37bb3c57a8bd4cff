"""The entries of an evaluation cache's index: models (rows), samples (columns) and tiles."""

import difflib
import hashlib
import itertools
import json
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from nevis_stream.dynamic_evaluation.cache.facts import OUTCOME_RANGE, RANGE, value_range
from nevis_stream.dynamic_evaluation.cache.index import CHECKS, as_json
from nevis_stream.dynamic_evaluation.cache.packing import NO_MODEL, Shape, Tile
from nevis_stream.errors import BadInput

EACH = "flops_per_sample"  # in a model's provenance: the cost of a cell if many are asked at once
# entries of a model's provenance that may differ later: another machine measures another cost, and
# another file has more samples
FIRST_STAYS = (EACH, "file")
TILE = "model, state, plane, form, first, span, cells, ones, classes, offset, digest, made_by"


def numbers(db: sqlite3.Connection, table: str, ids: Sequence[str]) -> np.ndarray:
    """Returns int64[k], the rows of models or columns of samples with these ids, −1 for an unknown
    id.
    """
    places = np.full(len(ids), -1, np.int64)
    for start in range(0, len(ids), 50_000):
        part = json.dumps([str(text) for text in ids[start : start + 50_000]])
        rows = db.execute(
            f"SELECT j.key, t.number FROM json_each(?) j JOIN {table} t ON t.id = j.value", [part]
        ).fetchall()
        if rows:
            keys, values = np.array(rows, np.int64).T
            places[start + keys] = values
    return places


def chosen(
    db: sqlite3.Connection, table: str, wanted: Sequence[str] | np.ndarray | None
) -> np.ndarray:
    """Returns int64[k], the rows of the wanted models or the columns of the wanted samples.

    Args:
      db: an open transaction.
      table: "models" or "samples".
      wanted: ids, or integer rows or columns, or None for all.

    Raises:
      BadInput: the cache does not have an id or a number, or one occurs twice.
    """
    size = count(db, table)
    if wanted is None:
        return np.arange(size)
    if isinstance(wanted, str):
        raise BadInput(f"{table}: {wanted!r} is a single string; a list of ids is expected.")
    places = _numbers_or_ids(db, table, wanted, size)
    if len(places) and np.bincount(places).max() > 1:
        raise BadInput(f"{table}: one id occurs twice in the list.")
    return places


def _numbers_or_ids(db, table, wanted, size) -> np.ndarray:
    if len(wanted) and not isinstance(wanted[0], str):
        places = np.asarray(wanted)
        if places.ndim != 1 or not np.issubdtype(places.dtype, np.integer):
            raise BadInput(
                f"{table}: ids are strings and numbers are integers, not"
                f" {places.dtype}{list(places.shape)}."
            )
        if len(places) and (places.min() < 0 or places.max() >= size):
            raise BadInput(
                f"{table}: numbers from {places.min()} to {places.max()}; the cache has 0 to"
                f" {size - 1}."
            )
        return places.astype(np.int64)
    places = numbers(db, table, wanted)
    if len(places) and places.min() < 0:
        wrong = wanted[int(np.argmin(places))]
        known = [row[0] for row in db.execute(f"SELECT id FROM {table} LIMIT 10000")]
        near = difflib.get_close_matches(wrong, known, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        first = f"; the first is {known[0]!r}" if known else ""
        raise BadInput(
            f"unknown {table[:-1]} {wrong!r}.{hint} The cache has {size} {table}{first}."
        )
    return places


def count(db: sqlite3.Connection, table: str) -> int:
    """Returns the number of models or samples; they are numbered from 0."""
    return db.execute(f"SELECT coalesce(max(number) + 1, 0) FROM {table}").fetchone()[0]


def repeated(ids: Sequence[str]) -> str | None:
    """Returns the first id that occurs twice, or None."""
    if len(set(ids)) == len(ids):
        return None
    seen: set[str] = set()
    return next(text for text in ids if text in seen or seen.add(text))


def check_ids(table: str, ids: Sequence[str]) -> None:
    """Raises `BadInput` if an id occurs twice, is empty, is not a string, or contains NUL, at which
    SQLite's JSON ends a text.
    """
    if isinstance(ids, str):
        raise BadInput(f"{table}: {ids!r} is a single string; a list of ids is expected.")
    for text in ids:
        is_id = isinstance(text, str) and text and "\0" not in text
        if not is_id or not text.isascii() and text.encode(errors="ignore").decode() != text:
            raise BadInput(
                f"{table}: {text!r} is not an id; an id is valid Unicode, not empty, without NUL."
            )
    if (name := repeated(ids)) is not None:
        raise BadInput(f"{table}: {name!r} occurs twice in one list.")


def _batch_digest(ids: Iterable[str], provenance: str) -> bytes:
    """Returns the checksum of samples' ids and of their provenance, a JSON text."""
    total = hashlib.sha256(provenance.encode())
    for text in ids:
        total.update(b"\n" + text.encode())
    return total.digest()


def add_samples(
    db: sqlite3.Connection,
    ids: Sequence[str] | np.ndarray,
    provenances: Sequence[dict[str, Any] | None],
) -> np.ndarray:
    """Returns int64[k], the columns of these samples; new samples are added at the end.

    Args:
      db: the transaction.
      ids: k of them.
      provenances: of each sample, recorded for new samples: one with `low` and `high` has scores in
        that range, any other has outcomes. Neighbours of equal provenance are one entry of the
        index.

    Raises:
      BadInput: an id occurs twice, is empty or not a string; or a range is not valid, or differs
        from that of the sample in the cache.
    """
    ids = [str(sample) for sample in ids] if isinstance(ids, np.ndarray) else ids
    check_ids("samples", ids)
    runs = [(each, len(list(same))) for each, same in itertools.groupby(provenances)]
    sizes, places = [size for _, size in runs], numbers(db, "samples", ids)
    ends = np.repeat(np.reshape([value_range(each or {}) for each, _ in runs], (-1, 2)), sizes, 0)
    stated = np.repeat([each is not None for each, _ in runs], sizes)
    check_ranges(db, ids, np.where(stated, places, -1), ends.T)
    new = np.flatnonzero(places < 0)
    places[new] = count(db, "samples") + np.arange(len(new))
    db.executemany(
        "INSERT INTO samples VALUES (?, ?)",
        [(column, ids[i]) for i, column in zip(new.tolist(), places[new].tolist(), strict=True)],
    )
    for shared, group in itertools.groupby(new.tolist(), key=provenances.__getitem__):
        members, text = list(group), as_json(shared, "sample_provenance")
        digest = _batch_digest((ids[i] for i in members), text)
        db.execute(
            "INSERT INTO batches VALUES (?, ?, ?, ?)",
            [int(places[members[0]]), len(members), text, digest],
        )
    return places


def check_ranges(
    db: sqlite3.Connection, ids: Sequence[str], columns: np.ndarray, ends: np.ndarray
) -> None:
    """Raises `BadInput` if a sample of the cache has another range there.

    Args:
      db: an open transaction.
      ids: of k samples.
      columns: int64[k], −1 for new samples.
      ends: float64[2, k], the lower and upper ends of their ranges.
    """
    if not (columns >= 0).any():
        return
    stored = ranges(db)[:, np.maximum(columns, 0)]
    stored = np.where(np.isnan(stored), np.array(OUTCOME_RANGE)[:, None], stored)
    if len(other := np.flatnonzero((columns >= 0) & (stored != ends).any(axis=0))):
        k = other[0]
        raise BadInput(
            f"sample {ids[k]!r}: its range is {stored[0, k]:g} to {stored[1, k]:g} in this cache,"
            f" not {ends[0, k]:g} to {ends[1, k]:g} ({len(other)} such samples). State it in the"
            " file, or by --range=LOW,HIGH."
        )


def ranges(db: sqlite3.Connection) -> np.ndarray:
    """Returns float64[2, n], the lower and the upper end of each sample's scores; NaN for a sample
    with outcomes.
    """
    ends_by_sample = np.full((2, count(db, "samples")), np.nan)
    low, high = (f"json_extract(provenance, '$.{name}')" for name in RANGE)
    for first, size, *ends in db.execute(
        f"SELECT first, count, {low}, {high} FROM batches WHERE {low} IS NOT NULL"
    ):
        ends_by_sample[:, first : first + size] = np.array(ends)[:, None]
    return ends_by_sample


def has_scores(db: sqlite3.Connection) -> bool:
    """Returns whether any sample has scores instead of outcomes."""
    where = "json_extract(provenance, '$.low') IS NOT NULL"
    return db.execute(f"SELECT 1 FROM batches WHERE {where} LIMIT 1").fetchone() is not None


def add_model(db: sqlite3.Connection, model: str, provenance: dict[str, Any] | None) -> int:
    """Returns the row of a model, which is added if it is new; otherwise its provenance gains the
    entries that it lacks. Of `FIRST_STAYS` the first value stays.

    Raises:
      BadInput: the provenance contradicts that of the model in the cache.
    """
    new = json.loads(as_json(provenance, f"provenance of model {model!r}"))
    row = db.execute("SELECT number, provenance FROM models WHERE id = ?", [model]).fetchone()
    number, old = (count(db, "models"), {}) if row is None else (row[0], json.loads(row[1]))
    for key, value in new.items():
        if key not in FIRST_STAYS and old.get(key, value) != value:
            raise BadInput(
                f"model {model!r}: its provenance says {key} = {old[key]!r}, not {value!r}. Give a"
                " different model a different id."
            )
    if row is None or new.keys() - old.keys():
        text = as_json(new | old, model)
        db.execute("INSERT OR REPLACE INTO models VALUES (?, ?, ?)", [number, model, text])
        db.execute(CHECKS)
        digest = hashlib.sha256(text.encode()).digest()
        db.execute("INSERT OR REPLACE INTO checks VALUES (?, ?)", [number, digest])
    return number


def changed_models(db: sqlite3.Connection) -> dict[int, str]:
    """Returns rows and ids of models whose provenance has changed since it was written, or, in
    caches from before it had checksums, is not JSON.
    """
    wrong = unreadable(db, "models", "provenance")
    if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'checks'").fetchone():
        rows = db.execute(
            "SELECT number, provenance, digest FROM models JOIN checks ON model = number"
        )
        wrong |= {
            row for row, text, digest in rows if hashlib.sha256(text.encode()).digest() != digest
        }
    ids = names(db)
    return {row: ids[row] for row in sorted(wrong) if row < len(ids)}


def changed_samples(db: sqlite3.Connection, samples: list[str]) -> list[str]:
    """Returns a line for each batch of samples whose ids or provenance have changed."""
    lines, end = [], 0
    for first, size, text, digest in db.execute(
        "SELECT first, count, provenance, digest FROM batches ORDER BY first"
    ):
        if first != end or _batch_digest(samples[first : first + size], text) != digest:
            lines.append(
                f"samples {first}–{first + size - 1}: their ids or provenance are not what was"
                " written"
            )
        end = first + size
    if end != len(samples):
        lines.append(f"samples: {len(samples)} ids, {end} were written")
    return lines


def models(db: sqlite3.Connection) -> dict[str, dict[str, Any]]:
    """Returns provenance by model id, in the order of the rows."""
    return {
        name: json.loads(text)
        for name, text in db.execute("SELECT id, provenance FROM models ORDER BY number")
    }


def names(db: sqlite3.Connection) -> list[str]:
    """Returns the models' ids, in the order of the rows."""
    return [name for (name,) in db.execute("SELECT id FROM models ORDER BY number")]


def name_of(models: Sequence[str], row: int) -> str:
    """Returns the id of a tile's model; "" for a tile about samples only."""
    if row == NO_MODEL:
        return ""
    return models[row] if 0 <= row < len(models) else "(not in the index)"


def provenance(db: sqlite3.Connection, row: int) -> dict[str, Any]:
    """Returns the provenance of one model."""
    query = "SELECT provenance FROM models WHERE number = ?"
    return json.loads(db.execute(query, [row]).fetchone()[0])


def samples(db: sqlite3.Connection, columns: np.ndarray | None = None) -> list[str]:
    """Returns the samples' ids, in the order of the columns, or the ids of some int columns."""
    if columns is None:
        return [row[0] for row in db.execute("SELECT id FROM samples ORDER BY number")]
    query = "SELECT t.id FROM json_each(?) j JOIN samples t ON t.number = j.value ORDER BY j.key"
    return [row[0] for row in db.execute(query, [json.dumps(columns.tolist())])]


def batches(db: sqlite3.Connection) -> list[tuple[slice, dict[str, Any]]]:
    """Returns columns and provenance of the samples that were added together."""
    rows = db.execute("SELECT first, count, provenance FROM batches ORDER BY first")
    return [(slice(first, first + size), json.loads(text)) for first, size, text in rows]


def of_each(batches: Sequence[tuple[slice, dict[str, Any]]]) -> list[dict[str, Any]]:
    """Returns the provenance of each sample, given that of the samples added together."""
    return [each for columns, each in batches for _ in range(columns.start, columns.stop)]


def about(db: sqlite3.Connection) -> dict[str, Any]:
    """Returns what the cache is about."""
    return json.loads(db.execute("SELECT text FROM about").fetchone()[0])


def write_about(db: sqlite3.Connection, about: dict[str, Any]) -> None:
    """Changes what the cache is about."""
    db.execute("UPDATE about SET text = ?", [as_json(about, "about")])


def tiles(
    db: sqlite3.Connection,
    where: str = "1",
    values: Sequence[Any] = (),
    rows: np.ndarray | None = None,
) -> list[Tile]:
    """Returns the tiles of these rows (None: of all) that meet a condition, in the order in which
    they were written.
    """
    if rows is not None and len(rows) < count(db, "models"):
        where += " AND model IN (SELECT value FROM json_each(?))"
        values = [*values, json.dumps(rows.tolist())]
    rows = db.execute(f"SELECT number, {TILE} FROM tiles WHERE {where} ORDER BY number", values)
    return [
        Tile(number, Shape(*shape), offset, digest) for number, *shape, offset, digest, _ in rows
    ]


def end(db: sqlite3.Connection) -> int:
    """Returns the byte at which the last tile ends; bytes after it were never committed."""
    return db.execute("SELECT end FROM about").fetchone()[0]


def unreadable(db: sqlite3.Connection, table: str, column: str) -> set[int]:
    """Returns the numbers of a table's rows in which a string is not JSON."""
    query = f"SELECT rowid FROM {table} WHERE NOT json_valid({column})"
    return {number for (number,) in db.execute(query)}


def maker(db: sqlite3.Connection, tile: int) -> dict[str, Any]:
    """Returns what made a tile's predictions: method, budget, seed, …"""
    query = "SELECT made_by FROM tiles WHERE number = ?"
    return json.loads(db.execute(query, [tile]).fetchone()[0])
