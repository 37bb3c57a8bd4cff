"""Texts of an evaluation cache's index that have checksums: what the cache is about, what made its
predictions, and what imports understood and left out.
"""

import json
import math
import sqlite3
from collections.abc import Container, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from nevis_stream.evaluation_cache.index import (
    IMPORTS,
    Unsound,
    add_text_check,
    as_json,
    find_unreadable,
    has_table,
    json_object,
    text_digest,
)
from nevis_stream.evaluation_cache.packing import OBSERVED
from nevis_stream.storage.reading import parse_json

NAMES = 5  # of models that a line lists


@dataclass(frozen=True)
class LeftOut:
    """Something that was not imported.

    Attributes:
      reason: what it is and why it was left out, for example "columns of summaries".
      count: how many.
      example: the first of them, with its place.
    """

    reason: str
    count: int
    example: str = ""

    def line(self) -> str:
        """Returns a line for people."""
        example = f"{': ' if self.count == 1 else ', for example '}{self.example}"
        return f"left out: {self.reason} ({self.count:,}){example if self.example else ''}"


@dataclass(frozen=True)
class Imported:
    """What was read.

    Attributes:
      source: the name of the file or directory.
      understood: lines for people: models, samples, metrics with direction and range.
      left_out: what was not imported.
    """

    source: str
    understood: tuple[str, ...]
    left_out: tuple[LeftOut, ...] = ()

    def lines(self) -> list[str]:
        """Returns all lines for people."""
        return [*self.understood, *(each.line() for each in self.left_out)]

    def to_text(self) -> str:
        """Returns this as JSON."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_text(cls, text: str) -> "Imported":
        """Reads what `to_text` wrote.

        Raises:
          Unsound: it is something else.
        """
        try:
            fields = parse_json(text)
            left_out = tuple(LeftOut(**each) for each in fields["left_out"])
            return cls(fields["source"], tuple(fields["understood"]), left_out)
        except (KeyError, TypeError, ValueError) as error:
            raise Unsound(f"the record of an import: {error}") from None


def list_names(names: Iterable[str]) -> str:
    """Returns names for a line, for example "a, b, c"; of many names the first ones."""
    names = list(names)
    rest = f" and {len(names) - NAMES:,} more" if len(names) > NAMES else ""
    return f"{', '.join(names[:NAMES])}{rest}"


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
    return bool(find_unreadable(db, "about", "text")) or digest not in (None, text_digest(text))


def changed_origins(db: sqlite3.Connection) -> set[int]:
    """Returns the numbers of tiles of which what made them has changed since it was written.

    Only predictions have a record of what made them; those of earlier versions have no checksum of
    it.
    """
    digests = text_checks(db, "tiles")
    wrong, first = find_unreadable(db, "tiles", "made_by"), min(digests, default=math.inf)
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
