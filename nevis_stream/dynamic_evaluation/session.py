"""A session of live evaluation: new models are asked a few samples, their answers are told back.

    session.json    settings, with a checksum; written last by `start`, and never changed
    board/          a copy of the known models' values, which no command changes, and the method's
                    fit
    rounds.jsonl    one line for each round of samples that were chosen for a model
    answers.jsonl   one line for each call, or file, of answers
    handed.jsonl    which worker has which samples, where workers have names

What a model is asked next depends on the settings and its own answers so far, not on when they
come, from whom, or on other models; so a session that was killed goes on as if it had not been.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from nevis_stream.dynamic_evaluation import methods, session_loop, session_view
from nevis_stream.dynamic_evaluation.estimates import ClustersGiven, Population
from nevis_stream.dynamic_evaluation.evaluation import NEW_MODEL, check_answers
from nevis_stream.dynamic_evaluation.fits import FOLDER
from nevis_stream.dynamic_evaluation.fitted_board import FittedBoard, digest_board
from nevis_stream.dynamic_evaluation.policies.informed_strata import plan_growing_rounds
from nevis_stream.dynamic_evaluation.session_loop import AnswerAll, AnswerOne
from nevis_stream.dynamic_evaluation.session_records import (
    ANSWERS,
    HANDED,
    ROUNDS,
    Answer,
    AskedRound,
    Cell,
    EvaluationSettings,
    GrowingTrack,
    ModelStatus,
    Track,
    make_round_line,
    parse_answers,
    parse_round,
    read_session_prices,
)
from nevis_stream.dynamic_evaluation.session_start import (
    TERMS,
    Rule,
    begin,
    list_later_corrections,
)
from nevis_stream.dynamic_evaluation.stopping import NO_ANSWER, Stopping, Verdict, decide_models
from nevis_stream.errors import BadInput, unknown
from nevis_stream.evaluation_cache import EvaluationCache, make_cache_board
from nevis_stream.evaluation_cache.arguments import redact
from nevis_stream.evaluation_cache.index import BOARD
from nevis_stream.evaluation_cache.integrity import refuse_damage
from nevis_stream.progress import SILENT, Progress
from nevis_stream.queries.board import Board, PricesGiven, check_board, convert_budget
from nevis_stream.queries.oracle import ANY_MODEL, Estimate, Query, TooFewAnswers
from nevis_stream.queries.prices import Prices
from nevis_stream.queries.samples import SampleFacts
from nevis_stream.queries.session_log import SessionLog, read_new, report_damage
from nevis_stream.storage import recover_all
from nevis_stream.storage.record import LogReader, append_checked, check_string
from nevis_stream.user_calls import ReadOnlyList
from nevis_stream.vocabulary import SAMPLES

SampleId = str | int


class Session:
    """A session in a directory; `start` begins one, or opens it.

    Example::

      session = Session.start("sessions/new", board, budget=64)
      for ids in session:
          session.tell({i: my_model(i) for i in ids})
      print(session.estimate())

    Args:
      directory: of the session.

    Attributes:
      settings: what identifies it.
      cache: the copy of the board.

    Raises:
      BadInput: there is no session, its files are damaged, or its board is another one now.
    """

    def __init__(self, directory: str | Path):
        self.directory = Path(directory)
        self.log = SessionLog[AskedRound, Cell, Answer](
            self.directory,
            ROUNDS,
            ANSWERS,
            TERMS,
            lambda line, earlier: [parse_round(line, earlier, self.settings, self._columns)],
            lambda line: parse_answers(line, self.settings, self._columns),
        )
        command = f"nevis-stream evaluate start LEADERBOARD --model=NAME --out={directory}"
        self.settings = self.log.read_settings(EvaluationSettings.parse, command)
        self.cache = _open_board(self.directory / BOARD, self.settings.board)
        self._decided: tuple[object, Verdict] | None = None
        self._history: object = None  # of which the tracks are
        self._tracks: dict[str, GrowingTrack] = {}
        self._handed_log = LogReader(self.directory / HANDED)
        self._handed: dict[str, dict[int, str]] = {}

    @classmethod
    def start(
        cls,
        directory: str | Path,
        board: Board | EvaluationCache,
        budget: int | str | None = None,
        *,
        models: Sequence[str] = (NEW_MODEL,),
        method: str | None = None,
        assume: str | None = None,
        seed: int = 0,
        until: float | None = None,
        until_better_than: str | None = None,
        until_decided: str | None = None,
        prices: PricesGiven = None,
        progress: Progress = SILENT,
    ) -> "Session":
        """Begins a session, or opens it if it was begun with the same arguments.

        The method is fitted to the known models now, and the board's values are copied:
        what happens to the board later does not matter.

        Args:
          directory: of the session.
          board: the known models, see `read_board`.
          budget: number of samples asked of each new model; with an `until` it can be left out and
            is all. Or an amount in a unit of price, "20000 tokens", which is not exceeded.
          models: names of the new models, which the board does not have; evaluated each by itself.
          method: its name; None: `informed_mean`.
          assume: what is assumed of the new models, as of `evaluate`.
          seed: of all random numbers.
          until: the session ends for a model when its interval is at most that wide. By default
            it is that of `informed_mean`, after rounds that grow. With a method that draws samples
            one by one with equal probabilities it holds however often one looks.
          until_better_than: name of a known model with values on all samples: the session ends for
            a new model when its interval lies above, or below, that model's mean.
          until_decided: "best" or "order": the models are asked the same samples until the best, or
            their order, is known (see `comparison`); those that are out leave others their budget.
          prices: by id, in the order of the samples, or a file; None: those of the board's file.
          progress: is told the stages.

        Raises:
          BadInput: an argument cannot be used, or the directory has another session.
        """
        board = check_board(board)
        asked = None if budget is None else convert_budget(board, budget, prices)
        rule = Rule(asked, until, until_better_than, until_decided)
        method = methods.apply_assumption(method, assume)
        fitted = begin(Path(directory), board, rule, models, method, seed, progress)
        session = cls(directory)
        if fitted is not None:
            session.fitted = fitted
        return session

    @cached_property
    def board(self) -> Board:
        """The copy of the board; a damaged one is refused."""
        return make_cache_board(self.cache)

    @cached_property
    def facts(self) -> SampleFacts:
        """Facts about the samples."""
        return self.cache.facts()

    @cached_property
    def ids(self) -> list[str]:
        """Ids of all samples, as texts."""
        return ReadOnlyList(self.cache.samples())

    @cached_property
    def _columns(self) -> dict[str, int]:
        return {sample: column for column, sample in enumerate(self.ids)}

    @cached_property
    def _cells(self) -> dict[str, dict[str, Cell]]:
        return {
            model: {sample: (model, column) for sample, column in self._columns.items()}
            for model in self.settings.models
        }

    @cached_property
    def _scores(self) -> bool:
        return self.cache.scores

    @cached_property
    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """The lower and the upper end of each sample's range, float64[n]."""
        return self.facts.ends

    @cached_property
    def fitted(self) -> FittedBoard:
        """The known models with the fitted method."""
        of = self.settings
        return FittedBoard(self.board, of.method, of.budget, of.seed, self._prices)

    @cached_property
    def _prices(self) -> Prices | None:
        return read_session_prices(self.directory, self.settings, self.ids)

    @property
    def samples(self) -> list[SampleId]:
        """Ids of all samples; whole numbers if the board was an array."""
        return [self._get_id(column) for column in range(len(self.ids))]

    def _get_id(self, column: int) -> SampleId:
        return column if self.settings.numbered else self.ids[column]

    def _find_model(self, model: str | None) -> str:
        names = self.settings.models
        if model is None:
            if len(names) > 1:
                raise BadInput(f"this session has several models, so name one: {', '.join(names)}.")
            return names[0]
        if model not in names:
            raise BadInput(unknown("model", model, names))
        return model

    def track(self, model: str | None = None) -> Track:
        """Returns what was asked of a model, and what it answered."""
        return self._follow(self._find_model(model))[0]

    def _follow(self, model: str) -> tuple[Track, dict[int, int]]:
        """Returns a model's track, and the places of the samples that wait, by column."""
        with self.log.busy:
            history = self.log.read()
            if self._history is not history:
                self._history, self._tracks = history, {}
                self._handed_log.restart()
            if model not in self._tracks:
                new = GrowingTrack(history, model, self.ends, self._scores)
                self._tracks[model] = new
            of_model = self._tracks[model]
            return of_model.read(), of_model.waiting

    def _has_ended(self, track: Track) -> bool:
        ended = track.is_complete(self.settings.budget) or self.stopping.may_stop(track)
        ended = ended or self.stopping.is_exhausted(track)
        return ended or int(track.answered.sum()) >= self._get_budget(track)

    def decided(self) -> Verdict:
        """Returns what is decided about the models of a session with `until_decided`."""
        history = self.log.read()
        state = history, len(history.rounds), len(history.told)
        if self._decided is None or self._decided[0] != state:  # it has grown
            tracks = [self.track(model) for model in self.settings.models]
            self._decided = state, decide_models(self.settings, self.facts, tracks)
        return self._decided[1]

    def _get_budget(self, track: Track) -> int:
        """Returns how many answers a model may give, by what is decided now."""
        if self.settings.until_decided is None:
            return self.settings.budget
        return self.decided().budgets[track.model]

    @cached_property
    def stopping(self) -> Stopping:
        """When it ends."""
        return Stopping(self.settings, self.board, self.facts, lambda: self.fitted)

    def ask(
        self, count: int | None = None, model: str | None = None, *, worker: str = ""
    ) -> list[SampleId]:
        """Returns samples that a model is to be evaluated on: those that wait for an answer first.

        A method that learns from answers chooses the next samples when all of the last round are
        told; until then the rest of that round is given out, and then nothing.

        Args:
          count: most samples; None: all of the round. In a session that may end by its interval,
            rounds begin with 10 samples and grow by a third of what was answered.
          model: its name; None: the only one.
          worker: who will answer, where several do at the same time: each is given samples that no
            other one has. Without a name, everybody is given those that no worker with a name has.

        Returns: their ids; none if the session has ended, or waits for other workers.
        """
        model = self._find_model(model)
        if count is not None and count < 1:
            raise BadInput(f"count={count}: at least one sample.")
        if session_loop.is_gone(self.directory, worker):
            raise BadInput(
                f"worker {worker}: has the form of a name that a process holds while it works, and"
                " none holds it. Choose another name."
            )
        with self.log.lock_rounds(wait=True):
            track, waiting = self._follow(model)
            if self._has_ended(track):
                return []
            if not waiting and self._add_round(model):
                track, waiting = self._follow(model)
            held = self._read_handed(model, waiting)
            free, taken = session_loop.select_free(self.directory, waiting, held, worker)
            answered, most = int(track.answered.sum()), self._get_budget(track)
            if self.stopping.by_interval and count is None:  # else nothing would end it early
                most = next(end for end in plan_growing_rounds(most) if end > answered)
            room = max(most - answered - taken, 0)
            given = [*itertools.islice(free, room if count is None else min(room, count))]
            if worker and (new := [column for column in given if held.get(column) != worker]):
                ids = [self.ids[column] for column in new]
                line = {"worker": worker, "model": model, "samples": ids}
                append_checked(self.directory / HANDED, line)
        return [self._get_id(column) for column in given]

    def _read_handed(self, model: str, waiting: Mapping[int, int]) -> dict[int, str]:
        """Returns the worker that each waiting sample was last handed to; those of no worker are
        not in it.
        """
        try:
            lines, is_anew = read_new(self._handed_log)
            if is_anew:
                self._handed = {}
            for line in lines:
                with report_damage(self._handed_log.file, line.number):
                    worker = check_string(line.values["worker"])
                    columns = [self._columns[each] for each in line.values["samples"]]
                    held = self._handed.setdefault(line.values["model"], {})
                    held |= dict.fromkeys(columns, worker)
        except BadInput:
            self._handed_log.restart()
            raise
        held = self._handed.get(model, {})
        self._handed[model] = {each: name for each, name in held.items() if each in waiting}
        return self._handed[model]

    def waiting(self, model: str | None = None) -> list[Cell]:
        """Returns what was asked of a model and not told: model and column of each sample."""
        name = self._find_model(model)
        return [(name, column) for column in list(self._follow(name)[1])]

    def _add_round(self, model: str) -> bool:
        """Adds a round of a model that waits for nothing; returns whether there was one to add."""
        track, places = self.track(model), None
        if track.is_complete(self.settings.budget):
            return False
        failed = ~track.answered
        if failed.any():
            try:
                samples = self.fitted.choose_substitutes(track.query, failed, track.asked)
            except TooFewAnswers:  # elsewhere there is always one, see `Track.is_complete`
                lost = self._get_id(int(track.query.samples[0][failed][0]))
                raise BadInput(
                    f"sample {lost!r} gave no answer, and no other one that is not dearer is left"
                    " to be asked instead. If it has one now, tell it with `correct` (--correct)."
                ) from None
            query, places = Query(samples[None]), np.flatnonzero(failed)
        else:
            query = self.fitted.next_query(track.query, track.values, track.asked)
        ids = [self.ids[column] for column in query.samples[0].tolist()]
        self.log.add_round(make_round_line(model, query, places, int(track.asked.sum()), ids))
        return True

    def tell(
        self, answers: Mapping[Any, Any], model: str | None = None, *, correct: bool = False
    ) -> int:
        """Adds answers, all or none.

        Args:
          answers: by sample id, the model's value in the units of the board; None, NaN or a text
            where the model gave none: then a similar sample is asked instead.
          model: its name; None: the only one.
          correct: whether an answer may replace an earlier one of the same sample.

        Returns: how many are new or changed.

        Raises:
          BadInput: a sample is unknown, was not asked or has another answer already, or a value is
            not valid; then nothing is recorded.
        """
        return self.record({self._find_model(model): answers}, "tell", correct)

    def record(
        self,
        answers: Mapping[str, Mapping[Any, Any]],
        source: str,
        correct: bool = False,
        place: Callable[[str], str] | None = None,
    ) -> int:
        """Adds answers of several models, all or none; see `tell`.

        Args:
          answers: by model, and sample.
          source: the name of their file.
          correct: as of `tell`.
          place: where the answer to a sample stands, for messages.
        """
        place = place or (lambda sample: source)
        checked = {
            self._find_model(name): check_answers(
                each, self._columns, self.ends, self._scores, place
            )
            for name, each in answers.items()
        }
        with self.log.lock_answers():
            new = {
                model: self.log.select_new(
                    of_model,
                    self._cells[model],
                    lambda value: "without an answer" if value is None else f"{value:g}",
                    place,
                    correct,
                    "Nothing was recorded.",
                )
                for model, of_model in checked.items()
            }
            if new := {model: of_model for model, of_model in new.items() if of_model}:
                kept = redact(Path(source).name)
                self.log.add_answers({"source": kept, "answers": new})
        return sum(map(len, new.values()))

    @property
    def ended(self) -> bool:
        """Whether nothing more is asked of any model."""
        return all(map(self.has_ended, self.settings.models))

    def has_ended(self, model: str | None = None) -> bool:
        """Returns whether nothing more is asked of a model."""
        return self._has_ended(self.track(model))

    def estimate(
        self, model: str | None = None, population: str = SAMPLES, clusters: ClustersGiven = None
    ) -> Estimate:
        """Returns the estimate of a model's mean over all samples, in the units of the board.

        When all answers are there it is that of `evaluate` with the same seed and budget. Before,
        and in a session that ends by its interval, its value is what the method expects from the
        answers so far; its interval, where the method draws samples one by one with equal
        probabilities, holds however often one looks.

        Args:
          model: its name; None: the only one.
          population, clusters: as of `evaluate`; not of a session that ends by its interval.
        """
        return self._estimate(self.track(model), self.stopping.population(population, clusters))

    def _estimate(self, track: Track, population: Population | None = None) -> Estimate:
        seen, failed, prices = track.answered, track.failed, self._prices
        spending = prices and prices.compute_spending(track.answered_query.samples[0])
        if not seen.any():
            return Estimate(np.nan, reason=NO_ANSWER, failed=failed, spending=spending)
        growing = self.stopping.growing
        final = track.is_complete(self.settings.budget) and not self.stopping.by_interval
        final |= growing and self._has_ended(track)
        given = track.answered_query, track.values[seen], failed, final, population
        estimate = replace(self.fitted.estimate(*given), spending=spending)
        if growing and not final:
            return replace(estimate, reason="the session goes on until it is short enough")
        if final or population is not None or (interval := self.stopping.interval(track)) is None:
            return estimate
        low, high = interval
        value = min(max(estimate.value, low), high)
        # it rests on the draws alone
        return replace(estimate, value=value, low=low, high=high, reason="", holds_for=ANY_MODEL)

    def estimates(self) -> dict[str, Estimate]:
        """Returns the estimate of each model."""
        return {model: self.estimate(model) for model in self.settings.models}

    def status(
        self, population: str = SAMPLES, clusters: ClustersGiven = None
    ) -> list[ModelStatus]:
        """Returns where each model stands; arguments as of `estimate`."""
        drawn_from = self.stopping.population(population, clusters)
        return [
            track.status(
                self._get_budget(track), self._has_ended(track), self._estimate(track, drawn_from)
            )
            for track in map(self.track, self.settings.models)
        ]

    def corrections(self) -> list[str]:
        """Returns a line for each correction of the board's cache since the session began; its
        estimates rest on the values from before, and are not changed.
        """
        return list_later_corrections(self.directory, self.cache)

    @property
    def rule(self) -> str:
        """When the session ends, in a sentence."""
        return str(self.stopping)

    def __iter__(self) -> Iterator[list[SampleId]]:
        """Yields samples to evaluate the only model on, until nothing more is asked."""
        return self.batches()

    def batches(
        self, model: str | None = None, count: int | None = None
    ) -> Iterator[list[SampleId]]:
        """Yields samples to evaluate a model on, until nothing more is asked; `tell` each batch
        before the next. Several processes may do so at the same time. In a notebook the estimate
        is shown meanwhile, with its interval as it shrinks.

        Args:
          model: its name; None: the only one.
          count: most samples of a batch; None: all of a round that nobody else has.

        Raises:
          BadInput: nothing was told about a batch.
        """
        return session_loop.ask_in_batches(self, self._find_model(model), count)

    def is_told(self, sample: SampleId, model: str) -> bool:
        """Returns whether an answer to a sample, or that there is none, was told of a model."""
        return (model, self._columns[str(sample)]) in self.log.read().answers

    def run(
        self,
        answer: AnswerAll,
        model: str | None = None,
        *,
        count: int | None = None,
        retries: int = 2,
    ) -> Estimate:
        """Evaluates a model until nothing more is asked, and returns the estimate.

        Args:
          answer: takes sample ids, returns a value for each. If it raises, the samples are asked
            again one at a time. Or the values, as of `evaluate`.
          model: its name; None: the only one.
          count: most samples of a call; None: all of a round.
          retries: how often a sample is asked again of which `answer` raises; after that it has no
            answer, and a similar one is asked.

        Raises:
          AnsweringFailed: later than in its first call, `answer` raised a NameError or an
            ImportError, or failed ten times in a row alike; or twenty samples in a row have no
            answer. These are not recorded, so that the same call goes on with them. Whatever the
            first call raises is raised as it is.
        """
        return session_loop.run(self, answer, self._find_model(model), count, retries)

    async def run_async(
        self,
        answer: AnswerOne,
        model: str | None = None,
        *,
        concurrency: int = 8,
        timeout: float | None = None,
        retries: int = 2,
    ) -> Estimate:
        """Evaluates a model with several calls at a time; see `run`.

        Args:
          answer: a coroutine function that takes one sample id and returns a value; or the values.
          model: its name; None: the only one.
          concurrency: most calls at a time.
          timeout: seconds of a call after which it counts as failed; None: no limit.
          retries: as of `run`.
        """
        name = self._find_model(model)
        return await session_loop.run_async(self, answer, name, concurrency, timeout, retries)

    def __repr__(self) -> str:
        settings = self.settings
        return (
            f"Session in {self.directory}: {', '.join(settings.models)}, {settings.method},"
            f" {settings.budget:,} of {settings.samples:,} samples"
        )

    def _repr_html_(self) -> str:
        """Shows where each model stands, and how its interval has shrunk, in a notebook."""
        return session_view.as_html(self)


def _open_board(directory: Path, digest: str) -> EvaluationCache:
    """Returns a session's copy of the board; a damaged one, or another one, is refused."""
    recover_all(directory)
    recover_all(directory / FOLDER)
    cache = EvaluationCache(directory)
    refuse_damage(cache)
    if digest_board(make_cache_board(cache)) != digest:
        raise BadInput(
            f"{directory}: is not the board that the session began with, so its answers do not"
            " belong to it. Put a copy of that board back, or begin a new session."
        )
    return cache
