"""What the values of a file mean: its fields as numbers, rows and columns that are no values
(summaries, numbers of the rows), and, where the file does not state it, whether higher or lower
values are better and what range they have.
"""

import functools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from nevis_stream.errors import BadInput, plural, unknown
from nevis_stream.evaluation_cache import facts
from nevis_stream.evaluation_cache.facts import DIRECTION, METRIC, RANGE, UNBOUNDED
from nevis_stream.evaluation_cache.records import list_names
from nevis_stream.storage.tables import check_marker

if TYPE_CHECKING:  # `tables` reads its fields with this module
    from nevis_stream.evaluation_cache.tables import RawTable


def join_words(words: Sequence[str], known: Collection[str]) -> list[str]:
    """Returns words with those joined that are one known name; of several ways the longest.

    >>> join_words(["f1", "exact_match", "strict-match"], ["exact_match,strict-match", "f1"])
    ['f1', 'exact_match,strict-match']
    """
    joined, start = [], 0
    while start < len(words):
        ends = range(len(words), start + 1, -1)
        end = next((e for e in ends if ",".join(words[start:e]) in known), start + 1)
        joined.append(",".join(words[start:end]))
        start = end
    return joined


# words for summaries in names of rows, also in other languages
SUMMARY_WORDS = frozenset(
    (
        *("average", "avg", "mean", "overall", "total", "median", "std", "deviation"),
        *("durchschnitt", "mittelwert", "gesamt", "moyenne", "promedio", "media", "平均"),
    )
)
# and in names of columns, with words for ranks and for numbers of rows
COLUMN_WORDS = SUMMARY_WORDS | {
    "rank",
    "rang",
    "score",
    "correct",
    "accuracy",
    "sum",
    "summe",
    "index",
}
# words that may stand beside these in a name
_BESIDE_SUMMARIES = frozenset(("macro", "micro", "weighted", "standard", "all", "score"))


def is_row_number(name) -> bool:
    """Returns whether a column numbers the rows, by the name that pandas gives such a column."""
    plain = str(name or "").strip().lower()
    return not plain or plain == "index" or plain.startswith(("unnamed:", "__index_level"))


@functools.lru_cache(maxsize=1 << 16)
def is_summary(name, words: frozenset[str]) -> bool:
    """Returns whether a row or column is a summary by its name, such as "Mean (%)" or "macro avg",
    or a column that numbers the rows.

    Args:
      name: of the row or column.
      words: `SUMMARY_WORDS` for a row, `COLUMN_WORDS` for a column.
    """
    plain = str(name or "").strip().strip("*_#⬆️↑ ").lower()
    if words is COLUMN_WORDS and (not plain or is_row_number(name)):
        return True
    parts = set(re.split(r"[\W_]+", plain)) - {""}
    return bool(parts & words) and parts <= words | _BESIDE_SUMMARIES


def find_mean_columns(values: np.ndarray) -> list[int]:
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


def average_known(values: np.ndarray) -> np.ndarray:
    """Returns the means over the first axis of the values that are not NaN; NaN where all are."""
    known = ~np.isnan(values)
    total, count = np.where(known, values, 0).sum(axis=0), known.sum(axis=0)
    return np.where(count, total / np.maximum(count, 1), np.nan)


# as pandas and spreadsheets write outcomes
TRUTH_WORDS = {"true": 1.0, "false": 0.0}
# as leaderboards write a missing value
_MISSING_WORDS = frozenset(("-", "–", "—", "--", "n/a", "na", "nan", "null", "none", "?", "#n/a"))
# what stands for the value of a sample whose evaluation failed
_ERROR_WORDS = frozenset(("error", "timeout"))


class NumberReader:
    """Reads fields of one file as numbers.

    Args:
      path: of the file, for messages.
      decimal_comma: whether commas are decimal ones.
      grades: numbers of texts, for example {"A": 1}.

    Attributes:
      percent: by key of the sample, whether its values have percent signs.
      failed: model and key of the sample of each cell that says that its evaluation failed.
    """

    def __init__(
        self, path: Path, decimal_comma: bool = False, grades: Mapping[str, float] | None = None
    ):
        self._path, self._comma, self._grades = path, decimal_comma, grades or {}
        self.percent: dict[object, bool] = {}
        self.failed: list[tuple[object, object]] = []
        # by sign, comma or point: the first field that has it, and its place
        self._first: dict[str, tuple[str, str]] = {}
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
          key: identifies the sample in the file (data set, id and metric, or a column); of one
            sample either all values have percent signs, or none. None for a number that is not a
            value of a cell, such as a price.

        Raises:
          BadInput: it is not a number, or written in another way than others.
        """
        if field is None or field == "":
            return float("nan")
        where = f"{self._path}, {place}: model {model!r}, sample {sample!r}: "
        if not isinstance(field, str):
            return self._count_kind(field, self._parse(field, where), where, key)
        text = field.strip()
        word = text.lower()
        if key is not None and text in self._grades:
            return float(self._grades[text])
        if key is not None and word in _ERROR_WORDS:
            self.failed.append((model, key))
            return float("nan")
        if not text or word in _MISSING_WORDS:
            self._missing[text] = self._missing.get(text, 0) + 1
            return float("nan")
        if word in TRUTH_WORDS:
            return self._count_kind(True, TRUTH_WORDS[word], where, key, text)
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
        return self._count_kind(field, self._parse(text, where, field), where, key)

    def _parse(self, text, where: str, field=None) -> float:
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

    def _count_kind(self, field, value: float, where: str, key, word: str = "") -> float:
        """Counts a value of a cell by how it is written, refuses truth words beside other numbers
        than 0 and 1, and returns the value.
        """
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

    def list_remarks(self) -> Iterator[str]:
        """Yields a line for people for each kind of field that was not a plain number."""
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
    """Returns whether a field of `higher_is_better` is true; `place` is that of the field in the
    file, for messages.

    Raises:
      BadInput: it is neither true nor false.
    """
    truths = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    word = str(text).strip().lower().removesuffix(".0")
    if word not in truths:
        raise BadInput(f"{path}, {place}: {DIRECTION} is {text!r}; true or false is expected.")
    return truths[word]


NONE: Literal["none"] = "none"  # the range of metrics without bounds
ValueRange = tuple[float, float] | Literal["none"]
ALL = "all"  # stands for all metrics
_ENOUGH = 3  # values of a model from which its scale can be told
# metrics without an upper bound; of all of them lower values are better
_UNBOUNDED_METRICS = frozenset(
    (
        *("wer", "cer", "ter", "word_error_rate", "character_error_rate", "latency"),
        *("perplexity", "ppl", "word_perplexity", "byte_perplexity", "bits_per_byte", "bpb"),
        *("mae", "mse", "rmse", "mean_absolute_error", "mean_squared_error"),
        *("loss", "log_loss", "nll", "cross_entropy"),
    )
)
_LOWER_IS_BETTER = _UNBOUNDED_METRICS | frozenset(
    ("brier", "brier_score", "error", "error_rate", "ece")
)


@dataclass(frozen=True)
class Ranges:
    """What a user says of the ranges of values that a file does not state.

    Attributes:
      default: of all values without a name below; None: 0 to 1; "none": metrics without bounds.
      named: by task (data set) or metric, with or without its filter.
    """

    default: ValueRange | None = None
    named: Mapping[str, ValueRange] = field(default_factory=dict)

    @classmethod
    def of(cls, ranges: "ValueRange | Mapping[str, ValueRange] | Ranges | None") -> "Ranges":
        """Returns ranges, given one for all values, or several by name ("" for all others)."""
        if isinstance(ranges, Ranges):
            return ranges
        if isinstance(ranges, Mapping):
            named = {name: each for name, each in ranges.items() if name}
            return cls(ranges.get(""), named)
        return cls(ranges)

    def find(self, dataset: str, metric: str) -> ValueRange | None:
        """Returns the range of a metric on a data set; None if none is said.

        Raises:
          BadInput: data set and metric have different ones.
        """
        metrics = [name for name in (metric, metric.partition(",")[0]) if name in self.named]
        names = [*metrics[:1], *([dataset] if dataset in self.named else [])]
        if len({self.named[name] for name in names}) > 1:
            raise BadInput(
                f"--range: {metric} on {dataset} has two ranges, of {names[0]} and of {names[1]}."
            )
        return self.named[names[0]] if names else self.default

    def check_names(self, path: Path, provenances: Iterable[Mapping[str, Any]]) -> None:
        """Refuses a name that is neither data set nor metric of a sample.

        Args:
          path: of the file, for messages.
          provenances: of the samples.

        Raises:
          BadInput: the message lists the names.
        """
        valid = set()
        for dataset, metric in {
            (facts.get_dataset(each), str(each.get(METRIC) or "")) for each in provenances
        }:
            valid |= {dataset, metric, metric.partition(",")[0]}
        for name in self.named:
            if name not in valid:
                raise BadInput(
                    f"{path}: --range={name}=…: {unknown('task or metric', name, valid - {''})}"
                )


def is_unbounded(metric: str) -> bool:
    """Returns whether a metric has no upper bound, by its name."""
    return _normalise(metric) in _UNBOUNDED_METRICS


def _normalise(metric: str) -> str:
    """Returns a metric's name without its filter, in lower case, with underscores."""
    return metric.partition(",")[0].strip().lower().replace(" ", "_").replace("-", "_")


def add_directions(
    path: Path, raw: "RawTable", lower_is_better: Sequence[str], by_name: bool = True
) -> list[str]:
    """Adds the direction to samples that state none, and returns lines for people.

    Args:
      path: of the file, for messages.
      raw: its content; the provenance of samples gains the direction.
      lower_is_better: metrics or data sets, or "all".
      by_name: whether well-known names such as word error rate say which direction is better.

    Raises:
      BadInput: no sample is of a metric or data set, or the file states another direction.
    """
    named: dict[str, None] = {}
    stated = {str(each.get(METRIC) or "") for each in raw.sample_provenance}
    wanted = join_words(lower_is_better, stated)
    own = {*stated, *map(facts.get_dataset, raw.sample_provenance)} - {""}
    if ALL in wanted and len(own) > 1:
        for name in own:
            check_marker(name, f"{path}: with --lower_is_better={ALL}, a metric or data set", [ALL])
    for provenance in raw.sample_provenance:
        metric = str(provenance.get(METRIC) or "")
        names = {ALL, metric, metric.partition(",")[0], facts.get_dataset(provenance)} - {""}
        if names & set(wanted):
            if provenance.get(DIRECTION):
                raise BadInput(
                    f"{path}: --lower_is_better={','.join(wanted)}, but the file says that"
                    f" higher values of {metric or 'this metric'} are better."
                )
            provenance[DIRECTION] = False
        elif by_name and DIRECTION not in provenance and _normalise(metric) in _LOWER_IS_BETTER:
            provenance[DIRECTION] = False
            named.setdefault(metric)
    valid = sorted({*own, ALL})
    valid += [name.partition(",")[0] for name in valid if "," in name]
    for name in wanted:
        if name not in valid:
            raise BadInput(
                f"--lower_is_better={name}: {unknown('metric or data set', name, valid)}"
            )
    if not named:
        return []
    return [
        f"by its name, lower values of {list_names(named)} are better; a column `{DIRECTION}` says"
        " otherwise"
    ]


def scale_unbounded(raw: "RawTable", ranges: Ranges) -> list[str]:
    """Gives samples of metrics without bounds a scale that includes the file's values, and returns
    lines for people.

    Args:
      raw: the content of a file; the provenance of samples gains the scale.
      ranges: that the user states.
    """
    kinds: dict[tuple[str, str], list[int]] = {}
    for k, provenance in enumerate(raw.sample_provenance):
        if not any(name in provenance for name in RANGE):
            kind = facts.get_dataset(provenance), str(provenance.get(METRIC) or "")
            kinds.setdefault(kind, []).append(k)
    said = {kind: ranges.find(*kind) for kind in kinds}
    unbounded = {kind for kind in kinds if said[kind] is None and is_unbounded(kind[1])}
    kinds = {k: c for k, c in kinds.items() if k in unbounded or said[k] == NONE}
    for columns in kinds.values():
        values = raw.values[:, columns]
        values = values[np.isfinite(values)]
        if not values.size:
            continue
        # twice the values: those of later models lie in it too
        low, high = 2 * min(0.0, float(values.min())), 2 * max(0.0, float(values.max()))
        ends = {RANGE[0]: low, RANGE[1]: high if high > low else low + 1, UNBOUNDED: True}
        for k in columns:
            raw.sample_provenance[k].update(ends)
    metrics = dict.fromkeys(metric or "these scores" for _, metric in kinds)
    if not metrics:
        return []
    lines = [
        f"{list_names(metrics)}: without bounds, so no interval that needs them; --range=LOW,HIGH"
        " states a range"
    ]
    if ranges.default == NONE and len(metrics) > 1:
        lines.append(
            f"--range=none was taken for each of these {len(metrics)} metrics; where one has"
            " bounds, state them: --range=METRIC=LOW,HIGH"
        )
    return lines


def find_percentages(
    path: Path, raw: "RawTable", kinds: np.ndarray, low: np.ndarray, high: np.ndarray
) -> list[str]:
    """Returns lines for people about models, and samples, whose values are from 0 to 1 in a range
    from 0 to 100.

    Args:
      path: of the file, for messages.
      raw: its content.
      kinds: int64[n], the number of each sample's data set and metric.
      low, high: float64[n], the ends of the ranges.

    Raises:
      BadInput: other models of the file have values above 1.
    """
    doubtful: dict[str, float] = {}
    for kind in np.unique(kinds[(low == 0) & (high == 100)]).tolist():
        values = raw.values[:, kinds == kind]
        known = ~np.isnan(values)
        most = np.where(known, values, 0).max(axis=1)
        small = (most <= 1) & (known & (values > 0) & (values < 1)).any(axis=1)
        sure = small & (known.sum(axis=1) >= _ENOUGH)
        if sure.any() and most.max() > 1:
            i, other = int(sure.argmax()), int(most.argmax())
            k = int(np.flatnonzero(kinds == kind)[np.where(known[i], values[i], 0).argmax()])
            raise BadInput(
                f"{path}{raw.format_place(i, k)}: the values of model {raw.models[i]!r} are up to"
                f" {most[i]:g}, those of {raw.models[other]!r} up to {most[other]:g}, in a range"
                " from 0 to 100: is one a fraction and the other a percentage? Write both in one"
                " range. If they are right, import this model from a file of its own."
            )
        for i in np.flatnonzero(small).tolist():
            name = facts.get_dataset(raw.sample_provenance[int(np.argmax(kinds == kind))])
            doubtful[f"{raw.models[i]}{f' on {name}' * bool(name)}"] = float(most[i])
        between = ((values > 0) & (values < 1) | ~known).all(axis=0) & (known.sum(axis=0) > 1)
        if not small.all():
            for k in np.flatnonzero(kinds == kind)[between].tolist():
                doubtful[f"sample {raw.samples[k]}"] = float(np.nanmax(raw.values[:, k]))
    if not doubtful:
        return []
    return [
        "percentages or fractions? In a range from 0 to 100, all values are at most"
        f" {max(doubtful.values()):g} of {list_names(list(doubtful))}"
    ]
