"""Reads large csv files with a row for each cell by columns, in a tenth of the time and memory.

Only what has one plain meaning is read here: the columns `model`, `sample`, `outcome` or `score`,
and optionally `dataset` and `metric`; numbers; one value for each cell, or the same again. Any
other file is left to `tables`, which reads it row by row and says what is wrong with which line.
"""

import gzip
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

import numpy as np

from nevis_stream.evaluation_cache.facts import METRIC
from nevis_stream.storage.reading import open_file

if TYPE_CHECKING:  # imported where a file is large: importing it takes a third of a second
    import pandas as pd

LARGE = 1 << 22  # bytes; a smaller file is read by `tables`
_BLOCK_BYTES, _BLOCK_ROWS = 1 << 24, 1 << 20  # read in one step
_KEY_COLUMNS = ("dataset", "sample", METRIC)


class Cells(NamedTuple):
    """The cells of a file.

    Attributes:
      models: m ids, in the order of the file.
      keys: data set, id and metric of n samples, in the order of the file.
      values: float64[m, n], NaN where unknown.
      lines: int32[m, n], the first line of the file with each cell; 0 where there is none.
      repeats: number of repeated cells.
    """

    models: list[str]
    keys: list[tuple[str, str, str]]
    values: np.ndarray
    lines: np.ndarray
    repeats: int


def read_cells(
    path: Path, delimiter: str, header: Sequence[str], value: str, skipped: Sequence[int] = ()
) -> Cells | None:
    """Returns the cells of a csv file; None if it is not plain, as the module says.

    Args:
      path: of the file.
      delimiter: between its fields.
      header: its columns.
      value: the column of values.
      skipped: numbers of columns that are not read, from 0.
    """
    read = [name for k, name in enumerate(header) if k not in skipped]
    plain = {"model", *_KEY_COLUMNS, value}
    if {"model", "sample", value} - {*read} or {*read} - plain or len({*read}) < len(read):
        return None
    if (rows := _count_rows(path, delimiter, len(header))) is None:
        return None
    # a column that is not there has one name, ""
    numbered: dict[str, dict] = {k: {} if k in read else {"": 0} for k in ("model", *_KEY_COLUMNS)}
    keys: dict[tuple[int, ...], int] = {}
    parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    try:
        for chunk in _read_chunks(path, delimiter, header, value, skipped):
            absent = np.zeros(len(chunk), np.int64)
            codes = {
                name: _number(chunk[name], known) if name in chunk else absent
                for name, known in numbered.items()
            }
            if any(each.min() < 0 for each in codes.values()):
                return None  # an empty or missing name
            columns = np.stack([codes[name] for name in _KEY_COLUMNS])
            samples = _number_keys(columns, keys)
            values = chunk[value].to_numpy(np.float64)
            parts.append((codes["model"].astype(np.int32), samples.astype(np.int32), values))
    except (UnicodeDecodeError, ValueError, OverflowError):
        return None
    model, sample, values = (np.concatenate(each) for each in zip(*parts, strict=True))
    if len(model) != rows:  # blank lines, or lines that are not what they seem
        return None
    names = {name: list(each) for name, each in numbered.items()}
    triples = [
        tuple(names[k][code] for k, code in zip(_KEY_COLUMNS, key, strict=True)) for key in keys
    ]
    return _arrange(names["model"], triples, model, sample, values)


def _arrange(models, keys, model, sample, values) -> Cells | None:
    """Returns cells as matrices, given row, column and value of each; None if one has two values.

    Args:
      models, keys: as of `Cells`.
      model, sample: int32[k].
      values: float64[k].
    """
    shape = len(models), len(keys)
    cells = model.astype(np.int64) * shape[1] + sample
    matrix, lines = np.full(shape, np.nan), np.zeros(shape, np.int32)
    # from the end, so that the first row of a cell stays
    matrix.ravel()[cells[::-1]] = values[::-1]
    lines.ravel()[cells[::-1]] = np.arange(len(cells) + 1, 1, -1, dtype=np.int32)
    if not np.array_equal(matrix.ravel()[cells], values, equal_nan=True):
        return None
    return Cells(models, keys, matrix, lines, len(cells) - int(np.count_nonzero(lines)))


def _open(path: Path) -> BinaryIO:
    file = open_file(path)
    return gzip.GzipFile(fileobj=file) if path.suffix == ".gz" else file


def _count_rows(path: Path, delimiter: str, fields: int) -> int | None:
    """Returns the number of rows after the header; None if a line has another number of fields than
    the header, or quotes.
    """
    rows = -1
    separator, newline = delimiter.encode()[0], ord("\n")
    try:
        with _open(path) as file:
            while block := file.read(_BLOCK_BYTES):
                block += file.readline(_BLOCK_BYTES)
                if b'"' in block or b"\0" in block:
                    return None
                if not block.endswith(b"\n"):
                    block += b"\n"
                content = np.frombuffer(block, np.uint8)
                ends = np.flatnonzero(content == newline)
                before = np.searchsorted(np.flatnonzero(content == separator), ends)
                # pandas drops what is too much in one line, and fills up another
                if (np.diff(before, prepend=0) != fields - 1).any():
                    return None
                rows += len(ends)
    except (OSError, EOFError, zlib.error):
        return None
    return rows


def _read_chunks(
    path: Path, delimiter: str, header, value: str, skipped
) -> "Iterator[pd.DataFrame]":
    import pandas as pd

    kept = [k for k in range(len(header)) if k not in skipped]
    read = [header[k] for k in kept]
    types = {name: "category" for name in read if name != value} | {value: np.float64}
    with _open(path) as file:
        yield from pd.read_csv(
            file,
            sep=delimiter,
            usecols=kept,
            dtype=types,
            keep_default_na=False,
            na_values={value: [""]},
            index_col=False,
            encoding="utf-8-sig",
            chunksize=_BLOCK_ROWS,
        )


def _number(column: "pd.Series", known: dict[str, int]) -> np.ndarray:
    """Returns int64[k], the number of each name; new ones are numbered in the order of the rows."""
    codes = column.cat.codes.to_numpy().astype(np.int64)
    names = column.cat.categories.tolist()
    if (codes < 0).any() or not all(isinstance(name, str) and name for name in names):
        return np.full(len(codes), -1)
    firsts = np.unique(codes, return_index=True)
    numbers = np.full(len(names), -1)
    for code in firsts[0][np.argsort(firsts[1])].tolist():
        numbers[code] = known.setdefault(names[code], len(known))
    return numbers[codes]


def _number_keys(columns: np.ndarray, known: dict[tuple[int, ...], int]) -> np.ndarray:
    """Returns int64[k], the number of each sample, given the numbers of its names, int64[parts, k];
    new ones are numbered in the order of the rows.
    """
    sizes = columns.max(axis=1) + 1
    packed = np.zeros(columns.shape[1], np.int64)
    for size, each in zip(sizes, columns, strict=True):
        packed = packed * size + each
    _, first, place = np.unique(packed, return_index=True, return_inverse=True)
    numbers = np.empty(len(first), np.int64)
    order = np.argsort(first)
    for k, key in zip(order.tolist(), columns[:, first[order]].T.tolist(), strict=True):
        numbers[k] = known.setdefault(tuple(key), len(known))
    return numbers[place]
