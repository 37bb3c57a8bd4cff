"""Copies the undamaged parts of a damaged cache, which itself stays unchanged."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from nevis_stream.errors import BadInput, DamagedCache
from nevis_stream.evaluation_cache import (
    additions,
    corrections,
    entries,
    errata,
    integrity,
    texts,
    writing,
)
from nevis_stream.evaluation_cache.index import lenient
from nevis_stream.evaluation_cache.packing import Tile

_BYTES_AT_ONCE = 1 << 26  # of tiles that are written and synced together


def repair(
    source,
    directory: Path,
    progress: Callable[[str, int, int], None] = lambda stage, done, total: None,
) -> integrity.Damage:
    """Makes a cache of the undamaged parts of another one: ids, provenance, hashes of contents,
    records of imports, tiles, and the account of additions.

    The copy is made in one commit: if it is killed it leaves an empty cache, and the same call
    starts again.

    Args:
      source: an `EvaluationCache`.
      directory: of the new cache.
      progress: called with the stage, the number of tiles copied and of all.

    Returns:
      What is damaged and left out; if nothing is, no cache is made.

    Raises:
      DamagedCache: the index or samples' ids are damaged, so it is unknown which cell is whose. No
        cache is made.
      BadInput: there is a cache in `directory` already.
    """
    with source.index.reading() as db, lenient(db):
        progress("verify", 0, 0)
        damage = integrity.inspect(source, db)
        if damage.index:
            raise DamagedCache(damage.lines()[0])
        if not damage.lines():
            return damage
        target = type(source)(directory, create=True, about=texts.about(db))
        with target.index.writing() as new:
            if entries.count(new, "models") or entries.count(new, "samples"):
                raise BadInput(
                    f"{directory}: it contains a cache already; give a new directory for the"
                    " repaired"
                    " one."
                )
            accounts = [
                line for line in additions.examine(source.directory) if not isinstance(line, str)
            ]
            if accounts:
                additions.write(target.directory, accounts)
            samples = entries.samples(db)
            entries.add_samples(new, samples, entries.full_provenances(db, damage.hashes))
            sound_imports = texts.imports(db, without=damage.imports)
            texts.add_imports(new, sound_imports)
            corrections.add(new, target.cells, errata.sound(db))
            names = entries.names(db)
            for row, name in enumerate(names):
                entries.add_model(
                    new, name, None if row in damage.models else entries.provenance(db, row)
                )
            view, done = source.cells.view(min(source.cells.size(), entries.end(db))), 0
            tiles = entries.tiles(db, checked=False)
            sound = [tile for tile in tiles if tile.number not in damage.tiles]
            for made_by, tiles in _together(db, sound):
                progress("copy", done, len(sound))
                copies = [
                    (
                        entries.name_of(names, tile.shape.model),
                        tile.shape,
                        tile.data(view).tobytes(),
                    )
                    for tile in tiles
                ]
                writing.enter(new, target.cells, copies, made_by)
                done += len(tiles)
    return damage


def _together(db, tiles: list[Tile]) -> Iterator[tuple[dict[str, Any], list[Tile]]]:
    """Yields, in their order, what made tiles, and the tiles that are written together."""
    sizes = itertools.accumulate(tile.shape.length for tile in tiles)
    parts = [
        (entries.maker(db, tile.number), size // _BYTES_AT_ONCE, tile)
        for tile, size in zip(tiles, sizes, strict=True)
    ]
    for (made_by, _), part in itertools.groupby(parts, key=lambda entry: entry[:2]):
        yield made_by, [tile for _, _, tile in part]
