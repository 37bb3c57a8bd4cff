"""Writing into an evaluation cache: what is given is checked, what is known already is left out,
the rest becomes tiles.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nevis_stream.dynamic_evaluation.cache import index, packing, records
from nevis_stream.dynamic_evaluation.cache.packing import (
    CORRECT,
    OBSERVED,
    PREDICTED,
    PROBABILITIES,
)
from nevis_stream.dynamic_evaluation.matrix import UNKNOWN
from nevis_stream.errors import BadInput
from nevis_stream.storage import clear_when_full

# correct uint8[m, k], confidence float16[m, k], probabilities float16[m, k, classes]
Planes = dict[str, np.ndarray]


def checked(
    models: Sequence[str], samples: Sequence[str] | np.ndarray, given: Mapping[str, Any]
) -> Planes:
    """Returns the planes that are given, in the types in which they are kept.

    Raises:
      BadInput: a shape or a value that cannot be; the message names plane, model and sample.
    """
    records.check_ids("models", models)
    expected, planes = (len(models), len(samples)), {}
    for plane, values in given.items():
        if values is None:
            continue
        values = np.asarray(values)
        if values.shape[:2] != expected or values.ndim != (3 if plane == PROBABILITIES else 2):
            raise BadInput(
                f"{plane}: has shape {values.shape}; {expected[0]} models on {expected[1]} samples"
                " are expected."
            )
        if values.dtype.kind not in "biuf":
            raise BadInput(f"{plane}: has type {values.dtype}, not numbers.")
        if plane == CORRECT:
            kept, good = _outcomes(values)
            valid = "0, 1, or 255 for unknown"
        else:
            kept, valid = values.astype("<f2"), "from 0 to 1, or NaN for unknown"
            good = np.isnan(values) | ((values >= 0) & (values <= 1))
        if not good.all():
            i, k, *_ = np.argwhere(~good)[0]
            raise BadInput(
                f"{plane} of model {models[i]!r}, sample {samples[k]!r}: {values[~good][0]} is not"
                f" {valid}."
            )
        planes[plane] = kept
    return planes


def _outcomes(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns outcomes as uint8 of 0, 1 and 255, and which of them they could be."""
    if values.dtype == bool:
        return values.view(np.uint8), np.True_
    if values.dtype != np.uint8:
        missing = np.isnan(values)
        good = missing | (values == 0) | (values == 1) | (values == UNKNOWN)
        return np.where(missing | ~good, UNKNOWN, values).astype(np.uint8), good
    return values, (values <= 1) | (values == UNKNOWN)


def write(
    db: sqlite3.Connection,
    cells: packing.Cells,
    state: str,
    rows: Sequence[tuple[str, int]],
    columns: np.ndarray,
    planes: Planes,
    made_by: dict[str, Any] | None = None,
) -> None:
    """Writes cells within the transaction `db`, whose commit makes them count.

    Args:
      db: the transaction.
      cells: the file of tiles.
      state: "observed": what the cache has is left out, or must agree; "predicted": replaces
        earlier predictions.
      rows: id and row of each of the m models.
      columns: int64[k], no column twice.
      planes: as `checked` returns them.
      made_by: what is said of predictions.
    """
    order = slice(None) if (np.diff(columns) > 0).all() else np.argsort(columns, kind="stable")
    ascending, view, new = columns[order], cells.view(records.end(db)), []
    if PROBABILITIES in planes:
        _check_classes(db, planes[PROBABILITIES].shape[2])
    for i, (model, row) in enumerate(rows):
        known = planes[CORRECT][i][order] != UNKNOWN
        for plane, given in planes.items():
            values = given[i][order]
            wanted = (
                known
                if plane == CORRECT
                else known & np.isfinite(values).all(axis=tuple(range(1, values.ndim)))
            )
            if state == OBSERVED:
                old = _old(db, view, row, plane, ascending)
                if plane == CORRECT and len(
                    wrong := np.flatnonzero(known & (old != UNKNOWN) & (old != values))
                ):
                    sample = db.execute(
                        "SELECT id FROM samples WHERE number = ?", [int(ascending[wrong[0]])]
                    ).fetchone()[0]
                    raise BadInput(
                        f"model {model!r}, sample {sample!r}: observed as {old[wrong[0]]}, now said"
                        f" to be {values[wrong[0]]} ({len(wrong)} such cells). Nothing was written;"
                        " another model needs another id."
                    )
                wanted = wanted & (old == UNKNOWN)
            here, values = (
                (ascending, values) if wanted.all() else (ascending[wanted], values[wanted])
            )
            if len(here):
                new.append((model, *packing.encode(row, state, plane, here, values)))
    enter(db, cells, new, made_by)


def enter(
    db: sqlite3.Connection,
    cells: packing.Cells,
    new: Sequence[tuple[str, packing.Shape, bytes]],
    made_by: dict[str, Any] | None,
) -> None:
    """Writes tiles (id of the model, shape, bytes) behind the last one, and into the index within
    the transaction `db`.
    """
    if not new:
        return
    text = index.as_json(made_by, "made_by")
    with clear_when_full(cells.path):
        begin = cells.append([data for _, _, data in new])
    for model, shape, data in new:
        digest = packing.digest(model, shape, data)
        if shape.state == PREDICTED:
            replaced = "digest = ? OR (? = 'all' AND first >= ? AND first + span <= ?)"
            place = [
                shape.model,
                PREDICTED,
                shape.plane,
                digest,
                shape.form,
                shape.first,
                shape.first + shape.span,
            ]
            db.execute(
                f"DELETE FROM tiles WHERE model = ? AND state = ? AND plane = ? AND ({replaced})",
                place,
            )
        entry = [*vars(shape).values(), begin, digest, text]
        db.execute(
            f"INSERT INTO tiles ({records.TILE}) VALUES ({', '.join('?' * len(entry))})", entry
        )
        begin += len(data)
    db.execute("UPDATE about SET end = ?", [begin])


def _old(
    db: sqlite3.Connection, view: np.ndarray, row: int, plane: str, columns: np.ndarray
) -> np.ndarray:
    """Returns uint8[k]: the observed outcome in each column (of other planes 1), 255 where there is
    no value.
    """
    old = np.full(len(columns), UNKNOWN, np.uint8)
    for tile in records.tiles(db, "model = ? AND state = ? AND plane = ?", [row, OBSERVED, plane]):
        positions, values = packing.pick(
            tile.shape, view[tile.offset : tile.offset + tile.shape.length], columns
        )
        old[positions] = values if plane == CORRECT else 1
    return old


def _check_classes(db: sqlite3.Connection, classes: int) -> None:
    """One cache has one label space."""
    kept = db.execute("SELECT max(classes) FROM tiles").fetchone()[0] or classes
    if kept != classes or not classes:
        raise BadInput(f"probabilities: of {classes} classes; this cache has some of {kept}.")
