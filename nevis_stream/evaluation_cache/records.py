"""Records in the index that are JSON texts with checksums: what the cache is about, what made its
predictions, what imports understood and left out, and errata.

Errata are observed cells that were removed or amended, with time and reason. A record says which
cells no longer count, or which values they have from now on. Records are only appended. Of those
about a cell the latest counts, by time and then by text, so that what a cache holds depends on the
set of its values and records, not on the order in which they came: cells that come later, by import
or merge, pass the same records. The index refers to tiles without the cells, so that every reader
sees the corrected values.
"""

import hashlib
import json
import math
import re
import sqlite3
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from nevis_stream.errors import BadInput, plural
from nevis_stream.evaluation_cache import entries
from nevis_stream.evaluation_cache.arguments import redact
from nevis_stream.evaluation_cache.index import (
    ERRATA_VERSION,
    RECORDS,
    Unsound,
    add_text_check,
    digest_text,
    dump_object,
    find_unreadable,
    has_table,
    parse_object,
    raise_version,
)
from nevis_stream.evaluation_cache.packing import CORRECT, OBSERVED
from nevis_stream.queries.samples import UNKNOWN, is_observed
from nevis_stream.storage.reading import parse_json

MOST_NAMES = 5  # that a line for people lists


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
class _Record:
    def to_text(self) -> str:
        """Returns this as JSON."""
        return json.dumps(asdict(self), sort_keys=True)


@dataclass(frozen=True)
class Imported(_Record):
    """The record of one import: what was read.

    Attributes:
      source: the name of the file or directory.
      understood: lines for people: models, samples, metrics with direction and range.
      left_out: what was not imported.
    """

    source: str
    understood: tuple[str, ...]
    left_out: tuple[LeftOut, ...] = ()

    def redact(self, credentials: Iterable[str] = ()) -> "Imported":
        """Returns the record without these and what else looks like a credential."""

        def hide(text: str) -> str:
            for each in credentials:
                text = re.sub(rf"(?<!\w){re.escape(each)}(?!\w)", "…", text)
            return redact(text)

        left_out = [replace(each, example=hide(each.example)) for each in self.left_out]
        return Imported(hide(self.source), tuple(map(hide, self.understood)), tuple(left_out))

    def lines(self) -> list[str]:
        """Returns all lines for people."""
        return [*self.understood, *(each.line() for each in self.left_out)]

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
    rest = f" and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else ""
    return f"{', '.join(names[:MOST_NAMES])}{rest}"


NO_MAKER = "{}"  # what is recorded as the maker of observed cells


def read_about(db: sqlite3.Connection) -> dict[str, Any]:
    """Returns what the cache is about."""
    values = parse_object(db.execute("SELECT text FROM about").fetchone()[0])
    weights = values.get("dataset_weights", {})
    if not isinstance(weights, dict) or not all(
        isinstance(weight, int | float) and weight > 0 for weight in weights.values()
    ):
        raise Unsound(f"it has {str(weights)[:50]} as weights of data sets")
    return values


def write_about(db: sqlite3.Connection, about: dict[str, Any]) -> None:
    """Changes what the cache is about."""
    text = dump_object(about, "about")
    db.execute("UPDATE about SET text = ?", [text])
    add_text_check(db, "about", 0, text)


def has_about_changed(db: sqlite3.Connection) -> bool:
    """Returns whether what the cache is about has changed since it was written."""
    digest = read_text_checks(db, "about").get(0)
    text = db.execute("SELECT text FROM about").fetchone()[0]
    return bool(find_unreadable(db, "about", "text")) or digest not in (None, digest_text(text))


def find_changed_origins(db: sqlite3.Connection) -> set[int]:
    """Returns the numbers of the tiles whose `made_by` has changed since it was written.

    Only predictions have one; that of predictions of earlier versions has no checksum.
    """
    digests = read_text_checks(db, "tiles")
    wrong, first = find_unreadable(db, "tiles", "made_by"), min(digests, default=math.inf)
    for number, state, text in db.execute("SELECT number, state, made_by FROM tiles"):
        if state == OBSERVED:
            is_same = text == NO_MAKER
        else:
            is_same = number < first or digests.get(number) == digest_text(text)
        wrong |= set() if is_same else {number}
    return wrong


def read_text_checks(db: sqlite3.Connection, of: str) -> dict[int, bytes]:
    """Returns the checksums of texts by number; old caches have none. `of` is their kind, "about"
    or "tiles" (see `index.TEXT_CHECKS`).
    """
    if not has_table(db, "text_checks"):
        return {}
    query = "SELECT number, digest FROM text_checks WHERE of = ?"
    return dict(db.execute(query, [of]).fetchall())


def read_imports(db: sqlite3.Connection, without: Container[int] = ()) -> list[Imported]:
    """Returns what the imports into this cache understood, in their order, except those whose
    numbers, from 0, are in `without`.
    """
    rows = _read_texts(db, "imports")
    return [Imported.from_text(text) for k, (text, _) in enumerate(rows) if k not in without]


def add_imports(db: sqlite3.Connection, records: Iterable[Imported]) -> None:
    """Records what imports understood; a repeated one is recorded once."""
    _add_texts(db, "imports", records)


def find_changed_imports(db: sqlite3.Connection) -> dict[int, str]:
    """Returns a line for each record of an import that has changed since it was written, by its
    number, from 0.
    """
    return {
        k: f"import {k}: the record of what was understood has changed since it was written"
        for k, is_sound in enumerate(_compare_digests(db, "imports"))
        if not is_sound
    }


def _read_texts(db: sqlite3.Connection, table: str) -> list[tuple[str, bytes]]:
    """Returns texts and checksums of records, in the order in which they were written."""
    if not has_table(db, table):
        return []
    return db.execute(f"SELECT text, digest FROM {table} ORDER BY number").fetchall()


def _compare_digests(db: sqlite3.Connection, table: str) -> list[bool]:
    """Returns for each record whether it is as it was written."""
    return [digest_text(text) == digest for text, digest in _read_texts(db, table)]


def _add_texts(db: sqlite3.Connection, table: str, records: "Iterable[Imported | Erratum]") -> None:
    """Adds records; one that is there already is not added again."""
    for text in (record.to_text() for record in records):
        db.execute(RECORDS[table])
        if not db.execute(f"SELECT 1 FROM {table} WHERE text = ?", [text]).fetchone():
            row = f"INSERT INTO {table} (text, digest) VALUES (?, ?)"
            db.execute(row, [text, digest_text(text)])


@dataclass(frozen=True)
class Erratum(_Record):
    """A record of observed cells that were removed or amended.

    Attributes:
      time: in UTC, as text.
      reason: for people.
      models: whose cells are removed; None: of all models.
      samples: on which they are removed; None: on all samples, those of later imports as well.
      values: by model and sample, the values that cells have from now on, as the cache stores them
        (scaled to 0 to 1); then nothing is removed.
    """

    time: str
    reason: str
    models: tuple[str, ...] | None = None
    samples: tuple[str, ...] | None = None
    values: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @classmethod
    def from_text(cls, text: str) -> "Erratum":
        """Reads what `to_text` wrote.

        Raises:
          Unsound: it is something else.
        """
        try:
            fields = parse_json(text)
            names = {
                name: None if fields[name] is None else tuple(map(str, fields[name]))
                for name in ("models", "samples")
            }
            values = {
                str(model): {str(sample): float(value) for sample, value in by_sample.items()}
                for model, by_sample in fields["values"].items()
            }
            return cls(str(fields["time"]), str(fields["reason"]), **names, values=values)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise Unsound(f"an erratum: {error}") from None

    def rename(self, models: Mapping[str, str], samples: Mapping[str, str]) -> "Erratum":
        """Returns the record with the names that models and samples have in another cache, by their
        names here.
        """

        def rename_all(names: tuple[str, ...] | None, names_there: Mapping[str, str]):
            return None if names is None else tuple(names_there.get(name, name) for name in names)

        values: dict[str, dict[str, float]] = {}
        for model, by_sample in self.values.items():  # several may be one model there
            row = values.setdefault(models.get(model, model), {})
            row |= {samples.get(sample, sample): value for sample, value in by_sample.items()}
        return Erratum(
            self.time,
            self.reason,
            rename_all(self.models, models),
            rename_all(self.samples, samples),
            values,
        )

    def line(self) -> str:
        """Returns a line for people."""
        if self.values:
            cells = sum(map(len, self.values.values()))
            what = f"{plural(cells, 'cell')} of {list_names(list(self.values))} amended"
        else:
            models = "all models" if self.models is None else list_names(self.models)
            samples = "all samples" if self.samples is None else list_names(self.samples)
            what = f"{models} on {samples} removed"
        return f"{self.time}: {what}: {self.reason}"


def get_current_time() -> str:
    """Returns the time for a new record, in UTC, to the microsecond."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def make_later(time: str, last: str) -> str:
    """Returns the time of a new record, 1 µs after the last one's if the clock says that it is not
    later: the clocks of two machines differ, and the later correction counts.

    Raises:
      Unsound: the last one's is no time.
    """
    if time > last:
        return time
    try:
        later = datetime.fromisoformat(last) + timedelta(microseconds=1)
        if (text := later.isoformat(timespec="microseconds")) > last:
            return text
    except (ValueError, OverflowError):
        pass
    raise Unsound(f"an erratum has the time {last!r}, after which no other one can come")


def read_errata(db: sqlite3.Connection) -> list[Erratum]:
    """Returns the errata by time, then by text; about a cell the last one counts."""
    found = [
        Erratum.from_text(text) for text in sorted(text for text, _ in _read_texts(db, "errata"))
    ]
    return sorted(found, key=lambda each: each.time)


def add_errata(db: sqlite3.Connection, new: Iterable[Erratum]) -> list[Erratum]:
    """Adds records and returns those that are new; `cells.add_errata` applies them."""
    old = read_errata(db)
    if added := [each for each in new if each not in old]:
        _add_texts(db, "errata", added)
        raise_version(db, ERRATA_VERSION)
    return added


def digest_errata(db: sqlite3.Connection) -> str | None:
    """Returns a digest of all errata, None if there are none. An estimate that is recorded with
    another digest was made before some of these.
    """
    texts = sorted(each.to_text() for each in read_errata(db))
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16] if texts else None


def find_changed_errata(db: sqlite3.Connection) -> list[str]:
    """Returns a line for each erratum that has changed since it was written."""
    return [
        f"erratum {number}: its record has changed since it was written"
        for number, is_sound in enumerate(_compare_digests(db, "errata"), start=1)
        if not is_sound
    ]


def select_sound_errata(db: sqlite3.Connection) -> list[Erratum]:
    """Returns the errata that have not changed since they were written."""
    pairs = zip(_read_texts(db, "errata"), _compare_digests(db, "errata"), strict=True)
    return [Erratum.from_text(text) for (text, _), is_sound in pairs if is_sound]


def apply_errata(
    db: sqlite3.Connection,
    models: Sequence[str],
    columns: np.ndarray,
    planes: dict[str, np.ndarray],
) -> dict[str, np.ndarray]:
    """Returns observed values as the errata leave them: unknown where they are removed, and
    amended.

    Args:
      db: an open transaction.
      models: m ids.
      columns: int64[k].
      planes: of the models on these columns (see `cells.Planes`).
    """
    if not (found := read_errata(db)):
        return planes
    removed, amended = compute_errata_effect(db, found, models, columns)
    if not removed.any() and np.isnan(amended).all():
        return planes
    values = np.array(planes[CORRECT])
    values = values.astype(np.uint8) if values.dtype == bool else values
    is_amended = ~np.isnan(amended)
    if values.dtype.kind != "f" and not np.isin(amended[is_amended], (0, 1)).all():
        values = np.where(values == UNKNOWN, np.nan, values).astype(np.float32)
    values[removed] = np.nan if values.dtype.kind == "f" else UNKNOWN
    values[is_amended] = amended[is_amended]
    others = {}
    for plane, array in planes.items():
        if plane != CORRECT:
            others[plane] = np.array(array)
            others[plane][is_amended] = np.nan  # of the value that was amended
    return {CORRECT: values, **others}


def compute_errata_effect(
    db: sqlite3.Connection, found: Sequence[Erratum], models: Sequence[str], columns: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Returns which cells some errata remove, bool[m, k], and the values of those that they amend,
    float64[m, k], NaN for all others.

    Args:
      db: an open transaction.
      found: the errata, in the order in which they count.
      models: m ids.
      columns: int64[k].
    """
    shape = len(models), len(columns)
    removed, amended = np.zeros(shape, bool), np.full(shape, np.nan)
    rows = {model: i for i, model in enumerate(models)}
    place = np.full(entries.count(db, "samples") + 1, -1)  # the last one: of unknown samples
    place[columns] = np.arange(len(columns))

    def find_positions(samples: Iterable[str]) -> np.ndarray:
        """Returns int64, the places of samples among the columns, −1 for others."""
        return place[entries.find_numbers(db, "samples", list(samples))]

    for each in found:
        for model, by_sample in each.values.items():
            if (i := rows.get(model)) is not None:
                at = find_positions(by_sample)
                amended[i, at[at >= 0]] = np.array([*by_sample.values()])[at >= 0]
                removed[i, at[at >= 0]] = False
        if each.values:
            continue
        names = models if each.models is None else each.models
        of_models = [rows[model] for model in names if model in rows]
        on = np.arange(shape[1]) if each.samples is None else find_positions(each.samples)
        removed_cells = np.ix_(of_models, on[on >= 0])
        removed[removed_cells], amended[removed_cells] = True, np.nan
    return removed, amended


def find_removed(db: sqlite3.Connection) -> tuple[set[str], set[str]]:
    """Returns the models, and the samples, that were removed as a whole and not amended since."""
    models: set[str] = set()
    samples: set[str] = set()
    for each in read_errata(db):
        models -= each.values.keys()
        samples -= {sample for by_sample in each.values.values() for sample in by_sample}
        if not each.values and each.samples is None:
            models |= set(each.models or ())
        elif not each.values and each.models is None:
            samples |= set(each.samples or ())
    return models, samples


def check_names(
    db: sqlite3.Connection, models: Sequence[str] | None, samples: Sequence[str] | None
) -> None:
    """Refuses names that a cache does not have.

    Raises:
      BadInput: the message names the nearest one; or neither models nor samples are given.
    """
    if models is None and samples is None:
        raise BadInput("which cells? Give models, samples, or both.")
    for table, names in (("models", models), ("samples", samples)):
        if names is not None:
            entries.choose(db, table, list(names))


def describe_withheld(
    db: sqlite3.Connection, models: Sequence[str], samples: Sequence[str], values: Any
) -> list[str]:
    """Returns a line for people if errata keep values of an import, [m, k], from being written."""
    if not (found := read_errata(db)):
        return []
    columns = entries.find_numbers(db, "samples", list(samples))
    removed, amended = compute_errata_effect(db, found, models, columns)
    known = is_observed(values)
    if not (count := int((known & (removed | ~np.isnan(amended))).sum())):
        return []
    return [
        f"{plural(count, 'cell')} not taken: removed or amended in this cache before; `evaluate"
        " amend` gives them new values"
    ]
