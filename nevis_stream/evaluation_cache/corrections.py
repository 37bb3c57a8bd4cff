"""Adds errata to an evaluation cache, and enters what they leave of its tiles."""

import sqlite3
from collections.abc import Iterable, Sequence

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
    for row, model in enumerate(names):
        if not of_all and model not in about:
            continue
        (touched,), (amended,) = _touched(db, added, model, everything)
        view, kept = cells.view(entries.end(db)), []
        where = "model = ? AND state = ? AND plane IN (?, ?, ?, ?)"
        planes = (CORRECT, SCORE, CONFIDENCE, PROBABILITIES)
        for tile in entries.tiles(db, where, [row, OBSERVED, *planes]):
            columns, values = tile.decode(view)
            columns = np.arange(len(everything))[columns]
            stays = ~touched[columns]
            if stays.all():
                continue
            db.execute("DELETE FROM tiles WHERE number = ?", [tile.number])
            if stays.any():
                shape = tile.shape
                part = packing.encode(row, OBSERVED, shape.plane, columns[stays], values[stays])
                kept.append((model, *part))
        writing.enter(db, cells, kept, None)
        if len(columns := np.flatnonzero(touched & ~np.isnan(amended))):
            planes_there = {CORRECT: amended[columns][None].astype(np.float32)}
            writing.write(db, cells, OBSERVED, [(model, row)], columns, planes_there)


def _touched(db: sqlite3.Connection, added: Sequence[Erratum], model: str, columns: np.ndarray):
    """Returns the cells of a model that new records are about, bool[1, n], and the values that all
    records together give to amended cells, float64[1, n].
    """
    void, amended = errata.effect(db, added, [model], columns)
    return void | ~np.isnan(amended), errata.effect(db, errata.records(db), [model], columns)[1]
