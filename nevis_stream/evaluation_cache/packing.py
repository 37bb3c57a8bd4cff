"""Tiles: the cells of one model on some columns, as bytes, one tile after the other in one file.

A tile records which of its `span` columns, starting at `first`, are known, in the shortest of three
forms: `all` of them (no bytes), a bit for each column (`bits`), or a `list` of int32 offsets.
Outcomes are packed, eight in a byte; other values are floats, of the known cells only. The features
of samples are tiles as well, with no model. Tiles start at multiples of 64 bytes, so that words of
64 bits can be read from them.

Sums of outcomes are made without unpacking them. Counts are stored digit by digit, as binary
numbers, 64 columns in a word: three words of one weight become one word of that weight and one of
twice the weight (a full adder: Harley and Seal's carry-save addition), so a row costs about five
operations per word.
"""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

import numpy as np

from nevis_stream.errors import DamagedCache
from nevis_stream.evaluation_cache.index import advise_repair
from nevis_stream.storage.reading import refuse_link

ALIGNMENT = 64
CORRECT, CONFIDENCE, PROBABILITIES = "correct", "confidence", "probabilities"
SCORE, FEATURES = "score", "features"
# how the values of each plane are stored; outcomes are bits
DTYPES = {CONFIDENCE: "<f2", PROBABILITIES: "<f2", SCORE: "<f4", FEATURES: "<f4"}
PLANES = (CORRECT, *DTYPES)
LATER_PLANES = (SCORE, FEATURES)  # since schema version 2
VECTORS = (PROBABILITIES, FEATURES)  # planes with several values per cell
NO_MODEL = -1  # the row of a tile about samples alone
OBSERVED, PREDICTED = STATES = ("observed", "predicted")
ALL, BITS, LIST = _FORMS = ("all", "bits", "list")
_MOST_CLASSES = 1 << 24  # values of a cell


@dataclass(frozen=True)
class Shape:
    """What the bytes of a tile mean: everything about it except its place and checksum."""

    model: int  # the row of the model, or `NO_MODEL`
    state: str  # one of `STATES`
    plane: str  # one of `PLANES`: which values of the cells these are
    form: str  # one of `_FORMS`: how the known columns are recorded
    first: int  # column
    span: int  # number of columns from the first known one to the last
    cells: int  # number of known columns
    ones: int  # correct outcomes among the cells; 0 in the other planes
    classes: int  # values per cell of probabilities or features; 0 in the other planes

    @property
    def mask_bytes(self) -> int:
        """Bytes, with padding, that record which columns are known."""
        return round_up({ALL: 0, BITS: -(-self.span // 8), LIST: 4 * self.cells}[self.form])

    @property
    def value_bytes(self) -> int:
        """Bytes, with padding, of the values."""
        if self.plane == CORRECT:
            return round_up(-(-(self.cells if self.form == LIST else self.span) // 8))
        return round_up(self.float_bytes)

    @property
    def float_bytes(self) -> int:
        """Bytes of the values of a plane of floats."""
        return np.dtype(DTYPES[self.plane]).itemsize * self.cells * max(self.classes, 1)

    def read_floats(self, data: np.ndarray) -> np.ndarray:
        """Returns float[cells], or float[cells, classes], from the bytes of the values, uint8."""
        values = data[: self.float_bytes].view(DTYPES[self.plane])
        return values.reshape(self.cells, self.classes) if self.plane in VECTORS else values

    @property
    def length(self) -> int:
        """Bytes of the whole tile."""
        return self.mask_bytes + self.value_bytes


@dataclass(frozen=True)
class Tile:
    """A tile of the file: its number (later tiles have higher ones), its shape, the byte at which
    it starts, and its checksum.
    """

    number: int
    shape: Shape
    offset: int
    digest: bytes

    def find_fault(self, models: int, samples: int, size: int) -> str | None:
        """Returns what is impossible about the tile's place, or None.

        Args:
          models, samples: numbers of them in the cache.
          size: bytes of the file that count.
        """
        shape = self.shape  # by name: a cache has many tiles, and `astuple` copies each value
        numbers = (
            *(shape.model, shape.first, shape.span, shape.cells, shape.ones, shape.classes),
            self.offset,
        )
        if not all(isinstance(value, int) for value in numbers):
            return "its place in the index has changed since it was written"
        if shape.form not in _FORMS or shape.plane not in PLANES or shape.state not in STATES:
            return "its form, plane or state in the index is unknown"
        if not NO_MODEL <= shape.model < models:
            return f"is of a model beyond the {models} models"
        if shape.first < 0 or shape.span < 1 or shape.first + shape.span > samples:
            return f"has columns beyond the {samples} samples"
        if not 1 <= shape.cells <= shape.span or not 0 <= shape.classes <= _MOST_CLASSES:
            return "its numbers of cells and classes are impossible"
        if self.offset % ALIGNMENT or not 0 <= self.offset <= size - shape.length:
            return f"its place is beyond the {size} bytes of the file"
        return None

    def get_bytes(self, view: np.ndarray) -> np.ndarray:
        """Returns the tile's bytes, uint8[length], given a memory map of the file, uint8."""
        return view[self.offset : self.offset + self.shape.length]

    def decode(self, view: np.ndarray) -> tuple[np.ndarray | slice, np.ndarray]:
        """Returns the tile's columns and values, given a memory map of the file; see `decode`."""
        return decode(self.shape, self.get_bytes(view))

    def describe(self, model: str) -> str:
        """Returns the tile as messages name it, given its model's id."""
        shape = self.shape
        about = shape.plane if shape.model == NO_MODEL else f"{shape.plane} of model {model!r}"
        return (
            f"tile {self.number} ({shape.state} {about}, {shape.cells}"
            f" cells of columns {shape.first}–{shape.first + shape.span - 1}, starting at byte"
            f" {self.offset})"
        )


def round_up(size: int) -> int:
    """Returns a number of bytes, rounded up to a multiple of the alignment."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def _pad_bytes(data: np.ndarray) -> bytes:
    raw = np.ascontiguousarray(data).tobytes()
    return raw.ljust(round_up(len(raw)), b"\0")


def encode(
    model: int, state: str, plane: str, columns: np.ndarray, values: np.ndarray
) -> tuple[Shape, bytes]:
    """Returns the shape and the bytes of a tile.

    Args:
      model: the model's row, or `NO_MODEL`.
      state: "observed" or "predicted".
      plane: one of `PLANES`.
      columns: int64[k], k > 0, ascending.
      values: uint8[k] of outcomes, 0 and 1, or float[k]; float[k, classes] in `VECTORS`.
    """
    first, cells = int(columns[0]), len(columns)
    span = int(columns[-1]) - first + 1
    form = ALL if cells == span else LIST if 16 * cells < span else BITS
    ones = int(np.count_nonzero(values)) if plane == CORRECT else 0
    shape = Shape(
        model,
        state,
        plane,
        form,
        first,
        span,
        cells,
        ones,
        values.shape[1] if plane in VECTORS else 0,
    )
    offsets, known = columns - first, b""
    if form == LIST:
        known = _pad_bytes(offsets.astype("<i4"))
    elif form == BITS:
        mask = np.zeros(span, np.uint8)
        mask[offsets] = 1
        known = _pad_bytes(np.packbits(mask))
    if plane == CORRECT:
        if form == BITS:
            spread = np.zeros(span, np.uint8)
            spread[offsets] = values
            values = spread
        return shape, known + _pad_bytes(np.packbits(values))
    return shape, known + _pad_bytes(values.astype(DTYPES[plane]))


def decode(shape: Shape, data: np.ndarray) -> tuple[np.ndarray | slice, np.ndarray]:
    """Returns a tile's columns (a slice, or int64[cells]) and its values (uint8 or float) from its
    bytes, uint8[length].
    """
    known, data = data[: shape.mask_bytes], data[shape.mask_bytes :]
    columns: np.ndarray | slice = slice(shape.first, shape.first + shape.span)
    if shape.form == BITS:
        offsets = np.flatnonzero(np.unpackbits(known, count=shape.span))
        _check_sound(shape, len(offsets) == shape.cells)
        columns = shape.first + offsets
    elif shape.form == LIST:
        offsets = known[: 4 * shape.cells].view("<i4")
        _check_sound(shape, offsets.min() >= 0 and offsets.max() < shape.span)
        columns = shape.first + offsets.astype(np.int64)
    if shape.plane == CORRECT:
        values = np.unpackbits(data, count=shape.cells if shape.form == LIST else shape.span)
        return columns, values[offsets] if shape.form == BITS else values
    return columns, shape.read_floats(data)


def pick(tile: Tile, view: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Reads some columns of a tile.

    Args:
      tile: the tile.
      view: a memory map of the file, uint8.
      columns: int64[k], ascending.

    Returns:
      int64[j], the positions in `columns` of those that the tile has; and their values, [j], or
      [j, classes] in `VECTORS`.
    """
    shape, data = tile.shape, tile.get_bytes(view)
    low, high = np.searchsorted(columns, [shape.first, shape.first + shape.span])
    offsets, positions = columns[low:high] - shape.first, np.arange(low, high)
    known, data = data[: shape.mask_bytes], data[shape.mask_bytes :]
    places = offsets
    if shape.form == BITS:
        is_known = _get_bits(known, offsets) == 1
        places, positions = offsets[is_known], positions[is_known]
        if shape.plane != CORRECT:
            place_of = np.cumsum(np.unpackbits(known, count=shape.span), dtype=np.int64) - 1
            _check_sound(shape, place_of[-1] == shape.cells - 1)
            places = place_of[places]
    elif shape.form == LIST:
        known_offsets = known[: 4 * shape.cells].view("<i4")
        places = np.searchsorted(known_offsets, offsets)
        is_known = known_offsets[np.minimum(places, shape.cells - 1)] == offsets
        places, positions = places[is_known], positions[is_known]
    if shape.plane == CORRECT:
        return positions, _get_bits(data, places)
    return positions, shape.read_floats(data)[places]


def _check_sound(shape: Shape, sound: bool) -> None:
    """Raises `DamagedCache` for damage that reading notices, though it compares no checksums."""
    if not sound:
        raise DamagedCache(
            f"a tile of {shape.state} {shape.plane} (columns"
            f" {shape.first}–{shape.first + shape.span - 1}) is damaged: python -m launch.evaluate"
            " verify names it and says how to save the others."
        )


def _get_bits(packed: np.ndarray, places: np.ndarray) -> np.ndarray:
    return packed[places >> 3] >> (7 - (places & 7)).astype(np.uint8) & 1


def digest(model: str, shape: Shape, data: bytes | np.ndarray) -> bytes:
    """Returns the checksum of a tile: the SHA-256 of the model's id, the shape and the bytes."""
    total = hashlib.sha256(repr((model, *astuple(shape)[1:])).encode())
    total.update(data)
    return total.digest()


class TileFile:
    """The file of tiles. It only grows: no byte is written twice, so that readers need no lock.

    The bytes of a killed writer are skipped, not overwritten: SQLite may still find that writer's
    commit in its log and apply it, and the index then refers to these bytes.
    """

    def __init__(self, path: Path):
        self.path = path

    def append(self, tiles: list[bytes]) -> int:
        """Appends tiles to the file, syncs it and returns the byte at which they start; the caller
        holds the lock.
        """
        refuse_link(self.path)
        with open(self.path, "r+b") as file:
            start = file.seek(round_up(file.seek(0, os.SEEK_END)))
            file.writelines(tiles)
            file.flush()
            os.fdatasync(file.fileno())
        return start

    def size(self) -> int:
        """Returns the number of bytes of the file; 0 if it is missing."""
        return self.path.stat().st_size if self.path.exists() else 0

    def view(self, end: int) -> np.ndarray:
        """Returns the file's first `end` bytes as a memory map, uint8[end].

        Raises:
          DamagedCache: the file is shorter.
        """
        if (size := self.size()) < end:
            raise DamagedCache(
                f"{self.path}: has {size} bytes, its index expects {end}. `verify` names what is"
                f" lost. {advise_repair(self.path.parent)}"
            )
        return (
            np.asarray(np.memmap(self.path, np.uint8, "r", shape=(end,)))
            if end
            else np.zeros(0, np.uint8)
        )


# words of 8 bytes of each row that are added up together: the digits of the counts of 1,000 rows
# and the working arrays fit a core's second-level cache
_CHUNK = 8192


def sum_columns(view: np.ndarray, tiles: Sequence[Tile], n: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns int32[n], the sums of the outcomes in tiles, and int32[n], the numbers of outcomes.

    Args:
      view: a memory map of the file, uint8.
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
        mask_bytes = group[0].shape.mask_bytes
        starts = [(tile.offset + mask_bytes) // 8 for tile in group]
        correct[columns] += sum_packed(words, starts, width)[:span]
        starts = [tile.offset // 8 for tile in group]
        known[columns] += sum_packed(words, starts, width)[:span] if mask_bytes else len(group)
    return correct, known


def sum_values(view: np.ndarray, tiles: Sequence[Tile], n: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns float64[n], the sums of the floats in tiles, and int32[n], their numbers; arguments
    as of `sum_columns`.
    """
    sums, known = np.zeros(n), np.zeros(n, np.int32)
    for tile in tiles:
        columns, values = tile.decode(view)
        sums[columns] += values
        known[columns] += 1
    return sums, known


def sum_packed(words: np.ndarray, starts: Sequence[int], width: int) -> np.ndarray:
    """Returns int32[64 · width], in each column the number of rows whose bit is set.

    Args:
      words: uint64, a memory map of the file (it may be larger than memory).
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
        self.work = np.empty(size, np.uint64)  # for results that are needed for one step only
        self.spare: list[np.ndarray] = []  # arrays to be used again
        self.size = size

    def _get_array(self) -> np.ndarray:
        return self.spare.pop() if self.spare else np.empty(self.size, np.uint64)

    def add(self, row: np.ndarray) -> None:
        """Adds a row, uint64[size]."""
        for waiting in self.digits:
            if len(waiting) < 2:
                break
            a, b = waiting[0], waiting.pop()
            carry = self._get_array()
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
            copy = self._get_array()
            copy[:] = row
            row = copy
        waiting.append(row)

    def add_to(self, sums: np.ndarray) -> None:
        """Adds the counts to `sums`, int32[64 · size]."""
        for weight, waiting in enumerate(self.digits):
            for bits in waiting:
                sums += np.unpackbits(bits.view(np.uint8)).astype(np.int32) << weight
