"""Sums over the rows of packed bits, eight cells in a byte, without unpacking the rows.

Counters are stored as planes of bits, 64 columns in a word: three words of one weight become one
word of that weight and one of twice the weight (a full adder: Harley and Seal's carry-save
addition), so a row costs about five operations per word.
"""

from collections.abc import Sequence

import numpy as np

from nevis_stream.evaluation_cache.packing import LIST, Tile

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
