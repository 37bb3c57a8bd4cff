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
from nevis_stream.queries.session_log import History, read_lines, report_damage
from nevis_stream.seeds import generator
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
    seed: Annotated[int, check_whole(-(2**63), 2**63 - 1)]
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
      query: [1, b], the columns that the policy chose, or substitutes of such.
      places: int64[b], the cells of this model that the substitutes replace, counted over all its
        rounds; None if the policy chose them.
      answered: number of answers of this model that there were then.
      order: int64[b], the order in which they are handed out, drawn at random: policies sort the
        samples, and the first answers should stand for all.
    """

    model: str
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


def read_rounds(
    file: Path, settings: EvaluationSettings, columns: Mapping[str, int]
) -> list[AskedRound]:
    """Returns all rounds, in order.

    Args:
      file: may be missing.
      settings: of the session.
      columns: of the samples, by id.

    Raises:
      BadInput: the file is damaged.
    """
    rounds: list[AskedRound] = []
    asked: dict[str, set[int]] = {model: set() for model in settings.models}
    counts = dict.fromkeys(settings.models, 0)
    for line_number, line in enumerate(read_lines(file), start=1):
        with report_damage(file, line_number):
            model, places = line["model"], line.get("replaced")
            samples = np.array([columns[each] for each in line["samples"]], np.int64)
            arrays = [
                _parse_numbers(line[name], len(samples)) for name in ("probabilities", "shares")
            ]
            before = len(asked[model])
            asked[model].update(samples.tolist())
            if len(asked[model]) - before != len(samples):
                raise ValueError("it asks a sample a second time")
            if not isinstance(line["answers"], int):
                raise ValueError("a number has an unexpected type")
            if places is not None:
                places = np.array(places, np.int64)
                if places.shape != samples.shape:
                    raise ValueError("its lists do not fit each other")
            name = "" if settings.until_decided else model
            order = generator(settings.seed, "order", name, counts[model]).permutation(len(samples))
            counts[model] += 1
            query = Query(samples[None], *arrays)
            rounds.append(AskedRound(model, query, places, line["answers"], order))
    return rounds


def _parse_numbers(values: Any, count: int) -> np.ndarray | None:
    if values is None:
        return None
    array = np.array(values, np.float64)
    if array.shape != (count,) or not np.isfinite(array).all():
        raise ValueError("its lists do not fit each other")
    return array[None]


def read_answers(
    file: Path, settings: EvaluationSettings, columns: Mapping[str, int]
) -> dict[Cell, Answer]:
    """Returns all answers, by model and column; corrections replace. Arguments as of `read_rounds`.

    Raises:
      BadInput: the file is damaged.
    """
    answers: dict[Cell, Answer] = {}
    for line_number, line in enumerate(read_lines(file), start=1):
        with report_damage(file, line_number):
            for model, of_model in line["answers"].items():
                if model not in settings.models:
                    raise ValueError(f"there is no model {model!r}")
                for sample, value in of_model.items():
                    is_number = isinstance(value, int | float) and math.isfinite(value)
                    if value is not None and not is_number:
                        raise ValueError(f"{show_value(value)} is no value")
                    answers[model, columns[sample]] = None if value is None else float(value)
    return answers


def read_handed(file: Path, columns: Mapping[str, int]) -> dict[Cell, str]:
    """Returns the worker that each cell was last handed to; those of no worker are not in it.

    Raises:
      BadInput: the file is damaged.
    """
    handed: dict[Cell, str] = {}
    for line_number, line in enumerate(read_lines(file), start=1):
        with report_damage(file, line_number):
            cells = [(line["model"], columns[each]) for each in line["samples"]]
            handed |= dict.fromkeys(cells, check_string(line["worker"]))
    return handed


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
      drawn: the columns of the first samples that were told, in the order in which they were handed
        out, if each was drawn from all that were left with equal probabilities; else none.
      drawn_values: float64 of each of these, NaN where there is no answer.
    """

    model: str
    query: Query
    values: np.ndarray
    told: np.ndarray
    asked: np.ndarray
    failed: int
    drawn: tuple[int, ...]
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


def make_track(
    past: History[AskedRound, Cell, Answer],
    model: str,
    ends: tuple[np.ndarray, np.ndarray],
    scores: bool,
) -> Track:
    """Returns what was asked of a model, and what it answered.

    Args:
      past: the rounds and answers of the session.
      model: its name.
      ends: of the range of each sample, float64[n] twice.
      scores: whether the board has scores, not outcomes.
    """
    rounds = [each for each in past.rounds if each.model == model]
    query, asked = Query.none(1), np.zeros(len(ends[0]), bool)
    for each in rounds:
        asked[each.query.samples[0]] = True
        if each.places is None:
            query = query.then(each.query)
        else:
            samples = query.samples.copy()
            samples[0, each.places] = each.query.samples[0]
            query = replace(query, samples=samples)
    answers = past.answers

    def read_scaled(columns: np.ndarray) -> np.ndarray:
        raw = [answers.get((model, column)) for column in columns.tolist()]
        values = np.array([np.nan if value is None else value for value in raw], np.float64)
        low, high = (each[columns] for each in ends)
        return (values - low) / (high - low)

    columns = query.samples[0]
    told = np.array([(model, column) in answers for column in columns.tolist()], bool)
    values = read_scaled(columns)
    if scores:
        values = values.astype(np.float32)
    else:
        values = np.where(np.isnan(values), UNKNOWN, values).astype(np.uint8)
    failed = sum(
        answers.get((model, column), 0) is None for column in np.flatnonzero(asked).tolist()
    )
    drawn = _list_drawn(rounds, len(asked))
    is_told = [cell in answers for cell in drawn]
    drawn = drawn[: is_told.index(False)] if False in is_told else drawn
    order = tuple(column for _, column in drawn)
    columns = np.array(order, np.int64)
    return Track(model, query, values, told, asked, failed, order, read_scaled(columns))


def _list_drawn(rounds: list[AskedRound], n: int) -> list[Cell]:
    """Returns the cells of a round that is a plain random draw, in the order in which they are
    handed out, which is random too; none if the first round is not one.
    """
    first = rounds[0].query.probabilities if rounds else None
    if first is None or not np.allclose(first[0], 1 / (n - np.arange(first.shape[1]))):
        return []
    return rounds[0].asked
