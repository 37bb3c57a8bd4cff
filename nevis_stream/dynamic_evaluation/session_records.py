"""Typed records of what a session of live evaluation keeps on disk, and the track of one model:
what it was asked and what it answered.
"""

import csv
import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from nevis_stream.errors import BadInput, plural
from nevis_stream.estimation.comparison import GOALS
from nevis_stream.queries.oracle import Estimate, Query
from nevis_stream.queries.prices import UNITS, Prices
from nevis_stream.queries.samples import UNKNOWN, is_observed
from nevis_stream.queries.session_log import History
from nevis_stream.seeds import LEAST, generator
from nevis_stream.storage import write_file
from nevis_stream.storage.reading import open_text
from nevis_stream.storage.record import (
    Record,
    check_choice,
    check_string,
    check_whole,
    number,
    show_value,
)
from nevis_stream.storage.tables import format_csv, quote

ROUNDS, ANSWERS, HANDED, PRICES = (
    "rounds.jsonl",
    "answers.jsonl",
    "handed.jsonl",
    "prices.csv",
)
KIND = "evaluation"

Cell = tuple[str, int]
"""A model and the column of a sample."""
Answer = float | None
"""A value in the units of the board; None: the model gave none."""


def _check_names(value: Any) -> list[str]:
    if not isinstance(value, list) or not value or not all(isinstance(e, str) for e in value):
        raise ValueError(f"is {show_value(value)}, not a list of names")
    return value


@dataclass(frozen=True, kw_only=True)
class EvaluationSettings(Record):
    """What identifies a session of live evaluation.

    Attributes:
      models: names of the new models.
      method: its name, after it was chosen.
      reason: why it was chosen; "" if it was given.
      budget: most samples that are asked of each model.
      seed: of all random numbers.
      board: digest of the known models' values.
      samples: number of the board's samples.
      numbered: whether samples are named by whole numbers, as columns of an array are.
      until: width of the interval at which the session ends; None: it ends at the budget.
      until_better_than: a known model; the session ends when the interval of each new one lies
        above its mean, or below.
      until_decided: "best" or "order" of the new models, when the session ends; they are then asked
        the same samples in the same order.
      answers: most answers of all models together, with `until_decided`: what a settled model does
        not need is left to the others; None: each has a `budget` of its own.
      unit: of a budget in prices, which `budget` samples were planned for; None: the budget is a
        number of samples.
      amount: the budget in this unit.
      prices: digest of the prices.
      assisted: whether the interval that ends the session uses the method's predictions, and bets
        for its width; None in sessions of earlier versions.
    """

    kind = KIND
    models: Annotated[Sequence[str], _check_names]
    method: Annotated[str, check_string]
    reason: Annotated[str, check_string]
    numbered: bool
    budget: Annotated[int, check_whole(1)]
    seed: Annotated[int, check_whole(LEAST, 2**63 - 1)]
    board: str
    samples: Annotated[int, check_whole(1)]
    until: Annotated[float, number(0, math.inf)] | None = None
    until_better_than: str | None = None
    until_decided: Annotated[str, check_choice("until_decided", GOALS)] | None = None
    answers: Annotated[int, check_whole(1)] | None = None
    unit: Annotated[str, check_choice("unit", UNITS)] | None = None
    amount: Annotated[float, number(0, math.inf)] | None = None
    prices: str | None = None
    assisted: bool | None = None

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> "EvaluationSettings":
        """Returns the settings of a file; ValueError if they are of another kind of session."""
        if not isinstance(values, dict) or values.get("kind") != KIND:
            raise ValueError("these are not the settings of an evaluation")
        return cls.from_json(values)


@dataclass(frozen=True)
class AskedRound:
    """Cells of one model that were chosen together.

    Attributes:
      model: the model.
      number: of this model's rounds before it.
      query: [1, b], the columns that the policy chose, or substitutes of such.
      places: int64[b], the cells of this model that the substitutes replace, counted over all its
        rounds; None if the policy chose them.
      answered: number of answers of this model that there were then.
      order: int64[b], the order in which they are handed out, drawn at random: policies sort the
        samples, and the first answers should stand for all.
    """

    model: str
    number: int
    query: Query
    places: np.ndarray | None
    answered: int
    order: np.ndarray

    @cached_property
    def asked(self) -> list[Cell]:
        """The cells, in the order in which they are handed out."""
        return [(self.model, column) for column in self.query.samples[0, self.order].tolist()]


def make_round_line(
    model: str, query: Query, places: np.ndarray | None, answered: int, ids: Sequence[str]
) -> dict[str, Any]:
    """Returns the line of a round in its file; `ids` name its samples, the others are as of
    `AskedRound`.
    """
    arrays = {"probabilities": query.probabilities, "shares": query.fractions}
    lists = {name: None if each is None else each[0].tolist() for name, each in arrays.items()}
    line = {"model": model, "answers": answered, "samples": list(ids)} | lists
    return line if places is None else line | {"replaced": places.tolist()}


def parse_round(
    line: Mapping[str, Any],
    earlier: Sequence[AskedRound],
    settings: EvaluationSettings,
    columns: Mapping[str, int],
) -> AskedRound:
    """Returns the round of a line of its file; ValueError or the like if it is damaged.

    Args:
      line: of the file of rounds.
      earlier: the rounds before it.
      settings: of the session.
      columns: of the samples, by id.
    """
    model, places = _check_model(line["model"], settings), line.get("replaced")
    samples = np.array([columns[each] for each in line["samples"]], np.int64)
    arrays = [_parse_numbers(line[name], len(samples)) for name in ("probabilities", "shares")]
    if not isinstance(line["answers"], int):
        raise ValueError("a number has an unexpected type")
    if places is not None:
        places = np.array(places, np.int64)
        if places.shape != samples.shape:
            raise ValueError("its lists do not fit each other")
    name = "" if settings.until_decided else model
    number = next((each.number + 1 for each in reversed(earlier) if each.model == model), 0)
    order = generator(settings.seed, "order", name, number).permutation(len(samples))
    query = Query(samples[None], *arrays)
    return AskedRound(model, number, query, places, line["answers"], order)


def _check_model(name: Any, settings: EvaluationSettings) -> str:
    if name not in settings.models:
        raise ValueError(f"there is no model {name!r}")
    return name


def _parse_numbers(values: Any, count: int) -> np.ndarray | None:
    if values is None:
        return None
    array = np.array(values, np.float64)
    if array.shape != (count,) or not np.isfinite(array).all():
        raise ValueError("its lists do not fit each other")
    return array[None]


def parse_answers(
    line: Mapping[str, Any], settings: EvaluationSettings, columns: Mapping[str, int]
) -> dict[Cell, Answer]:
    """Returns the answers of a line of their file, by model and column; ValueError or the like if
    it is damaged. Arguments as of `parse_round`.
    """
    answers: dict[Cell, Answer] = {}
    for model, of_model in line["answers"].items():
        _check_model(model, settings)
        for sample, value in of_model.items():
            is_number = isinstance(value, int | float) and math.isfinite(value)
            if value is not None and not is_number:
                raise ValueError(f"{show_value(value)} is no value")
            answers[model, columns[sample]] = None if value is None else float(value)
    return answers


def write_prices(directory: Path, prices: Prices, samples: Sequence[str]) -> None:
    """Writes the prices of a session's samples, by which its budget is planned."""
    text = format_csv(["sample", prices.unit], zip(samples, prices.each.tolist(), strict=True))
    write_file(directory / PRICES, text.encode())


def digest_prices(prices: Prices) -> str:
    """Returns 16 hex digits that identify the prices."""
    return hashlib.sha256(np.ascontiguousarray(prices.each)).hexdigest()[:16]


def read_session_prices(
    directory: Path, settings: EvaluationSettings, samples: Sequence[str]
) -> Prices | None:
    """Returns the prices of a session's samples; None if its budget is a number of samples.

    Raises:
      BadInput: their file is not as it was written.
    """
    if settings.unit is None or settings.amount is None:
        return None
    path = directory / PRICES
    try:
        with open_text(path) as file:
            rows = list(csv.reader(file))[1:]
        each = np.array([float(price) for _, price in rows])
        prices = Prices(settings.unit, each, settings.amount)
        # earlier versions wrote ids as they are
        pairs = zip((row[0] for row in rows), samples, strict=True)
        if any(kept not in (sample, quote(sample)) for kept, sample in pairs):
            raise ValueError("its samples are not those of the board")
        if digest_prices(prices) != settings.prices:
            raise ValueError("its prices are not those that were written")
    except (OSError, ValueError) as error:
        raise BadInput(f"{path}: damaged ({error}). Put a copy of the file back.") from None
    return prices


@dataclass(frozen=True)
class ModelStatus:
    """Where the evaluation of one model stands.

    Attributes:
      model: its name.
      answered: number of samples with an answer.
      failed: number of samples that were asked and gave none.
      waiting: number of samples that were asked and have not been told.
      budget: number of samples to be answered.
      ended: whether nothing more is asked.
      estimate: of the model's mean.
    """

    model: str
    answered: int
    failed: int
    waiting: int
    budget: int
    ended: bool
    estimate: Estimate

    def __str__(self) -> str:
        failed = f", {self.failed:,} gave none" if self.failed else ""
        state = "ended" if self.ended else f"{plural(self.waiting, 'sample')} waiting"
        return (
            f"{self.model}: {self.answered:,} of {self.budget:,} answers{failed}; {state}:"
            f" {self.estimate}"
        )


@dataclass(frozen=True)
class Track:
    """What was asked of one model, and what it answered.

    Attributes:
      model: its name.
      query: [1, k], with substitutes in the place of samples without an answer.
      values: uint8[k], float32[k] of scores: the answers from 0 to 1, unknown where there is none.
      told: bool[k], which were told, with an answer or without.
      asked: bool[n], the samples that were asked, also those that were substituted.
      failed: number of samples that gave no answer.
      drawn: int64, the columns of the first samples that were told, in the order in which they were
        handed out, if each was drawn from all that were left with equal probabilities; else none.
      drawn_values: float64 of each of these, NaN where there is no answer.
    """

    model: str
    query: Query
    values: np.ndarray
    told: np.ndarray
    asked: np.ndarray
    failed: int
    drawn: np.ndarray
    drawn_values: np.ndarray

    def status(self, budget: int, ended: bool, estimate: Estimate) -> ModelStatus:
        """Returns where the evaluation stands; arguments as of `ModelStatus`."""
        answered = int(self.answered.sum())
        waiting = min(int((~self.told).sum()), max(budget - answered, 0))
        return ModelStatus(self.model, answered, self.failed, waiting, budget, ended, estimate)

    @property
    def answered(self) -> np.ndarray:
        """bool[k], which have an answer."""
        return is_observed(self.values)

    @property
    def answered_query(self) -> Query:
        """[1, number of answers], what has an answer."""
        arrays = (self.query.samples, self.query.probabilities, self.query.fractions)
        samples, *others = (None if each is None else each[:, self.answered] for each in arrays)
        assert samples is not None
        return Query(samples, *others)

    def is_complete(self, budget: int) -> bool:
        """Returns whether all answers are there, or no sample is left to be asked instead."""
        if not self.told.all():
            return False
        if lacking := int((~self.answered).sum()):
            return lacking > int((~self.asked).sum())
        return self.query.samples.shape[1] == budget


class GrowingTrack:
    """The track of one model, which grows with the history of its session.

    Args:
      history: the rounds and answers of the session.
      model: its name.
      ends: of the range of each sample, float64[n] twice.
      scores: whether the board has scores, not outcomes.

    Attributes:
      waiting: by column, the places of the samples that were asked and not told, in the order in
        which they are handed out.
    """

    def __init__(
        self,
        history: History[AskedRound, Cell, Answer],
        model: str,
        ends: tuple[np.ndarray, np.ndarray],
        scores: bool,
    ):
        self._history, self._model, self._ends, self._scores = history, model, ends, scores
        self.waiting: dict[int, int] = {}
        n = len(ends[0])
        self._query, self._asked, self._count = Query.none(1), np.zeros(n, bool), 0
        self._told, self._values, self._failed = np.zeros(n, bool), np.full(n, np.nan), set[int]()
        self._drawn = np.empty(0, np.int64)
        self._rounds = self._answers = 0  # of the history, that are in this track
        self._track: Track | None = None

    def read(self) -> Track:
        """Returns the track, with what the history has gained."""
        told = self._history.told[self._answers :]
        rounds = self._history.rounds[self._rounds :]
        self._answers, self._rounds = self._answers + len(told), self._rounds + len(rounds)
        for each in rounds:
            if each.model == self._model:
                self._add_round(each)
        if columns := [column for model, column in told if model == self._model]:
            self._add_answers(columns)
        if self._track is None or rounds or columns:
            self._track = self._make_track()
        return self._track

    def _add_round(self, each: AskedRound) -> None:
        columns = each.query.samples[0]
        self._asked[columns] = True
        if each.number == 0 and _is_plain_draw(each, len(self._asked)):
            self._drawn = columns[each.order]
        if each.places is None:
            self._query = self._query.then(each.query)
        else:
            samples = self._query.samples.copy()
            samples[0, each.places] = columns
            self._query = replace(self._query, samples=samples)
        for _, column in each.asked:
            self.waiting[column] = self._count = self._count + 1

    def _add_answers(self, columns: list[int]) -> None:
        answers = [self._history.answers[self._model, column] for column in columns]
        for column, answer in zip(columns, answers, strict=True):
            self.waiting.pop(column, None)
            (self._failed.add if answer is None else self._failed.discard)(column)
        low, high = (end[columns] for end in self._ends)
        self._values[columns] = (np.array(answers, np.float64) - low) / (high - low)
        self._told[columns] = True

    def _make_track(self) -> Track:
        columns = self._query.samples[0]
        values = self._values[columns]
        if self._scores:
            values = values.astype(np.float32)
        else:
            values = np.where(np.isnan(values), UNKNOWN, values).astype(np.uint8)
        is_told = self._told[self._drawn]
        drawn = self._drawn[: len(is_told) if is_told.all() else is_told.argmin()]
        return Track(
            self._model,
            self._query,
            values,
            self._told[columns],
            self._asked.copy(),
            len(self._failed),
            drawn,
            self._values[drawn],
        )


def _is_plain_draw(first: AskedRound, n: int) -> bool:
    """Returns whether each sample of a model's first round was drawn from all that were left with
    equal probabilities; then the order in which they are handed out is random too.
    """
    chances = first.query.probabilities
    return chances is not None and np.allclose(chances[0], 1 / (n - np.arange(chances.shape[1])))
