"""The index of an evaluation cache: models, samples, and which tile has which cells, in SQLite.

Its write transaction is the only lock between writers, and a tile counts from its commit on.
SQLite's write-ahead log needs memory that the processes share, so all of them must run on one
machine.

A file is checked to be an index as this program makes it, before anything else of it is read.
SQLite computes what a file's schema asks for: a view may never end, a generated column may fill the
memory. And it keeps values of any type in any column. So the schema must be ours, word for word,
and numbers by which other code allocates memory must be integers within the file's own bounds.
Damage that concerns only some cells is not looked for here: `repair` copies the other cells.
"""

import contextlib
import functools
import hashlib
import json
import os
import sqlite3
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from nevis_stream.errors import BadInput, DamagedCache, RunLocked, StorageFull
from nevis_stream.queries.session_log import SETTINGS
from nevis_stream.storage import make_temporary, remove_abandoned, sync_directory
from nevis_stream.storage.reading import check_range_locks, clear_creation, parse_json

SCHEMA = """
CREATE TABLE about (only INTEGER PRIMARY KEY CHECK (only = 0), text TEXT NOT NULL, end INTEGER NOT NULL);
CREATE TABLE models (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, provenance TEXT NOT NULL);
CREATE TABLE samples (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE);
CREATE TABLE batches (first INTEGER PRIMARY KEY, count INTEGER NOT NULL, provenance TEXT NOT NULL, digest BLOB NOT NULL);
CREATE TABLE tiles (
  number INTEGER PRIMARY KEY AUTOINCREMENT, model INTEGER NOT NULL, state TEXT NOT NULL, plane TEXT NOT NULL,
  form TEXT NOT NULL, first INTEGER NOT NULL, span INTEGER NOT NULL, cells INTEGER NOT NULL, ones INTEGER NOT NULL,
  classes INTEGER NOT NULL, offset INTEGER NOT NULL, digest BLOB NOT NULL, made_by TEXT NOT NULL);
CREATE INDEX tiles_of_a_row ON tiles (model, state, plane);
"""  # noqa: E501
# tables that older caches lack; first the hashes of samples' contents
HASH_TABLE = (
    "CREATE TABLE IF NOT EXISTS contents (sample INTEGER PRIMARY KEY, hash TEXT NOT NULL,"
    " digest BLOB NOT NULL)"
)
# tables of records (see `records`) by name
RECORDS = {
    name: f"CREATE TABLE IF NOT EXISTS {name} (number INTEGER PRIMARY KEY, text TEXT NOT NULL,"
    " digest BLOB NOT NULL)"
    for name in ("imports", "errata")
}
# checksums of models' provenance
MODEL_CHECKS = "CREATE TABLE IF NOT EXISTS checks (model INTEGER PRIMARY KEY, digest BLOB NOT NULL)"
# checksums of what the cache is about ("about", 0) and of what made a tile ("tiles", its number)
TEXT_CHECKS = (
    "CREATE TABLE IF NOT EXISTS text_checks (of TEXT NOT NULL, number INTEGER NOT NULL,"
    " digest BLOB NOT NULL, PRIMARY KEY (of, number))"
)
LATER_TABLES = (HASH_TABLE, *RECORDS.values(), MODEL_CHECKS, TEXT_CHECKS)


_MOST_OBJECTS = 100  # tables and indices of a schema that are read; ours has 16
_LONGEST = 1 << 28  # bytes of a text; provenance is far shorter
_LARGEST = 1 << 60  # bytes of a file of cells


def find_problem(db: sqlite3.Connection) -> str:
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
        return _find_schema_problem(db) or _find_value_problem(db)
    finally:
        db.execute("ROLLBACK")


def _find_schema_problem(db: sqlite3.Connection) -> str:
    found, ours = _list_objects(db), _list_our_objects()
    for (kind, name), text in found.items():
        if (kind, name) not in ours:
            return f"it has a {kind} {name!r}, which no evaluation cache has"
        if text != ours[kind, name]:
            return f"its {kind} {name!r} is not as this program makes it"
    missing = [name for kind, name in ours if (kind, name) not in found and name in _REQUIRED]
    return f"its table {missing[0]!r} is missing" if missing else ""


def _list_objects(db: sqlite3.Connection) -> dict[tuple[str, str], str]:
    """Returns the SQL of tables, indices, views and triggers by kind and name."""
    query = f"SELECT type, name, sql FROM sqlite_master LIMIT {_MOST_OBJECTS}"
    return {(kind, name): " ".join((sql or "").split()) for kind, name, sql in db.execute(query)}


_REQUIRED = ("about", "models", "samples", "batches", "tiles")  # later versions added the others


@functools.cache
def _list_our_objects() -> dict[tuple[str, str], str]:
    with contextlib.closing(sqlite3.connect(":memory:")) as db:
        db.executescript(";".join([SCHEMA, *LATER_TABLES]))
        return _list_objects(db)


def _find_value_problem(db: sqlite3.Connection) -> str:
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
    if ("table", "text_checks") in _list_objects(db) and (
        db.execute("SELECT 1 FROM text_checks WHERE typeof(number) <> 'integer' LIMIT 1").fetchone()
    ):
        return "its checksums of texts have no numbers"
    return ""


INDEX = "index.sqlite"
CELLS = "cells.bin"  # the file of tiles, beside the index
BOARD = "board"  # the name of a session's copy of a cache
READABLE = (1, 2, 3)
LATER_PLANES_VERSION = 2  # a cache of version 1 has no scores and no features
# a sample may have outcomes and scores, and cells may be removed and amended: a program that does
# not know this would read or write them wrongly
TWO_PLANES_VERSION = ERRATA_VERSION = 3
_APPLICATION = 0x4E455653
_WAIT = 300.0  # seconds for other writers' transactions
BEYOND_REPAIR = (
    "This cannot be repaired: only the index says which model and sample a cell belongs to. Import"
    " the runs and files again, into a new directory."
)


def advise_repair(directory: Path) -> str:
    """Returns how to continue with a damaged cache, as a sentence of an error message."""
    return (
        f"Copy the undamaged parts: python -m launch.evaluate repair --cache={directory}"
        " --out=NEW_DIR"
    )


def refuse_copy(directory: Path) -> None:
    """Refuses to change a session's copy of a cache, on which its estimates rest.

    Raises:
      BadInput: the directory is one, of a session that has begun.
    """
    place = directory.resolve()
    if place.name == BOARD and (place.parent / SETTINGS).is_file():
        raise BadInput(
            f"{directory}: is the copy of a session, which stays as it is. Change the cache that it"
            " was copied from; of corrections there the session says so."
        )


class Unsound(ValueError):
    """Something in an index is not as it was written; an open transaction adds where and what to
    do.
    """


class Index:
    """Reads and changes the index; any number of processes and threads may do so at a time."""

    def __init__(self, path: Path):
        self.path = path
        # by process and thread: the file's inode, and the connection to it
        self._connections: dict[tuple[int, int], tuple[int, sqlite3.Connection]] = {}

    def __reduce__(self):
        return Index, (self.path,)

    @classmethod
    def create(cls, path: Path, about: dict[str, Any]) -> None:
        """Makes an empty index in one step; if another process has just made one, that one
        stays.
        """
        refuse_copy(path.parent)
        with clear_creation(path), make_temporary(path) as new:
            cls._write_empty(new, about)
            with contextlib.suppress(FileExistsError):
                os.link(new, path)
            sync_directory(path.parent)

    @staticmethod
    def _write_empty(path: Path, about: dict[str, Any]) -> None:
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
            # the whole file is synced before it gets its name
            connection.execute("PRAGMA synchronous = OFF")
            connection.executescript(f"BEGIN; {SCHEMA} COMMIT")
            text = dump_object(about, "about")
            connection.execute("INSERT INTO about VALUES (0, ?, 0)", [text])
            add_text_check(connection, "about", 0, text)
            connection.execute(f"PRAGMA application_id = {_APPLICATION}")
            connection.execute(f"PRAGMA user_version = {READABLE[0]}")
            connection.execute("PRAGMA journal_mode = WAL")
        with open(path, "rb") as file:
            os.fsync(file.fileno())

    def _connect(self) -> sqlite3.Connection:
        # SQLite forbids the use of a parent process's connection
        owner = os.getpid(), threading.get_ident()
        try:
            status = os.stat(self.path)
        except FileNotFoundError:
            raise BadInput(
                f"{self.path}: does not exist; is this the directory of an evaluation cache?"
            ) from None
        if not stat.S_ISREG(status.st_mode):
            raise DamagedCache(f"{self.path}: is not a regular file. {BEYOND_REPAIR}")
        inode = status.st_ino
        if owner in self._connections and self._connections[owner][0] == inode:
            return self._connections[owner][1]
        address = self.path.resolve().as_uri()
        if (
            not os.access(self.path.parent, os.W_OK)
            and not self.path.with_name(f"{self.path.name}-wal").exists()
        ):
            # the files of the log cannot be made, and no process can write
            address += "?immutable=1"
        check_range_locks(self.path.with_name(CELLS))
        connection = sqlite3.connect(
            address, isolation_level=None, timeout=_WAIT, check_same_thread=False, uri=True
        )
        application, version = (
            connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("application_id", "user_version")
        )
        if application != _APPLICATION:
            raise BadInput(f"{self.path}: is a database, but not of an evaluation cache.")
        if version not in READABLE:
            raise BadInput(
                f"{self.path}: has schema version {version}; this program reads versions 1 to"
                f" {READABLE[-1]}."
            )
        if problem := find_problem(connection):
            raise DamagedCache(f"{self.path}: {problem}. {BEYOND_REPAIR}")
        connection.execute("PRAGMA synchronous = FULL")
        self._connections[owner] = inode, connection
        return connection

    @contextlib.contextmanager
    def _transaction(self, first_statement: str) -> Iterator[sqlite3.Connection]:
        try:
            connection = self._connect()
            connection.execute(first_statement)
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", None) or 0  # Python's own errors have none
            if code == sqlite3.SQLITE_FULL:
                raise StorageFull(
                    f"{self.path}: the disk is full; everything written before is safe."
                ) from error
            if code & 255 in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
                raise BadInput(f"{self.path}: cannot be written ({error}).") from error
            if code == sqlite3.SQLITE_BUSY:
                raise RunLocked(
                    f"{self.path}: other processes have been writing for {_WAIT:.0f} s; nothing was"
                    " changed."
                ) from error
            if code & 255 == sqlite3.SQLITE_IOERR:
                raise BadInput(
                    f"{self.path}: its drive reports an error ({error}); everything written before"
                    " is kept. Check the drive, then start the same command again."
                ) from error
            if code & 255 in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                raise DamagedCache(f"{self.path}: {error}. {BEYOND_REPAIR}") from error
            advice = advise_repair(self.path.parent)
            raise DamagedCache(f"{self.path}: {error}. {advice}") from error
        except UnicodeDecodeError as error:  # in the names of tables
            raise DamagedCache(f"{self.path}: {error}. {BEYOND_REPAIR}") from error
        except Unsound as error:
            advice = advise_repair(self.path.parent)
            raise DamagedCache(f"{self.path}: {error}. {advice}") from error

    def reading(self) -> contextlib.AbstractContextManager[sqlite3.Connection]:
        """Gives the `with` block one consistent view of the index, without waiting for writers."""
        return self._transaction("BEGIN")

    def writing(self) -> contextlib.AbstractContextManager[sqlite3.Connection]:
        """Gives the `with` block the writers' lock; its changes count together, at its end, or not
        at all. A session's copy is refused.
        """
        refuse_copy(self.path.parent)
        # a power cut may keep both names of an index that was just made
        remove_abandoned(self.path.parent)
        return self._transaction("BEGIN IMMEDIATE")


def raise_version(db: sqlite3.Connection, version: int) -> None:
    """Sets the version of the index, within a transaction, unless it has a later one."""
    if db.execute("PRAGMA user_version").fetchone()[0] < version:
        db.execute(f"PRAGMA user_version = {version}")


def add_text_check(db: sqlite3.Connection, of: str, number: int, text: str) -> None:
    """Records the checksum of a text of the index, in place of an older one; `of` and `number` as
    in `TEXT_CHECKS`.
    """
    db.execute(TEXT_CHECKS)
    values = [of, number, digest_text(text)]
    db.execute("INSERT OR REPLACE INTO text_checks VALUES (?, ?, ?)", values)


def digest_text(text: Any) -> bytes:
    """Returns the checksum of a text of the index, or of what damage put in its place."""
    return hashlib.sha256(str(text).encode(errors="surrogateescape")).digest()


def has_table(db: sqlite3.Connection, name: str) -> bool:
    """Returns whether the index has a table; older caches lack some."""
    query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
    return db.execute(query, [name]).fetchone() is not None


def find_unreadable(db: sqlite3.Connection, table: str, column: str) -> set[int]:
    """Returns the numbers of a table's rows in which the text of a column is not JSON."""
    query = f"SELECT rowid FROM {table} WHERE NOT json_valid({column})"
    return {number for (number,) in db.execute(query)}


def parse_object(text: str) -> dict[str, Any]:
    """Returns the JSON object of a text.

    Raises:
      Unsound: it is not one.
    """
    try:
        value = parse_json(text)
    except (TypeError, ValueError) as error:
        raise Unsound(f"it contains a string that is not JSON ({error})") from None
    if not isinstance(value, dict):
        raise Unsound(f"it contains a {type(value).__name__} where a JSON object is expected")
    return value


@contextlib.contextmanager
def decode_leniently(db: sqlite3.Connection) -> Iterator[None]:
    """Lets the `with` block read damaged texts without an error, so that their checksums tell."""
    strict, db.text_factory = db.text_factory, lambda text: text.decode(errors="replace")
    try:
        yield
    finally:
        db.text_factory = strict


def dump_object(value: dict[str, Any] | None, name: str) -> str:
    """Returns a JSON object as text, "{}" for None; `name` is what error messages call it."""
    try:
        if isinstance(value or {}, dict):
            return json.dumps(value or {}, sort_keys=True, allow_nan=False, default=_convert_scalar)
        reason = f"is a {type(value).__name__}"
    except (TypeError, ValueError) as error:
        reason = str(error)
    raise BadInput(f"{name}: must be a dict of JSON values; {reason}.")


def _convert_scalar(value: Any) -> Any:
    """Turns NumPy's scalars into Python's."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} is not a JSON value")
