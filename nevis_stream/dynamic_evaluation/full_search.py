"""Search of many rows of which every cell is known, on packed bits, eight cells a byte, without
unpacking the rows.

Samples with equal scores may stand in any order, so a threshold is tried only between distinct
scores; what is needed of a row is then its number of ones in each group of equal scores. 64 rows at
a time are turned into words of one sample each (a 64 × 64 transposition of bits), these are
gathered in the rank's order, and counted as binary numbers whose digits are words (full adders,
Harley and Seal).
"""

import itertools
import sys
from collections.abc import Iterable, Sequence

import numpy as np

from nevis_stream.dynamic_evaluation.sort import Rank

_ROWS = 64  # bits of a word
_GROUP = 31  # words that are counted in five binary digits
_WORDS = 512  # 64 rows of these stay in a core's second cache while they are transposed
_GROUPS = 4096
_SAMPLES = 1 << 16
_SWAPS = [(32, 0x00000000FFFFFFFF), (16, 0x0000FFFF0000FFFF), (8, 0x00FF00FF00FF00FF), (4, 0x0F0F0F0F0F0F0F0F),  # noqa: E501
          (2, 0x3333333333333333), (1, 0x5555555555555555)]  # fmt: skip
_EIGHTH = np.uint64(0x0101010101010101)


def full_thresholds(rows: Iterable[tuple[np.ndarray, np.ndarray | None]], rank: Rank) -> np.ndarray:
    """Returns each row's best threshold between samples of distinct scores, int64[m]: how many
    leading ones it predicts.

    It is the exact optimum of these; of several the least.

    Args:
      rows: as `EvaluationCache.packed_rows` yields them: uint64[⌈n / 64⌉], whose bytes are the ones
        as `np.packbits` packs them, unknown cells 0; and the same of the known cells, or None where
        all are. They may map a file. Bits behind the n-th are ignored.
      rank: the order of the n samples.
    """
    places, cuts, rows = _Places(rank), [], iter(rows)
    while block := list(itertools.islice(rows, _ROWS)):
        right, known = zip(*block, strict=True)
        gains = 2 * places.ones(right)
        if any(row is not None for row in known):
            every = np.full(-(-rank.n // 64), 0xFFFFFFFFFFFFFFFF, np.uint64)
            gains -= places.ones([every if row is None else row for row in known])
        else:
            gains -= places.sizes.astype(np.int32)[:, None]
        prefix = np.zeros((len(block), len(gains) + 1), np.int32)
        np.cumsum(gains.T[: len(block)], axis=1, out=prefix[:, 1:])
        cuts.append(places.bounds[prefix.argmax(axis=1)])
    return np.concatenate(cuts) if cuts else np.empty(0, np.int64)


class _Places:
    """Where the samples of each group of equal scores are found among transposed words.

    Attributes:
      bounds: int64[g + 1], places in the order where groups begin and end.
      sizes: int64[g].
    """

    def __init__(self, rank: Rank):
        assert sys.byteorder == "little"
        self.bounds = rank.bounds()
        self.sizes = np.diff(self.bounds)
        self.width = -(-rank.n // 64)
        # A group of equal scores takes whole groups of words; what is left over points to a word of
        # zeros at the end.
        self.begin = np.concatenate([[0], np.cumsum(-(-self.sizes // _GROUP))])
        self.places = np.full((_GROUP, self.begin[-1]), 64 * self.width)
        for low in range(0, rank.n, _SAMPLES):
            sample = rank.order[low : low + _SAMPLES]
            place = np.arange(low, low + len(sample))
            group = np.searchsorted(self.bounds, place, side="right") - 1
            inside = place - self.bounds[group]
            # of the word; a byte's first sample is its highest bit
            bit = 8 * (sample % 64 // 8) + 7 - sample % 8
            self.places[inside % _GROUP, self.begin[group] + inside // _GROUP] = (
                bit * self.width + sample // 64
            )
        self.words = np.zeros(64 * self.width + 1, np.uint64)

    def ones(self, rows: Sequence[np.ndarray]) -> np.ndarray:
        """Returns the ones of up to 64 rows in each group, int32[g, 64]."""
        self._transpose(rows)
        counts = np.empty((self.begin[-1], 8), np.uint64)
        for low in range(0, len(counts), _GROUPS):
            part = counts[low : low + _GROUPS]
            digits = _digits(
                [
                    self.words.take(places, mode="clip")
                    for places in self.places[:, low : low + _GROUPS]
                ]
            )
            for shift in range(8):
                part[:, shift] = sum(
                    ((digit >> np.uint64(shift)) & _EIGHTH) << np.uint64(w)
                    for w, digit in enumerate(digits)
                )
        sums = np.add.reduceat(counts.view(np.uint8), self.begin[:-1], axis=0, dtype=np.int32)
        return sums.reshape(-1, 8, 8).transpose(0, 2, 1).reshape(-1, 64)

    def _transpose(self, rows: Sequence[np.ndarray]) -> None:
        """Fills `words`: that of bit b and word w of the rows is at b · width + w, and its bit r is
        row r's.
        """
        by_bit = self.words[:-1].reshape(64, self.width)
        for low in range(0, self.width, _WORDS):
            size = min(_WORDS, self.width - low)
            square = np.zeros((64, size), np.uint64)
            for r, row in enumerate(rows):
                square[r] = row[low : low + size]
            for step, mask in _SWAPS:
                pairs = square.reshape(-1, 2, step, size)
                upper, lower = pairs[:, 0], pairs[:, 1]
                swapped = upper >> np.uint64(step)
                swapped ^= lower
                swapped &= np.uint64(mask)
                lower ^= swapped
                swapped <<= np.uint64(step)
                upper ^= swapped
            by_bit[:, low : low + size] = square


def _digits(words: list[np.ndarray]) -> list[np.ndarray]:
    """Returns the binary digits, lowest first, of how often each bit is set in the words, uint64[k]
    each; overwrites them.
    """
    digits = []
    while words:
        carries = []
        while len(words) >= 3:
            a, b, c = words.pop(), words.pop(), words.pop()
            either = a ^ b
            a &= b
            b = either & c
            a |= b
            either ^= c
            carries.append(a)
            words.append(either)
        if len(words) == 2:
            a, b = words
            carries.append(a & b)
            words = [a ^ b]
        digits.append(words[0])
        words = carries
    return digits
