"""Texts of an evaluation cache's index that have checksums: what the cache is about, what made its
predictions, and what imports understood.
"""

import math
import sqlite3
from collections.abc import Container, Iterable
from typing import Any

from nevis_stream.evaluation_cache.imported import Imported
from nevis_stream.evaluation_cache.index import (
    Unsound,
    add_text_check,
    as_json,
    has_table,
    json_object,
    text_digest,
    unreadable,
)
from nevis_stream.evaluation_cache.index_schema import IMPORTS
from nevis_stream.evaluation_cache.packing import OBSERVED

NO_MAKER = "{}"


def about(db: sqlite3.Connection) -> dict[str, Any]:
    """Returns what the cache is about."""
    values = json_object(db.execute("SELECT text FROM about").fetchone()[0])
    weights = values.get("dataset_weights", {})
    if not isinstance(weights, dict) or not all(
        isinstance(weight, int | float) and weight > 0 for weight in weights.values()
    ):
        raise Unsound(f"it has {str(weights)[:50]} as weights of data sets")
    return values


def write_about(db: sqlite3.Connection, about: dict[str, Any]) -> None:
    """Changes what the cache is about."""
    text = as_json(about, "about")
    db.execute("UPDATE about SET text = ?", [text])
    add_text_check(db, "about", 0, text)


def changed_about(db: sqlite3.Connection) -> bool:
    """Returns whether what the cache is about has changed since it was written."""
    digest = text_checks(db, "about").get(0)
    text = db.execute("SELECT text FROM about").fetchone()[0]
    return bool(unreadable(db, "about", "text")) or digest not in (None, text_digest(text))


def changed_makers(db: sqlite3.Connection) -> set[int]:
    """Returns the numbers of tiles of which what made them has changed since it was written.

    Only predictions have a maker, and its checksum; those of earlier versions have none.
    """
    digests = text_checks(db, "tiles")
    wrong, first = unreadable(db, "tiles", "made_by"), min(digests, default=math.inf)
    for number, state, text in db.execute("SELECT number, state, made_by FROM tiles"):
        if state == OBSERVED:
            is_same = text == NO_MAKER
        else:
            is_same = number < first or digests.get(number) == text_digest(text)
        wrong |= set() if is_same else {number}
    return wrong


def text_checks(db: sqlite3.Connection, of: str) -> dict[int, bytes]:
    """Returns the checksums of texts of one kind by number; old caches have none."""
    if not has_table(db, "text_checks"):
        return {}
    query = "SELECT number, digest FROM text_checks WHERE of = ?"
    return dict(db.execute(query, [of]).fetchall())


def imports(db: sqlite3.Connection, without: Container[int] = ()) -> list[Imported]:
    """Returns what the imports into this cache understood, in their order, but for some of them, by
    number from 0.
    """
    if not has_table(db, "imports"):
        return []
    rows = db.execute("SELECT text FROM imports ORDER BY number")
    return [Imported.from_text(text) for k, (text,) in enumerate(rows) if k not in without]


def add_imports(db: sqlite3.Connection, records: Iterable[Imported]) -> None:
    """Records what imports understood; a repeated one is recorded once."""
    for text in (record.to_text() for record in records):
        db.execute(IMPORTS)
        if not db.execute("SELECT 1 FROM imports WHERE text = ?", [text]).fetchone():
            digest = text_digest(text)
            db.execute("INSERT INTO imports (text, digest) VALUES (?, ?)", [text, digest])


def changed_imports(db: sqlite3.Connection) -> dict[int, str]:
    """Returns a line for each record of an import that has changed since it was written, by its
    number, from 0.
    """
    if not has_table(db, "imports"):
        return {}
    rows = db.execute("SELECT text, digest FROM imports ORDER BY number")
    return {
        k: f"import {k}: the record of what was understood has changed since it was written"
        for k, (text, digest) in enumerate(rows)
        if text_digest(text) != digest
    }
