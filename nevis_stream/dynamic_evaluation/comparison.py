"""Comparisons of the models of a session, with each other and with known models.

In a session that ends when the best model, or the order, is decided, all models are asked the same
samples in the same order. A model about which all is decided is not asked any more.
"""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nevis_stream.dynamic_evaluation import session_loop
from nevis_stream.dynamic_evaluation.session_loop import AnswerAll
from nevis_stream.dynamic_evaluation.stopping import ERROR, check_draws, select_weights
from nevis_stream.errors import BadInput, unknown
from nevis_stream.estimation.comparison import Difference, compare_pair, make_covariates
from nevis_stream.queries.board import Board
from nevis_stream.queries.oracle import Estimate
from nevis_stream.queries.samples import is_observed
from nevis_stream.storage import make_scratch_folder

if TYPE_CHECKING:
    from nevis_stream.dynamic_evaluation.session import Session

BATCH = 10  # samples that a model is asked before the next one has its turn


@dataclass(frozen=True)
class Comparison:
    """What is known of several new models.

    Attributes:
      goal: what was asked for, "best" or "order".
      order: the models, the best one first: by how many others beat a model, then by its estimate.
      decided: whether the decision that was asked for is made.
      error: the greatest probability that the best one is lost, or for the order that any pair is
        decided wrongly.
      beaten: by model, those that are better.
      differences: by pair of models, in the units of the board: how much better the first one is.
        These intervals hold however often one looks, each at 95% by itself.
      estimates: of each model's mean.
    """

    goal: str
    order: Sequence[str]
    decided: bool
    error: float
    beaten: Mapping[str, Sequence[str]]
    differences: Mapping[tuple[str, str], Difference]
    estimates: Mapping[str, Estimate]

    @property
    def best(self) -> str:
        """The model that is taken to be the best."""
        return self.order[0]

    @property
    def ranking(self) -> str:
        """The best model, or the order, and whether it is decided."""
        named = self.best if self.goal == "best" else ", ".join(self.order)
        state = f"decided, with an error of at most {self.error:.0%}" if self.decided else "open"
        return f"{self.goal}: {named} ({state})"

    def __str__(self) -> str:
        lines = [self.ranking]
        for (first, second), each in self.differences.items():
            lines.append(describe_difference(first, second, each))
        return "\n".join(lines)


def describe_difference(first: str, second: str, difference: Difference) -> str:
    """Returns a line on a difference, for people."""
    each = difference
    if not each.shared:
        return f"{first} - {second}: no shared sample yet"
    return (
        f"{first} - {second}: {each.value:+.4f} (95%: {each.low:+.4f} to {each.high:+.4f};"
        f" {each.shared:,} shared; {first} is better with probability {each.probability:.3f})"
    )


def compare(
    board: Board,
    models: Mapping[str, AnswerAll],
    budget: int | None = None,
    *,
    until: str = "best",
    method: str | None = None,
    seed: int = 0,
    directory: str | Path | None = None,
) -> Comparison:
    """Asks new models the same samples of a board until the best of them, or their order, is known.

    Args:
      board: the known models.
      models: by name, what takes a list of sample ids and returns a value for each, in the units of
        the board, or the values, as of `evaluate`. If it raises, the samples are asked again one at
        a time; one of which it raises three times has no answer.
      budget: most samples asked of each model; None: all.
      until: "best" or "order".
      method: as of `Session.start`.
      seed: of the draws.
      directory: of the session that keeps the answers; a later call goes on with it. None: they are
        kept until the call ends.

    Raises:
      BadInput: an argument cannot be used.
      AnsweringFailed: a model does not answer, as of `Session.run`; it has the answers by model.
    """
    from nevis_stream.dynamic_evaluation.session import Session

    kept, next_step = nullcontext(directory), session_loop.GO_ON
    if directory is None:
        kept = make_scratch_folder("nevis-stream-comparison")
        next_step = "`directory` would keep what was answered."
    with kept as folder:
        session = Session.start(
            folder,
            board,
            budget,
            models=list(models),
            method=method,
            seed=seed,
            until_decided=until,
        )
        session_loop.run_in_turn(session, models, BATCH, next_step)
        return compare_models(session)


def compare_models(session: "Session") -> Comparison:
    """Returns what a session that ends when its models are decided knows of them.

    Raises:
      BadInput: the session ends otherwise, so its models are not asked the same samples in order.
    """
    if session.settings.until_decided is None:
        raise BadInput(
            "this session does not decide which model is the best: start one with"
            " --until_decided=best (or order), `until_decided` in Python. Or name two models, which"
            " are compared if the session's method is random_mean."
        )
    names, (part,) = list(session.settings.models), session.facts.parts
    decisions = session.decided().decisions
    estimates = session.estimates()
    beaten = {
        name: [names[i] for i in np.flatnonzero(decisions.better[:, column])]
        for column, name in enumerate(names)
    }
    sign = 1 if part.lower else -1

    def place(name: str) -> tuple[int, float]:
        return len(beaten[name]), float(np.nan_to_num(sign * estimates[name].value, nan=np.inf))

    order, goal = sorted(names, key=place), session.settings.until_decided
    differences = {
        (first, second): compare_two(session, first, second)
        for first, second in combinations(names, 2)
    }
    decided = bool(decisions.settled.all())
    return Comparison(goal, order, decided, ERROR, beaten, differences, estimates)


def compare_two(session: "Session", first: str, second: str) -> Difference:
    """Returns how much better a new model is than another one of the session, or a known one, or
    the other way round, in the units of the board, from the samples that both have answered.

    In a session that ends at its budget, the interval for models that have all their answers holds
    at this number of answers only, and is shortened by what the known models say about the samples;
    else, and where data sets have weights, as draws may miss one, it holds however often one looks.

    Raises:
      BadInput: there is no such model; or the samples are not drawn one by one; or two new models
        are asked in different orders, and one lacks some of its answers.
    """
    known, new = session.cache.models(), session.settings.models
    for model in (first, second):
        if model not in known and model not in new:
            raise BadInput(unknown("model", model, [*new, *known]))
    if first == second:
        raise BadInput(f"{first}: name two different models.")
    check_draws(
        session.settings.method,
        "interval of a difference: start a session with --method=random_mean, --until or"
        " --until_decided",
    )
    if first in new:
        return (_compare_new if second in new else _compare_with_known)(session, first, second)
    if second in known:
        raise BadInput(f"{first} and {second} are both known: name a new model of this session.")
    found = _compare_with_known(session, second, first)
    turned = {"value": -found.value, "low": -found.high, "high": -found.low}
    return replace(found, **turned, probability=1 - found.probability)


def _compare_new(session: "Session", first: str, second: str) -> Difference:
    """Returns the difference of two new models; see `compare_two`."""
    one, two = session.track(first), session.track(second)
    columns, own, other = one.drawn, one.drawn_values, two.drawn_values
    if session.settings.until_decided is None:
        ended = session.has_ended(first) and session.has_ended(second)
        if session.stopping.by_interval or not ended:
            raise BadInput(
                "two new models are compared in a session with --until_decided, or in one of"
                " --method=random_mean and a budget alone when both have all their answers."
            )
        # the same samples, but each model was asked them in an order of its own
        values = np.full(session.facts.n, np.nan)
        values[two.drawn] = other
        common = np.isin(columns, two.drawn)
        columns, own = columns[common], own[common]
        other = values[columns]
    shared = min(len(own), len(other))
    pair = np.stack([own[:shared], other[:shared]])
    return _compare(session, columns[:shared], pair, not _is_number_enough(session))


def _compare_with_known(session: "Session", new: str, known: str) -> Difference:
    """Returns the difference of a new model and a known one; see `compare_two`."""
    track, (part,) = session.track(new), session.facts.parts
    cells = session.cache.matrix([known])[0]
    row = np.where(is_observed(cells), cells, np.nan).astype(np.float64)
    mean = float(session.facts.weights @ row)  # NaN if it lacks some values
    columns, complete = track.drawn, not np.isnan(mean)
    # the mean of a complete model is known: nothing of it is left to be estimated
    other = np.full(len(columns), mean) if complete else row[columns]
    anytime = not (_is_number_enough(session) and session.has_ended(new))
    pair = np.stack([track.drawn_values, other])
    found = _compare(session, columns, pair, anytime, row if complete else None)
    if complete and anytime and (interval := session.stopping.interval(track)):
        # that of the new model, by which such a session ends, less the mean
        away = [(end - part.unscale(mean)) * (-1 if part.lower else 1) for end in interval]
        low, high = sorted(away)
        return replace(found, value=float(np.clip(found.value, low, high)), low=low, high=high)
    return found


def _is_number_enough(session: "Session") -> bool:
    """Returns whether an interval may hold at the number of answers alone: it is fixed beforehand,
    and draws cannot miss a data set that has a large weight.
    """
    return not session.stopping.by_interval and session.facts.dataset_weights is None


def _compare(
    session: "Session",
    columns: np.ndarray,
    pair: np.ndarray,
    anytime: bool,
    known: np.ndarray | None = None,
) -> Difference:
    """Returns the difference of two models, in the units of the board.

    Args:
      session: of the models.
      columns: int64[k], the samples in the order in which they were drawn.
      pair: float64[2, k], the models' values of these, from 0 to 1; NaN: without an answer.
      anytime: as of `compare_pair`.
      known: float64[n], the values of the second model, if they are known.
    """
    facts, (part,) = session.facts, session.facts.parts
    if part.lower:
        pair = 1 - pair
    weights, greatest_weight = select_weights(facts, columns)
    covariates = None
    if not anytime:
        total, seen = session.cache.column_sums()
        covariates = make_covariates((total + 1) / (seen + 2), facts.weights, known)[columns]
    least, greatest = (
        compare_pair(
            *_fill(pair, end),
            facts.n,
            weights=weights,
            greatest_weight=greatest_weight,
            anytime=anytime,
            covariates=covariates,
        )
        for end in (0.0, 1.0)
    )
    width = part.unscale(1.0) - part.unscale(0.0)
    both = ~np.isnan(pair).any(axis=0)
    weights, covariates = (each if each is None else each[both] for each in (weights, covariates))
    middle = compare_pair(*pair[:, both], facts.n, weights=weights, covariates=covariates)
    value = float(np.clip(middle.value, least.low, greatest.high))
    return replace(middle, value=width * value, low=width * least.low, high=width * greatest.high)


def _fill(pair: np.ndarray, end: float) -> np.ndarray:
    """Returns the values of two models, those without an answer such that the difference is least
    (`end` 0) or greatest (1).
    """
    instead = np.array([[end], [1 - end]])
    return np.where(np.isnan(pair), instead, pair)
