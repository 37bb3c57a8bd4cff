"""A session of live evaluation: new models are asked a few samples of a board, and told back.

    session.json    settings; written last by `start`, and never changed
    board/          a copy of the known models' values, with the method's fit
    rounds.jsonl    one line for each round of samples that were chosen for a model
    answers.jsonl   one line for each call, or file, of answers
    handed.jsonl    which worker has which samples, where workers have names

What it has in common with labelling sessions is in `queries.session_log`. What a model is asked
next depends on the settings and its own answers so far, not on when they come, from whom, or on
other models of the session; so a session that was killed, or that several processes answer, is the
same as one without a break.
"""

import html
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from nevis_stream.dynamic_evaluation import methods
from nevis_stream.dynamic_evaluation.adding import fit_method
from nevis_stream.dynamic_evaluation.board import Board
from nevis_stream.dynamic_evaluation.evaluation import sample_ranges, scale_values
from nevis_stream.dynamic_evaluation.fitted_board import FittedBoard, board_digest, copy_board
from nevis_stream.dynamic_evaluation.session_records import (
    ANSWERS,
    HANDED,
    ROUNDS,
    SETTINGS,
    Answer,
    AskedRound,
    Cell,
    EvaluationSettings,
    read_answers,
    read_handed,
    read_rounds,
    round_line,
)
from nevis_stream.dynamic_evaluation.workers import hold_name, is_gone
from nevis_stream.errors import BadInput, unknown
from nevis_stream.evaluation_cache import EvaluationCache
from nevis_stream.queries.matrix import is_observed
from nevis_stream.queries.oracle import Estimate, Query, check_budget, given_numbers
from nevis_stream.queries.session_log import History, SessionLog, Words
from nevis_stream.storage import checked_lines
from nevis_stream.storage.identity import as_lines
from nevis_stream.wording import plural

BOARD = "board"
NEW_MODEL = "new model"
_WORDS = Words(
    session="evaluation session",
    answer="answer",
    asked="asked",
    busy="is choosing samples in this session. Wait for it.",
    again="tell the answers again",
)
_OTHER = "this directory contains another session ({difference}). Choose another one."
_LONGEST_WAIT = 1.0  # seconds between looks at what other workers have answered

SampleId = str | int
Past = History[AskedRound, Cell, Answer]


@dataclass(frozen=True)
class Progress:
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
class _Track:
    """What was asked of one model.

    Attributes:
      query: [1, k], with substitutes in the place of samples without an answer.
      values: [k], the answers from 0 to 1, unknown where there is none.
      told: bool[k], which were told, with an answer or without.
      asked: bool[n], the samples that were asked, also those that were substituted.
      failed: number of samples that gave no answer.
    """

    query: Query
    values: np.ndarray
    told: np.ndarray
    asked: np.ndarray
    failed: int

    @property
    def answered(self) -> np.ndarray:
        """bool[k], which have an answer."""
        return is_observed(self.values)

    def is_complete(self, budget: int) -> bool:
        """Returns whether all answers are there, or no sample is left to be asked instead."""
        if not self.told.all():
            return False
        lacking = int((~self.answered).sum())
        if lacking:
            return lacking > int((~self.asked).sum())
        return self.query.samples.shape[1] == budget


class Session:
    """A session in a directory; `start` begins one, or opens it.

    Example:
      session = Session.start("sessions/new", board, budget=64)
      for ids in session:
          session.tell({i: my_model(i) for i in ids})
      print(session.estimate())

    Args:
      directory: of the session.

    Attributes:
      settings: what identifies it.
      samples: ids of all samples, whole numbers if the board was an array.

    Raises:
      BadInput: there is no session, or its files are damaged.
    """

    def __init__(self, directory: str | Path):
        self.directory = Path(directory)
        self.log = SessionLog[AskedRound, Cell, Answer](
            self.directory,
            SETTINGS,
            ROUNDS,
            ANSWERS,
            _WORDS,
            lambda file: read_rounds(file, self.settings, self._columns),
            lambda file: read_answers(file, self.settings, self._columns),
        )
        begin = f"nevis-stream evaluate start LEADERBOARD --model=NAME --out={directory}"
        self.settings = self.log.read_settings(EvaluationSettings.parse, begin)

    @classmethod
    def start(
        cls,
        directory: str | Path,
        board: Board | EvaluationCache,
        budget: int,
        *,
        models: Sequence[str] = (NEW_MODEL,),
        method: str | None = None,
        seed: int = 0,
        progress: Callable[[str], None] = lambda stage: None,
    ) -> "Session":
        """Begins a session, or opens it if it was begun with the same arguments.

        The method is chosen and fitted to the known models now, and the board's values are copied:
        what happens to the board later does not matter.

        Args:
          directory: of the session.
          board: the known models, see `read_board`.
          budget: number of samples asked of each new model.
          models: names of the new models, which the board does not have. Each is evaluated as if it
            were the only one.
          method: name of a method; None: the one that is chosen for the known models and this
            budget.
          seed: of all random numbers.
          progress: called with the name of each stage.

        Raises:
          BadInput: an argument cannot be used, or the directory has another session.
        """
        directory = Path(directory)
        board = Board(board) if isinstance(board, EvaluationCache) else board
        _check_names(models, board.models)
        check_budget(budget, board.shape[1])
        if method is not None:
            methods.within_budget(method)
        facts = {
            "models": list(models),
            "budget": int(budget),
            "seed": int(seed),
            "board": board_digest(board.cache),
            "samples": board.shape[1],
            "numbered": not board.samples or isinstance(board.samples[0], int),
        }
        log = SessionLog[AskedRound, Cell, Answer](
            directory, SETTINGS, ROUNDS, ANSWERS, _WORDS, lambda _: [], lambda _: {}
        )
        chosen = {"method": method, "reason": ""}
        if log.settings.exists():  # what was chosen then
            begun = log.read_settings(EvaluationSettings.parse, "")
            if method in (None, begun.method):
                chosen = {"method": begun.method, "reason": begun.reason}

        def prepare() -> None:
            progress("copying the board")
            cache = copy_board(board.cache, directory / BOARD)
            name, reason, _ = fit_method(cache, budget, method, seed=seed, progress=progress)
            # what was asked for, which for few known models falls back to another one
            chosen.update(method=method or name, reason=reason)

        log.start(lambda: _content(facts | chosen), _OTHER, prepare)
        return cls(directory)

    # What is known

    @cached_property
    def _cache(self) -> EvaluationCache:
        return EvaluationCache(self.directory / BOARD)

    @cached_property
    def _ids(self) -> list[str]:
        return self._cache.samples()

    @cached_property
    def _columns(self) -> dict[str, int]:
        return {sample: column for column, sample in enumerate(self._ids)}

    @cached_property
    def _ends(self) -> tuple[np.ndarray, np.ndarray]:
        return sample_ranges(self._cache.facts())

    @cached_property
    def fitted(self) -> FittedBoard:
        """The known models with the fitted method."""
        settings = self.settings
        return FittedBoard(self._cache, settings.method, settings.budget, settings.seed)

    @property
    def samples(self) -> list[SampleId]:
        """Ids of all samples."""
        return [self._shown(column) for column in range(len(self._ids))]

    def _shown(self, column: int) -> SampleId:
        return column if self.settings.numbered else self._ids[column]

    def _model(self, model: str | None) -> str:
        names = self.settings.models
        if model is None:
            if len(names) > 1:
                raise BadInput(f"this session has several models, so name one: {', '.join(names)}.")
            return names[0]
        if model not in names:
            raise BadInput(unknown("model", model, names))
        return model

    def _track(self, past: Past, model: str) -> _Track:
        query, asked = Query.none(1), np.zeros(len(self._ids), bool)
        for each in past.rounds:
            if each.model == model:
                asked[each.query.samples[0]] = True
                if each.places is None:
                    query = query.then(each.query)
                else:
                    samples = query.samples.copy()
                    samples[0, each.places] = each.query.samples[0]
                    query = replace(query, samples=samples)
        columns = query.samples[0]
        cells = [(model, column) for column in columns.tolist()]
        told = np.array([cell in past.answers for cell in cells], bool)
        raw = [past.answers.get(cell) for cell in cells]
        values = np.array([np.nan if value is None else value for value in raw], np.float64)
        low, high = (ends[columns] for ends in self._ends)
        scaled = (values - low) / (high - low)
        if self._cache.scores:
            scaled = scaled.astype(np.float32)
        else:
            scaled = np.where(np.isnan(scaled), 255, scaled).astype(np.uint8)
        failed = sum(value is None and name == model for (name, _), value in past.answers.items())
        return _Track(query, scaled, told, asked, failed)

    # Asking

    def ask(
        self, count: int | None = None, model: str | None = None, *, worker: str = ""
    ) -> list[SampleId]:
        """Returns samples that a model is to be evaluated on: those that wait for an answer first.

        A method that learns from answers chooses the next samples when all of the last round are
        told; until then the rest of that round is given out, and then nothing.

        Args:
          count: most samples; None: all of the round.
          model: its name; None: the only one.
          worker: who will answer, where several do at the same time: each is given samples that no
            other one has. Without a name, everybody is given all that wait.

        Returns: their ids; none if the session has ended, or waits for other workers.
        """
        model = self._model(model)
        if count is not None and count < 1:
            raise BadInput(f"count={count}: at least one sample.")
        with self.log.asking(wait=True):
            waiting = self._waiting(model)
            if not waiting and self._choose(model):
                waiting = self._waiting(model)
            handed = read_handed(self.directory / HANDED, self._columns)
            gone = {name for name in {*handed.values()} if is_gone(self.directory, name)}
            free = [cell for cell in waiting if handed.get(cell, worker) in {worker, *gone}]
            free.sort(key=lambda cell: handed.get(cell) != worker)  # stable: its own first
            given = free[:count]
            if worker and (new := [cell for cell in given if handed.get(cell) != worker]):
                ids = [self._ids[column] for _, column in new]
                line = {"worker": worker, "model": model, "samples": ids}
                checked_lines.append(self.directory / HANDED, line)
        return [self._shown(column) for _, column in given]

    def _waiting(self, model: str) -> list[Cell]:
        return [cell for cell in self.log.read().waiting if cell[0] == model]

    def _choose(self, model: str) -> bool:
        """Adds a round of a model that waits for nothing; returns whether there was one to add."""
        past = self.log.read()
        track, places = self._track(past, model), None
        if track.is_complete(self.settings.budget):
            return False
        failed = ~track.answered
        if failed.any():
            samples = self.fitted.substitutes(track.query, failed, track.asked)
            query, places = Query(samples[None]), np.flatnonzero(failed)
        else:
            query = self.fitted.next_query(track.query, track.values, track.asked)
        ids = [self._ids[column] for column in query.samples[0].tolist()]
        told = int(track.asked.sum())  # all of them
        self.log.add_round(round_line(model, query, places, told, ids))
        return True

    # Telling

    def tell(
        self,
        answers: Mapping[Any, Any],
        model: str | None = None,
        *,
        correct: bool = False,
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
        return self.record({self._model(model): answers}, "tell", correct)

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
        checked = {
            self._model(model): self._checked(of_model) for model, of_model in answers.items()
        }
        with self.log.answering():
            new = {
                model: self.log.select_new(
                    of_model,
                    {sample: (model, column) for sample, column in self._columns.items()},
                    lambda value: "without an answer" if value is None else f"{value:g}",
                    place or (lambda sample: source),
                    correct,
                    "Nothing was recorded.",
                )
                for model, of_model in checked.items()
            }
            new = {model: of_model for model, of_model in new.items() if of_model}
            if new:
                self.log.add_answers({"source": source, "answers": new})
        return sum(map(len, new.values()))

    def _checked(self, answers: Mapping[Any, Any]) -> dict[str, Answer]:
        ids = [str(sample) for sample in answers]
        values = given_numbers(list(answers.values())).reshape(-1)
        known = [self._columns.get(sample, 0) for sample in ids]  # unknown ones are refused later
        low, high = (ends[known] for ends in self._ends)
        scale_values(values, ids, low, high, self._cache.scores)
        numbers = [None if np.isnan(value) else float(value) for value in values]
        return dict(zip(ids, numbers, strict=True))

    # What is known by now

    @property
    def ended(self) -> bool:
        """Whether nothing more is asked of any model."""
        return all(map(self.has_ended, self.settings.models))

    def has_ended(self, model: str | None = None) -> bool:
        """Returns whether nothing more is asked of a model."""
        return self._track(self.log.read(), self._model(model)).is_complete(self.settings.budget)

    def estimate(self, model: str | None = None) -> Estimate:
        """Returns the estimate of a model's mean over all samples, in the units of the board.

        When the session has ended it is that of `evaluate` with the same seed and budget. Before,
        its value is what the method expects from the answers so far.

        Args:
          model: its name; None: the only one.
        """
        track = self._track(self.log.read(), self._model(model))
        seen = track.answered
        if not seen.any():
            return Estimate(np.nan, reason="there is no answer yet", failed=track.failed)
        names = ("samples", "probabilities", "shares")
        arrays = {name: getattr(track.query, name) for name in names}
        query = Query(**{k: None if each is None else each[:, seen] for k, each in arrays.items()})
        final = track.is_complete(self.settings.budget)
        return self.fitted.estimate(query, track.values[seen], track.failed, final)

    def estimates(self) -> dict[str, Estimate]:
        """Returns the estimate of each model."""
        return {model: self.estimate(model) for model in self.settings.models}

    def status(self) -> list[Progress]:
        """Returns where each model stands."""
        past, result = self.log.read(), []
        for model in self.settings.models:
            track = self._track(past, model)
            answered, waiting = int(track.answered.sum()), int((~track.told).sum())
            budget = self.settings.budget
            ended = track.is_complete(budget)
            result.append(
                Progress(
                    model, answered, track.failed, waiting, budget, ended, self.estimate(model)
                )
            )
        return result

    # Loops

    def __iter__(self) -> Iterator[list[SampleId]]:
        """Yields samples to evaluate the only model on, until nothing more is asked."""
        return self.batches()

    def batches(
        self, model: str | None = None, count: int | None = None
    ) -> Iterator[list[SampleId]]:
        """Yields samples to evaluate a model on, until nothing more is asked; `tell` each batch
        before the next. Several processes may do so at the same time.

        Args:
          model: its name; None: the only one.
          count: most samples of a batch; None: all of a round that nobody else has.

        Raises:
          BadInput: nothing was told about a batch.
        """
        model, pause = self._model(model), 0.05
        with hold_name(self.directory) as worker:
            while not self.has_ended(model):
                if not (ids := self.ask(count, model, worker=worker)):
                    time.sleep(pause)
                    pause = min(2 * pause, _LONGEST_WAIT)
                    continue
                yield ids
                pause, answers = 0.05, self.log.read().answers
                if all((model, self._columns[str(each)]) not in answers for each in ids):
                    raise BadInput(
                        f"nothing was told about the {plural(len(ids), 'sample')} that were asked,"
                        f" for example {ids[0]!r}: tell their answers, None where there is none."
                    )

    def __repr__(self) -> str:
        settings = self.settings
        return (
            f"Session in {self.directory}: {', '.join(settings.models)}, {settings.method},"
            f" {settings.budget:,} of {settings.samples:,} samples"
        )

    def _repr_html_(self) -> str:
        """Shows where each model stands, in a notebook."""
        rows = "".join(f"<li>{html.escape(str(each))}</li>" for each in self.status())
        return f"<p>{html.escape(repr(self))}</p><ul>{rows}</ul>"


def _content(values: Mapping[str, Any]) -> str:
    return as_lines(EvaluationSettings(**values).to_json())


def _check_names(models: Sequence[str], known: Sequence[str]) -> None:
    """Refuses names of new models that are empty, given twice or known."""
    if isinstance(models, str) or not models:
        raise BadInput("models: a list of names is expected, at least one.")
    for name in models:
        if not isinstance(name, str) or not name.strip():
            raise BadInput(f"models: {name!r} is no name.")
        if list(models).count(name) > 1:
            raise BadInput(f"models: {name!r} is given twice.")
        if name in set(known):
            raise BadInput(
                f"models: the board has a model {name!r}, from which the method would learn. Give"
                " the new one another name, or take it out of the board."
            )
