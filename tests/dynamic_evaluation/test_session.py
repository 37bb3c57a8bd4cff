"""A session of live evaluation: the estimate of `evaluate`, over restarts and several workers."""

import asyncio
import json
import os
import re
import shutil
import signal
import sys
import threading
import time
import warnings
from collections import Counter
from dataclasses import asdict, replace
from functools import partial
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from nevis_stream import dynamic_evaluation as de
from nevis_stream.dynamic_evaluation import methods, session_start, session_view
from nevis_stream.dynamic_evaluation.session_loop import is_gone
from nevis_stream.dynamic_evaluation.session_records import ANSWERS, HANDED, PRICES
from nevis_stream.dynamic_evaluation.stopping import GrowingIntervals, expect_answers
from nevis_stream.errors import AnsweringFailed, BadInput, RunWarning
from nevis_stream.estimation.betting import compute_confidence_sequence
from nevis_stream.queries.oracle import MatrixOracle
from nevis_stream.queries.session_log import SETTINGS
from nevis_stream.storage import record
from nevis_stream.storage.reading import parse_json
from nevis_stream.storage.record import LogReader, append_checked
from tests.dynamic_evaluation.session_worker import KNOWN, NEW, answers_to, content, work
from tests.forked import Started

METHOD, ADAPTIVE = "strata+mean", "error+irt_1pl"


@pytest.fixture(scope="module")
def board():
    return de.read_board(KNOWN)


def start(directory, board, budget=12, method=METHOD, **more):
    return de.Session.start(directory / "session", board, budget, method=method, **more)


def same(first, second):
    ends = [(each.value, each.low, each.high) for each in (first, second)]
    np.testing.assert_array_equal(*ends)


@pytest.mark.parametrize("method", [METHOD, "stratified_mean", ADAPTIVE])
def test_the_estimate_is_that_of_evaluate(tmp_path, board, method):
    session = start(tmp_path, board, method=method)
    batches = 0
    for ids in session:
        session.tell(answers_to(ids))
        batches += 1
    assert session.ended and (batches > 1) == (method == ADAPTIVE)
    found = session.estimate()
    same(found, de.evaluate(board, lambda ids: NEW[ids], 12, method))
    assert found.observed == 12 and not session.ask()
    same(de.Session(session.directory).estimate(), found)  # opened again


def test_scores_of_which_lower_ones_are_better(tmp_path):
    random = np.random.default_rng(0)
    values = np.clip(random.normal(50, 20, (12, 40)), 0, 100).astype(np.float32)
    board = de.read_board(values[1:], value_range=(0, 100), lower_is_better=["all"])
    session = start(tmp_path, board, 10, "quadrature_local+linear_gaussian")
    for ids in session:
        session.tell({each: float(values[0, each]) for each in ids})
    method = "quadrature_local+linear_gaussian"
    same(session.estimate(), de.evaluate(board, lambda ids: values[0, ids], 10, method))
    assert 0 < session.estimate().value < 100


def test_samples_without_an_answer_are_replaced_as_evaluate_does(tmp_path, board):
    def lacking(ids):
        return [None if each % 7 == 0 else int(NEW[each]) for each in ids]

    session = start(tmp_path, board, method=ADAPTIVE)
    for ids in session:
        session.tell(dict(zip(ids, lacking(ids), strict=True)))
    with pytest.warns(match="gave no answer"):
        expected = de.evaluate(board, lacking, 12, ADAPTIVE)
    found = session.estimate()
    same(found, expected)
    assert found.failed == expected.failed > 0 and found.observed == 12


def test_a_model_that_answers_few_samples_ends(tmp_path, board):
    few = {each: int(NEW[each]) for each in range(5)}

    session = start(tmp_path, board)
    for ids in session:
        session.tell({each: few.get(each) for each in ids})
    found = session.estimate()
    assert session.ended and found.observed == 5 and found.failed > 40
    assert np.isnan(found.low) and "no answer" in found.reason


def test_a_model_does_not_depend_on_the_others_of_its_session(tmp_path, board):
    alone = start(tmp_path / "alone", board, method=ADAPTIVE)
    both = start(tmp_path / "both", board, method=ADAPTIVE, models=["other", "new model"])
    for ids in alone:
        alone.tell(answers_to(ids))
    for ids in both.batches("other", 3):
        both.tell(dict.fromkeys(ids, 1), "other")
        assert both.estimate("other").observed <= 12
    assert not both.ended and both.has_ended("other")
    for ids in both.batches("new model"):
        both.tell(answers_to(ids), "new model")
    same(alone.estimate(), both.estimates()["new model"])
    with pytest.raises(BadInput, match="several models, so name one: other, new model"):
        both.ask()


def test_each_worker_has_samples_of_its_own(tmp_path, board):
    session = start(tmp_path, board)
    first, second = (session.ask(5, worker=each) for each in "ab")
    assert len({*first, *second}) == 10
    assert session.ask(5, worker="a") == first  # they wait for it
    assert session.ask(7, worker="a")[:5] == first and not session.ask(worker="c")
    assert de.Session(session.directory).ask(worker="b") == second
    with session.directory.joinpath(HANDED).open("a") as file:
        file.write('{"torn')
    session.tell(answers_to(first))
    assert session.ask(worker="a") and session.ask(worker="b") == second


def test_answers_one_by_one_are_read_once(tmp_path, board, monkeypatch):
    session, parsed = start(tmp_path, board, 60, "random_mean"), []
    monkeypatch.setattr(record, "parse_json", lambda text: parsed.append(text) or parse_json(text))
    for ids in session.batches(count=1):
        session.tell(answers_to(ids))
    logs = [(session.directory / name).read_text().splitlines() for name in (ANSWERS, HANDED)]
    assert [*map(len, logs)] == [60, 60] and len(parsed) <= 1 + 60 + 60
    again = de.Session(session.directory)
    tracks = (asdict(each.track()) for each in (session, again))
    np.testing.assert_equal(*tracks)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:of 7 known models, 0 would have had an interval")
@pytest.mark.parametrize("until", [None, 1e-6])
def test_many_answers_one_by_one_take_a_time_in_proportion(tmp_path, until):
    values = (np.random.default_rng(0).random((8, 20_000)) > 0.4).astype(int)
    board = de.read_board(values[1:])
    session = start(tmp_path, board, 20_000, "random_mean", until=until)
    times = [time.process_time()]
    for number, ids in enumerate(session.batches(count=1), start=1):
        session.tell({each: int(values[0, each]) for each in ids})
        if number % 5000 == 0:
            times.append(time.process_time())
    first, *_, last = np.diff(times)
    assert len(times) == 5 and times[-1] - times[0] < 60 * (1 if until is None else 3)
    assert last < 2 * first


def test_rounds_and_answers_of_others_that_come_between_two_readings(tmp_path, board, monkeypatch):
    """Answers are read, then others make a round of them and answer it, then rounds are read."""
    session = start(tmp_path, board, 20, ADAPTIVE)
    other = de.Session(session.directory)

    def read(log):
        result = LogReader.read(log)
        if session.log.answers == log.file and not other.ended:
            other.tell(answers_to(other.ask(2)))
        return result

    for log in session.log._readers:
        monkeypatch.setattr(log, "read", partial(read, log))
    while not other.ended:
        session.track()
    assert session.ended


def test_what_a_gone_process_had_is_handed_to_others(tmp_path, board):
    session = start(tmp_path, board)
    batches = session.batches(count=4)
    mine = next(batches)
    assert not {*mine} & {*session.ask(worker="other")}
    batches.close()  # as if its process had ended
    assert {*mine} == {*session.ask(worker="third")}


def test_the_form_of_a_processs_name_is_not_given_to_a_worker(tmp_path, board):
    session = start(tmp_path, board)
    with pytest.raises(BadInput, match="worker process-1-00000000: .* Choose another name"):
        session.ask(3, worker="process-1-00000000")
    assert session.ask(3, worker="process-1") and not (session.directory / "workers").exists()


def test_files_of_anybody_are_refused_by_name(tmp_path, board):
    costs = {str(column): 1.0 + column % 3 for column in range(KNOWN.shape[1])}
    arguments = {"method": "stratified_mean", "prices": costs}
    session = de.Session.start(tmp_path / "session", board, "30 tokens", **arguments)
    prices = session.directory / PRICES
    prices.unlink()
    os.mkfifo(prices)  # it would be waited for
    with pytest.raises(BadInput, match=f"{PRICES}: .*pipe"):
        de.Session(session.directory).ask(2)
    session = start(tmp_path / "other", board)
    cell = {"model": "new model", "samples": [session.ids[0]]}
    for worker in (5, ["process-1"], None):
        session.directory.joinpath(HANDED).unlink(missing_ok=True)
        append_checked(session.directory / HANDED, cell | {"worker": worker})
        with pytest.raises(BadInput, match=f"{HANDED}, line 1: .*not a string"):
            session.ask(2)
    assert not is_gone(session.directory, "process-1-../../outside")  # a name that a user gave


def test_rules_of_answers_are_those_of_labelling(tmp_path, board):
    session = start(tmp_path, board)
    ids = session.ask()
    outside = next(each for each in session.samples if each not in ids)
    assert session.tell(answers_to(ids[:3])) == 3 and session.tell(answers_to(ids[:4])) == 1
    before = (session.directory / ANSWERS).read_bytes()
    for wrong, message in [
        ({"60": 1}, rf"'60'.*\b{ids[0]}\b"),
        ({outside: 1}, "was not asked, so its answer cannot be used"),
        ({ids[0]: 1 - int(NEW[ids[0]])}, "was recorded before. Nothing was recorded"),
        ({ids[5]: 0.5}, "is 0.5"),
    ]:
        with pytest.raises(BadInput, match=message):
            session.tell({ids[6]: 1} | wrong)
    assert (session.directory / ANSWERS).read_bytes() == before
    assert session.tell({ids[0]: 1 - int(NEW[ids[0]])}, correct=True) == 1
    with pytest.raises(BadInput, match="nothing was told about"):
        list(session)


def test_before_the_budget_there_is_a_value_without_the_methods_interval(tmp_path, board):
    session = start(tmp_path, board)
    assert session.estimate().reason == "there is no answer yet"
    session.tell(answers_to(session.ask(5)))
    (progress,) = session.status()
    assert (progress.answered, progress.waiting, progress.ended) == (5, 7, False)
    assert 0 <= progress.estimate.value <= 1 and np.isnan(progress.estimate.low)
    assert "5 of 12 answers" in str(progress) and "5 of 12" in session._repr_html_()


def test_the_same_start_opens_the_session(tmp_path, board):
    session = start(tmp_path, board)
    ids = session.ask()
    again = start(tmp_path, board, method=None)
    assert again.ask() == ids and again.settings == session.settings
    with pytest.raises(BadInput, match="contains another session .*budget: there 12, now 13"):
        start(tmp_path, board, 13)
    other = de.read_board(1 - KNOWN)
    with pytest.raises(BadInput, match="board: there"):
        start(tmp_path, other)
    with pytest.raises(BadInput, match="the board has a model 'model-1'"):
        start(tmp_path / "b", board, models=["model-1"])
    for name in ("new ", "a\nb", "\ud800"):
        with pytest.raises(BadInput, match="which files of answers would not keep"):
            start(tmp_path / "b", board, models=[name])
    for seed in (10**30, 1.5, True, "1"):
        with pytest.raises(BadInput, match="seed is .*; valid: whole numbers from -2..63 to"):
            start(tmp_path / "b", board, seed=seed)
        with pytest.raises(BadInput, match="seed is "):
            de.evaluate(board, NEW, budget=12, method=METHOD, seed=seed)
    with pytest.raises(BadInput, match="until='x': the width of an interval is expected"):
        start(tmp_path / "b", board, method=None, until="x")
    (session.directory / SETTINGS).unlink()
    with pytest.raises(BadInput, match="no session.json"):
        start(tmp_path, board)
    with pytest.raises(BadInput, match="there is no evaluation session here"):
        de.Session(session.directory)


def test_a_start_that_was_killed_keeps_the_fit_of_the_same_board(tmp_path, board, monkeypatch):
    def killed(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(session_start, "fit_method", killed)
        with pytest.raises(KeyboardInterrupt):
            start(tmp_path, board)
    unfinished = tmp_path / "session" / "board" / "unfinished"
    unfinished.touch()
    start(tmp_path, board)
    assert unfinished.exists()
    (tmp_path / "session" / SETTINGS).unlink()
    start(tmp_path, de.read_board(1 - KNOWN))
    assert not unfinished.exists()


def test_damage_is_named(tmp_path, board):
    session = start(tmp_path, board)
    session.tell(answers_to(session.ask()))
    file = session.directory / ANSWERS
    file.write_text(file.read_text().replace("tell", "told"))
    with pytest.raises(BadInput, match="answers.jsonl, line 1: .*it has changed"):
        de.Session(session.directory).estimate()
    file.unlink()
    start(tmp_path / "other", board)
    kind = tmp_path / "other" / "session" / SETTINGS
    kind.write_text(json.dumps({"pool": "a"}))
    with pytest.raises(BadInput, match="not the settings of an evaluation"):
        de.Session(kind.parent)


def test_an_exchanged_board_and_changed_settings_are_refused(tmp_path, board):
    session = start(tmp_path, board)
    file = session.directory / SETTINGS
    whole = file.read_text()
    for name, value in (("seed", 1), ("method", "mean"), ("budget", 13), ("board", "0" * 16)):
        values = json.loads(whole) | {name: value}
        file.write_text(json.dumps(values, indent=1, sort_keys=True))
        with pytest.raises(BadInput, match="session.json: damaged .it has changed"):
            de.Session(session.directory)
        with pytest.raises(BadInput, match="session.json: damaged .it has changed"):
            start(tmp_path, board)
    file.write_text(whole)
    other = start(tmp_path / "other", de.read_board(1 - KNOWN)).directory / "board"
    shutil.rmtree(session.directory / "board")
    shutil.copytree(other, session.directory / "board")
    with pytest.raises(BadInput, match="is not the board that the session began with"):
        de.Session(session.directory)


def test_a_session_without_a_checksum_gets_one(tmp_path, board):
    session = start(tmp_path, board)
    file = session.directory / SETTINGS
    whole = file.read_text()
    values = json.loads(whole)
    del values["check"]
    file.write_text(json.dumps(values, indent=1, sort_keys=True))  # as an earlier version did
    with pytest.warns(UserWarning, match="without a checksum"):
        assert de.Session(session.directory).settings == session.settings
    assert file.read_text() == whole


def test_threads_and_restarts_give_the_session_of_one_worker(tmp_path, board):
    one = start(tmp_path / "one", board, 20, ADAPTIVE)
    for ids in one:
        one.tell(answers_to(ids))
    many = start(tmp_path / "many", board, 20, ADAPTIVE)

    def work(name):
        session = de.Session(many.directory)
        while not session.ended:
            for each in session.ask(2, worker=name):
                session.tell(answers_to([each]))
            session = de.Session(many.directory)  # a restart

    threads = [threading.Thread(target=work, args=(f"w{number}",)) for number in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert content(one.directory) == content(many.directory)
    same(one.estimate(), de.Session(many.directory).estimate())


def test_processes_that_are_killed_leave_the_session_of_one_worker(tmp_path, board):
    one, many = (start(tmp_path / name, board, 20) for name in ("one", "many"))
    for ids in one:
        one.tell(answers_to(ids))
    module = "tests.dynamic_evaluation.session_worker"
    running = [Started(module, many.directory, 3, 0.02) for _ in range(2)]
    while len(many.log.read().answers) < 6:
        time.sleep(0.01)
    for each in running:
        each.send_signal(signal.SIGKILL)
        each.wait()
    assert not many.ended
    work(many.directory, 3, 0.0)
    assert many.ended and content(one.directory) == content(many.directory)


def test_a_function_is_asked_until_the_end_and_again_where_it_raises(tmp_path, board):
    calls = []

    def shaky(ids):
        calls.extend(ids)
        is_first = len(calls) == len(ids)  # whose error would be raised
        if not is_first and any(each % 5 == 0 for each in ids) and calls.count(ids[0]) < 4:
            raise ConnectionError("busy")
        return NEW[ids]

    session = start(tmp_path, board)
    same(session.run(shaky, count=4), de.evaluate(board, lambda ids: NEW[ids], 12, METHOD))
    lacking = start(tmp_path / "b", board)
    lacking.tell(answers_to(lacking.ask(2)))
    assert all(each % 3 for each in lacking.ask(1)), "the first call does not raise"
    with pytest.warns(match="no answer to sample"):
        found = lacking.run(lambda ids: NEW[ids] if ids[0] % 3 else 1 / 0, count=1, retries=1)
    assert found.failed > 0 and found.observed == 12
    broken, asked = start(tmp_path / "c", board, 50), []

    def breaks(ids):
        asked.append(ids[0])
        if len(asked) > 1:
            raise (ValueError, KeyError)[len(asked) % 2](ids[0])  # not alike
        return NEW[ids]

    with (
        pytest.warns(match="no answer to sample"),
        pytest.raises(AnsweringFailed, match="20 samples in a") as failed,
    ):
        broken.run(breaks, count=25, retries=0)
    assert isinstance(failed.value.__cause__, KeyError | ValueError)
    assert len(broken.log.read().answers) == 25  # the same call goes on
    told = [each for each in broken.samples if broken.is_told(each, "new model")]
    assert failed.value.answers == answers_to(told)
    assert broken.run(lambda ids: NEW[ids]).failed == 0


def test_calls_at_the_same_time_that_fail_or_take_too_long_are_made_again(tmp_path, board):
    calls, running, most = Counter(), 0, 0

    async def shaky(sample):
        nonlocal running, most
        calls[sample] += 1
        running += 1
        most = max(most, running)
        try:
            await asyncio.sleep(10 if sample % 4 == 0 and calls[sample] < 2 else 0.005)
            if sample % 5 == 0 and calls[sample] < 3:
                raise ConnectionError("busy")
            return None if sample % 11 == 0 else int(NEW[sample])
        finally:
            running -= 1

    session = start(tmp_path, board, 12, ADAPTIVE)
    found = asyncio.run(session.run_async(shaky, concurrency=3, timeout=0.1))
    assert most == 3 and session.ended and found.observed == 12
    assert len(session.log.read().answers) == 12 + found.failed

    def lacking(ids):
        return [None if each % 11 == 0 else int(NEW[each]) for each in ids]

    other = start(tmp_path / "b", board, 12, ADAPTIVE)
    same(found, other.run(lacking))


def test_a_session_ends_when_its_interval_is_short_enough(tmp_path, board):
    session = start(tmp_path, board, None, "random_mean", until=0.5)
    assert "ends when the interval is at most 0.5 wide" in session.rule
    assert "<svg" not in session._repr_html_()
    widths = []
    for ids in session.batches(count=2):
        session.tell(answers_to(ids))
        found = session.estimate()
        widths.append(found.high - found.low)
        assert found.low <= found.value <= found.high
    assert widths[-1] <= 0.5 < widths[-2] and widths == sorted(widths, reverse=True)
    assert found.observed < 60 and found.low <= NEW.mean() <= found.high
    assert session.ended and not session.ask()
    shown = session._repr_html_()  # the interval over the number of answers
    assert shown.count("<svg") == 1 and f"after 1 to {found.observed} answers" in shown
    for words, message in [
        ({"method": "quadrature"}, "does not draw its samples one by one"),
        ({"method": "random+combination", "until": 0}, "above 0"),
        ({"until_better_than": "model-1"}, "give one of them"),
        ({"until": None, "until_better_than": "model-99"}, "'model-99'.*'model-9'"),
        ({"until": None}, "give a budget, or"),
    ]:
        with pytest.raises(BadInput, match=message):
            start(tmp_path / "b", board, None, **({"method": None, "until": 0.5} | words))


@pytest.mark.parametrize("failing", [0, 15])
def test_rounds_grow_until_the_interval_is_short_enough(tmp_path, board, failing):
    session, rounds = start(tmp_path, board, None, None, until=0.34), []
    assert session.settings.method == "informed_mean_growing"
    for ids in session:
        assert np.isnan(session.estimate().low)  # it holds where the session ends
        rounds.append(len(ids))
        told = {each: None if failing and each % failing == 3 else int(NEW[each]) for each in ids}
        session.tell(told)
    found, again = session.estimate(), de.Session(session.directory)
    assert rounds[0] == 10 and found.observed >= 20 and again.ended and not again.ask()
    assert failing or rounds == [10, 4, 5, 7, 9, 12, 13][: len(rounds)]
    assert found.low <= NEW.mean() <= found.high and found.holds_for == "any model"
    if found.observed < 60:
        assert found.high - found.low <= 0.34
    same(found, again.estimate())
    other = start(tmp_path / "b", board, None, None, until=0.34)
    if not failing:
        same(found, other.run(lambda ids: NEW[ids]))
        early = expect_answers(session.fitted, 0.34)
        assert early == sorted(early) and 20 <= early[0] <= early[-1] <= 60
        # a session that was begun by an earlier version goes on with the method of then
        begun = start(tmp_path / "c", board, None, "random_mean", until=0.34)
        again = start(tmp_path / "c", board, None, None, until=0.34)
        assert again.settings.method == begun.settings.method == "random_mean"


@pytest.mark.parametrize("rule", [{"until": 0.4}, {"until_better_than": "model-3"}])
def test_a_round_of_a_session_that_may_end_early_is_small_at_every_door(tmp_path, board, rule):
    session, calls = start(tmp_path, board, None, "random_mean", **rule), []

    def answer(ids):
        calls.append(len(ids))
        return NEW[ids]

    session.run(answer)
    assert calls == [10, 4, 5, 7, 9, 12, 13][: len(calls)] and session.ended
    other = start(tmp_path / "b", board, None, "random_mean", **rule)
    for worker in ("x", "y"):
        assert len(other.ask(worker=worker)) == (10 if worker == "x" else 0)


def test_a_session_ends_when_it_is_known_which_model_is_better(tmp_path, board):
    worst, best = (f"model-{row}" for row in (board.means().argmin(), board.means().argmax()))
    for name, better in [(worst, True), (best, False)]:
        session = start(tmp_path / name, board, None, None, until_better_than=name)
        found = session.run(lambda ids: NEW[ids], count=1)
        mean = board.means()[board.models.index(name)]
        assert (found.low > mean if better else found.high < mean) and found.observed < 60


def test_looking_after_each_answer_does_not_spoil_the_interval(board):
    """At a coverage of 95% over all looks together, fewer than 31 of 40 are below 0.01%."""
    facts, covered = board.facts, 0
    for seed in range(40):
        order = np.random.default_rng(seed).permutation(60)
        track = SimpleNamespace(drawn=tuple(order), drawn_values=NEW[order].astype(float))
        covered += all(
            low - 1e-9 <= NEW.mean() <= high + 1e-9
            for low, high in zip(*GrowingIntervals(facts, False).read(track), strict=True)
        )
    assert covered >= 31


def test_predictions_and_bets_for_the_width_end_a_session_earlier_and_cover(tmp_path, board):
    """The predictions are made before each draw: those of later answers are not in them."""
    used = {}
    for method in ("random_mean", "random+irt_1pl"):
        session = start(tmp_path / method, board, None, method, until=0.3)
        assert session.settings.assisted
        found = session.run(lambda ids: NEW[ids], count=5)
        assert found.high - found.low <= 0.3 + 1e-9 and found.low <= NEW.mean() <= found.high
        used[method] = found.observed
        track, again = session.track(), de.Session(session.directory)
        before = replace(track, drawn=track.drawn[:9], drawn_values=track.drawn_values[:9])
        for early, all_of in zip(
            again.stopping.intervals(before), session.stopping.intervals(track), strict=True
        ):
            np.testing.assert_array_equal(early, all_of[:9])
    assert used["random+irt_1pl"] <= used["random_mean"]


@pytest.mark.parametrize("method", ["random_mean", "random+irt_1pl"])
def test_intervals_grow_answer_by_answer_to_those_of_all(tmp_path, board, method):
    session = start(tmp_path, board, 30, method, until=0.01)
    grown, seen = [], []
    for number, (each,) in enumerate(session.batches(count=1)):
        session.tell({each: None if number in (12, 13) else int(NEW[each])})
        ends = session.stopping.intervals(session.track())
        grown.append([end[-1] for end in ends])
        seen.append(each)
    first = session.tell({seen[3]: 1 - int(NEW[seen[3]])}, correct=True)
    assert first == 1 and len(grown) > 30
    session.stopping.intervals(session.track())
    session.tell({seen[3]: int(NEW[seen[3]])}, correct=True)
    found = session.stopping.intervals(session.track())
    again = de.Session(session.directory)
    np.testing.assert_array_equal(found, again.stopping.intervals(again.track()))
    np.testing.assert_array_equal(np.transpose(found)[-1], grown[len(found[0]) - 1])


def test_it_is_said_at_the_start_that_an_interval_needs_all_samples(tmp_path, board):
    with pytest.warns(RunWarning, match="0 would have had an interval of width 0.01 before all"):
        start(tmp_path / "narrow", board, None, "random_mean", until=0.01)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        start(tmp_path / "wide", board, None, "random_mean", until=0.6)


RULES = {
    "until": lambda low, high: high - low <= 0.35,
    "until, bets for it": lambda low, high: high - low <= 0.35,
    "until_better_than": lambda low, high: (low > 0.5) | (high < 0.5),
}


@pytest.mark.parametrize("rule", [*RULES, "budget"])
def test_intervals_cover_where_a_session_ends(rule):
    """Of 400 models of means near 0.5, at most 35 are missed: at 95%, more are in 1 of 1,000."""
    random = np.random.default_rng(1)
    truth = (random.random((400, 60)) < random.uniform(0.3, 0.7, (400, 1))).astype(np.uint8)
    if rule == "budget":
        evaluator = methods.get("random_mean").fit(KNOWN, None, jax.random.key(0))
        found = evaluator.evaluate(MatrixOracle(truth), 400, 12, jax.random.key(1))
        low, high = found.low, found.high
    else:
        drawn = random.permuted(truth, axis=1).astype(float)
        target = 0.35 / 2 if "bets" in rule else None
        lows, highs = compute_confidence_sequence(drawn, 60, outcomes=True, target=target)
        stops = RULES[rule](lows, highs)
        ends = np.where(stops.any(axis=1), stops.argmax(axis=1), 59)
        low, high = (
            np.take_along_axis(each, ends[:, None], axis=1)[:, 0] for each in (lows, highs)
        )
        assert len({*ends.tolist()}) > 5
    mean = truth.mean(axis=1)
    assert ((mean < low - 1e-9) | (mean > high + 1e-9)).sum() <= 35


@pytest.fixture
def notebook(monkeypatch):
    """What a notebook with a kernel shows in one place, one entry each time."""
    shown = []
    handle = SimpleNamespace(update=lambda each: shown.append(each._repr_html_()))

    def display(each, display_id):
        assert display_id
        shown.append(each._repr_html_())
        return handle

    shell = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    monkeypatch.setattr(session_view, "_REFRESH", 0)
    return shown


def test_a_notebook_shows_the_interval_as_it_shrinks(tmp_path, board, notebook):
    def widths():
        found = (re.findall(r"95%: ([\d.]+) to ([\d.]+)", each) for each in notebook)
        return [float(high) - float(low) for ends in found for low, high in ends]

    loop = start(tmp_path, board, 20, "random_mean", until=0.01)
    loop.run(lambda ids: NEW[ids], count=5)
    assert len(notebook) == 6 and "there is no answer yet" in notebook[0]
    assert len(widths()) == 5 and (np.diff(widths()) <= 0).all() and widths()[-1] < widths()[0]
    assert "ended" in notebook[-1] and notebook[-1].count("<svg") == 1
    notebook.clear()

    async def answer(sample):
        return int(NEW[sample])

    asyncio.run(start(tmp_path / "more", board, 20, "random_mean").run_async(answer))
    assert len(notebook) > 2 and "ended" in notebook[-1]


def test_in_a_terminal_nothing_is_shown(tmp_path, board, notebook, monkeypatch):
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: object()))
    start(tmp_path, board).run(lambda ids: NEW[ids])
    assert not notebook
