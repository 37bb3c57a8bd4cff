"""Arrays that are derived from data: memory-mapped .npy files with a checksum of every row.

The CRC-32 of each row, uint32[n], follows the array, where numpy does not look. What is read of an
array is compared: all of it, or the rows that are read of one that does not fit in memory.
"""

import os
import zlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from nevis_stream.storage.reading import load_array

SUFFIX = "-v2.npy"
"""End of the names of such files; those of version 1 had no checksums."""


def write(path: Path, rows: Iterable[np.ndarray], shape: tuple[int, ...]) -> None:
    """Writes and syncs an array of bytes, uint8[shape], row by row."""
    sums = np.empty(shape[0], "<u4")
    # not memory-mapped, so that a full disk raises an error instead of a signal
    with open(path, "wb") as file:
        header = {"descr": "|u1", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        for number, row in enumerate(rows):
            sums[number] = zlib.crc32(row)
            file.write(row.data)
        file.write(sums.tobytes())
        file.flush()
        os.fsync(file.fileno())


def open_array(path: Path) -> np.memmap | None:
    """Maps an array; None if the file is not one with checksums, or not whole."""
    try:
        array = load_array(path)
        if not isinstance(array, np.memmap):
            return None
        whole = array.offset + array.nbytes + 4 * len(array) == path.stat().st_size
        return array if whole and array.dtype == np.uint8 and array.ndim > 1 else None
    except (ValueError, EOFError, AttributeError, FileNotFoundError):
        return None


def changed_rows(array: np.memmap, rows: np.ndarray, content: np.ndarray) -> np.ndarray:
    """Returns those of some rows whose bytes are not those that were written.

    Args:
      array: the result of `open_array`.
      rows: int[m] indices.
      content: uint8[m, …], the rows as they were read.
    """
    place = array.offset + array.nbytes
    sums = np.memmap(str(array.filename), "<u4", "r", offset=place, shape=(len(array),))
    found = np.array([zlib.crc32(row) for row in content], np.uint32)
    return rows[found != sums[rows]]


def is_intact(array: np.memmap) -> bool:
    """Returns whether every row is as it was written."""
    return not len(changed_rows(array, np.arange(len(array)), array))


def problems(folder: Path) -> list[str]:
    """Returns a line for each array of a folder that has changed since it was written."""
    lines = []
    for path in sorted(folder.glob(f"[!.]*{SUFFIX}")):
        array = open_array(path)
        if array is None or not is_intact(array):
            lines.append(f"{path}: has changed since it was written; delete it")
    return lines
