"""Counts what an evaluation cache holds, checks that all of it is as it was written, and copies the
undamaged parts of a damaged cache, which itself stays unchanged.
"""

import itertools
import shlex
import sqlite3
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from nevis_stream.errors import BadInput, DamagedCache, plural
from nevis_stream.evaluation_cache import (
    additions,
    cells,
    entries,
    facts,
    identity,
    packing,
    records,
)
from nevis_stream.evaluation_cache.additions import ADDITIONS, examine
from nevis_stream.evaluation_cache.arguments import find_credentials
from nevis_stream.evaluation_cache.index import BEYOND_REPAIR, advise_repair, decode_leniently
from nevis_stream.evaluation_cache.packing import (
    CONFIDENCE,
    CORRECT,
    OBSERVED,
    PREDICTED,
    PROBABILITIES,
    SCORE,
    Tile,
)
from nevis_stream.progress import SILENT, Progress
from nevis_stream.storage.record import read_checked


def count_cells(cache) -> dict[str, Any]:
    """Returns the numbers of models, samples, cells by state and bytes of an `EvaluationCache`, the
    observed fraction of all cells, and the mean of the observed values in their range, NaN if not
    all samples agree in direction, range and metric.
    """
    total, known = (sums.sum() for sums in cache.row_sums())
    with cache.index.reading() as db:
        models, samples = entries.count(db, "models"), entries.count(db, "samples")
        shapes = [tile.shape for tile in entries.list_tiles(db)]
        low, high = facts.read_range(next((each for _, each in entries.read_batches(db)), {}))
    predicted = sorted({shape.model for shape in shapes if shape.state == PREDICTED})
    cells: Counter[str] = Counter()
    for shape in shapes:
        cells[shape.plane] += shape.cells if shape.state == OBSERVED else 0
    return {
        "about": cache.about,
        "models": models,
        "samples": samples,
        "observed": cells[CORRECT] + cells[SCORE],
        "predicted": sum(int((cache.states(np.array([row])) == 2).sum()) for row in predicted),
        "observed share": float(known / (models * samples)) if models and samples else float("nan"),
        "mean": low + (high - low) * float(total / known)
        if known and cache.has_one_mean()
        else float("nan"),
        "with confidence": cells[CONFIDENCE],
        "with probabilities": cells[PROBABILITIES],
        "tiles": len(shapes),
        "bytes": sum(file.stat().st_size for file in cache.directory.iterdir()),
    }


@dataclass(frozen=True)
class Damage:
    """Everything that is not as it was written, in lines for people.

    Attributes:
      index: damage to the index and to samples' ids, of which there is no other copy.
      models: damage to models' provenance, by row.
      tiles: damage to tiles, by number.
      hashes: damage to the hashes of samples' contents, by column.
      imports: damage to the records of imports, by their place among them.
      others: damage to the file of tiles, and to the record of additions.
    """

    index: list[str] = field(default_factory=list)
    models: dict[int, str] = field(default_factory=dict)
    tiles: dict[int, str] = field(default_factory=dict)
    hashes: dict[int, str] = field(default_factory=dict)
    imports: dict[int, str] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """Returns all damage, [] if there is none."""
        index_lines = [f"{line}. {BEYOND_REPAIR}" for line in self.index]
        parts = (self.models, self.tiles, self.hashes, self.imports)
        return [*index_lines, *(line for part in parts for line in part.values()), *self.others]


def verify(cache) -> list[str]:
    """Returns a line for each damaged part of an `EvaluationCache`, [] if there is none.

    The bytes and shape of every tile, every sample's id and every provenance are compared with the
    SHA-256 that was recorded when they were written, and so are what the cache is about, what made
    predictions, and the lines of `additions.jsonl`; `list_unchecked` says what has no checksum.
    """
    try:
        with cache.index.reading() as db, decode_leniently(db):
            return inspect(cache, db).lines()
    except DamagedCache as error:
        return [str(error)]


def list_unchecked(cache) -> list[str]:
    """Returns a line for each part of an `EvaluationCache` that an earlier version wrote, without a
    checksum, so that `verify` cannot notice that it has changed.
    """
    with cache.index.reading() as db:
        checked = records.read_text_checks(db, "tiles")
        without_check = sum(
            tile.number not in checked for tile in entries.list_tiles(db, f"state = '{PREDICTED}'")
        )
        about = not records.read_text_checks(db, "about")
    lines = sum(not line.checked for line in read_checked(cache.directory / ADDITIONS))
    parts = {
        "what the cache is about": about,
        f"what made {plural(without_check, 'tile')} of predictions": without_check,
        f"{plural(lines, 'line')} of {ADDITIONS}": lines,
    }
    return [
        f"not checked, since an earlier version wrote it: {p}"
        for p, is_so in parts.items()
        if is_so
    ]


def list_credentials(cache) -> list[str]:
    """Returns a line for each model of an `EvaluationCache` of which an earlier version kept what
    looks like a credential, and how to take it out.
    """
    models, lines = cache.models(), []
    for (name, _), each in zip(
        identity.take_out_credentials(models.items()), models.values(), strict=True
    ):
        if identity.MODEL in each and (found := {key for key, _ in find_credentials(each)}):
            what = ", ".join(sorted(found))
            lines.append(
                f"model {name!r}: an earlier version kept a credential of its log ({what})"
            )
    return lines and [
        *lines,
        "it is in exports, boards and sessions too. Change it if others saw it, and copy all else:"
        " python -m launch.evaluate merge"
        f" {shlex.quote(str(cache.directory))} --cache=NEW_DIR; then delete this cache",
    ]


def inspect(cache, db: sqlite3.Connection) -> Damage:
    """Returns the damage of an `EvaluationCache`, given an open transaction of it in which texts
    are read by `decode_leniently`.
    """
    messages = [text for (text,) in db.execute("PRAGMA integrity_check") if text != "ok"]
    if messages:
        return Damage([f"{cache.index.path}: {text}" for text in messages])
    names, samples = entries.list_models(db), entries.list_samples(db)
    damage = Damage(entries.find_changed_samples(db, samples))
    if records.has_about_changed(db):
        damage.index.append(f"{cache.index.path}: its description has changed since it was written")
    if len(names) != entries.count(db, "models"):
        count = entries.count(db, "models")
        damage.index.append(f"models: {len(names)} ids, {count} were written")
    for row, name in entries.find_changed_models(db).items():
        damage.models[row] = f"model {name!r}: its provenance has changed since it was written"
    damage.hashes.update(entries.find_changed_hashes(db, samples))
    damage.imports.update(records.find_changed_imports(db))
    damage.others.extend(records.find_changed_errata(db))
    size, end = cache.cells.size(), entries.read_end(db)
    view = cache.cells.view(min(size, end))
    changed_origins = records.find_changed_origins(db)
    intact: dict[tuple[int, str], list[Tile]] = {}  # observed tiles by row and plane
    for tile in entries.list_tiles(db, checked=False):
        if reason := tile.find_fault(len(names), len(samples), len(view)):
            damage.tiles[tile.number] = f"{_describe_tile(tile, names)}: {reason}"
            continue
        name = entries.find_model_id(names, tile.shape.model)
        if packing.digest(name, tile.shape, tile.get_bytes(view)) != tile.digest:
            reason = "its bytes have changed since they were written"
        elif tile.number in changed_origins:
            reason = "the record of what made it has changed since it was written"
        if reason:
            damage.tiles[tile.number] = f"{tile.describe(name)}: {reason}"
        elif tile.shape.state == OBSERVED:
            plane = CORRECT if tile.shape.plane == SCORE else tile.shape.plane
            intact.setdefault((tile.shape.model, plane), []).append(tile)
    for (row, _), tiles in intact.items():
        for tile in _find_overlapping(tiles, view, len(samples)):
            name = tile.describe(entries.find_model_id(names, row))
            damage.tiles[tile.number] = f"{name}: has cells that another tile has"
    damage.others.extend(line for line in examine(cache.directory) if isinstance(line, str))
    if size < end and not damage.tiles:
        damage.others.append(f"{cache.cells.path}: has {size} bytes, its index expects {end}")
    return damage


def refuse_damage(cache) -> None:
    """Raises `DamagedCache` if `verify` finds damage, before what is damaged is copied, with new
    checksums, or compared.
    """
    if lines := verify(cache):
        more = f", and {len(lines) - 1} more" if len(lines) > 1 else ""
        raise DamagedCache(
            f"{cache.directory}: is damaged, so it is not used: {lines[0]}{more}."
            f" {advise(cache, lines)}"
        )


def advise(cache, lines: list[str]) -> str:
    """Returns how to continue with a cache after `verify` returned these lines; "" if they say that
    it cannot be repaired.
    """
    return "" if any(BEYOND_REPAIR in line for line in lines) else advise_repair(cache.directory)


def _describe_tile(tile: Tile, names: list[str]) -> str:
    """Returns a tile as messages name it, where its place in the index may be of any type."""
    numbers = tile.shape.model, tile.shape.first, tile.shape.span
    if not all(isinstance(value, int) for value in numbers):
        return f"tile {tile.number}"
    return tile.describe(entries.find_model_id(names, tile.shape.model))


def _find_overlapping(tiles: list[Tile], view: np.ndarray, samples: int) -> list[Tile]:
    """Returns those of one row's tiles that share a cell with an earlier tile."""
    ranges = sorted((tile.shape.first, tile.shape.first + tile.shape.span) for tile in tiles)
    if all(before[1] <= after[0] for before, after in zip(ranges, ranges[1:], strict=False)):
        return []
    seen, overlapping = np.zeros(samples, bool), []
    for tile in tiles:
        columns, _ = tile.decode(view)
        if seen[columns].any():
            overlapping.append(tile)
        seen[columns] = True
    return overlapping


_BYTES_AT_ONCE = 1 << 26  # of tiles that are written and synced together


def repair(
    source,
    directory: Path,
    progress: Progress = SILENT,
) -> Damage:
    """Makes a cache of the undamaged parts of another one: ids, provenance, hashes of contents,
    records of imports, tiles, and the record of additions.

    The copy is made in one commit: if it is killed it leaves an empty cache, and the same call
    starts again.

    Args:
      source: an `EvaluationCache`.
      directory: of the new cache.
      progress: is told the stages.

    Returns:
      What is damaged and left out; if nothing is, no cache is made.

    Raises:
      DamagedCache: the index or samples' ids are damaged, so it is unknown which cell is whose. No
        cache is made.
      BadInput: there is a cache in `directory` already.
    """
    with source.index.reading() as db, decode_leniently(db):
        progress.stage("verify")
        damage = inspect(source, db)
        if damage.index:
            raise DamagedCache(damage.lines()[0])
        if not damage.lines():
            return damage
        target = type(source)(directory, create=True, about=records.read_about(db))
        with target.index.writing() as new:
            if entries.count(new, "models") or entries.count(new, "samples"):
                raise BadInput(
                    f"{directory}: it contains a cache already; give a new directory for the"
                    " repaired"
                    " one."
                )
            added = [
                line for line in additions.examine(source.directory) if not isinstance(line, str)
            ]
            if added:
                additions.write(target.directory, added)
            samples = entries.list_samples(db)
            entries.add_samples(new, samples, entries.list_provenances(db, damage.hashes))
            sound_imports = records.read_imports(db, without=damage.imports)
            records.add_imports(new, sound_imports)
            cells.add_errata(new, target.cells, records.select_sound_errata(db))
            names = entries.list_models(db)
            for row, name in enumerate(names):
                entries.add_model(
                    new, name, None if row in damage.models else entries.read_provenance(db, row)
                )
            view, done = source.cells.view(min(source.cells.size(), entries.read_end(db))), 0
            tiles = entries.list_tiles(db, checked=False)
            sound = [tile for tile in tiles if tile.number not in damage.tiles]
            for made_by, tiles in _group_by_origin(db, sound):
                progress.stage("copy", done, len(sound))
                copies = [
                    (
                        entries.find_model_id(names, tile.shape.model),
                        tile.shape,
                        tile.get_bytes(view).tobytes(),
                    )
                    for tile in tiles
                ]
                cells.enter(new, target.cells, copies, made_by)
                done += len(tiles)
    return damage


def _group_by_origin(db, tiles: list[Tile]) -> Iterator[tuple[dict[str, Any], list[Tile]]]:
    """Yields what made tiles, and the tiles that are written together: neighbours that the same
    made, up to `_BYTES_AT_ONCE`.
    """
    sizes = itertools.accumulate(tile.shape.length for tile in tiles)
    parts = [
        (entries.read_origin(db, tile.number), size // _BYTES_AT_ONCE, tile)
        for tile, size in zip(tiles, sizes, strict=True)
    ]
    for (made_by, _), part in itertools.groupby(parts, key=lambda entry: entry[:2]):
        yield made_by, [tile for _, _, tile in part]
