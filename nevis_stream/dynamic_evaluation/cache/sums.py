"""Sums over the rows of packed bits, eight cells a byte, without unpacking the rows.

Counters are kept as planes of bits, 64 columns to a word: three words of one weight become one of
it and one of twice the weight (a full adder, Harley and Seal's carry-save addition), so a row costs
about five operations a word.
"""

from collections.abc import Sequence

import numpy as np

from nevis_stream.dynamic_evaluation.cache.packing import LIST, Tile, decode

# words of 8 bytes; the planes of 1,000 rows and what is worked on stay in a core's second-level
# cache
_CHUNK = 8192


def column_sums(view: np.ndarray, tiles: Sequence[Tile], n: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns int32[n], the sums of observed outcomes in tiles, and int32[n], how many there are.

    Args:
      view: the file of the tiles, uint8[bytes].
      tiles: what is added up; no two have the same cell.
      n: columns.
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
                at, values = decode(tile.shape, view[tile.offset : tile.offset + tile.shape.length])
                correct[at] += values
                known[at] += 1
            continue
        here, width = slice(first, first + span), -(-span // 64)
        known_bytes = group[0].shape.known_bytes
        starts = [(tile.offset + known_bytes) // 8 for tile in group]
        correct[here] += packed_sums(words, starts, width)[:span]
        starts = [tile.offset // 8 for tile in group]
        known[here] += packed_sums(words, starts, width)[:span] if known_bytes else len(group)
    return correct, known


def value_sums(view: np.ndarray, tiles: Sequence[Tile], n: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns float64[n], the sums of the floats in tiles, and int32[n], how many there are."""
    sums, known = np.zeros(n), np.zeros(n, np.int32)
    for tile in tiles:
        at, values = decode(tile.shape, view[tile.offset : tile.offset + tile.shape.length])
        sums[at] += values
        known[at] += 1
    return sums, known


def packed_sums(words: np.ndarray, starts: Sequence[int], width: int) -> np.ndarray:
    """Returns int32[64 · width], in each column the number of rows whose bit is set.

    Args:
      words: uint64 words that hold the rows (a map of a file may be larger than memory).
      starts: where each row begins in `words`.
      width: words of a row.
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
        # of each weight, at most two arrays wait for a third
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
        if waiting is self.digits[0]:  # a row of the caller's is copied, a carry is ours
            kept = self._array()
            kept[:] = row
            row = kept
        waiting.append(row)

    def add_to(self, sums: np.ndarray) -> None:
        """Adds the counts to int32[64 · size]."""
        for weight, waiting in enumerate(self.digits):
            for bits in waiting:
                sums += np.unpackbits(bits.view(np.uint8)).astype(np.int32) << weight
