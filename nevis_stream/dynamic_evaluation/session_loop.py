"""Loops that answer a session by a function, in one call at a time or in several, and the names of
the workers that answer it, which live as long as the process that holds them.
"""

import asyncio
import contextlib
import itertools
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nevis_stream.dynamic_evaluation.evaluation import Values
from nevis_stream.dynamic_evaluation.session_view import show_live
from nevis_stream.dynamic_evaluation.told_files import read_if_file
from nevis_stream.errors import AnsweringFailed, BadInput, plural
from nevis_stream.queries.answering import UserFunction
from nevis_stream.queries.oracle import MOST_WITHOUT_ANSWER, Estimate
from nevis_stream.storage import TEMPORARY_PREFIX, make_temporary, remove_if_abandoned

if TYPE_CHECKING:
    from nevis_stream.dynamic_evaluation.session import SampleId, Session


_FOLDER = "workers"
_HELD_NAME = re.compile(r"process-\d+-[0-9a-f]{8}")


@contextlib.contextmanager
def hold_name(directory: Path) -> Iterator[str]:
    """Holds a new name of a worker inside the block. It is free when the process ends, in whatever
    way; then others take over the samples that were handed to it.
    """
    folder = directory / _FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    with make_temporary(folder / "process") as held:
        yield held.name.removeprefix(TEMPORARY_PREFIX)


def is_gone(directory: Path, name: str) -> bool:
    """Returns whether no process holds a worker's name any more; False for one that a user gave."""
    held = directory / _FOLDER / f"{TEMPORARY_PREFIX}{name}"
    return bool(_HELD_NAME.fullmatch(name)) and remove_if_abandoned(held)


def select_free(
    directory: Path, waiting: Mapping[int, int], held: Mapping[int, str], worker: str
) -> tuple[Iterator[int], int]:
    """Returns the waiting samples that no other living worker has, those of the worker first, and
    how many others have.

    Args:
      directory: of the session.
      waiting: places by column, in their order.
      held: by column, the worker that has it.
      worker: a name; "" of one without.
    """
    own = sorted((each for each in held if held[each] == worker), key=waiting.__getitem__)
    others = {*held.values()} - {worker}
    living = {name for name in others if not is_gone(directory, name)}
    kept = {column for column, name in held.items() if name in living}
    rest = (column for column in waiting if column not in kept and held.get(column) != worker)
    return itertools.chain(own, rest), len(kept)


AnswerAll = Callable[[list], Sequence[Any]] | Values
"""Takes b sample ids, returns b values; or the values."""
AnswerOne = Callable[[Any], Awaitable[Any]] | Values
"""Takes one sample id, returns a value; or the values."""
_SHORTEST_WAIT, _LONGEST_WAIT = 0.05, 1.0  # seconds between looks at what others have answered
GO_ON = "What it answered is kept; the same call continues."
_RETRIES = 2  # of each sample, where several models answer in turn
_PAUSE = 0.2  # seconds before samples are asked for again that other workers may free


class _Recorder:
    """Asks a function and tells a session what it answered.

    Failures are held back until an answer follows them or the round ends. If too many come in a
    row, the function itself has failed, and none of them is told.

    Args:
      session: is told.
      model: its name.
      given: a function, or values (see `UserFunction`).
      retries: as of `Session.run`.
      advice: of the message where the function does not go on.

    Attributes:
      function: calls it.
      failures: the samples without an answer that are held back.
    """

    def __init__(
        self, session: "Session", model: str, given: Any, retries: int, advice: str = GO_ON
    ):
        given = read_if_file(given, session.board, model)
        self._session, self._model = session, model
        self.function = UserFunction(given, session.samples, model, retries, advice=advice)
        self.failures: dict[SampleId, None] = {}
        self._in_a_row = 0

    def ask(self, ids: Sequence["SampleId"]) -> None:
        """Asks for some samples of a round, and tells the answers."""
        for answers in self.function.ask_each(ids):
            self.add(answers)
        self.flush()

    def add(self, answers: dict["SampleId", Any]) -> None:
        """Tells some answers; None where there is none."""
        told: dict[SampleId, Any] = {}
        try:
            for sample, value in answers.items():
                if value is None:
                    self.failures[sample] = None
                    self._in_a_row += 1
                    if self._in_a_row >= MOST_WITHOUT_ANSWER:
                        self.function.fail(f"{self._in_a_row} samples in a row have no answer")
                else:
                    told |= {**self.failures, sample: value}
                    self.failures, self._in_a_row = {}, 0
        finally:
            if told:
                self._session.tell(told, self._model)

    def flush(self) -> None:
        """Tells the failures that were held back."""
        if self.failures:
            self._session.tell(self.failures, self._model)
            self.failures = {}


def ask_in_batches(session: "Session", model: str, count: int | None) -> Iterator[list["SampleId"]]:
    """See `Session.batches`."""
    pause, refresh = _SHORTEST_WAIT, show_live(session)
    with hold_name(session.directory) as worker:
        while not session.has_ended(model):
            if not (ids := session.ask(count, model, worker=worker)):
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_WAIT)
                continue
            yield list(ids)
            pause = _SHORTEST_WAIT
            if not any(session.is_told(each, model) for each in ids):
                raise BadInput(
                    f"nothing was told about the {plural(len(ids), 'sample')} that were asked,"
                    f" for example {ids[0]!r}: tell their answers, None where there is none."
                )
            refresh(False)
    refresh(True)


def run(
    session: "Session", answer: AnswerAll, model: str, count: int | None, retries: int
) -> Estimate:
    """See `Session.run`."""
    recorder = _Recorder(session, model, answer, retries)
    for ids in session.batches(model, count):
        recorder.ask(ids)
    return session.estimate(model)


def run_in_turn(
    session: "Session", answers: Mapping[str, AnswerAll], count: int, next_step: str
) -> None:
    """Evaluates several models until nothing more is asked, `count` samples of each at a time; the
    next step is advised where one does not answer.
    """
    recorders = {
        name: _Recorder(session, name, given, _RETRIES, next_step)
        for name, given in answers.items()
    }
    try:
        while not session.ended:
            for name, recorder in recorders.items():
                if ids := session.ask(count, name):
                    recorder.ask(ids)
    except AnsweringFailed as failed:
        failed.answers = {name: each.function.answers for name, each in recorders.items()}
        raise


async def run_async(
    session: "Session",
    answer: AnswerOne,
    model: str,
    concurrency: int,
    timeout: float | None,
    retries: int,
) -> Estimate:
    """See `Session.run_async`."""
    if concurrency < 1:
        raise BadInput(f"concurrency={concurrency}: at least one call at a time.")
    recorder = _Recorder(session, model, answer, retries)
    calls = dict[asyncio.Task, "SampleId"]()
    refresh = show_live(session)
    with hold_name(session.directory) as worker:
        try:
            while True:
                if len(calls) < concurrency:
                    given = await asyncio.to_thread(session.ask, concurrency, model, worker=worker)
                    busy = {*calls.values(), *recorder.failures}
                    fresh = [each for each in given if each not in busy]
                    for each in fresh[: concurrency - len(calls)]:
                        call = recorder.function.ask_at_once(each, timeout)
                        calls[asyncio.create_task(call)] = each
                if calls:
                    done, _ = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
                    failed = [task for task in done if task.exception()]
                    answers = {calls.pop(task): task.result() for task in done - {*failed}}
                    await asyncio.to_thread(recorder.add, answers)
                    for task in failed:
                        task.result()
                    refresh(False)
                elif recorder.failures:
                    await asyncio.to_thread(recorder.flush)
                elif await asyncio.to_thread(session.has_ended, model):
                    break
                else:
                    await asyncio.sleep(_PAUSE)
        finally:
            for task in calls:
                task.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
            refresh(True)
    return await asyncio.to_thread(session.estimate, model)
