"""What an evaluation cache holds, and whether all of it is as it was written."""

import sqlite3
from dataclasses import astuple, dataclass, field
from typing import Any

import numpy as np

from nevis_stream.dynamic_evaluation.additions import examined
from nevis_stream.dynamic_evaluation.cache import entries, packing
from nevis_stream.dynamic_evaluation.cache.index import BEYOND_REPAIR, lenient, mending
from nevis_stream.dynamic_evaluation.cache.packing import (
    CONFIDENCE,
    CORRECT,
    OBSERVED,
    PLANES,
    PREDICTED,
    PROBABILITIES,
    SCORE,
    STATES,
    Tile,
)
from nevis_stream.errors import DamagedCache

_FORMS = (packing.ALL, packing.BITS, packing.LIST)


def stats(cache) -> dict[str, Any]:
    """Returns counts of an `EvaluationCache`: models, samples, cells by state, bytes; and the mean
    of the observed values.
    """
    total, known = (sums.sum() for sums in cache.row_sums())
    with cache.index.reading() as db:
        models, samples = entries.count(db, "models"), entries.count(db, "samples")
        tiles = entries.tiles(db)
    guessed = sorted({tile.shape.model for tile in tiles if tile.shape.state == PREDICTED})
    cells = {
        plane: sum(
            tile.shape.cells
            for tile in tiles
            if (tile.shape.state, tile.shape.plane) == (OBSERVED, plane)
        )
        for plane in PLANES
    }
    return {
        "about": cache.about,
        "models": models,
        "samples": samples,
        "observed": cells[CORRECT] + cells[SCORE],
        "predicted": sum(int((cache.states(np.array([row])) == 2).sum()) for row in guessed),
        "known": float(known / (models * samples)) if models and samples else float("nan"),
        "mean": float(total / known) if known else float("nan"),
        "with confidence": cells[CONFIDENCE],
        "with probabilities": cells[PROBABILITIES],
        "tiles": len(tiles),
        "bytes": sum(file.stat().st_size for file in cache.directory.iterdir()),
    }


@dataclass(frozen=True)
class Damage:
    """What is not as it was written, in lines for people.

    Attributes:
      index: damage of the index and of samples' ids: there is no other copy of these.
      models: of models' provenance, by row.
      tiles: of tiles, by number.
      others: of the file of tiles, and of the account of additions.
    """

    index: list[str] = field(default_factory=list)
    models: dict[int, str] = field(default_factory=dict)
    tiles: dict[int, str] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """Returns all of it; nothing where all is well."""
        index = [f"{line}. {BEYOND_REPAIR}" for line in self.index]
        return [*index, *self.models.values(), *self.tiles.values(), *self.others]


def verify(cache) -> list[str]:
    """Returns what is damaged in an `EvaluationCache`, a line each that names the tile; nothing
    where all is well.

    Every tile's bytes and shape, every sample's id and every provenance are compared with the
    SHA-256 that was taken when they were written; every line of `additions.jsonl` is read.
    """
    try:
        with cache.index.reading() as db, lenient(db):
            return inspect(cache, db).lines()
    except DamagedCache as error:
        return [str(error)]


def inspect(cache, db: sqlite3.Connection) -> Damage:
    """Returns the damage of an `EvaluationCache`, seen in the open transaction `db`, which is
    `lenient`.
    """
    if index := [
        f"{cache.index.path}: {text}"
        for (text,) in db.execute("PRAGMA integrity_check")
        if text != "ok"
    ]:
        return Damage(index)
    models, samples = entries.names(db), entries.samples(db)
    index = entries.changed_samples(db, samples)
    if entries.unreadable(db, "about", "text"):
        index.append(f"{cache.index.path}: what the cache is of is not what was written")
    if len(models) != entries.count(db, "models"):
        index.append(f"models: {len(models)} ids, {entries.count(db, 'models')} were written")
    changed = {
        row: f"model {name!r}: its provenance is not what was written"
        for row, name in entries.changed_models(db).items()
    }
    tiles, end, makers = (
        entries.tiles(db),
        entries.end(db),
        entries.unreadable(db, "tiles", "made_by"),
    )
    size = cache.cells.size()
    view = cache.cells.view(min(size, end))
    bad: dict[int, str] = {}
    rows: dict[tuple[int, str], list[Tile]] = {}
    for tile in tiles:
        if not all(
            isinstance(value, int)
            for value in (tile.shape.model, *astuple(tile.shape)[4:], tile.offset)
        ):
            bad[tile.number] = f"tile {tile.number}: its place in the index is not what was written"
            continue
        model = entries.name_of(models, tile.shape.model)
        reason = _damage(model, tile, view, len(samples))
        if reason is None and tile.number in makers:
            reason = "what made it is not what was written"
        if reason:
            bad[tile.number] = f"{tile.name(model)}: {reason}"
        elif tile.shape.state == OBSERVED:
            rows.setdefault((tile.shape.model, tile.shape.plane), []).append(tile)
    for (row, _), mine in rows.items():
        for tile in _overlapping(mine, view, len(samples)):
            name = tile.name(entries.name_of(models, row))
            bad[tile.number] = f"{name}: has cells that another tile has"
    others = [line for line in examined(cache.directory) if isinstance(line, str)]
    if size < end and not bad:
        others.append(f"{cache.cells.path}: has {size} bytes, its index expects {end}")
    return Damage(index, changed, bad, others)


def check(cache) -> None:
    """Raises `DamagedCache` where `verify` finds something: a copy would have new checksums, and
    seem sound.
    """
    if found := verify(cache):
        more = f", and {len(found) - 1} more" if len(found) > 1 else ""
        raise DamagedCache(
            f"{cache.directory}: is damaged, so it is not copied: {found[0]}{more}."
            f" {advice(cache, found)}"
        )


def advice(cache, found: list[str]) -> str:
    """Returns how to go on with a cache after `verify` found this; "" where the lines say so."""
    return "" if any(BEYOND_REPAIR in line for line in found) else mending(cache.directory)


def _damage(model: str, tile: Tile, view: np.ndarray, samples: int) -> str | None:
    shape = tile.shape
    if shape.form not in _FORMS or shape.plane not in PLANES or shape.state not in STATES:
        return "its form, plane or state in the index is unknown"
    if tile.offset % packing.ALIGNMENT or not 0 <= tile.offset <= tile.offset + shape.length <= len(
        view
    ):
        return f"its place is beyond the {len(view)} bytes of the file"
    if packing.digest(model, shape, view[tile.offset : tile.offset + shape.length]) != tile.digest:
        return "its bytes are not those that were written"
    if shape.first + shape.span > samples:
        return f"has columns beyond the {samples} samples"
    return None


def _overlapping(tiles: list[Tile], view: np.ndarray, samples: int) -> list[Tile]:
    """Returns those of one row's tiles that have a cell which an earlier one has."""
    ranges = sorted((tile.shape.first, tile.shape.first + tile.shape.span) for tile in tiles)
    if all(before[1] <= after[0] for before, after in zip(ranges, ranges[1:], strict=False)):
        return []
    seen, overlapping = np.zeros(samples, bool), []
    for tile in tiles:
        at, _ = packing.decode(tile.shape, view[tile.offset : tile.offset + tile.shape.length])
        if seen[at].any():
            overlapping.append(tile)
        seen[at] = True
    return overlapping
