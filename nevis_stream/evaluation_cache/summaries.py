"""Rows and columns of a table that are no values: summaries, and numbers of the rows."""

import functools
import re

import numpy as np

# words for summaries in the names of rows, also in other languages
SUMMARIES = frozenset(
    (
        *("average", "avg", "mean", "overall", "total", "median", "std", "deviation"),
        *("durchschnitt", "mittelwert", "gesamt", "moyenne", "promedio", "media", "平均"),
    )
)
# and of columns, with those that number the rows
COLUMNS = SUMMARIES | {"rank", "rang", "score", "correct", "accuracy", "sum", "summe", "index"}
_BESIDE = frozenset(("macro", "micro", "weighted", "standard", "all", "score"))


def is_row_number(name) -> bool:
    """Whether a column numbers the rows, as pandas calls it."""
    plain = str(name or "").strip().lower()
    return not plain or plain == "index" or plain.startswith(("unnamed:", "__index_level"))


@functools.lru_cache(maxsize=1 << 16)
def is_summary(name, names: frozenset[str]) -> bool:
    """Returns whether a name of a row or column is one of summaries, such as "Mean (%)" or "macro
    avg", or of a column of numbers that a table gained when it was saved.
    """
    plain = str(name or "").strip().strip("*_#⬆️↑ ").lower()
    if names is COLUMNS and (not plain or is_row_number(name)):
        return True
    words = set(re.split(r"[\W_]+", plain)) - {""}
    return bool(words & names) and words <= names | _BESIDE


def find_means(values: np.ndarray) -> list[int]:
    """Returns the columns, of values float64[m, n], in which every model has the mean of its other
    values; [] if there are too few to tell.
    """
    m, n = values.shape
    if m < 3 or n < 4 or np.isnan(values).any():
        return []
    rest = (values.sum(axis=1, keepdims=True) - values) / (n - 1)
    close = np.abs(values - rest) <= 0.006 * max(1.0, float(np.abs(values).max()) / 100)
    varied = np.ptp(values, axis=0) > 0
    fractional = (values != np.round(values)).any(axis=0)
    return np.flatnonzero(close.all(axis=0) & varied & fractional).tolist()


def mean_of_known(values: np.ndarray) -> np.ndarray:
    """Returns the means of known values over the first axis, NaN where none is known."""
    known = ~np.isnan(values)
    total, count = np.where(known, values, 0).sum(axis=0), known.sum(axis=0)
    return np.where(count, total / np.maximum(count, 1), np.nan)
