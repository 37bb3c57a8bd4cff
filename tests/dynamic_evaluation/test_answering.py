"""What answers: functions that are wrong end the call at once, and values are taken as they are."""

import asyncio
import warnings

import numpy as np
import pytest

from nevis_stream import active_testing as at
from nevis_stream import dynamic_evaluation as de
from nevis_stream.errors import AnsweringFailed, BadInput, RunWarning
from nevis_stream.queries.answering import MOST_ALIKE
from tests.dynamic_evaluation.session_worker import KNOWN, NEW, answers_to

METHOD, ADAPTIVE = "stratified_mean", "error+irt_1pl"


@pytest.fixture(scope="module")
def board():
    return de.read_board(KNOWN)


def evaluate(board, folder, answer):
    """In several calls: the method is adaptive."""
    return de.evaluate(board, answer, 30, ADAPTIVE)


def run(board, folder, answer):
    session = de.Session.start(folder / "s", board, 40, method=METHOD)
    return session.run(answer, count=10)


def run_async(board, folder, answer):
    session = de.Session.start(folder / "s", board, 40, method=METHOD)

    async def answer_one(sample):
        return answer([sample])[0]

    return asyncio.run(session.run_async(answer_one, concurrency=2))


def compare(board, folder, answer):
    return de.compare(board, {"right": lambda ids: NEW[ids], "new": answer})


def label(board, folder, answer):
    probabilities = np.random.default_rng(0).dirichlet([0.5, 0.5], size=60)
    return at.estimate(probabilities, answer, 40, batch=10)


DOORS = [evaluate, run, run_async, compare, label]


@pytest.mark.parametrize("door", DOORS)
def test_an_error_of_the_first_call_is_raised_as_it_is(door, board, tmp_path):
    calls = []

    def answer(ids):
        calls.append(ids)
        return undefined  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(NameError, match="'undefined' is not defined") as found:
        door(board, tmp_path, answer)
    assert len(calls) <= (2 if door is run_async else 1)
    assert found.value.__cause__ is None and found.value.__context__ is None
    assert found.traceback[-1].path.name == "test_answering.py"


@pytest.mark.parametrize("error", [NameError("typo"), ImportError("no module"), ValueError("down")])
@pytest.mark.parametrize("door", DOORS)
def test_later_a_function_that_is_wrong_ends_the_call_and_the_answers_are_kept(
    door, error, board, tmp_path
):
    answered, calls = {}, 0

    def answer(ids):
        nonlocal calls
        calls += 1
        if calls > 1:
            raise error
        answered.update(answers_to(ids))
        return NEW[ids]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RunWarning)
        with pytest.raises(AnsweringFailed, match=f"{type(error).__name__}: .*not asked") as found:
            door(board, tmp_path, answer)
    assert found.value.__cause__ is error
    kept = found.value.answers
    if door is compare:
        assert kept["right"] == answers_to(kept["right"]) and len(kept["right"]) >= 10
        kept = kept["new"]
    assert kept == answered and kept
    if isinstance(error, ValueError):  # each sample is asked three times in sessions
        assert MOST_ALIKE <= calls <= 3 * MOST_ALIKE + 4
    else:
        assert calls <= 3
    if door in (run, run_async):
        session = de.Session(tmp_path / "s")
        told = {each for each in session.samples if session.is_told(each, "new model")}
        assert told >= answered.keys()
        found = session.run(lambda ids: NEW[ids])  # the same call goes on
        assert session.ended and found.failed <= MOST_ALIKE


def test_other_failures_are_samples_without_an_answer(board):
    calls = 0

    def answer(ids):
        nonlocal calls
        calls += 1
        if calls > 1 and ids[0] % 3 == 0:
            raise ValueError(ids)
        return NEW[ids]

    with pytest.warns(RunWarning, match="no answer to"):
        found = de.evaluate(board, answer, 30, ADAPTIVE)
    assert found.failed > 0 and found.observed == 30


def test_what_was_answered_before_a_failure_in_a_round_is_told(board, tmp_path):
    """The answers of a round that are asked one at a time were paid for."""
    session = de.Session.start(tmp_path / "s", board, 40, method=METHOD)
    session.tell(answers_to(session.ask(10)))
    calls, answered = 0, []

    def answer(ids):
        nonlocal calls
        calls += 1
        if calls == 2 or calls > 6:
            raise NameError("typo") if calls > 6 else ValueError("too many at once")
        answered.extend(ids)
        return NEW[ids]

    with pytest.raises(AnsweringFailed):
        session.run(answer, count=10)
    assert len(answered) == 14 and all(session.is_told(each, "new model") for each in answered)


def as_file(values, folder):
    file = folder / "new.csv"
    lines = [f"{key},{value}" for key, value in enumerate(values.tolist())]
    file.write_text("\n".join(["sample,value", *lines]))
    return file


GIVEN = {
    "dict": lambda folder: answers_to(range(60)),
    "dict of texts": lambda folder: {str(key): int(each) for key, each in enumerate(NEW)},
    "array": lambda folder: NEW,
    "list": lambda folder: NEW.tolist(),
    "file": lambda folder: as_file(NEW, folder),
    "file's name": lambda folder: str(as_file(NEW, folder)),
}


@pytest.mark.parametrize("kind", GIVEN)
def test_values_are_taken_as_answers(kind, board, tmp_path):
    right = de.evaluate(board, lambda ids: NEW[ids], 12, METHOD)
    given = GIVEN[kind](tmp_path)
    session = de.Session.start(tmp_path / "a", board, 12, method=METHOD)
    other = de.Session.start(tmp_path / "b", board, 12, method=METHOD)
    for found in (
        de.evaluate(board, given, 12, METHOD),
        session.run(given),
        asyncio.run(other.run_async(given)),
    ):
        assert (found.value, found.low, found.high) == (right.value, right.low, right.high)
    assert de.compare(board, {"a": given, "b": lambda ids: 1 - NEW[ids]}).best == "a"


@pytest.mark.parametrize("kind", ["dict", "array", "list"])
def test_classes_are_taken_as_labels(kind):
    probabilities = np.random.default_rng(0).dirichlet([0.5, 0.5], size=60)
    right = at.estimate(probabilities, lambda rows: NEW[rows], 20)
    assert at.estimate(probabilities, GIVEN[kind](None), 20) == right


def test_samples_that_are_not_among_the_values_have_no_answer(board):
    few = {each: int(NEW[each]) for each in range(60) if each % 5}
    with pytest.warns(RunWarning, match="no answer to"):
        assert de.evaluate(board, few, 30, METHOD).failed > 0


@pytest.mark.parametrize(
    "given, message",
    [
        (3, "int cannot answer. Give a function of a list of ids, or the values: by id"),
        (None, "NoneType cannot answer"),
        (np.ones(59), "60 samples asked, and values of shape"),
        ({"q1": 1}, "values are of none of the 60 samples, which are named like 0"),
        ("nowhere.csv", "nowhere.csv: no such file"),
    ],
)
def test_what_is_neither_function_nor_values_is_refused(given, message, board, tmp_path):
    session = de.Session.start(tmp_path / "s", board, 12, method=METHOD)
    for use in (
        lambda: de.evaluate(board, given, 12, METHOD),
        lambda: session.run(given),
        lambda: asyncio.run(session.run_async(given)),
        lambda: de.compare(board, {"a": NEW, "b": given}),
    ):
        with pytest.raises(BadInput, match=message):
            use()


def test_plain_and_coroutine_functions_name_each_other(board, tmp_path):
    async def answer(ids):
        return NEW[ids]

    session = de.Session.start(tmp_path / "s", board, 12, method=METHOD)
    for function in (answer, lambda ids: answer(ids)):
        for door in (evaluate, compare, label, run):
            with pytest.raises(BadInput, match="run_async` takes those"):
                door(board, tmp_path / "b", function)
    for function in (lambda ids: [int(NEW[each]) for each in ids], lambda ids: 1):
        with pytest.raises(BadInput, match="run_async takes a coroutine .*is for `run`"):
            asyncio.run(session.run_async(function))
    assert asyncio.run(session.run_async(lambda sample: answer(sample))).observed == 12


def test_calls_that_take_too_long_are_failures_and_end_the_call_when_they_are_alike(
    board, tmp_path
):
    async def hangs(sample):
        await asyncio.sleep(60)

    session = de.Session.start(tmp_path / "s", board, 40, method=METHOD)
    with pytest.warns(RunWarning), pytest.raises(AnsweringFailed, match="alike.*Timeout") as found:
        asyncio.run(session.run_async(hangs, timeout=0.01, retries=0))
    assert isinstance(found.value.__cause__, TimeoutError)
