"""Loops that answer a session by a function, in one call at a time or in several, and the names of
the workers that answer it, which live as long as the process that holds them.
"""

import asyncio
import contextlib
import fcntl
import os
import re
import secrets
import time
import warnings
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nevis_stream.dynamic_evaluation.session_records import Cell
from nevis_stream.dynamic_evaluation.session_view import show_live
from nevis_stream.errors import BadInput, NevisStreamError, RunWarning, plural
from nevis_stream.queries.oracle import MOST_WITHOUT_ANSWER, Estimate, numbers_of_each
from nevis_stream.storage.reading import lock, open_file
from nevis_stream.user_calls import ReadOnlyList

if TYPE_CHECKING:
    from nevis_stream.dynamic_evaluation.session import SampleId, Session


_FOLDER = "workers"
_HELD_NAME = re.compile(r"process-\d+-[0-9a-f]{8}")


@contextlib.contextmanager
def hold_name(directory: Path) -> Iterator[str]:
    """Holds a new name of a worker inside the block. It is free when the process ends, in whatever
    way; then others take over the samples that were handed to it.
    """
    name = f"process-{os.getpid()}-{secrets.token_hex(4)}"
    path = directory / _FOLDER / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "x") as file:
        lock(file, path, fcntl.LOCK_EX)
        try:
            yield name
        finally:
            path.unlink(missing_ok=True)


def is_gone(directory: Path, name: str) -> bool:
    """Returns whether no process holds a worker's name any more; False for one that a user gave."""
    if not _HELD_NAME.fullmatch(name):
        return False
    path = directory / _FOLDER / name
    try:
        with open_file(path) as file:
            # NFS locks a file that is open for reading only if the lock is shared
            lock(file, path, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return True
    except BlockingIOError:
        return False
    return True


def select_free(
    directory: Path, waiting: Sequence[Cell], handed: Mapping[Cell, str], worker: str
) -> list[Cell]:
    """Returns the waiting cells that no other living worker has, those of the worker first."""
    holders = {handed[cell] for cell in waiting if cell in handed} - {worker}
    gone = {name for name in holders if is_gone(directory, name)}
    free = [cell for cell in waiting if handed.get(cell, worker) in {worker, *gone}]
    return sorted(free, key=lambda cell: handed.get(cell) != worker)


AnswerAll = Callable[[list], Sequence[Any]]
"""Takes b sample ids, returns b values."""
AnswerOne = Callable[[Any], Awaitable[Any]]
"""Takes one sample id, returns a value."""
_SHORTEST_WAIT, _LONGEST_WAIT = 0.05, 1.0  # seconds between looks at what others have answered
GO_ON = "What it answered is kept; the same call continues."
_RETRIES = 2  # of each sample, where several models answer in turn
_PAUSE = 0.2  # seconds before samples are asked for again that other workers may free


class _Recorder:
    """Tells a session what a function answered.

    Failures are held back until an answer follows them or the round ends. If too many come in a
    row, the function itself has failed, and none of them is told.

    Attributes:
      failures: the samples without an answer that are held back.
    """

    def __init__(self, session: "Session", model: str | None, next_step: str = GO_ON):
        self._session, self._model, self._next_step = session, model, next_step
        self.failures: dict[SampleId, None] = {}
        self._in_a_row = 0

    def add(self, answers: dict["SampleId", Any]) -> None:
        """Tells some answers; None where there is none."""
        told: dict[SampleId, Any] = {}
        try:
            for sample, value in answers.items():
                if value is None:
                    self.failures[sample] = None
                    self._in_a_row += 1
                    self._stop_if_too_many()
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

    def _stop_if_too_many(self) -> None:
        if self._in_a_row >= MOST_WITHOUT_ANSWER:
            raise BadInput(
                f"{self._in_a_row} samples in a row have no answer, so {self._model or 'the model'}"
                f" is not asked any more. {self._next_step}"
            )


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
    session: "Session", answer: AnswerAll, model: str | None, count: int | None, retries: int
) -> Estimate:
    """See `Session.run`."""
    recorder = _Recorder(session, model)
    for ids in session.batches(model, count):
        recorder.add(_collect_answers(answer, ids, retries))
        recorder.flush()
    return session.estimate(model)


def run_in_turn(
    session: "Session", answers: Mapping[str, AnswerAll], count: int, next_step: str
) -> None:
    """Evaluates several models until nothing more is asked, `count` samples of each at a time; the
    next step is advised where one does not answer.
    """
    recorders = {name: _Recorder(session, name, next_step) for name in answers}
    while not session.ended:
        for name, recorder in recorders.items():
            if ids := session.ask(count, name):
                recorder.add(_collect_answers(answers[name], ids, _RETRIES))
                recorder.flush()


def _collect_answers(
    answer: AnswerAll, ids: Sequence["SampleId"], retries: int
) -> dict["SampleId", Any]:
    """Returns values by sample, None where there is none."""
    if len(ids) > 1:
        try:
            return _pair_answers(ids, answer(ReadOnlyList(ids)))
        except NevisStreamError:
            raise
        except Exception:
            single = (_collect_answers(answer, [each], retries) for each in ids)
            return {sample: value for part in single for sample, value in part.items()}
    for attempt in range(retries + 1):
        try:
            return _pair_answers(ids, answer(ReadOnlyList(ids)))
        except NevisStreamError:
            raise
        except Exception as error:
            _warn_after_last(ids[0], error, attempt, retries)
    return dict.fromkeys(ids)


def _pair_answers(ids: Sequence["SampleId"], values: Any) -> dict["SampleId", Any]:
    numbers = numbers_of_each(values, len(ids)).tolist()
    return {
        sample: None if number != number else number
        for sample, number in zip(ids, numbers, strict=True)
    }


async def run_async(
    session: "Session",
    answer: AnswerOne,
    model: str | None,
    concurrency: int,
    timeout: float | None,
    retries: int,
) -> Estimate:
    """See `Session.run_async`."""
    if concurrency < 1:
        raise BadInput(f"concurrency={concurrency}: at least one call at a time.")
    recorder, calls = _Recorder(session, model), dict[asyncio.Task, "SampleId"]()
    refresh = show_live(session)
    with hold_name(session.directory) as worker:
        try:
            while True:
                if len(calls) < concurrency:
                    given = await asyncio.to_thread(session.ask, concurrency, model, worker=worker)
                    busy = {*calls.values(), *recorder.failures}
                    fresh = [each for each in given if each not in busy]
                    for each in fresh[: concurrency - len(calls)]:
                        calls[asyncio.create_task(_call(answer, each, timeout, retries))] = each
                if calls:
                    done, _ = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
                    answers = {calls.pop(task): task.result() for task in done}
                    await asyncio.to_thread(recorder.add, answers)
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


async def _call(
    answer: AnswerOne, sample: "SampleId", timeout: float | None, retries: int
) -> float | None:
    """Returns a value, None if there is none after all attempts."""
    for attempt in range(retries + 1):
        try:
            value = await asyncio.wait_for(answer(sample), timeout)
            return _pair_answers([sample], [value])[sample]
        except NevisStreamError:
            raise
        except Exception as error:
            _warn_after_last(sample, error, attempt, retries)
    return None


def _warn_after_last(sample: "SampleId", error: Exception, attempt: int, retries: int) -> None:
    if attempt == retries:
        text = str(error) or "no message"
        message = f"no answer to sample {sample}: {type(error).__name__}: {text}"
        warnings.warn(message, RunWarning, stacklevel=3)
