"""Comparisons of the models of a session, with each other and with known models.

In a session that ends when the best model, or the order, is decided, all models are asked the same
samples in the same order. A model about which all is decided is not asked any more.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

from nevis_stream.dynamic_evaluation import methods
from nevis_stream.dynamic_evaluation.board import Board
from nevis_stream.dynamic_evaluation.policy import Random
from nevis_stream.dynamic_evaluation.stopping import ERROR, select_weights
from nevis_stream.errors import BadInput, unknown
from nevis_stream.estimation.comparison import Difference, compare_pair, make_covariates
from nevis_stream.queries.oracle import Estimate
from nevis_stream.queries.samples import is_observed

if TYPE_CHECKING:
    from nevis_stream.dynamic_evaluation.session import Session

BATCH = 10  # samples that a model is asked before the next one has its turn


@dataclass(frozen=True)
class Comparison:
    """What is known of several new models.

    Attributes:
      best: the model that is taken to be the best: of those that no other one beats, the one with
        the highest (lowest, where lower is better) estimate.
      decided: whether the decision that was asked for is made.
      error: the greatest probability that the best one is lost, or for the order that any pair is
        decided wrongly.
      beaten: by model, those that are better.
      differences: by pair of models, in the units of the board: how much better the first one is.
        These intervals hold however often one looks, each at 95% by itself.
      estimates: of each model's mean.
    """

    best: str
    decided: bool
    error: float
    beaten: Mapping[str, Sequence[str]]
    differences: Mapping[tuple[str, str], Difference]
    estimates: Mapping[str, Estimate]

    def __str__(self) -> str:
        state = f"decided, with an error of at most {self.error:.0%}" if self.decided else "open"
        lines = [f"best: {self.best} ({state})"]
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
    models: Mapping[str, Callable[[list], Sequence[float]]],
    budget: int | None = None,
    *,
    until: str = "best",
    method: str | None = None,
    seed: int = 0,
) -> Comparison:
    """Asks new models the same samples of a board until the best of them, or their order, is known.

    Args:
      board: the known models.
      models: by name, what takes a list of sample ids and returns a value for each, in the units of
        the board.
      budget: most samples asked of each model; None: all.
      until: "best" or "order".
      method: as of `Session.start`.
      seed: of the draws.

    Raises:
      BadInput: an argument cannot be used.
    """
    from nevis_stream.dynamic_evaluation.session import Session

    with TemporaryDirectory(prefix="nevis-stream-comparison-") as folder:
        session = Session.start(
            Path(folder) / "session",
            board,
            budget,
            models=list(models),
            method=method,
            seed=seed,
            until_decided=until,
        )
        while not session.ended:
            for name, answer in models.items():
                if ids := session.ask(BATCH, name):
                    given = list(answer(list(ids)))
                    if len(given) != len(ids):
                        raise BadInput(
                            f"{name}: was asked {len(ids)} samples, and returned {len(given)}"
                            " values."
                        )
                    session.tell(dict(zip(ids, given, strict=True)), name)
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
    left = [name for name in names if not beaten[name]] or names
    sign = -1 if part.lower else 1
    best = max(left, key=lambda name: np.nan_to_num(sign * estimates[name].value, nan=-np.inf))
    differences = {
        (first, second): compare_two(session, first, second)
        for first, second in combinations(names, 2)
    }
    decided = bool(decisions.settled.all())
    return Comparison(best, decided, ERROR, beaten, differences, estimates)


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
    if first == second:
        raise BadInput(f"{first}: name two different models.")
    if first in session.cache.models() and second in session.settings.models:
        away = compare_two(session, second, first)
        turned = {"value": -away.value, "low": -away.high, "high": -away.low}
        return replace(away, **turned, probability=1 - away.probability)
    method, known = session.settings.method, session.cache.models()
    if not {first, second} - set(known):
        raise BadInput(
            f"{first} and {second} are both known: one model of this session is compared."
        )
    if not isinstance(methods.get(method).policy, Random):
        raise BadInput(
            f"{first}: method {method!r} does not draw its samples one by one with equal"
            " probabilities, so there is no interval of a difference: start a session with"
            " --method=random_mean, --until or --until_decided."
        )
    facts, track = session.facts, session.track(first)
    (part,) = facts.parts
    columns, own = np.array(track.drawn, np.int64), track.drawn_values
    final, known_mean = session.has_ended(first) and not session.stopping.by_interval, None
    if second in known:
        row = session.cache.matrix([second])[0]
        other_columns = columns
        other = np.where(is_observed(row), row, np.nan).astype(np.float64)[columns]
        if is_observed(row).all():  # nothing of it is left to be estimated
            known_mean = float(facts.mean(row[None])[0])
            other = np.full(len(columns), known_mean)
    elif second not in session.settings.models:
        raise BadInput(unknown("model", second, [*session.settings.models, *known]))
    else:
        its = session.track(second)
        other_columns, other = np.array(its.drawn, np.int64), its.drawn_values
        final &= session.has_ended(second)
        if session.settings.until_decided is None and not final:
            raise BadInput(
                "two new models are compared in a session with --until_decided, or in one of"
                " --method=random_mean and a budget alone when both have all their answers."
            )
    if final:  # all answers are there, in the order in which the first model gave them
        place = {column: number for number, column in enumerate(other_columns.tolist())}
        common = np.array([column in place for column in columns.tolist()], bool)
        columns, own = columns[common], own[common]
        other = other[[place[column] for column in columns.tolist()]]
    shared = min(len(own), len(other))
    pair, columns = np.stack([own[:shared], other[:shared]]), columns[:shared]
    if part.lower:
        pair = 1 - pair
    weights, greatest_weight = select_weights(facts, columns)
    covariates, at_its_number = None, final and weights is None
    if at_its_number:
        total, seen = session.cache.column_sums()
        given = None if known_mean is None else row.astype(np.float64)
        covariates = make_covariates((total + 1) / (seen + 2), facts.weights, given)[columns]
    least, greatest = (
        compare_pair(
            *_fill(pair, end),
            facts.n,
            weights=weights,
            greatest_weight=greatest_weight,
            anytime=not at_its_number,
            covariates=covariates,
        )
        for end in (0.0, 1.0)
    )
    low, high = least.low, greatest.high
    if (
        known_mean is not None and not at_its_number and shared
    ):  # the interval by which such a session ends
        ends = [float(end[-1]) - known_mean for end in session.stopping.intervals(track)]
        low, high = (-ends[1], -ends[0]) if part.lower else ends
    width = part.unscale(1.0) - part.unscale(0.0)
    both = ~np.isnan(pair).any(axis=0)
    weights, covariates = (each if each is None else each[both] for each in (weights, covariates))
    middle = compare_pair(*pair[:, both], facts.n, weights=weights, covariates=covariates)
    value = float(np.clip(middle.value, low, high))
    return replace(middle, value=width * value, low=width * low, high=width * high)


def _fill(pair: np.ndarray, end: float) -> np.ndarray:
    """Returns the values of two models, those without an answer such that the difference is least
    (`end` 0) or greatest (1).
    """
    instead = np.array([[end], [1 - end]])
    return np.where(np.isnan(pair), instead, pair)
