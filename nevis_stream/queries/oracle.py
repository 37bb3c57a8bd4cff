"""Asking: a request for the values of some cells is answered with these values and their cost.

A cell is one sample for one model. Its value is an outcome (0 or 1), a score in [0, 1] (an `Oracle`
scales scores of another range, see `samples.SampleFacts`) or a label. All evaluations, whether they
cost FLOPs or labels, are asked through this one protocol.
"""

import dataclasses
import functools
import html
import math
import warnings
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing

from nevis_stream.errors import BadInput, RunWarning, plural
from nevis_stream.queries.prices import Spending
from nevis_stream.queries.samples import (
    UNKNOWN,
    Part,
    check_matrix,
    is_observed,
    make_unknown_cells,
)
from nevis_stream.user_calls import ReadOnly, ends_call, explain_refused_write


@dataclass(frozen=True)
class Cost:
    """A cost.

    Attributes:
      flops: floating-point operations of the models that answered and of the method itself; None if
        unknown.
      labels: number of labels that were bought.
      uncounted: names of computations whose FLOPs are not counted.
    """

    flops: int | None = 0
    labels: int = 0
    uncounted: frozenset[str] = frozenset()

    def __add__(self, other: "Cost") -> "Cost":
        """Adds costs; unknown FLOPs stay unknown."""
        return Cost(
            None if self.flops is None or other.flops is None else self.flops + other.flops,
            self.labels + other.labels,
            self.uncounted | other.uncounted,
        )


@dataclass(frozen=True)
class Query(ReadOnly):
    """Samples to ask of each of m models; no sample is asked twice, over all calls.

    Attributes:
      samples: int64[m, b], columns of the matrix.
      probabilities: float64[m, b], the probability with which each was drawn, given those asked
        before it; None if nothing was drawn at random. Weighted estimators need them.
      fractions: float64[m, b], the fraction of all samples that each cell represents: 1 / b on a
        grid or in a plain random draw, or the size of its stratum; 0 for a cell that was chosen
        for its information. None: all 0.
    """

    samples: np.ndarray
    probabilities: np.ndarray | None = None
    fractions: np.ndarray | None = None

    @classmethod
    def none(cls, models: int) -> "Query":
        """Returns an empty request for m models."""
        return cls(np.empty((models, 0), np.int64))

    def then(self, later: "Query") -> "Query":
        """Returns these cells followed by later ones, [m, b + b']."""

        def join(first, second, missing):
            if first is None and second is None:
                return None
            first = np.full(self.samples.shape, missing) if first is None else first
            return np.hstack(
                [first, np.full(later.samples.shape, missing) if second is None else second]
            )

        return Query(
            np.hstack([self.samples, later.samples]),
            join(self.probabilities, later.probabilities, 1.0),  # a fixed cell is certain
            join(self.fractions, later.fractions, 0.0),
        )


@dataclass(frozen=True)
class Responses(ReadOnly):
    """The cells that were asked, their values, and the cost.

    Attributes:
      query: the cells, with the probabilities with which a policy drew them.
      values: [m, b]: uint8 outcomes, float32 scores in [0, 1], or int32 labels, `NO_LABEL` where
        there is none.
      cost: of these answers.
      confidence: float[m, b], the probability that a model gave to the true class, or None.
    """

    query: Query
    values: np.ndarray
    cost: Cost = field(default=Cost())
    confidence: np.ndarray | None = None

    @property
    def samples(self) -> np.ndarray:
        """int64[m, b], the asked samples."""
        return self.query.samples

    def first(self, count: int) -> "Responses":
        """Returns the first answers of each model, [m, count], without their cost."""
        return self._take(np.arange(len(self.values)), slice(count))

    def of(self, models: np.ndarray) -> "Responses":
        """Returns the answers of some models, int64 rows, without their cost."""
        return self._take(models, slice(None))

    def _take(self, models: np.ndarray, columns: slice) -> "Responses":
        def take(values: np.ndarray | None) -> np.ndarray | None:
            return None if values is None else values[models][:, columns]

        query = Query(
            self.samples[models][:, columns],
            take(self.query.probabilities),
            take(self.query.fractions),
        )
        return Responses(query, self.values[models][:, columns])

    def valid(self) -> "Responses":
        """Returns the answers that have a label, where answers are labels and of one model."""
        known = self.values[0] != NO_LABEL
        if known.all():
            return self
        drawn = self.query.probabilities
        query = Query(self.samples[:, known], None if drawn is None else drawn[:, known])
        return Responses(query, self.values[:, known], self.cost)

    def then(self, later: "Responses") -> "Responses":
        """Returns these answers followed by later ones, [m, b + b']; costs add up."""
        return Responses(
            self.query.then(later.query),
            np.hstack([self.values, later.values]) if self.values.size else later.values,
            self.cost + later.cost,
            None
            if self.confidence is None or later.confidence is None
            else np.hstack([self.confidence, later.confidence]),
        )


class TooFewAnswers(Exception):
    """A model has answered fewer samples than the budget, and either no sample is left to be asked,
    or the model seems to be out of order; the message says which.
    """


class Oracle(Protocol):
    """A function that answers queries of m models."""

    def __call__(self, query: Query) -> Responses:
        """Returns the values of the cells, 255 or NaN (or None) where there is no answer, and what
        they cost; BadInput if a cell was asked before.
        """
        ...


def ask_checked(
    oracle: Oracle, query: Query, scores: bool = False, classes: int | None = None
) -> Responses:
    """Asks for some samples of one model and returns the answers if they are valid numbers.

    If the oracle raises, the cells are asked one at a time: those that raise again have no answer,
    and after `MOST_WITHOUT_ANSWER` in a row without one the others are not asked.

    Args:
      oracle: may return 255, NaN, None or a text for a cell without an answer.
      query: int64[1, b].
      scores: whether values are scores in [0, 1] instead of outcomes.
      classes: if values are labels, the number of classes.

    Returns:
      Answers with values uint8[1, b], 255 where there is none, or float32[1, b] with NaN, or labels
      int32[1, b] with `NO_LABEL`.

    Raises:
      BadInput: there are too few or too many values, they are of other cells, a number is none of
        the valid values, or the oracle raised a NameError or an ImportError.
    """
    try:
        answers = oracle(query)
    except Exception as error:
        if ends_call(error):
            raise
        if reason := explain_refused_write(error):
            raise BadInput(reason) from error
        if isinstance(error, NameError | ImportError):  # no other sample will be answered either
            raise BadInput(f"what answers raised {type(error).__name__}: {error}.") from error
        if query.samples.size > 1:
            return _ask_one_at_a_time(oracle, query, scores, classes)
        message = f"no answer to sample {query.samples[0, 0]}: {type(error).__name__}: {error}"
        warnings.warn(message, RunWarning, stacklevel=2)
        return _make_no_answers(query, scores, classes)
    values, shape = check_numbers(answers.values), query.samples.shape
    if values.shape != shape or not np.array_equal(answers.query.samples, query.samples):
        raise BadInput(
            f"asked for the cells {list(shape)}, answered {list(values.shape)} values of the cells"
            f" {list(answers.query.samples.shape)}: an answer belongs to each asked cell, in their"
            " order."
        )
    missing = np.isnan(values)
    if classes is None or classes <= UNKNOWN:  # else 255 is a class
        missing |= values == UNKNOWN
    blank_value: float
    dtype: np.typing.DTypeLike
    if classes is not None:
        blank_value, dtype, kind = NO_LABEL, np.int32, f"a class from 0 to {classes - 1}"
        valid = (values >= 0) & (values < classes) & (values == np.floor(values))
    elif scores:
        blank_value, dtype, kind = np.nan, np.float32, "a score from 0 to 1"
        valid = (values >= 0) & (values <= 1)
    else:
        blank_value, dtype, kind = UNKNOWN, np.uint8, "0 or 1"
        valid = np.isin(values, (0, 1))
    for _, k in np.argwhere(~(valid | missing))[:1]:
        raise BadInput(
            f"the answer to sample {query.samples[0, k]} is {values[0, k]:g}, not {kind}; an answer"
            " that is not known is None, NaN or 255."
        )
    checked = np.where(missing, blank_value, values).astype(dtype)
    cost = answers.cost
    if classes is not None:  # what failed was not bought
        cost = dataclasses.replace(cost, labels=min(cost.labels, int((~missing).sum())))
    return dataclasses.replace(answers, query=query, values=checked, cost=cost)


def _ask_one_at_a_time(
    oracle: Oracle, query: Query, scores: bool, classes: int | None
) -> Responses:
    """Returns the answers to cells that could not be asked together; see `ask_checked`."""
    columns, parts, failures = query.samples.shape[1], [], 0
    for k in range(columns):
        parts.append(ask_checked(oracle, Query(query.samples[:, k : k + 1]), scores, classes))
        value = parts[-1].values[0, 0]
        is_known = value != NO_LABEL if classes is not None else is_observed(value)
        failures = 0 if is_known else failures + 1
        if failures == MOST_WITHOUT_ANSWER and (rest := columns - k - 1):
            message = f"{failures} samples in a row have no answer, so {rest:,} more are not asked."
            warnings.warn(message, RunWarning, stacklevel=3)
            parts.append(_make_no_answers(Query(query.samples[:, k + 1 :]), scores, classes))
            break
    return dataclasses.replace(functools.reduce(Responses.then, parts), query=query)


def _make_no_answers(query: Query, scores: bool, classes: int | None) -> Responses:
    if classes is not None:
        return Responses(query, np.full(query.samples.shape, NO_LABEL, np.int32))
    return Responses(query, make_unknown_cells(query.samples.shape, scores), Cost(None))


def check_numbers(values: Any) -> np.ndarray:
    """Returns the numbers that a user's function gave, float64 in the shape of what it returned,
    with NaN for what is no number: None, a text, such as a refusal.
    """
    try:
        array = values if hasattr(values, "dtype") else np.asarray(values)
    except ValueError:  # a list among numbers
        array = np.array(values, object)
    if array.dtype.kind in "biuf":
        return np.asarray(array, np.float64)
    array = np.array(values, object)  # else numbers beside a text would become texts
    numbers = np.array([_parse_number(value) for value in array.ravel()], np.float64)
    return numbers.reshape(array.shape)


def numbers_of_each(values: Any, count: int) -> np.ndarray:
    """Returns what a user's function gave for `count` samples, float64[count] (`check_numbers`).

    Raises:
      BadInput: it is not one number for each.
    """
    numbers = check_numbers(values)
    if numbers.shape != (count,):
        raise BadInput(
            f"{plural(count, 'sample')} asked, and values of shape {list(numbers.shape)} returned;"
            f" [{count}] is expected, one for each."
        )
    return numbers


def _parse_number(value: Any) -> float:
    if isinstance(value, str | bytes):
        return np.nan
    try:
        return float(value)
    except (TypeError, ValueError):
        return np.nan


ANY_MODEL = "any model"
"""An interval that rests on draws with known probabilities alone."""
LIKE_KNOWN = "models like the known ones"
"""An interval that was calibrated on the known models."""
NOBODY = "nobody"
"""There is no interval."""
NOT_STATED = "not stated"
"""Of estimates that were recorded before this was."""
HOLDS_FOR = (ANY_MODEL, LIKE_KNOWN, NOBODY, NOT_STATED)

SAMPLES = "these samples"
"""What a mean is over, if it is not over a population that the samples are drawn from."""

NO_LABEL = -1
"""Stands where a label is not known."""
MOST_WITHOUT_ANSWER = 20
"""Samples in a row without an answer after which a model is taken to be out of order, and is not
asked any more."""


@dataclass(frozen=True)
class Estimate:
    """An estimate of one quantity.

    Attributes:
      value: the estimate, NaN if there is none.
      low, high: its 95% interval, NaN if there is none.
      reason: why there is no interval (or no value); empty if there is one.
      observed: number of cells that gave an answer for it.
      cost: of asking and of computing it.
      failed: number of further cells that were asked and gave no answer.
      holds_for: for whom the interval holds, one of `HOLDS_FOR`.
      note: what else is to be known of it, for people: why it holds for whom, a misfit.
      other: value, low and high of the estimate that holds for others (for models like the known
        ones, if this one holds for any model), if it differs; else None.
      spending: what the samples cost, where the budget is in their unit; else None.
      mean_over: what the mean is over, in words: `SAMPLES`, or a population that they are drawn
        from; "" where it is not of samples.
    """

    value: float
    low: float = np.nan
    high: float = np.nan
    reason: str = ""
    observed: int = 0
    cost: Cost = Cost()
    failed: int = 0
    holds_for: str = NOT_STATED
    note: str = ""
    other: tuple[float, float, float] | None = None
    spending: Spending | None = None
    mean_over: str = ""

    def scaled_to(self, part: Part) -> "Estimate":
        """Returns an estimate from 0 to 1 in the range of the scores of its samples."""
        value, low, high = (part.unscale(float(x)) for x in (self.value, self.low, self.high))
        other = None
        if self.other is not None:
            first, second, third = (part.unscale(float(x)) for x in self.other)
            other = first, second, third
        return dataclasses.replace(self, value=value, low=low, high=high, other=other)

    @property
    def other_text(self) -> str:
        """The estimate that holds for others, in words; "" if it does not differ."""
        if self.other is None:
            return ""
        value, low, high = self.other
        interval = "" if math.isnan(low) else f" (95%: {low:.4f} to {high:.4f})"
        others = ANY_MODEL if self.holds_for == LIKE_KNOWN else LIKE_KNOWN
        return f"the estimate for {others} is {value:.4f}{interval}"

    def __str__(self) -> str:
        """Returns the estimate with its interval, for people.

        >>> print(Estimate(0.6, 0.55, 0.66, observed=64))
        0.6000 (95%: 0.5500 to 0.6600; 64 asked)
        """
        interval = f"no interval: {self.reason or 'none was computed'}"
        if not math.isnan(self.low):
            interval = f"95%: {self.low:.4f} to {self.high:.4f}"
            if self.holds_for in (ANY_MODEL, LIKE_KNOWN):
                interval += f" for {self.holds_for}"
        failed = f", {self.failed:,} more gave no answer" if self.failed else ""
        spending = "" if self.spending is None else f"; {self.spending}"
        over = f"mean over {self.mean_over}; " if self.mean_over else ""
        other = f"; {self.other_text}" * (self.other is not None)
        asked = f"{self.observed:,} asked{failed}{spending}"
        return f"{self.value:.4f} ({over}{interval}; {asked}){other}"

    def _repr_html_(self) -> str:
        """Shows it in a notebook."""
        return f"<p>{html.escape(str(self))}</p>"


def answer_zeros(query: Query) -> Responses:
    """Answers 0 for every cell, at no cost: an `Oracle` for policies that do not use answers."""
    return Responses(query, np.zeros(query.samples.shape, np.uint8))


class MatrixOracle:
    """An `Oracle` that reads the new models' values from a matrix and records what was asked.

    Args:
      truth: uint8[m, n] of 0, 1 and 255, or float[m, n] of scores in [0, 1] and NaN.

    Attributes:
      observed: bool[m, n], the cells that were read.
    """

    def __init__(self, truth: np.ndarray):
        self.truth = check_matrix(truth)
        self.observed = np.zeros(self.truth.shape, bool)

    @property
    def counts(self) -> np.ndarray:
        """int64[m], the number of samples asked of each model."""
        return self.observed.sum(axis=1)

    def __call__(self, query: Query) -> Responses:
        """Returns the values of the cells.

        Raises:
          BadInput: an index is out of range or was asked before, or a cell is unknown.
        """
        samples = check_cells(query.samples, self.truth.shape)
        rows = np.arange(len(self.truth))[:, None]
        if self.observed[rows, samples].any():
            raise BadInput("a sample was asked twice of one model; ask each only once.")
        values = self.truth[rows, samples]
        if not is_observed(values).all():
            model, column = np.argwhere(~is_observed(values))[0]
            raise BadInput(
                f"asked for model {model} on sample {samples[model, column]}, which is unknown in"
                " this matrix."
            )
        self.observed[rows, samples] = True
        return Responses(query, values)


def check_cells(samples: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Returns samples unchanged if they are int64[m, b], from 0 to n - 1, no sample twice in a row.

    Raises:
      BadInput: they are not.
    """
    samples, (models, n) = np.asarray(samples), shape
    if samples.ndim != 2 or len(samples) != models or samples.dtype.kind not in "iu":
        raise BadInput(
            f"asked for {samples.dtype}{list(samples.shape)}; it must be int64[{models}, b], one"
            " row per model."
        )
    if samples.size and not 0 <= samples.min() <= samples.max() < n:
        raise BadInput(f"asked for sample {samples.min()} or {samples.max()}; there are {n}.")
    ordered = np.sort(samples, axis=1)
    if (ordered[:, 1:] == ordered[:, :-1]).any():
        raise BadInput("a sample was asked twice of one model; ask each only once.")
    return samples


def check_budget(budget: int, most: int, unit: str = "samples of each model") -> int:
    """Returns the budget unchanged if 1 ≤ budget ≤ most; `unit` is what it counts, for messages.

    Raises:
      BadInput: it is not.
    """
    if isinstance(budget, bool) or not isinstance(budget, (int, np.integer)):
        raise BadInput(f"a budget of {budget!r} {unit}: a whole number is expected.")
    if not 1 <= budget <= most:
        raise BadInput(
            f"a budget of {budget} {unit}: it must be between 1 and {most} (all of them)."
        )
    return int(budget)
