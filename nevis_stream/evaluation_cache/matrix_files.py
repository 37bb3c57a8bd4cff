"""Imports bare matrices, .npy files of models × samples without names, block by block.

Sort & Search is published as such a matrix of outcomes, A.npy, with the numbers of the models that
it ranks by, rank_idx_*.npy: given these as `rows` only they are imported, so that the others can be
added as new models.
"""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from nevis_stream.errors import BadInput, plural
from nevis_stream.evaluation_cache import cells, entries, records
from nevis_stream.evaluation_cache.evaluation_cache import EvaluationCache
from nevis_stream.evaluation_cache.facts import RANGE
from nevis_stream.evaluation_cache.packing import CORRECT, OBSERVED
from nevis_stream.evaluation_cache.records import Imported
from nevis_stream.evaluation_cache.values import NONE, Ranges
from nevis_stream.progress import SILENT, Progress
from nevis_stream.queries.samples import UNKNOWN
from nevis_stream.storage.reading import load_array, open_file

_BLOCK_BYTES = 1 << 23  # of the file that are read in one step


class MatrixFile:
    """A matrix in a .npy file, of which some rows are read at a time.

    Args:
      path: of the file.

    Attributes:
      shape: numbers of models and samples.
      by_model: whether a row of the file is a model (C order), not a sample (Fortran order).
    """

    def __init__(self, path: Path):
        self.path = path
        try:
            with open_file(path) as file:
                version = np.lib.format.read_magic(file)
                read = getattr(np.lib.format, f"read_array_header_{version[0]}_0")
                self.shape, is_fortran, self._type = read(file)
                self._start = file.tell()
        except FileNotFoundError:
            raise BadInput(f"{path}: no such file.") from None
        except OSError as error:
            raise BadInput(f"{path}: cannot be read ({error.strerror}).") from None
        except (ValueError, AttributeError) as error:
            raise BadInput(f"{path}: cannot be read as .npy ({error}).") from None
        if len(self.shape) != 2 or 0 in self.shape or self._type.kind not in "biuf":
            raise BadInput(
                f"{path}: has {self._type}{list(self.shape)}; a matrix of numbers, [models,"
                " samples], is expected."
            )
        self.by_model = not is_fortran
        size = self._type.itemsize * self.shape[0] * self.shape[1]
        if path.stat().st_size < self._start + size:
            raise BadInput(f"{path}: is cut short; {size:,} bytes of numbers are expected.")

    def read_blocks(self) -> Iterator[tuple[slice, np.ndarray]]:
        """Yields the numbers of models, or of samples if not `by_model`, and their values, a row
        for each, in the type of the file.
        """
        count, width = self.shape if self.by_model else self.shape[::-1]
        size = max(1, _BLOCK_BYTES // (width * self._type.itemsize))
        for start in range(0, count, size):
            rows = min(size, count - start)
            offset = self._start + start * width * self._type.itemsize
            # read, not mapped: pages of a map would count as memory
            values = np.fromfile(self.path, self._type, rows * width, offset=offset)
            yield slice(start, start + rows), values.reshape(rows, width)


def import_matrix(
    cache: EvaluationCache | Path,
    path: Path,
    ranges: Ranges | None = None,
    rows: Path | None = None,
    progress: Progress = SILENT,
) -> Imported:
    """Adds a matrix to a cache, all or nothing; models and samples are named by their numbers,
    model/0, … and sample/0, ….

    Args:
      cache: the cache, or its directory, in which it is created once the file has been read.
      path: of the matrix: outcomes 0 and 1, 255 or NaN unknown; or scores.
      ranges: its default is that of the scores; None: 0 to 1.
      rows: a .npy file with the numbers of the models that are read; None: all.
      progress: is told the stages.

    Raises:
      BadInput: the file cannot be read, a value is not in the range, or contradicts the cache.
    """
    progress.stage("read")
    matrix, ends = MatrixFile(path), (ranges or Ranges()).default
    if ends == NONE:
        raise BadInput(f"{path}: --range=none; a bare matrix needs a range of its scores.")
    chosen = (
        np.arange(matrix.shape[0]) if rows is None else _read_row_numbers(rows, matrix.shape[0])
    )
    are_outcomes, mean = _examine(matrix, ends)
    kind = "outcomes" if are_outcomes else "scores from {:g} to {:g}".format(*ends or (0, 1))
    record = Imported(
        path.name,
        (
            f"{plural(len(chosen), 'model')} × {plural(matrix.shape[1], 'sample')}"
            + ("" if rows is None else f", of {matrix.shape[0]:,} models in the file"),
            "a bare matrix: models are model/0, …, samples sample/0, …, by their numbers",
            f"{kind}, mean {mean:.4f}; higher is better (not stated)",
        ),
    )
    provenance = {} if are_outcomes else dict(zip(RANGE, map(float, ends or (0, 1)), strict=True))
    cache = EvaluationCache(cache, create=True) if isinstance(cache, Path) else cache
    samples = [f"sample/{column}" for column in range(matrix.shape[1])]
    models = [f"model/{row}" for row in chosen.tolist()]
    with cache.index.writing() as db:
        columns = entries.add_samples(db, samples, [provenance] * len(samples))
        places = [entries.add_model(db, model, {"file": path.name}) for model in models]
        numbers = list(zip(models, places, strict=True))
        for part, values in matrix.read_blocks():
            progress.stage(f"write {part.stop:,}")
            values = values if are_outcomes else _scale(values, ends or (0.0, 1.0))
            _write(db, cache, matrix.by_model, part, values, chosen, numbers, columns)
        records.add_imports(db, [record])
    return record


def _write(
    db: sqlite3.Connection, cache, by_model: bool, part: slice, values, chosen, numbers, columns
) -> None:
    """Writes a block of the file, `values` of models or samples `part`, for the chosen models.

    Args:
      db, cache: where it is written.
      by_model, part, values: see `MatrixFile`.
      chosen: int64[m], the ascending numbers of the models that are read.
      numbers: their ids and rows in the cache.
      columns: int64[n], of all samples in the cache.
    """
    if not by_model:
        planes = {CORRECT: np.ascontiguousarray(values.T[chosen])}
        cells.write(db, cache.cells, OBSERVED, numbers, columns[part], planes)
        return
    first, end = np.searchsorted(chosen, [part.start, part.stop])
    if end > first:
        planes = {CORRECT: values[chosen[first:end] - part.start]}
        cells.write(db, cache.cells, OBSERVED, numbers[first:end], columns, planes)


def _read_row_numbers(path: Path, models: int) -> np.ndarray:
    """Returns int64, the ascending numbers of models that a .npy file lists, of `models` models."""
    try:
        rows = np.sort(load_array(path, mapped=False).ravel())
    except (OSError, ValueError, EOFError) as error:
        raise BadInput(f"--rows={path}: cannot be read as .npy ({error}).") from None
    if rows.dtype.kind not in "iu" or not rows.size or rows[0] < 0 or rows[-1] >= models:
        raise BadInput(f"--rows={path}: whole numbers from 0 to {models - 1:,} are expected.")
    if (np.diff(rows) == 0).any():
        raise BadInput(f"--rows={path}: a row is named twice.")
    return rows.astype(np.int64)


def _examine(matrix: MatrixFile, ends) -> tuple[bool, float]:
    """Returns whether all values are outcomes, and the mean of the known ones, given the ends of
    their range (None: 0 and 1).

    Raises:
      BadInput: a value is not in the range.
    """
    are_outcomes, total, count = ends in (None, (0.0, 1.0)), 0.0, 0
    low, high = ends or (0.0, 1.0)
    for part, values in matrix.read_blocks():
        known = ~np.isnan(values) if values.dtype.kind == "f" else np.True_
        if (low, high) == (0.0, 1.0) and values.dtype != bool:
            known = known & (values != UNKNOWN)
        wrong = known & ~((values >= low) & (values <= high))
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            model, sample = (row + part.start, column)[:: 1 if matrix.by_model else -1]
            raise BadInput(
                f"{matrix.path}: model {model}, sample {sample}: {values[row, column]:g} is not"
                f" between {low:g} and {high:g}. State the range of scores: --range=LOW,HIGH."
            )
        are_outcomes = are_outcomes and bool((~known | (values == 0) | (values == 1)).all())
        total += float(np.where(known, values, 0).sum(dtype=np.float64))
        count += int(np.broadcast_to(known, values.shape).sum())
    if not count:
        raise BadInput(f"{matrix.path}: has no known value.")
    return are_outcomes, total / count


def _scale(values: np.ndarray, ends: tuple[float, float]) -> np.ndarray:
    """Returns float32, scores scaled from a range to 0 to 1, NaN where unknown."""
    low, high = ends
    numbers = values.astype(np.float32)
    if (low, high) == (0.0, 1.0):
        numbers[values == UNKNOWN] = np.nan
    return (numbers - np.float32(low)) / np.float32(high - low)
