"""Reads the cells of an evaluation cache as they are at one instant, and writes cells: values are
checked, those that are already known are left out, and the others become tiles. Errata
are applied: tiles are written again without the cells that are removed or amended.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nevis_stream.errors import BadInput
from nevis_stream.evaluation_cache import entries, index, packing, records
from nevis_stream.evaluation_cache.index import Index
from nevis_stream.evaluation_cache.packing import (
    ALL,
    CONFIDENCE,
    CORRECT,
    FEATURES,
    NO_MODEL,
    OBSERVED,
    PREDICTED,
    PROBABILITIES,
    SCORE,
    VECTORS,
    Tile,
)
from nevis_stream.evaluation_cache.records import Erratum
from nevis_stream.queries.samples import UNKNOWN
from nevis_stream.storage.reading import clear_faults

# models or samples: ids, int rows or columns, or None for all
Which = Sequence[str] | np.ndarray | None


class Snapshot:
    """Some models of a cache on some samples; anything written later is not seen.

    Args:
      index, cells: the cache's.
      models: ids or int rows, none twice; None for all.
      samples: ids or int columns, none twice; None for all.

    Attributes:
      rows, columns: int64[m] and int64[n], of the chosen models and samples.
      scores: whether some sample of the cache has scores.
    """

    def __init__(
        self, index: Index, cells: packing.TileFile, models: Which = None, samples: Which = None
    ):
        with index.reading() as db:
            self.rows = entries.choose(db, "models", models)
            self.columns = entries.choose(db, "samples", samples)
            self.scores = entries.has_scores(db)
            self._view = cells.view(entries.read_end(db))
            tiles = entries.list_tiles(db, rows=self.rows)
            # the tiles of all models come with those of features
            features = [] if models is None else entries.list_tiles(db, "model = ?", [NO_MODEL])
        self._all_columns = samples is None
        self._tiles: dict[tuple[str, str], list[Tile]] = defaultdict(list)
        for tile in [*tiles, *features]:
            self._tiles[tile.shape.state, tile.shape.plane].append(tile)

    def read_values(self, state: str) -> np.ndarray:
        """Returns uint8[m, n] of outcomes, 255 where unknown; or float32[m, n], NaN where unknown,
        if the cache has `scores`.
        """
        outcomes = self._tiles[state, CORRECT]
        if not self.scores:
            return self._fill(CORRECT, outcomes)
        # in the order of writing: of predictions in both planes the later one counts
        tiles = sorted([*outcomes, *self._tiles[state, SCORE]], key=lambda tile: tile.number)
        return self._fill(SCORE, tiles)

    def read_plane(self, plane: str, state: str) -> np.ndarray:
        """Returns [m, n], or [m, n, classes], of one plane; 255 or NaN where unknown."""
        return self._fill(plane, self._tiles[state, plane])

    def _fill(self, plane: str, tiles: Sequence[Tile]) -> np.ndarray:
        """Returns a matrix of one plane, as `read_plane`, with the values of some tiles."""
        width = [max((tile.shape.classes for tile in tiles), default=0)]
        matrix = np.full(
            [len(self.rows), len(self.columns), *(width if plane == PROBABILITIES else [])],
            UNKNOWN if plane == CORRECT else np.nan,
            np.uint8 if plane == CORRECT else packing.DTYPES[plane],
        )
        place = dict(zip(self.rows.tolist(), range(len(self.rows)), strict=True))
        order = np.argsort(self.columns, kind="stable")
        for tile in tiles:
            if self._all_columns:
                columns, values = tile.decode(self._view)
            else:
                positions, values = packing.pick(tile, self._view, self.columns[order])
                columns = order[positions]
            matrix[place[tile.shape.model]][columns] = values
        return matrix

    def features(self) -> np.ndarray | None:
        """Returns float32[n, d] of all samples, NaN if a sample has none; None if none has any. For
        snapshots of all samples.
        """
        if not (tiles := self._tiles[OBSERVED, FEATURES]):
            return None
        features = np.full((len(self.columns), tiles[0].shape.classes), np.nan, np.float32)
        for tile in tiles:
            columns, values = tile.decode(self._view)
            features[columns] = values
        return features

    def column_sums(self) -> tuple[np.ndarray, np.ndarray]:
        """See `EvaluationCache.column_sums`."""
        n, outcomes = len(self.columns), self._tiles[OBSERVED, CORRECT]
        total, known = packing.sum_columns(self._view, outcomes, n)
        if not self.scores:
            return total, known
        more, seen = packing.sum_values(self._view, self._tiles[OBSERVED, SCORE], n)
        return total + more, known + seen

    def row_sums(self) -> tuple[np.ndarray, np.ndarray]:
        """See `EvaluationCache.row_sums`."""
        total, known = np.zeros((2, len(self.rows)))
        for tile in self._tiles[OBSERVED, CORRECT]:
            total[tile.shape.model] += tile.shape.ones
            known[tile.shape.model] += tile.shape.cells
        for tile in self._tiles[OBSERVED, SCORE]:
            _, values = tile.decode(self._view)
            total[tile.shape.model] += values.sum(dtype=np.float64)
            known[tile.shape.model] += tile.shape.cells
        return (total if self.scores else total.astype(np.int64)), known.astype(np.int64)

    def packed_rows(self) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
        """See `EvaluationCache.packed_rows`."""
        n, words = len(self.columns), self._view.view(np.uint64)
        tiles_of: dict[int, list[Tile]] = defaultdict(list)
        for tile in self._tiles[OBSERVED, CORRECT]:
            tiles_of[tile.shape.model].append(tile)
        for row in self.rows.tolist():
            tiles = tiles_of[row]
            if len(tiles) == 1 and tiles[0].shape.form == ALL and tiles[0].shape.span == n:
                yield words[tiles[0].offset // 8 :][: -(-n // 64)], None
                continue
            line = np.full(-(-n // 64) * 64, UNKNOWN, np.uint8)
            for tile in tiles:
                columns, values = tile.decode(self._view)
                line[columns] = values
            known = line != UNKNOWN
            yield (
                np.packbits(line == 1).view(np.uint64),
                None if known[:n].all() else np.packbits(known).view(np.uint64),
            )


# by plane, of m models on k samples: "correct": [m, k], outcomes or scores; "confidence": float[m,
# k]; "probabilities": float[m, k, classes]
Planes = dict[str, np.ndarray]
_TOLERANCE = 1e-6  # scores that differ by less are equal


def convert_arrays(
    models: Sequence[str], samples: Sequence[str] | np.ndarray, values_by_plane: Mapping[str, Any]
) -> Planes:
    """Returns the values that are not None as arrays.

    Args:
      models: m ids.
      samples: k ids or int columns.
      values_by_plane: [m, k], or [m, k, classes], or None.

    Raises:
      BadInput: a model's id or a shape is not valid; the message names it.
    """
    entries.check_ids("models", models)
    expected, planes = (len(models), len(samples)), {}
    for plane, values in values_by_plane.items():
        if values is None:
            continue
        values = np.asarray(values)
        if values.shape[:2] != expected or values.ndim != (3 if plane in VECTORS else 2):
            raise BadInput(
                f"{plane}: has shape {values.shape}; {expected[0]} models on {expected[1]} samples"
                " are expected."
            )
        if values.dtype.kind not in "biuf":
            raise BadInput(f"{plane}: has type {values.dtype}, not numbers.")
        planes[plane] = values
    return planes


def write(
    db: sqlite3.Connection,
    cells: packing.TileFile,
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
      state: "observed": cells that the cache has must agree, and are left out, and so are cells
        that were removed (see `records`); "predicted": earlier predictions are replaced.
      rows: id and row of each of the m models.
      columns: int64[k], no column twice.
      planes: as `convert_arrays` returns them.
      made_by: recorded with predictions.

    Raises:
      BadInput: a value is not valid, or contradicts an observed one; the message names model and
        sample.
    """
    if state == OBSERVED:
        planes = records.apply_errata(db, [model for model, _ in rows], columns, planes)
    ascending = np.argsort(columns, kind="stable")
    is_scored = ~np.isnan(entries.read_ranges(db)[0, columns[ascending]])
    new = []
    for values_plane, places in ((CORRECT, ascending[~is_scored]), (SCORE, ascending[is_scored])):
        if not len(places):
            continue
        whole = len(places) == len(columns) and (np.diff(places) == 1).all()
        part = {plane: v if whole else v[:, places] for plane, v in planes.items()}
        part = _convert_planes(db, values_plane, state, rows, columns[places], part)
        new.extend(_make_tiles(db, cells, values_plane, state, rows, columns[places], part))
    enter(db, cells, new, made_by)


def _convert_planes(
    db, values_plane: str, state: str, rows, columns: np.ndarray, part: Planes
) -> Planes:
    """Returns planes in the types in which they are stored; `BadInput` if a value is not valid."""
    planes = {}
    part = {values_plane: part.pop(CORRECT), **part}
    values = part[values_plane]
    if state == PREDICTED and values_plane == CORRECT and values.dtype.kind == "f":
        if not np.isin(values[~np.isnan(values)], (0, 1)).all():
            part[CONFIDENCE] = values  # predicted probabilities of being right
        part[CORRECT] = np.where(np.isnan(values), UNKNOWN, values >= 0.5).astype(np.uint8)
    for plane, values in part.items():
        if plane == CORRECT:
            stored, is_valid = _convert_outcomes(values)
            valid = "0, 1, or 255 for unknown"
        else:
            if plane == SCORE and values.dtype == np.uint8:
                values = np.where(values == UNKNOWN, np.nan, values)
            stored = values.astype(packing.DTYPES[plane])
            valid = "from 0 to 1, or NaN for unknown"
            is_valid = np.isnan(values) | ((values >= 0) & (values <= 1))
        if not is_valid.all():
            i, k, *_ = np.argwhere(~is_valid)[0]
            raise BadInput(
                f"{plane} of model {rows[i][0]!r}, sample {_find_id(db, columns[k])!r}:"
                f" {values[~is_valid][0]} is not {valid}."
            )
        if plane in VECTORS:
            _check_width(db, plane, stored.shape[2])
        planes[plane] = stored
    return planes


def _convert_outcomes(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns outcomes as uint8 of 0, 1 and 255, and which of the values are valid."""
    if values.dtype == bool:
        return values.view(np.uint8), np.True_
    if values.dtype != np.uint8:
        missing = np.isnan(values)
        is_valid = missing | (values == 0) | (values == 1) | (values == UNKNOWN)
        return np.where(missing | ~is_valid, UNKNOWN, values).astype(np.uint8), is_valid
    return values, (values <= 1) | (values == UNKNOWN)


def _make_tiles(
    db, cells, values_plane: str, state: str, rows, columns: np.ndarray, planes: Planes
):
    """Yields the tiles of new cells: id of the model, shape and bytes. Columns are ascending."""
    view = cells.view(entries.read_end(db))
    for i, (model, row) in enumerate(rows):
        values = planes[values_plane][i]
        known = values != UNKNOWN if values_plane == CORRECT else ~np.isnan(values)
        for plane, matrix in planes.items():
            values = matrix[i]
            if plane == values_plane:
                wanted = known
            else:
                wanted = known & np.isfinite(values).all(axis=tuple(range(1, values.ndim)))
            if state == OBSERVED:
                old = _read_observed(db, view, row, plane, columns)
                if plane == values_plane:
                    _check_agrees(db, model, columns, known, old, values)
                wanted = wanted & np.isnan(old)
            if wanted.any():
                chosen = slice(None) if wanted.all() else wanted  # a slice copies nothing
                tile = packing.encode(row, state, plane, columns[chosen], values[chosen])
                yield model, *tile


def _check_agrees(db, model: str, columns, known, old: np.ndarray, values: np.ndarray) -> None:
    """Refuses values that contradict observed ones, which never change."""
    differs = known & (np.abs(old - values) > _TOLERANCE)  # NaN where nothing was observed
    if differs.any():
        k = np.flatnonzero(differs)[0]
        raise BadInput(
            f"model {model!r}, sample {_find_id(db, columns[k])!r}: observed as {old[k]:g}, now"
            f" given as {values[k]:g} ({differs.sum()} such cells). Nothing was written; give a"
            " different model a different id."
        )


def write_features(
    db: sqlite3.Connection, cells: packing.TileFile, columns: np.ndarray, features: np.ndarray
) -> None:
    """Writes features, float[k, d], of samples that have none, within the transaction `db`.

    Raises:
      BadInput: they are not finite numbers, have another length than those of the cache, or differ
        from the features that a sample already has.
    """
    features = np.asarray(features)
    if features.ndim != 2 or features.dtype.kind not in "biuf" or len(features) != len(columns):
        raise BadInput(
            f"features: {features.dtype}{list(features.shape)}; float[{len(columns)}, d], a row for"
            " each sample, is expected."
        )
    order = np.argsort(columns, kind="stable")
    columns, features = columns[order], features[order].astype(packing.DTYPES[FEATURES])
    if len(wrong := np.flatnonzero(~np.isfinite(features).all(axis=1))):
        raise BadInput(
            f"features of sample {_find_id(db, columns[wrong[0]])!r}: not all are finite."
        )
    _check_width(db, FEATURES, features.shape[1])
    is_new, view = np.ones(len(columns), bool), cells.view(entries.read_end(db))
    for tile in entries.list_tiles(db, "plane = ?", [FEATURES]):
        positions, values = packing.pick(tile, view, columns)
        if len(other := np.flatnonzero((values != features[positions]).any(axis=1))):
            sample = _find_id(db, columns[positions[other[0]]])
            raise BadInput(f"sample {sample!r}: it already has other features.")
        is_new[positions] = False
    if is_new.any():
        tile = packing.encode(NO_MODEL, OBSERVED, FEATURES, columns[is_new], features[is_new])
        enter(db, cells, [("", *tile)], None)


def enter(
    db: sqlite3.Connection,
    cells: packing.TileFile,
    new: Sequence[tuple[str, packing.Shape, bytes]],
    made_by: dict[str, Any] | None,
) -> None:
    """Appends tiles to the file, and enters them into the index within the transaction `db`.

    Args:
      db: the transaction.
      cells: the file of tiles.
      new: id of the model, shape and bytes of each tile.
      made_by: recorded with the tiles; None for observed cells.
    """
    if not new:
        return
    text = index.dump_object(made_by, "made_by")
    with clear_faults(cells.path):
        offset = cells.append([data for _, _, data in new])
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
            old = f"FROM tiles WHERE model = ? AND state = ? AND plane = ? AND ({replaced})"
            db.execute(index.TEXT_CHECKS)
            numbers = f"of = 'tiles' AND number IN (SELECT number {old})"
            db.execute(f"DELETE FROM text_checks WHERE {numbers}", place)
            db.execute(f"DELETE {old}", place)
        entry = [*vars(shape).values(), offset, digest, text]
        row = db.execute(
            f"INSERT INTO tiles ({entries.TILE_COLUMNS}) VALUES ({', '.join('?' * len(entry))})",
            entry,
        )
        if shape.state == PREDICTED:
            index.add_text_check(db, "tiles", row.lastrowid, text)
        offset += len(data)
    db.execute("UPDATE about SET end = ?", [offset])
    if any(shape.plane in packing.LATER_PLANES for _, shape, _ in new):
        index.raise_version(db, index.LATER_PLANES_VERSION)


def _read_observed(
    db: sqlite3.Connection, view: np.ndarray, row: int, plane: str, columns: np.ndarray
) -> np.ndarray:
    """Returns float32[k], the observed value in each column (0 for a vector), NaN where nothing was
    observed. A sample that had outcomes may have got scores, so both planes are read.
    """
    old = np.full(len(columns), np.nan, np.float32)
    planes = (CORRECT, SCORE) if plane in (CORRECT, SCORE) else (plane, plane)
    where = "model = ? AND state = ? AND plane IN (?, ?)"
    for tile in entries.list_tiles(db, where, [row, OBSERVED, *planes]):
        positions, values = packing.pick(tile, view, columns)
        old[positions] = 0 if values.ndim > 1 else values
    return old


def _find_id(db: sqlite3.Connection, column: np.integer) -> str:
    return entries.list_samples(db, np.array([column]))[0]


def _check_width(db: sqlite3.Connection, plane: str, width: int) -> None:
    """Refuses another number of classes, or of features, than the cache has."""
    stored = db.execute("SELECT max(classes) FROM tiles WHERE plane = ?", [plane]).fetchone()[0]
    if width != (stored or width) or not width:
        unit = "classes for each cell"
        if plane != packing.PROBABILITIES:
            unit = "numbers for each sample"
        raise BadInput(f"{plane}: {width} {unit}; this cache has {stored}.")


_MOST_CELLS = 1 << 22  # of the models whose tiles are written again in one step


def add_errata_once(db: sqlite3.Connection, cells: packing.TileFile, new: Erratum) -> Erratum:
    """Adds an erratum as `add_errata` does, after the last one (`records.make_later`), and returns
    it. If the last one says the same, that one is returned instead: the command was repeated after
    a kill, and estimates may refer to it.
    """
    for last in records.read_errata(db)[-1:]:
        if replace(last, time=new.time) == new:
            return last
        new = replace(new, time=records.make_later(new.time, last.time))
    add_errata(db, cells, [new])
    return new


def add_errata(
    db: sqlite3.Connection, cells: packing.TileFile, new: Iterable[Erratum]
) -> list[Erratum]:
    """Adds errata and applies them, within the transaction `db`; those that are there already
    change nothing.

    Returns: the errata that are new.
    """
    if added := records.add_errata(db, new):
        _apply_to_tiles(db, cells, added)
    return added


def _apply_to_tiles(
    db: sqlite3.Connection, cells: packing.TileFile, added: Sequence[Erratum]
) -> None:
    """Writes tiles again without the cells that errata are about, and writes amended values."""
    names, everything = entries.list_models(db), np.arange(entries.count(db, "samples"))
    about_all = any(not each.values and each.models is None for each in added)
    named = {m for each in added for m in (*each.values, *(each.models or ()))}
    rows = [row for row, model in enumerate(names) if about_all or model in named]
    found, view = records.read_errata(db), cells.view(entries.read_end(db))
    size = max(1, _MOST_CELLS // max(1, len(everything)))
    for part in (rows[start : start + size] for start in range(0, len(rows), size)):
        models = [names[row] for row in part]
        removed, new = records.compute_errata_effect(db, added, models, everything)
        touched = removed | ~np.isnan(new)
        place, kept = {row: i for i, row in enumerate(part)}, []
        where = "state = ? AND plane IN (?, ?, ?, ?)"
        planes = (CORRECT, SCORE, CONFIDENCE, PROBABILITIES)
        for tile in entries.list_tiles(db, where, [OBSERVED, *planes], np.array(part)):
            row, (columns, values) = tile.shape.model, tile.decode(view)
            columns = everything[columns]
            stays = ~touched[place[row], columns]
            if stays.all():
                continue
            db.execute("DELETE FROM tiles WHERE number = ?", [tile.number])
            if stays.any():
                shape = row, OBSERVED, tile.shape.plane
                kept.append((names[row], *packing.encode(*shape, columns[stays], values[stays])))
        enter(db, cells, kept, None)
        # records from elsewhere may be older than those that are here: all together decide
        _, amended = records.compute_errata_effect(db, found, models, everything)
        amended[~touched] = np.nan
        columns = np.flatnonzero(~np.isnan(amended).all(axis=0))
        if len(columns):
            values = {CORRECT: amended[:, columns].astype(np.float32)}
            write(db, cells, OBSERVED, list(zip(models, part, strict=True)), columns, values)
