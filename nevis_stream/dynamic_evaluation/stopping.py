"""The end of a session by its interval: one that holds at every number of answers at once, so that
looking often, or stopping when it is short, does not spoil it.
"""

import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import jax
import numpy as np

from nevis_stream.dynamic_evaluation import known_models, methods
from nevis_stream.dynamic_evaluation.estimates import (
    ClustersGiven,
    Population,
    read_population,
)
from nevis_stream.dynamic_evaluation.fitted_board import FittedBoard
from nevis_stream.dynamic_evaluation.policies.informed_strata import plan_growing_rounds
from nevis_stream.dynamic_evaluation.policy import Random
from nevis_stream.dynamic_evaluation.predictors.mean import Mean
from nevis_stream.dynamic_evaluation.session_records import EvaluationSettings, Track
from nevis_stream.errors import BadInput, RunWarning, plural, unknown
from nevis_stream.estimation.betting import CANDIDATES, Stakes, compute_confidence_sequence
from nevis_stream.estimation.comparison import GOALS, Decisions, decide, share_answers
from nevis_stream.queries.board import Board
from nevis_stream.queries.oracle import MatrixOracle, Query, Responses
from nevis_stream.queries.prices import Prices, format_amount
from nevis_stream.queries.samples import SampleFacts, is_observed, place_centres
from nevis_stream.seeds import generator

METHOD = "random_mean"  # of sessions that end by a comparison, if none is named
GROWING = "informed_mean_growing"  # of sessions that end by the width of their interval
FEWEST = 20  # answers before which a width ends none of them
BLOCK = 10  # draws after which the predictions are made anew
TRIED = 9  # known models on which it is tried whether a session ends early
NO_ANSWER = "there is no answer yet"  # why there is no estimate
END = (
    "interval by which a session may end: use random_mean, or random+PREDICTOR, or give a budget"
    " only"
)
ERROR = 0.05  # of all decisions about several models together

PredictValues = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Rule:
    """What ends a session.

    Attributes:
      budget: number of answers of each model; or prices of the samples with a budget in their unit;
        None: all samples.
      until: width of the interval.
      until_better_than: the known model that the interval must lie above, or below.
      until_decided: "best" or "order" of the new models.
    """

    budget: int | Prices | None
    until: float | None = None
    until_better_than: str | None = None
    until_decided: str | None = None

    @property
    def by_interval(self) -> bool:
        """Whether the session may end before its budget is spent."""
        return ends_by_interval(self)


def ends_by_interval(rule: Rule | EvaluationSettings) -> bool:
    """Returns whether a session may end before its budget is spent."""
    return (rule.until, rule.until_better_than, rule.until_decided) != (None, None, None)


class GrowingIntervals:
    """The 95% intervals of a model's mean, from 0 to 1, after each of its drawn samples, by
    `estimation.betting`; they hold all together. What is new of a track is added to what was
    computed.

    Only samples before the first one that has not been told count, so that which answers come late
    does not matter. A sample that gave no answer may have had any: the ends are those with 0 and
    with 1 in its place.

    Args:
      facts: about the samples.
      scores: whether the board has scores, not outcomes.
      target: the half-width at which one stops, from 0 to 1; None: the bets are for any distance.
      predict: takes columns, int64[k], and the answers to them, float64[k] from 0 to 1; returns the
        expected value of each sample, float[n]. It is asked before each `BLOCK` of draws. None:
        there are no predictions.
    """

    def __init__(
        self,
        facts: SampleFacts,
        scores: bool,
        target: float | None = None,
        predict: PredictValues | None = None,
    ):
        self._facts, self._target, self._predict = facts, target, predict
        # means are k / n
        self._exact = not scores and facts.dataset_weights is None and facts.n < CANDIDATES
        self._busy = threading.Lock()
        self._forget()

    def _forget(self) -> None:
        self._drawn, self._values = np.empty(0, np.int64), np.empty(0)
        self._ends = np.empty(0), np.empty(0)
        self._stakes, self._predicted = Stakes(), np.empty((4, 0))
        self._expected = np.empty(0)

    def read(self, track: Track) -> tuple[np.ndarray, np.ndarray]:
        """Returns low and high, float64[k], of the k samples that were drawn one by one with equal
        probabilities; k is 0 if the method chooses them otherwise.
        """
        columns, values = np.array(track.drawn, np.int64), track.drawn_values
        with self._busy:
            known = len(self._drawn)
            before = columns[:known], values[:known]
            pairs = zip(before, (self._drawn, self._values), strict=True)
            if not all(np.array_equal(*pair, equal_nan=True) for pair in pairs):
                self._forget()
            if len(columns) > len(self._drawn):
                try:
                    self._ends = self._go_on(columns, values)
                except BaseException:  # the bets may have been placed by half
                    self._forget()
                    raise
                self._drawn, self._values = columns, values
            return self._ends

    def _go_on(self, columns: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        facts = self._facts
        weights, greatest_weight = select_weights(facts, columns)
        residuals = None
        if weights is not None:
            residuals = (
                np.zeros(len(columns)),
                (facts.n - np.arange(len(columns))) * greatest_weight,
            )
        predicted: np.ndarray | float = 0.0
        remaining: np.ndarray | float = 0.0
        if self._predict is not None:
            self._add_predictions(self._predict, columns, values)
            predicted, remaining, *ends = self._predicted
            residuals = ends[0], ends[1]
        missing = np.isnan(values)
        if missing.any() and not np.isnan(self._values).any():  # until now it was one sequence
            self._stakes = Stakes()
        instead = np.array([[0.0], [1.0]]) if missing.any() else np.zeros((1, 1))
        low, high = compute_confidence_sequence(
            np.where(missing, instead, values),
            facts.n,
            outcomes=self._exact,
            weights=weights,
            predicted=predicted,
            remaining=remaining,
            residuals=residuals,
            target=self._target,
            stakes=self._stakes,
        )
        return low[0], high[-1]

    def _add_predictions(
        self, predict: PredictValues, columns: np.ndarray, values: np.ndarray
    ) -> None:
        """Adds predictions of the new samples, each from answers before its draw: g of it, Σ w g
        over the values that were left, and the least and the greatest residual; see
        `compute_confidence_sequence`.
        """
        weights, known = self._facts.weights, self._predicted.shape[1]
        new = np.empty((4, len(columns) - known))
        left = np.ones(self._facts.n, bool)
        left[columns[:known]] = False
        for draw, column in enumerate(columns[known:].tolist(), start=known):
            if draw % BLOCK == 0:
                answered = ~np.isnan(values[:draw])
                found = predict(columns[:draw][answered], values[:draw][answered])
                self._expected = np.clip(np.asarray(found, np.float64), 0, 1)
            of_left, count = self._expected[left], left.sum()
            new[:, draw - known] = (
                self._expected[column],
                weights[left] @ of_left,
                -count * (weights[left] * of_left).max(),
                count * (weights[left] * (1 - of_left)).max(),
            )
            left[column] = False
        self._predicted = np.hstack([self._predicted, new])


def warn_if_late(fitted: FittedBoard, until: float, seed: int) -> None:
    """Warns if most known models would not have reached the width of an interval before all samples
    are observed.

    Args:
      fitted: the known models.
      until: the width.
      seed: of the order of the samples.
    """
    (part,), facts = fitted.known.facts.parts, fitted.known.facts
    if facts.dataset_weights is not None:
        return
    random, width = generator(seed, "late"), until / (part.high - part.low)
    ranked = np.argsort(fitted.means)
    rows = ranked[np.unique(place_centres(len(ranked), min(TRIED, len(ranked))))]
    values = (
        known_models.fill_holes(fitted.known.matrix(rows), random).clip(0, 1).astype(np.float64)
    )
    exact = not fitted.known.scores and facts.n < CANDIDATES
    drawn = random.permuted(values, axis=1)
    low, high = compute_confidence_sequence(drawn, facts.n, outcomes=exact, target=width / 2)
    before = (high - low <= width)[:, :-1].any(axis=1)
    if before.mean() < 0.5:
        warnings.warn(
            f"of {len(before)} known models, {before.sum()} would have had an interval of width"
            f" {until:g} before all {facts.n:,} samples are observed, so this session may well not"
            " end earlier. A wider interval ends sooner.",
            RunWarning,
            stacklevel=2,
        )


def expect_answers(fitted: FittedBoard, until: float) -> list[int]:
    """Returns how many answers known models would have given, if they had been new and the others
    known, before their intervals were short enough; in order.

    Args:
      fitted: the known models, with a method that is growing.
      until: the width.
    """
    (part,), counts = fitted.known.facts.parts, list[int]()
    for values, rest in known_models.leave_out(fitted.known, np.random.default_rng(0)):
        evaluator = methods.get(GROWING).fit(rest, None, jax.random.key(0))
        n, oracle = values.shape[1], MatrixOracle(values)
        answers = Responses(Query.none(len(values)), oracle.truth[:, :0])
        left = np.ones(len(values), bool)
        for end in plan_growing_rounds(n):
            query = evaluator.next_query(answers, n, jax.random.key(0))
            answers = answers.then(oracle(query))
            found = evaluator.predict(answers, n)
            short = (found.high - found.low) * (part.high - part.low) <= until
            ended = left & short & (end >= FEWEST)
            counts += [end] * int(ended.sum())
            left &= ~ended
        counts += [n] * int(left.sum())
    return sorted(counts)


def choose_session_method(board: Board, method: str | None, rule: Rule, models: int) -> str | None:
    """Checks the rule of a session of so many models, and returns its method, None if it is the
    default.

    Raises:
      BadInput: there is no such method or known model, or they do not fit the rule.
    """
    if not rule.by_interval:
        if method is not None:
            methods.get_within_budget(method)
        return method
    until, better_than, decided = rule.until, rule.until_better_than, rule.until_decided
    if sum(each is not None for each in (until, better_than, decided)) > 1:
        raise BadInput("until, until_better_than and until_decided: give one of them.")
    if until is not None and not (isinstance(until, int | float) and 0 < until < np.inf):
        raise BadInput(f"until={until!r}: the width of an interval is expected, above 0.")
    if decided is not None and decided not in GOALS:
        raise BadInput(f"until_decided: {unknown('decision', decided, GOALS)}")
    if decided is not None and models < 2:
        raise BadInput("until_decided: at least two new models are compared.")
    if method is None:
        unbounded = any(part.unbounded for part in board.facts.parts)
        method = METHOD if until is None or unbounded else GROWING
    methods.get_within_budget(method)
    if until is None or not methods.is_growing(method):
        check_draws(method, END)
    if better_than is not None:
        compute_known_mean(board, better_than)
    return method


def check_draws(method: str, lacking: str) -> None:
    """Refuses a method that does not draw its samples one by one with equal probabilities.

    Args:
      method: its name.
      lacking: what there is not without such draws, and what to do, for the message.
    """
    if not isinstance(methods.get(method).policy, Random):
        raise BadInput(
            f"method {method!r} does not draw its samples one by one with equal probabilities, so"
            f" there is no {lacking}."
        )


def compute_known_mean(board: Board, model: str) -> float:
    """Returns the mean of a known model over all samples, in the units of the board.

    Raises:
      BadInput: there is no such model, or it has no value on some sample.
    """
    if model not in board.models:
        raise BadInput(f"until_better_than: {unknown('model', model, board.models)}")
    row = np.array([board.models.index(model)])
    values, facts = board.matrix.matrix(row), board.facts
    if lacking := int((~is_observed(values)).sum()):
        raise BadInput(
            f"until_better_than: model {model!r} has no value on {lacking:,} of the"
            f" {values.shape[1]:,} samples, so its mean over all is not known."
        )
    return facts.parts[0].unscale(float(facts.mean(values)[0]))


@dataclass(frozen=True)
class Verdict:
    """What is decided about the models of a session until now.

    Attributes:
      decisions: about them, in their order.
      budgets: by model, how many answers it may give in all.
    """

    decisions: Decisions
    budgets: Mapping[str, int]


def decide_models(
    settings: EvaluationSettings, facts: SampleFacts, tracks: Sequence[Track]
) -> Verdict:
    """Returns what is decided about the models of a session, whose tracks these are. A model that
    is settled may give no more answers; the others the same number each, of those that are left.
    """
    (part,) = facts.parts
    counts = np.array([len(track.drawn) for track in tracks])
    values = np.full((len(tracks), max(counts.max(), 1)), np.nan)
    for row, track in zip(values, tracks, strict=True):
        row[: len(track.drawn)] = track.drawn_values
    weights, greatest_weight = select_weights(facts, tracks[int(counts.argmax())].drawn)
    values = 1 - values if part.lower else values
    goal = str(settings.until_decided)
    found = decide(
        *(values, counts, facts.n, goal),
        weights=weights,
        greatest_weight=greatest_weight,
        error=ERROR,
    )
    answered, limit = np.array([track.answered.sum() for track in tracks]), settings.budget
    if settings.answers is not None:
        limit = min(limit, share_answers(settings.answers, answered, found.settled))
    budgets = np.where(found.settled, answered, limit).tolist()
    return Verdict(found, dict(zip(settings.models, budgets, strict=True)))


def select_weights(facts: SampleFacts, columns: np.ndarray) -> tuple[np.ndarray | None, float]:
    """Returns the weights of some samples, float64[k], and the greatest weight of all samples; None
    and 0 if all are equal.

    Args:
      facts: about all samples.
      columns: int64[k], the samples.
    """
    if facts.dataset_weights is None:
        return None, 0.0
    return facts.weights[columns], float(facts.weights.max())


class Stopping:
    """Says when a session ends, and what its interval is.

    Args:
      settings: of the session.
      board: the copy of its board.
      facts: about the samples.
      fitted: returns the known models with the fitted method.
    """

    def __init__(
        self,
        settings: EvaluationSettings,
        board: Board,
        facts: SampleFacts,
        fitted: Callable[[], FittedBoard],
    ):
        self._settings, self._board, self._facts, self._fitted = settings, board, facts, fitted
        self._intervals: dict[str, GrowingIntervals] = {}
        self._checked: dict[str, tuple[bytes, bool]] = {}

    @property
    def by_interval(self) -> bool:
        """Whether it may end before the budget is spent."""
        return ends_by_interval(self._settings)

    def population(self, population: str, clusters: ClustersGiven) -> Population | None:
        """Returns what `read_population` does; BadInput if the session ends by its interval."""
        drawn_from = read_population(self._board, population, clusters)
        if drawn_from is not None and self.by_interval:
            raise BadInput(
                f"population={population}: this session ends by an interval of the mean over these"
                " samples, which holds however often one looks; it has no other. For one, start a"
                " session that ends at its budget."
            )
        return drawn_from

    def may_stop(self, track: Track) -> bool:
        """Returns whether the interval of a session that ends by it is short enough."""
        if not self.by_interval or self._settings.until_decided is not None:
            return False
        if self.growing:
            return self._is_short(track)
        low, high = self.interval(track) or (-np.inf, np.inf)
        if self._settings.until is not None:
            return high - low <= self._settings.until
        return low > self._known_mean or high < self._known_mean

    @cached_property
    def growing(self) -> bool:
        """Whether it may end after each round, by the interval of that number of answers."""
        return self._settings.until is not None and methods.is_growing(self._settings.method)

    def is_exhausted(self, track: Track) -> bool:
        """Returns whether too few samples are left that may answer for another growing round."""
        answered = int(track.answered.sum())
        if not self.growing or not (track.told.all() and track.answered.all()):
            return False
        ends = plan_growing_rounds(self._settings.budget)
        end = next((each for each in ends if each > answered), answered)
        return end - answered > int((~track.asked).sum())

    def _is_short(self, track: Track) -> bool:
        """Returns whether the interval of the rounds that are complete is short enough."""
        key = track.query.samples.tobytes() + track.values.tobytes()
        if self._checked.get(track.model, (None, False))[0] != key:
            short, count = False, int(track.answered.sum())
            if count >= FEWEST and track.told.all() and track.answered.all():
                given = track.query, track.values, track.failed, True
                found = self._fitted().estimate(*given)
                short = found.high - found.low <= (self._settings.until or 0)
            self._checked[track.model] = key, short
        return self._checked[track.model][1]

    def interval(self, track: Track) -> tuple[float, float] | None:
        """Returns the interval that holds however often one looks, in the units of the board; None
        if the samples are not drawn one by one with equal probabilities, or none has an answer.
        """
        low, high = self.intervals(track)
        (part,) = self._facts.parts
        return (part.unscale(float(low[-1])), part.unscale(float(high[-1]))) if len(low) else None

    def intervals(self, track: Track) -> tuple[np.ndarray, np.ndarray]:
        """Returns the `GrowingIntervals` of a model."""
        if track.model not in self._intervals:
            settings, target, predict = self._settings, None, None
            (part,) = self._facts.parts
            if settings.assisted:
                if settings.until is not None:
                    target = settings.until / (part.high - part.low) / 2
                if not isinstance(methods.get(settings.method).predictor, Mean):
                    predict = self._predict
            new = GrowingIntervals(self._facts, self._board.matrix.scores, target, predict)
            self._intervals[track.model] = new
        return self._intervals[track.model].read(track)

    def _predict(self, columns: np.ndarray, values: np.ndarray) -> np.ndarray:
        """As of `GrowingIntervals`."""
        fitted = self._fitted()
        if len(columns):
            answers = values.astype(np.float32 if self._board.matrix.scores else np.uint8)
            return fitted.predict(Query(columns[None]), answers)
        total, seen = fitted.known.column_sums()
        return (total + 1) / (seen + 2)

    @cached_property
    def _known_mean(self) -> float:
        """The mean of the model that new ones are compared with."""
        return compute_known_mean(self._board, str(self._settings.until_better_than))

    def __str__(self) -> str:
        """Returns the rule as a sentence without its subject."""
        settings, budget = self._settings, plural(self._settings.budget, "answer")
        if settings.until is not None:
            holds = "it is computed after each round"
            if not self.growing:
                holds = "the interval holds however often you look"
            return (
                f"ends when the interval is at most {settings.until:g} wide, at the latest after"
                f" {budget}; {holds}"
            )
        if settings.until_better_than is not None:
            return (
                f"ends when the interval lies above or below {settings.until_better_than}"
                f" ({self._known_mean:.4f}), at the latest after {budget}; the interval holds"
                " however often you look"
            )
        if settings.until_decided is not None:
            what, wrong = {
                "best": ("which model is the best", "the best one is lost"),
                "order": ("the order of the models", "any pair is decided wrongly"),
            }[settings.until_decided]
            last = f"{budget} of each"
            if settings.answers is not None:
                last = f"{plural(settings.answers, 'answer')} of all models together"
            return (
                f"ends when {what} is decided, at the latest after {last};"
                f" {wrong} with a probability of at most {ERROR:.0%}"
            )
        cost = ""
        if settings.unit is not None:
            cost = f" ({format_amount(settings.amount or 0, settings.unit)} at most)"
        return f"ends after {budget} of each model{cost}; its interval holds at that number"
