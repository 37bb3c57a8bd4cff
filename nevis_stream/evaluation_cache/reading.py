"""Reads an evaluation cache as it is at one instant."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from nevis_stream.evaluation_cache import entries, packing, sums
from nevis_stream.evaluation_cache.index import Index
from nevis_stream.evaluation_cache.packing import (
    ALL,
    CONFIDENCE,
    CORRECT,
    FEATURES,
    NO_MODEL,
    OBSERVED,
    PROBABILITIES,
    SCORE,
    Tile,
)
from nevis_stream.queries.matrix import UNKNOWN

# chooses models or samples: ids, integer numbers, or None for all
Which = Sequence[str] | np.ndarray | None


class Snapshot:
    """Some models of a cache on some samples; anything written later is not seen.

    Args:
      index, cells: the cache's.
      models: ids or int rows, none twice; None for all.
      samples: ids or int columns, none twice; None for all.

    Attributes:
      rows, columns: int64, the chosen ones.
      scores: whether some sample of the cache has scores.
    """

    def __init__(
        self, index: Index, cells: packing.TileFile, models: Which = None, samples: Which = None
    ):
        with index.reading() as db:
            self.rows = entries.choose(db, "models", models)
            self.columns = entries.choose(db, "samples", samples)
            self.scores = entries.has_scores(db)
            self._view = cells.view(entries.end(db))
            tiles = entries.tiles(db, rows=self.rows)
            features = [] if models is None else entries.tiles(db, "model = ?", [NO_MODEL])
        self._all_columns = samples is None
        self._tiles: dict[tuple[str, str], list[Tile]] = defaultdict(list)
        for tile in [*tiles, *features]:
            self._tiles[tile.shape.state, tile.shape.plane].append(tile)

    def values(self, state: str) -> np.ndarray:
        """Returns uint8[m, n] of outcomes, or float32[m, n] if the cache has `scores`."""
        outcomes = self._tiles[state, CORRECT]
        if not self.scores:
            return self._fill(CORRECT, outcomes)
        # in the order of writing: of predictions in both planes the later one counts
        tiles = sorted([*outcomes, *self._tiles[state, SCORE]], key=lambda tile: tile.number)
        return self._fill(SCORE, tiles)

    def plane(self, plane: str, state: str) -> np.ndarray:
        """Returns [m, n], or [m, n, classes], of one plane; 255 or NaN where unknown."""
        return self._fill(plane, self._tiles[state, plane])

    def _fill(self, plane: str, tiles: Sequence[Tile]) -> np.ndarray:
        """Returns the values in tiles, in the form of a plane."""
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
        """Returns float32[n, d] of all samples, NaN if a sample has none; None if none has any."""
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
        total, known = sums.column_sums(self._view, outcomes, n)
        if not self.scores:
            return total, known
        more, seen = sums.value_sums(self._view, self._tiles[OBSERVED, SCORE], n)
        return total + more, known + seen

    def confidence_sums(self) -> tuple[np.ndarray, np.ndarray]:
        """See `EvaluationCache.confidence_sums`."""
        tiles = self._tiles[OBSERVED, CONFIDENCE]
        return sums.value_sums(self._view, tiles, len(self.columns))

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
