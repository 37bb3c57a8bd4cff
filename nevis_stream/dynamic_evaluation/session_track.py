"""What a session of live evaluation has asked and heard of one model."""

from dataclasses import dataclass, replace

import numpy as np

from nevis_stream.dynamic_evaluation.session_records import Answer, AskedRound, Cell
from nevis_stream.errors import plural
from nevis_stream.queries.matrix import UNKNOWN, is_observed
from nevis_stream.queries.oracle import Estimate, Query
from nevis_stream.queries.session_log import History


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
      values: [k], the answers from 0 to 1, unknown where there is none.
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
        answered, waiting = int(self.answered.sum()), int((~self.told).sum())
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


def follow(
    past: History[AskedRound, Cell, Answer],
    model: str,
    ends: tuple[np.ndarray, np.ndarray],
    scores: bool,
) -> Track:
    """Returns what was asked of a model.

    Args:
      past: of the session.
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

    def scaled(columns: np.ndarray) -> np.ndarray:
        raw = [answers.get((model, column)) for column in columns.tolist()]
        values = np.array([np.nan if value is None else value for value in raw], np.float64)
        low, high = (each[columns] for each in ends)
        return (values - low) / (high - low)

    columns = query.samples[0]
    told = np.array([(model, column) in answers for column in columns.tolist()], bool)
    values = scaled(columns)
    if scores:
        values = values.astype(np.float32)
    else:
        values = np.where(np.isnan(values), UNKNOWN, values).astype(np.uint8)
    failed = sum(
        answers.get((model, column), 0) is None for column in np.flatnonzero(asked).tolist()
    )
    drawn = _drawn(rounds, len(asked))
    first = [cell in answers for cell in drawn]
    drawn = drawn[: first.index(False)] if False in first else drawn
    order = tuple(column for _, column in drawn)
    columns = np.array(order, np.int64)
    return Track(model, query, values, told, asked, failed, order, scaled(columns))


def _drawn(rounds: list[AskedRound], n: int) -> list[Cell]:
    """Returns the cells of a round that is a plain random draw, in the order in which they are
    handed out, which is random too; none if the first round is not one.
    """
    first = rounds[0].query.probabilities if rounds else None
    if first is None or not np.allclose(first[0], 1 / (n - np.arange(first.shape[1]))):
        return []
    return rounds[0].asked
