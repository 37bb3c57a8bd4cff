"""The entries of an evaluation cache's index: models (rows), samples (columns) and tiles."""

import difflib
import hashlib
import itertools
import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any

import numpy as np

from nevis_stream.errors import BadInput
from nevis_stream.evaluation_cache import identity
from nevis_stream.evaluation_cache.facts import (
    HASH,
    METRIC,
    RANGE,
    RUN,
    find_repeat,
    name_run,
    read_range,
    select_used_weights,
)
from nevis_stream.evaluation_cache.index import (
    HASH_TABLE,
    MODEL_CHECKS,
    TWO_PLANES_VERSION,
    Unsound,
    digest_text,
    dump_object,
    find_unreadable,
    has_table,
    parse_object,
    raise_version,
)
from nevis_stream.evaluation_cache.packing import NO_MODEL, Shape, Tile

# in a model's provenance: the cost of a cell if many are asked at once
FLOPS_PER_SAMPLE = "flops_per_sample"
CHECKPOINT = "checkpoint"  # in a model's provenance: its path, from the cache
# entries of a model's provenance that keep their first value: another machine measures another
# cost, another file has more samples, and a copy of the cache may be elsewhere
FIRST_VALUE_STAYS = (FLOPS_PER_SAMPLE, "file", CHECKPOINT)
# all but the number, in the order in which `Shape` and `Tile` have them
TILE_COLUMNS = (
    "model, state, plane, form, first, span, cells, ones, classes, offset, digest, made_by"
)


def find_numbers(db: sqlite3.Connection, table: str, ids: Sequence[str]) -> np.ndarray:
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


def choose(
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
    places = _resolve(db, table, wanted, size)
    if len(places) and np.bincount(places).max() > 1:
        raise BadInput(f"{table}: one id occurs twice in the list.")
    return places


def _resolve(db, table, wanted, size) -> np.ndarray:
    """Returns int64[k], the rows or columns that ids or numbers mean; the table has `size`."""
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
    places = find_numbers(db, table, wanted)
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
    """Returns the number of models or samples: `table`; they are numbered from 0."""
    return db.execute(f"SELECT coalesce(max(number) + 1, 0) FROM {table}").fetchone()[0]


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
    if (name := find_repeat(ids)) is not None:
        raise BadInput(f"{table}: {name!r} occurs twice in one list.")


def _digest_batch(ids: Iterable[str], provenance: str) -> bytes:
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
        that range, any other has outcomes; `hash` is of its content. Neighbours of equal provenance
        are one entry of the index. A sample of the cache gains metric, direction and hash.

    Raises:
      BadInput: an id occurs twice, is empty or not a string; or a range is not valid; or what
        identifies a sample differs from that in the cache (see `identity`); or the data sets of the
        cache have weights, and that of a new sample has none.
    """
    if isinstance(ids, np.ndarray):
        ids = [str(sample) for sample in ids]
    check_ids("samples", ids)
    for each, _ in itertools.groupby(provenances):
        read_range(each or {})  # a wrong range is refused
    missing, places = compare_samples(db, ids, provenances), find_numbers(db, "samples", ids)
    stated = _without_hashes(provenances)
    scored = any(RANGE[0] in (each or {}) for each, _ in itertools.groupby(stated))
    if missing.keys() & {"metric", "direction"} or scored:
        old = np.flatnonzero(places >= 0)
        _add_facts(db, places[old], [stated[k] for k in old])
    new = np.flatnonzero(places < 0).tolist()
    places[new] = count(db, "samples") + np.arange(len(new))
    new_ids = [ids[k] for k in new]
    rows = zip(places[new].tolist(), new_ids, strict=True)
    db.executemany("INSERT INTO samples VALUES (?, ?)", rows)
    _write_batches(db, new_ids, [stated[k] for k in new], places[new].tolist())
    _add_hashes(db, ids, places, provenances)
    about = parse_object(db.execute("SELECT text FROM about").fetchone()[0])
    if new and (weights := about.get("dataset_weights")):  # else nothing of the cache is read
        select_used_weights(weights, [each for _, each in read_batches(db)])
    return places


def _without_hashes(provenances):
    """Returns provenances without hashes, which are stored apart, so that neighbours stay equal."""
    return [
        {name: value for name, value in each.items() if name != HASH}
        if each and HASH in each
        else each
        for each in provenances
    ]


def compare_samples(
    db: sqlite3.Connection,
    ids: Sequence[str],
    provenances: Sequence[dict[str, Any] | None],
    place: Callable[[str], str] = lambda sample: "",
) -> Counter[str]:
    """Compares samples with those of the cache that have their ids; arguments, result and errors as
    of `identity.compare_samples`.
    """
    columns = find_numbers(db, "samples", ids)
    return identity.compare_samples(
        ids, columns, read_batches(db), read_hashes(db), provenances, place
    )


def find_names(
    db: sqlite3.Connection, ids: Sequence[str], provenances: Sequence[dict[str, Any]]
) -> list[str]:
    """Returns the ids under which the cache has samples, given their ids in a file; see
    `identity.match_names`.
    """
    if not any(METRIC in each for each in provenances):
        return list(ids)
    metrics = [str(each.get(METRIC) or "") for each in spread_provenance(read_batches(db))]
    in_cache = dict(zip(list_samples(db), metrics, strict=True))
    return identity.match_names(ids, provenances, in_cache)


def read_hashes(db: sqlite3.Connection, without: Container[int] = ()) -> dict[int, str]:
    """Returns the hash of the content of samples, by column, where the cache has it; columns in
    `without` are left out.
    """
    if not has_table(db, "contents"):
        return {}
    rows = db.execute("SELECT sample, hash FROM contents ORDER BY sample").fetchall()
    found = {column: text for column, text in rows if column not in without}
    for column in (min(found, default=0), max(found, default=0)):
        if found and not 0 <= column < count(db, "samples"):
            raise Unsound(f"a hash of the unknown sample {column}")
    if not all(isinstance(text, str) for text in found.values()):
        raise Unsound("a hash is not a text")
    return found


def _add_hashes(db: sqlite3.Connection, ids, places: np.ndarray, provenances) -> None:
    """Records hashes of samples that have none yet."""
    rows = [
        (int(column), text, _digest_hash(sample, text))
        for sample, column, each in zip(ids, places, provenances, strict=True)
        if (text := str((each or {}).get(HASH) or ""))
    ]
    if rows:
        db.execute(HASH_TABLE)
        db.executemany("INSERT OR IGNORE INTO contents VALUES (?, ?, ?)", rows)


def _digest_hash(sample: str, text: str) -> bytes:
    return hashlib.sha256(f"{sample}\n{text}".encode()).digest()


def find_changed_hashes(db: sqlite3.Connection, samples: Sequence[str]) -> dict[int, str]:
    """Returns a line, by column, for each sample whose recorded hash has changed."""
    if not has_table(db, "contents"):
        return {}
    lines = {}
    for column, text, digest in db.execute("SELECT sample, hash, digest FROM contents"):
        name = samples[column] if 0 <= column < len(samples) else "(not in the index)"
        if _digest_hash(name, text) != digest:
            lines[column] = f"sample {name!r}: the hash of its content has changed"
    return lines


def _add_facts(db: sqlite3.Connection, columns: np.ndarray, provenances) -> None:
    """Adds facts to the provenance of samples of the cache which did not state them before."""
    each = spread_provenance(read_batches(db))
    gained: set[str] = set()
    for column, new in zip(columns.tolist(), provenances, strict=True):
        if column < len(each) and new and (facts := identity.find_gained_facts(each[column], new)):
            each[column] = each[column] | facts
            gained |= facts.keys()
    if RANGE[0] in gained:  # values of these samples are in two planes
        raise_version(db, TWO_PLANES_VERSION)
    if gained:
        db.execute("DELETE FROM batches")
        _write_batches(db, list_samples(db), each, list(range(len(each))))


def _write_batches(db: sqlite3.Connection, ids, provenances, columns: Sequence[int]) -> None:
    """Writes the provenance of samples, neighbours of equal provenance together.

    Args:
      db: the transaction.
      ids, provenances: of k samples.
      columns: of these.
    """
    start = 0
    for shared, group in itertools.groupby(provenances):
        size, text = len(list(group)), dump_object(shared, "sample_provenance")
        digest = _digest_batch(ids[start : start + size], text)
        batch = [int(columns[start]), size, text, digest]
        db.execute("INSERT INTO batches VALUES (?, ?, ?, ?)", batch)
        start += size


def read_ranges(db: sqlite3.Connection) -> np.ndarray:
    """Returns float64[2, n], the lower and the upper end of each sample's scores; NaN for a sample
    with outcomes.
    """
    ends_by_sample = np.full((2, count(db, "samples")), np.nan)
    for columns, each in read_batches(db):
        if RANGE[0] in each:
            ends_by_sample[:, columns] = np.array(read_range(each))[:, None]
    return ends_by_sample


def has_scores(db: sqlite3.Connection) -> bool:
    """Returns whether any sample has scores instead of outcomes."""
    where = "json_extract(provenance, '$.low') IS NOT NULL"
    return db.execute(f"SELECT 1 FROM batches WHERE {where} LIMIT 1").fetchone() is not None


def add_model(db: sqlite3.Connection, model: str, provenance: dict[str, Any] | None) -> int:
    """Returns the row of a model, which is added if it is new; otherwise its provenance gains the
    entries that it lacks. Of `FIRST_VALUE_STAYS` the first value stays.

    Raises:
      BadInput: the provenance contradicts that of the model in the cache.
    """
    new = json.loads(dump_object(provenance, f"provenance of model {model!r}"))
    row = db.execute("SELECT number, provenance FROM models WHERE id = ?", [model]).fetchone()
    number, old = (count(db, "models"), {}) if row is None else (row[0], parse_object(row[1]))
    gained = False
    if identity.TASKS in new or identity.TASKS in old:
        tasks = identity.merge_tasks(model, old, new)
        gained = tasks != old.get(identity.TASKS, {})
        old[identity.TASKS] = new[identity.TASKS] = tasks
    for key, value in new.items():
        known = old.get(key, value)
        is_same = known == value or key == RUN and name_run(str(known)) == name_run(str(value))
        if key not in FIRST_VALUE_STAYS and not is_same:
            raise BadInput(
                f"model {model!r}: its provenance says {key} = {old[key]!r}, not {value!r}. Give a"
                " different model a different id."
            )
    if row is None or gained or new.keys() - old.keys():
        text = dump_object(new | old, model)
        db.execute("INSERT OR REPLACE INTO models VALUES (?, ?, ?)", [number, model, text])
        db.execute(MODEL_CHECKS)
        digest = hashlib.sha256(text.encode()).digest()
        db.execute("INSERT OR REPLACE INTO checks VALUES (?, ?)", [number, digest])
    return number


def find_changed_models(db: sqlite3.Connection) -> dict[int, str]:
    """Returns rows and ids of models whose provenance has changed since it was written, or, in
    caches from before it had checksums, is not JSON.
    """
    wrong = find_unreadable(db, "models", "provenance")
    if has_table(db, "checks"):
        rows = db.execute(
            "SELECT number, provenance, digest FROM models JOIN checks ON model = number"
        )
        wrong |= {row for row, text, digest in rows if digest_text(text) != digest}
    ids = list_models(db)
    return {row: ids[row] for row in sorted(wrong) if row < len(ids)}


def find_changed_samples(db: sqlite3.Connection, samples: list[str]) -> list[str]:
    """Returns a line for each batch of samples whose ids or provenance have changed."""
    lines, end = [], 0
    for first, size, text, digest in db.execute(
        "SELECT first, count, provenance, digest FROM batches ORDER BY first"
    ):
        if first != end or _digest_batch(samples[first : first + size], text) != digest:
            lines.append(
                f"samples {first}–{first + size - 1}: their ids or provenance are not what was"
                " written"
            )
        end = first + size
    if end != len(samples):
        lines.append(f"samples: {len(samples)} ids, {end} were written")
    return lines


def read_models(db: sqlite3.Connection) -> dict[str, dict[str, Any]]:
    """Returns provenance by model id, in the order of the rows."""
    return {
        name: parse_object(text)
        for name, text in db.execute("SELECT id, provenance FROM models ORDER BY number")
    }


def list_models(db: sqlite3.Connection) -> list[str]:
    """Returns the models' ids, in the order of the rows."""
    return [name for (name,) in db.execute("SELECT id FROM models ORDER BY number")]


def find_model_id(models: Sequence[str], row: int) -> str:
    """Returns the id of a tile's model; "" for a tile about samples only."""
    if row == NO_MODEL:
        return ""
    return models[row] if 0 <= row < len(models) else "(not in the index)"


def read_provenance(db: sqlite3.Connection, row: int) -> dict[str, Any]:
    """Returns the provenance of one model."""
    query = "SELECT provenance FROM models WHERE number = ?"
    return parse_object(db.execute(query, [row]).fetchone()[0])


def list_samples(db: sqlite3.Connection, columns: np.ndarray | None = None) -> list[str]:
    """Returns the samples' ids, in the order of the columns, or the ids of some int columns."""
    if columns is None:
        return [row[0] for row in db.execute("SELECT id FROM samples ORDER BY number")]
    query = "SELECT t.id FROM json_each(?) j JOIN samples t ON t.number = j.value ORDER BY j.key"
    return [row[0] for row in db.execute(query, [json.dumps(columns.tolist())])]


def read_batches(db: sqlite3.Connection) -> list[tuple[slice, dict[str, Any]]]:
    """Returns the columns and the provenance of each group of neighbouring samples that were added
    with equal provenance, without hashes.
    """
    rows = db.execute("SELECT first, count, provenance FROM batches ORDER BY first")
    found = [(slice(first, first + size), parse_object(text)) for first, size, text in rows]
    for _, each in found:
        try:
            read_range(each)
        except BadInput as error:
            raise Unsound(str(error)) from None
    return found


def list_provenances(
    db: sqlite3.Connection, without_hashes: Container[int] = ()
) -> list[dict[str, Any]]:
    """Returns the provenance of each sample, with the hash of its content where it is known and its
    column is not in `without_hashes`.
    """
    each = spread_provenance(read_batches(db))
    for column, text in read_hashes(db, without_hashes).items():
        each[column] = each[column] | {HASH: text}
    return each


def spread_provenance(batches: Sequence[tuple[slice, dict[str, Any]]]) -> list[dict[str, Any]]:
    """Returns the provenance of each sample, given the result of `read_batches`."""
    return [each for columns, each in batches for _ in range(columns.start, columns.stop)]


def list_tiles(
    db: sqlite3.Connection,
    where: str = "1",
    values: Sequence[Any] = (),
    rows: np.ndarray | None = None,
    checked: bool = True,
) -> list[Tile]:
    """Returns the tiles that meet a condition, in the order in which they were written.

    Args:
      db: an open transaction.
      where, values: the condition in SQL, and the values of its question marks.
      rows: int64, of the models whose tiles are wanted; None: of all models, and of none.
      checked: whether a tile in an impossible place is an error.

    Raises:
      Unsound: one of them is in an impossible place.
    """
    if rows is not None and len(rows) < count(db, "models"):
        where += " AND model IN (SELECT value FROM json_each(?))"
        values = [*values, json.dumps(rows.tolist())]
    rows = db.execute(
        f"SELECT number, {TILE_COLUMNS} FROM tiles WHERE {where} ORDER BY number", values
    )
    found = [
        Tile(number, Shape(*shape), offset, digest) for number, *shape, offset, digest, _ in rows
    ]
    bounds = count(db, "models"), count(db, "samples"), read_end(db)
    for tile in found if checked else ():
        if fault := tile.find_fault(*bounds):
            raise Unsound(f"tile {tile.number}: {fault}")
    return found


def read_end(db: sqlite3.Connection) -> int:
    """Returns the byte at which the last tile ends; bytes after it were never committed."""
    return db.execute("SELECT end FROM about").fetchone()[0]


def read_origin(db: sqlite3.Connection, tile: int) -> dict[str, Any]:
    """Returns what made a tile's predictions: method, budget, seed, …"""
    query = "SELECT made_by FROM tiles WHERE number = ?"
    return parse_object(db.execute(query, [tile]).fetchone()[0])
