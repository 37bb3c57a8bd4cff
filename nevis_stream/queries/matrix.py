"""Matrices of models × samples: outcomes, or scores, with holes.

Outcomes are uint8: 1 = the model is right on the sample, 0 = it is wrong, 255 = unknown. Scores are
floats in [0, 1], NaN = unknown.
"""

import numpy as np

from nevis_stream.errors import BadInput

UNKNOWN = 255


def is_observed(matrix: np.ndarray) -> np.ndarray:
    """Returns which cells are known, bool of the matrix's shape."""
    return ~np.isnan(matrix) if matrix.dtype.kind == "f" else matrix != UNKNOWN


def numbers(matrix: np.ndarray) -> np.ndarray:
    """Returns the values as float32, 0 where unknown."""
    return np.where(is_observed(matrix), matrix, 0).astype(np.float32)


def sample_means(matrix: np.ndarray) -> np.ndarray:
    """Returns the mean of each sample's known values, float64[n]; a sample that no model has met
    gets the mean of all known values.
    """
    total, count = numbers(matrix).sum(axis=0, dtype=np.float64), is_observed(matrix).sum(axis=0)
    return np.where(count, total / np.maximum(count, 1), total.sum() / max(count.sum(), 1))


def unknown_cells(shape: tuple[int, ...], scores: bool) -> np.ndarray:
    """Returns a matrix of unknown cells, of outcomes or of scores."""
    return np.full(shape, np.nan, np.float32) if scores else np.full(shape, UNKNOWN, np.uint8)


def check_outcomes(matrix: np.ndarray) -> np.ndarray:
    """Returns the matrix unchanged if it is one of outcomes.

    Raises:
      BadInput: not uint8[m, n] of 0, 1 and 255, or empty.
    """
    matrix = np.asarray(matrix)
    if matrix.ndim != 2 or matrix.dtype != np.uint8 or not matrix.size:
        raise BadInput(
            "a matrix of outcomes is uint8[models, samples], not empty; this is"
            f" {matrix.dtype}{list(matrix.shape)}."
        )
    counts = [np.count_nonzero(matrix == value) for value in (0, 1, UNKNOWN)]
    if sum(counts) != matrix.size:
        others = sorted({*np.unique(matrix).tolist()} - {0, 1, UNKNOWN})
        raise BadInput(
            f"outcomes are 0 (wrong), 1 (right) or {UNKNOWN} (unknown); this matrix also has"
            f" {others[:5]}."
        )
    return matrix


def check_matrix(matrix: np.ndarray) -> np.ndarray:
    """Returns the matrix unchanged if it is one of outcomes or of scores.

    Raises:
      BadInput: neither uint8[m, n] of 0, 1 and 255 nor float[m, n] in [0, 1] with NaN, or empty.
    """
    matrix = np.asarray(matrix)
    if matrix.dtype.kind != "f" or matrix.ndim != 2 or not matrix.size:
        return check_outcomes(matrix)
    outside = (matrix < 0) | (matrix > 1)
    if outside.any():
        row, column = np.argwhere(outside)[0]
        raise BadInput(
            f"a score is between 0 and 1, or NaN if unknown; model {row}, sample {column} has"
            f" {matrix[row, column]:g}. Scale scores by their range first."
        )
    return matrix


def sums(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns each column's sum over known cells, float64[n], and their number, int64[n].

    Confidences are rounded to float16, as a cache stores them: then their sums in float64 are
    exact, in any order of the rows.
    """
    rows = np.asarray(rows)
    if np.issubdtype(rows.dtype, np.floating) and rows.ndim == 2 and rows.size:
        mask = ~np.isnan(rows)
        inside = (rows[mask] >= 0) & (rows[mask] <= 1)
        if not inside.all():
            raise BadInput(
                f"a confidence is between 0 and 1, or NaN if unknown, not {rows[mask][~inside][0]}."
            )
        return np.where(mask, rows, 0).astype(np.float16).sum(axis=0, dtype=np.float64), mask.sum(
            axis=0
        )
    rows = check_outcomes(rows)
    return (rows == 1).sum(axis=0).astype(np.float64), (rows != UNKNOWN).sum(axis=0)
