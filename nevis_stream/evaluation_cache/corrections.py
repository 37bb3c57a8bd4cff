"""Adds errata to an evaluation cache, and enters what they leave of its tiles."""

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from nevis_stream.evaluation_cache import entries, errata, index, packing, writing
from nevis_stream.evaluation_cache.errata import Erratum
from nevis_stream.evaluation_cache.index import text_digest
from nevis_stream.evaluation_cache.index_schema import ERRATA
from nevis_stream.evaluation_cache.packing import (
    CONFIDENCE,
    CORRECT,
    OBSERVED,
    PROBABILITIES,
    SCORE,
)

_MOST_CELLS = 1 << 22  # of the models whose tiles are looked at together


def add_once(db: sqlite3.Connection, cells: packing.TileFile, new: Erratum) -> Erratum:
    """Adds a record as `add` does, and returns it; or the last one if it says the same, as where a
    command is repeated after a kill: estimates made since then know it.
    """
    for last in errata.records(db)[-1:]:
        if replace(last, time=new.time) == new:
            return last
    add(db, cells, [new])
    return new


def add(db: sqlite3.Connection, cells: packing.TileFile, new: Iterable[Erratum]) -> list[Erratum]:
    """Adds records and applies them, within the transaction `db`; those that are there change
    nothing.

    Returns: the records that are new.
    """
    there = {each.to_text() for each in errata.records(db)}
    added = [each for each in new if each.to_text() not in there]
    if not added:
        return []
    db.execute(ERRATA)
    for each in added:
        text = each.to_text()
        row = "INSERT INTO errata (text, digest) VALUES (?, ?)"
        db.execute(row, [text, text_digest(text)])
    index.raise_version(db, index.ERRATA)
    _rewrite(db, cells, added)
    return added


def _rewrite(db: sqlite3.Connection, cells: packing.TileFile, added: Sequence[Erratum]) -> None:
    """Enters tiles without the cells that records are about, and their amended values."""
    names, everything = entries.names(db), np.arange(entries.count(db, "samples"))
    of_all = any(not each.values and each.models is None for each in added)
    about = {m for each in added for m in (*each.values, *(each.models or ()))}
    rows = [row for row, model in enumerate(names) if of_all or model in about]
    found, view = errata.records(db), cells.view(entries.end(db))
    size = max(1, _MOST_CELLS // max(1, len(everything)))
    for part in (rows[start : start + size] for start in range(0, len(rows), size)):
        models = [names[row] for row in part]
        void, new = errata.effect(db, added, models, everything)
        touched = void | ~np.isnan(new)
        place, kept = {row: i for i, row in enumerate(part)}, []
        where = "state = ? AND plane IN (?, ?, ?, ?)"
        planes = (CORRECT, SCORE, CONFIDENCE, PROBABILITIES)
        for tile in entries.tiles(db, where, [OBSERVED, *planes], np.array(part)):
            row, (columns, values) = tile.shape.model, tile.decode(view)
            columns = everything[columns]
            stays = ~touched[place[row], columns]
            if stays.all():
                continue
            db.execute("DELETE FROM tiles WHERE number = ?", [tile.number])
            if stays.any():
                shape = row, OBSERVED, tile.shape.plane
                kept.append((names[row], *packing.encode(*shape, columns[stays], values[stays])))
        writing.enter(db, cells, kept, None)
        # records from elsewhere may be older than those that are here: all together decide
        _, amended = errata.effect(db, found, models, everything)
        amended[~touched] = np.nan
        columns = np.flatnonzero(~np.isnan(amended).all(axis=0))
        if len(columns):
            values = {CORRECT: amended[:, columns].astype(np.float32)}
            writing.write(
                db, cells, OBSERVED, list(zip(models, part, strict=True)), columns, values
            )
