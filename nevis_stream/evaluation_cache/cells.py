"""Reads the fields of a table as numbers, keeps account of what was read as another thing, and
finds rows and columns that are no values: summaries, and numbers of the rows.
"""

import functools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from nevis_stream.errors import BadInput, plural
from nevis_stream.evaluation_cache.facts import DIRECTION

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


# as pandas and spreadsheets write outcomes
TRUTHS = {"true": 1.0, "false": 0.0}
# as leaderboards write a missing value
_MISSING = frozenset(("-", "–", "—", "--", "n/a", "na", "nan", "null", "none", "?", "#n/a"))
# what stands for the value of a sample whose evaluation failed
_ERRORS = frozenset(("error", "timeout"))


class Numbers:
    """Turns fields into numbers; one object for each file.

    Args:
      path: of the file, for messages.
      decimal_comma: whether commas are decimal ones.
      grades: numbers of texts, for example {"A": 1}.

    Attributes:
      percent: by sample, whether its values have percent signs.
      failed: model and key of the sample of each cell that says that its evaluation failed.
    """

    def __init__(
        self, path: Path, decimal_comma: bool = False, grades: Mapping[str, float] | None = None
    ):
        self._path, self._comma, self._grades = path, decimal_comma, grades or {}
        self.percent: dict[object, bool] = {}
        self.failed: list[tuple[object, object]] = []
        self._first: dict[str, tuple[str, str]] = {}  # a field and its place, by how it is written
        self._missing: dict[str, int] = {}
        self._truths = self._others = 0
        # by data set and metric: the first word for an outcome, and the first number that is none
        self._words: dict[object, str] = {}
        self._fractions: dict[object, str] = {}

    def read(self, field, place: str, model, sample, key: object = None) -> float:
        """Returns a field as a number, NaN if it is empty or a word for a missing value.

        Args:
          field: a text, or what a parquet file holds.
          place: in the file, for messages.
          model, sample: of the cell, for messages.
          key: of the sample: its values must all have percent signs, or none; None for a number
            that is no value.

        Raises:
          BadInput: it is not a number, or written unlike the others.
        """
        if field is None or field == "":
            return float("nan")
        where = f"{self._path}, {place}: model {model!r}, sample {sample!r}: "
        if not isinstance(field, str):
            return self._count(field, self._number(field, where), where, key)
        text = field.strip()
        word = text.lower()
        if key is not None and text in self._grades:
            return float(self._grades[text])
        if key is not None and word in _ERRORS:
            self.failed.append((model, key))
            return float("nan")
        if not text or word in _MISSING:
            self._missing[text] = self._missing.get(text, 0) + 1
            return float("nan")
        if word in TRUTHS:
            return self._count(True, TRUTHS[word], where, key, text)
        percent = text.endswith("%")
        if key is not None and self.percent.setdefault(key, percent) != percent:
            raise BadInput(
                f"{where}{field!r}, but other values of this sample are written"
                f" {'without' if percent else 'with'} a percent sign."
            )
        text = text.removesuffix("%").strip() if percent else text
        if self._comma:
            self._check_points(text, field, place, where)
            text = text.replace(",", ".")
        return self._count(field, self._number(text, where, field), where, key)

    def _number(self, text, where: str, field=None) -> float:
        try:
            return float(text)
        except (TypeError, ValueError):
            shown = text if field is None else field
            reason = (
                "leave unknown cells empty, say what grades count: --grades=NAME=NUMBER,…, or leave"
                " a column out that is no sample: --ignore_columns=NAME"
            )
            if isinstance(shown, str) and shown.strip().lower() in ("yes", "no", "pass", "fail"):
                reason = (
                    "of words only true and false are read, as 1 and 0; --grades says what others"
                    f" count: --grades={shown.strip()}=…"
                )
            elif isinstance(shown, str) and "," in shown:
                reason = (
                    "write numbers without thousands separators, and with a decimal point; decimal"
                    " commas are read where semicolons separate the fields"
                )
            raise BadInput(f"{where}{shown!r} is not a number; {reason}.") from None

    def _check_points(self, text: str, field: str, place: str, where: str) -> None:
        """Refuses decimal commas beside decimal points."""
        for sign, other in ((",", "."), (".", ",")):
            if sign not in text:
                continue
            self._first.setdefault(sign, (field, place))
            if other in self._first:
                earlier, line = self._first[other]
                raise BadInput(
                    f"{where}{field!r}, but {earlier!r} in {line}: commas and points cannot both"
                    " stand before decimals; write all numbers in one way."
                )

    def _count(self, field, value: float, where: str, key, word: str = "") -> float:
        """Counts outcomes by how they are written, and refuses words beside other numbers."""
        if key is None:
            return value
        kind = (key[0], key[2]) if isinstance(key, tuple) else None
        if isinstance(field, bool | np.bool_):
            self._truths += 1
            self._words.setdefault(kind, word or str(field))
        elif value in (0, 1):
            self._others += 1
        elif not np.isnan(value):
            self._fractions.setdefault(kind, str(field))
        if kind in self._words and kind in self._fractions:
            raise BadInput(
                f"{where}{self._words[kind]!r} beside the number {self._fractions[kind]}: which"
                " number is true in that range? Write numbers only."
            )
        return value

    def remarks(self) -> Iterator[str]:
        """Yields a line for each thing that was read as another."""
        if self._comma and "," in self._first:
            yield "semicolons separate the fields, and commas stand before decimals"
        for word, count in self._missing.items():
            yield f"{plural(count, 'cell')} with {word!r} {'is' if count == 1 else 'are'} unknown"
        if self._truths and self._others:
            yield (
                f"{plural(self._truths, 'cell')} with true or false, beside"
                f" {self._others:,} with 1 or 0: read as 1 and 0"
            )
        if count := sum(self.percent.values()):
            yield f"percent signs: the values of {plural(count, 'sample')} are from 0 to 100"


def read_truth(text, path: Path, place: str) -> bool:
    """Returns whether a field of `higher_is_better` is true."""
    truths = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    word = str(text).strip().lower().removesuffix(".0")
    if word not in truths:
        raise BadInput(f"{path}, {place}: {DIRECTION} is {text!r}; true or false is expected.")
    return truths[word]
