"""Checks that a file is an index as this program makes it, before anything else of it is read.

SQLite computes what a file's schema asks for: a view may never end, a generated column may fill the
memory. And it keeps values of any type in any column. So the schema must be ours, word for word,
and numbers by which other code allocates memory must be integers within the file's own bounds. What
only some cells depend on is not checked here: `repair` copies the others.
"""

import contextlib
import functools
import sqlite3

from nevis_stream.evaluation_cache.index_schema import LATER_TABLES, SCHEMA

_MOST_OBJECTS = 100  # of a schema that are read; ours has 16
_LONGEST = 1 << 28  # bytes of a text; provenance is far shorter
_LARGEST = 1 << 60  # bytes of a file of cells


def problem(db: sqlite3.Connection) -> str:
    """Returns what is wrong with an index, or "".

    Args:
      db: a connection to it, outside a transaction; limits and settings of it are changed.

    Raises:
      sqlite3.Error, UnicodeDecodeError: it cannot be read.
    """
    db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST)
    db.execute("PRAGMA trusted_schema = OFF")
    db.execute("BEGIN")  # one instant, whatever other processes write
    try:
        return _schema_problem(db) or _value_problem(db)
    finally:
        db.execute("ROLLBACK")


def _schema_problem(db: sqlite3.Connection) -> str:
    there, ours = _objects(db), _our_objects()
    for (kind, name), text in there.items():
        if (kind, name) not in ours:
            return f"it has a {kind} {name!r}, which no evaluation cache has"
        if text != ours[kind, name]:
            return f"its {kind} {name!r} is not as this program makes it"
    missing = [name for kind, name in ours if (kind, name) not in there and name in _REQUIRED]
    return f"its table {missing[0]!r} is missing" if missing else ""


def _objects(db: sqlite3.Connection) -> dict[tuple[str, str], str]:
    """Returns the SQL of tables, indices, views and triggers by kind and name."""
    query = f"SELECT type, name, sql FROM sqlite_master LIMIT {_MOST_OBJECTS}"
    return {(kind, name): " ".join((sql or "").split()) for kind, name, sql in db.execute(query)}


_REQUIRED = ("about", "models", "samples", "batches", "tiles")  # later versions added the others


@functools.cache
def _our_objects() -> dict[tuple[str, str], str]:
    with contextlib.closing(sqlite3.connect(":memory:")) as db:
        db.executescript(";".join([SCHEMA, *LATER_TABLES]))
        return _objects(db)


def _value_problem(db: sqlite3.Connection) -> str:
    is_sound = f"typeof(text) = 'text' AND typeof(end) = 'integer' AND end BETWEEN 0 AND {_LARGEST}"
    if db.execute(f"SELECT count(*), total({is_sound}) FROM about").fetchone() != (1, 1):
        return "what it says of itself, and of the end of the cells, is not a text and a number"
    size = {}
    for table in ("models", "samples"):
        # SQLite sorts by type, so that the ends of an index tell the types of all
        parts = ("count(*)", "min(number)", "max(number)", "typeof(min(id))", "typeof(max(id))")
        columns = ", ".join(f"(SELECT {part} FROM {table})" for part in parts)
        count, first, last, *types = db.execute(f"SELECT {columns}").fetchone()
        if types != ["text", "text"] and count:
            return f"{table}: not all ids are texts"
        first, last = (0, -1) if last is None else (first, last)
        if first or last != count - 1:
            return f"{table}: {count} ids, {last + 1} were written"
        size[table] = count
    total, wrong = db.execute(
        "SELECT total(count), total(typeof(count) <> 'integer' OR count < 1 OR first < 0"
        " OR first + count > ? OR typeof(provenance) <> 'text') FROM batches",
        [size["samples"]],
    ).fetchone()
    if wrong or total != size["samples"]:
        return "samples: their ids or provenance are not what was written"
    if ("table", "text_checks") in _objects(db) and (
        db.execute("SELECT 1 FROM text_checks WHERE typeof(number) <> 'integer' LIMIT 1").fetchone()
    ):
        return "its checksums of texts have no numbers"
    return ""
