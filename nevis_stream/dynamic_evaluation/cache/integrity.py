"""What an evaluation cache holds, and whether all of it is as it was written."""

from typing import Any

import numpy as np

from nevis_stream.dynamic_evaluation.cache import packing, records
from nevis_stream.dynamic_evaluation.cache.packing import (
    CONFIDENCE,
    CORRECT,
    OBSERVED,
    PLANES,
    PREDICTED,
    PROBABILITIES,
    STATES,
)
from nevis_stream.errors import DamagedCache

_FORMS = (packing.ALL, packing.BITS, packing.LIST)


def stats(cache) -> dict[str, Any]:
    """Returns of an `EvaluationCache` counts of models, samples and cells by state, bytes, the share that is correct."""
    right, known = (sums.sum() for sums in cache.row_sums())
    with cache.index.reading() as db:
        models, samples = records.count(db, "models"), records.count(db, "samples")
        tiles = records.tiles(db)
    guessed = sorted({tile.shape.model for tile in tiles if tile.shape.state == PREDICTED})
    cells = {
        plane: sum(tile.shape.cells for tile in tiles if (tile.shape.state, tile.shape.plane) == (OBSERVED, plane))
        for plane in PLANES
    }
    return {
        "about": cache.about,
        "models": models,
        "samples": samples,
        "observed": cells[CORRECT],
        "predicted": sum(int((cache.states(np.array([row])) == 2).sum()) for row in guessed),
        "known": float(known / (models * samples)) if models and samples else float("nan"),
        "accuracy": float(right / known) if known else float("nan"),
        "with confidence": cells[CONFIDENCE],
        "with probabilities": cells[PROBABILITIES],
        "tiles": len(tiles),
        "bytes": sum(file.stat().st_size for file in cache.directory.iterdir()),
    }


def verify(cache) -> list[str]:
    """Returns what is damaged in an `EvaluationCache`, a line each that names the tile; nothing where all is well.

    Every tile's bytes and shape, every sample's id and every provenance are compared with the SHA-256 that was taken when they
    were written.
    """
    try:
        with cache.index.reading() as db:
            found = [f"{cache.index.path}: {text}" for (text,) in db.execute("PRAGMA integrity_check") if text != "ok"]
            models, samples = list(records.models(db)), records.samples(db)
            found += _samples(records.batches(db), samples)
            told = "its provenance is not what was written"
            found += [f"model {name!r}: {told}" for name in records.changed_models(db)]
            tiles, end = records.tiles(db), records.end(db)
    except DamagedCache as error:
        return [str(error)]
    size = cache.cells.path.stat().st_size if cache.cells.path.exists() else 0
    view = cache.cells.view(min(size, end))
    rows: dict[tuple[int, str, str], list[packing.Tile]] = {}
    for tile in sorted(tiles, key=lambda tile: tile.offset):
        model = models[tile.shape.model] if 0 <= tile.shape.model < len(models) else "(not in the index)"
        if reason := _damage(model, tile, view, len(samples)):
            found.append(f"{tile.name(model)}: {reason}")
        else:
            rows.setdefault((tile.shape.model, tile.shape.state, tile.shape.plane), []).append(tile)
    for (row, state, plane), mine in rows.items():
        if state == OBSERVED and _overlap(mine, view, len(samples)):
            found.append(f"model {models[row]!r}: two tiles have the same {plane} cell")
    return found


def check(cache) -> None:
    """Raises `DamagedCache` where `verify` finds something: a copy would have new checksums, and seem sound."""
    if found := verify(cache):
        more = f", and {len(found) - 1} more" if len(found) > 1 else ""
        raise DamagedCache(f"{cache.directory}: is damaged, so it is not copied: {found[0]}{more}.")


def _samples(batches, samples: list[str]) -> list[str]:
    found, behind = [], 0
    for columns, provenance, digest in batches:
        if columns.start != behind or records.batch_digest(samples[columns], provenance) != digest:
            found.append(f"samples {columns.start}–{columns.stop - 1}: their ids or provenance are not those that were written")
        behind = columns.stop
    return found if behind == len(samples) else [*found, f"samples: {len(samples)} ids, {behind} were written"]


def _damage(model: str, tile: packing.Tile, view: np.ndarray, samples: int) -> str | None:
    shape = tile.shape
    if shape.form not in _FORMS or shape.plane not in PLANES or shape.state not in STATES:
        return "the index tells no form, plane or state that there is"
    if tile.offset % packing.ALIGNMENT or not 0 <= tile.offset <= tile.offset + shape.length <= len(view):
        return f"lies beyond the {len(view)} bytes of the file"
    if packing.digest(model, shape, view[tile.offset : tile.offset + shape.length]) != tile.digest:
        return "its bytes are not those that were written"
    if shape.first + shape.span > samples:
        return f"has columns beyond the {samples} samples"
    return None


def _overlap(tiles: list[packing.Tile], view: np.ndarray, samples: int) -> bool:
    ranges = sorted((tile.shape.first, tile.shape.first + tile.shape.span) for tile in tiles)
    if all(before[1] <= after[0] for before, after in zip(ranges, ranges[1:], strict=False)):
        return False
    seen = np.zeros(samples, np.int32)
    for tile in tiles:
        at, _ = packing.decode(tile.shape, view[tile.offset : tile.offset + tile.shape.length])
        seen[at] += 1
    return bool(seen.max() > 1)
