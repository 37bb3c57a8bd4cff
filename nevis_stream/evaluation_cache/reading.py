"""Reads an evaluation cache as it is at one instant, and sums its rows without unpacking them.

Rows are packed bits, eight cells in a byte. Counters are stored as planes of bits, 64 columns in a
word: three words of one weight become one word of that weight and one of twice the weight (a full
adder: Harley and Seal's carry-save addition), so a row costs about five operations per word.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from nevis_stream.evaluation_cache import entries, packing
from nevis_stream.evaluation_cache.index import Index
from nevis_stream.evaluation_cache.packing import (
    ALL,
    CONFIDENCE,
    CORRECT,
    FEATURES,
    LIST,
    NO_MODEL,
    OBSERVED,
    PROBABILITIES,
    SCORE,
    Tile,
)
from nevis_stream.queries.matrix import UNKNOWN

# words of 8 bytes; the planes of 1,000 rows and the working arrays fit a core's second-level cache
_CHUNK = 8192


def column_sums(view: np.ndarray, tiles: Sequence[Tile], n: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns int32[n], the sums of the outcomes in tiles, and int32[n], the numbers of outcomes.

    Args:
      view: the file of the tiles, uint8[bytes].
      tiles: the tiles to add up; no cell is in two of them.
      n: number of columns.
    """
    correct, known = np.zeros(n, np.int32), np.zeros(n, np.int32)
    words = view.view(np.uint64)
    groups: dict[tuple[str, int, int], list[Tile]] = {}
    for tile in tiles:
        shape = tile.shape
        groups.setdefault(
            (shape.form, shape.first, 0 if shape.form == LIST else shape.span), []
        ).append(tile)
    for (form, first, span), group in groups.items():
        if form == LIST:
            for tile in group:
                columns, values = tile.decode(view)
                correct[columns] += values
                known[columns] += 1
            continue
        columns, width = slice(first, first + span), -(-span // 64)
        known_bytes = group[0].shape.known_bytes
        starts = [(tile.offset + known_bytes) // 8 for tile in group]
        correct[columns] += packed_sums(words, starts, width)[:span]
        starts = [tile.offset // 8 for tile in group]
        known[columns] += packed_sums(words, starts, width)[:span] if known_bytes else len(group)
    return correct, known


def value_sums(view: np.ndarray, tiles: Sequence[Tile], n: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns float64[n], the sums of the floats in tiles, and int32[n], the numbers of floats."""
    sums, known = np.zeros(n), np.zeros(n, np.int32)
    for tile in tiles:
        columns, values = tile.decode(view)
        sums[columns] += values
        known[columns] += 1
    return sums, known


def packed_sums(words: np.ndarray, starts: Sequence[int], width: int) -> np.ndarray:
    """Returns int32[64 · width], in each column the number of rows whose bit is set.

    Args:
      words: uint64 words that hold the rows (a map of a file may be larger than memory).
      starts: the position in `words` at which each row starts.
      width: number of words of a row.
    """
    sums = np.zeros(64 * width, np.int32)
    for low in range(0, width, _CHUNK):
        size = min(_CHUNK, width - low)
        adder = _CarrySave(size)
        for start in starts:
            adder.add(words[start + low : start + low + size])
        adder.add_to(sums[64 * low : 64 * (low + size)])
    return sums


class _CarrySave:
    """Counts the set bits of each column of a chunk as binary numbers, one array for each digit."""

    def __init__(self, size: int):
        # for each weight, at most two arrays that wait for a third
        self.digits: list[list[np.ndarray]] = []
        self.work = np.empty(size, np.uint64)
        self.spare: list[np.ndarray] = []
        self.size = size

    def _array(self) -> np.ndarray:
        return self.spare.pop() if self.spare else np.empty(self.size, np.uint64)

    def add(self, row: np.ndarray) -> None:
        """Adds a row, uint64[size]."""
        for waiting in self.digits:
            if len(waiting) < 2:
                break
            a, b = waiting[0], waiting.pop()
            carry = self._array()
            np.bitwise_xor(a, b, out=self.work)
            np.bitwise_and(a, b, out=carry)
            np.bitwise_xor(self.work, row, out=a)
            np.bitwise_and(self.work, row, out=self.work)
            np.bitwise_or(carry, self.work, out=carry)
            self.spare.append(b)
            if waiting is not self.digits[0]:
                self.spare.append(row)
            row = carry
        else:
            waiting = []
            self.digits.append(waiting)
        if waiting is self.digits[0]:  # the caller's row is copied; a carry is our own
            copy = self._array()
            copy[:] = row
            row = copy
        waiting.append(row)

    def add_to(self, sums: np.ndarray) -> None:
        """Adds the counts to int32[64 · size]."""
        for weight, waiting in enumerate(self.digits):
            for bits in waiting:
                sums += np.unpackbits(bits.view(np.uint8)).astype(np.int32) << weight


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
        total, known = column_sums(self._view, outcomes, n)
        if not self.scores:
            return total, known
        more, seen = value_sums(self._view, self._tiles[OBSERVED, SCORE], n)
        return total + more, known + seen

    def confidence_sums(self) -> tuple[np.ndarray, np.ndarray]:
        """See `EvaluationCache.confidence_sums`."""
        tiles = self._tiles[OBSERVED, CONFIDENCE]
        return value_sums(self._view, tiles, len(self.columns))

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
