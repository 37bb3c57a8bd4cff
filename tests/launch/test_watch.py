"""`python -m launch.watch` with real runs: running, killed, continued, complete, and with
incomplete files.
"""

import functools
import math
import os
import pty
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from rich.console import Console

from nevis_stream.launch import run_screen, run_state
from nevis_stream.launch.run_state import (
    DONE,
    NOW,
    TO_COME,
    RunState,
    TaskState,
    TrialState,
    _left,
    state_of,
)
from nevis_stream.runner import run
from nevis_stream.storage import lock_exclusively
from tests import toy
from tests.launch.test_run import launch

WATCH = [sys.executable, "-m", "launch.watch"]


def begin(run_dir, learner="slow"):
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.kill_target", str(run_dir), learner], stdout=subprocess.PIPE
    )
    assert child.stdout.readline() == b"ready\n"
    return child


def await_state(run_dir, condition, seconds=60):
    until = time.monotonic() + seconds
    while not condition(state := state_of(run_dir)):
        assert time.monotonic() < until, state
        time.sleep(0.02)
    return state


def inside(run_dir):
    """Every file with its size and times of writing."""
    return {
        str(path): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in sorted(run_dir.rglob("*"))
    }


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return run(
        toy.ToyLearner(), toy.stream(), tmp_path_factory.mktemp("whole") / "run", seed=3
    ).run_dir


def text(states, width=100, rows=None):
    console = Console(width=width)
    with console.capture() as captured:
        console.print(run_screen.render(states, console, rows))
    return captured.get()


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """A run that was killed in its second task, its state before, and what was said by a display
    that had waited for it.
    """
    run_dir = tmp_path_factory.mktemp("killed") / "run"
    waiting = subprocess.Popen(
        [*WATCH, run_dir, "--wait"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    child = begin(run_dir)
    try:
        state = await_state(
            run_dir,
            lambda state: state.done == 1 and len(state.trials) >= 2 and state.trials[0].done,
        )
    finally:
        child.kill()
        child.communicate()
    out, err = waiting.communicate(timeout=30)
    return SimpleNamespace(
        run_dir=run_dir,
        pid=child.pid,
        state=state,
        waited=subprocess.CompletedProcess(waiting.args, waiting.returncode, out, err),
    )


@pytest.mark.slow
def test_a_run_at_work_is_shown_with_its_process_its_trials_and_its_cost(killed):
    state = killed.state
    assert state.holder == run_state.Holder(f"pid {killed.pid} on {socket.gethostname()}", True)
    assert [task.state for task in state.tasks] == [DONE, NOW, TO_COME, TO_COME]
    assert (state.doing, state.trials_wanted, state.steps_wanted) == ("train", 3, 4)
    assert state.trials[0] == TrialState(0, True, 4, 0.5) and 1 <= state.trials[1].step <= 4
    assert state.training == 132 and state.everything > 132
    assert 3 <= state.worked < 60 and 0 < state.left < 60 and state.quiet < 20
    assert "trials: 1 of 3 done" in text([state]) and "4 of 4 ✓" in text([state])


@pytest.mark.slow
def test_a_display_waits_for_a_run_that_begins_later(killed):
    waited = killed.waited
    assert waited.returncode == 0 and not waited.stderr
    assert "ToyLearner on toy seed 3" in " ".join(waited.stdout.split())


@pytest.mark.slow
def test_a_killed_run_is_shown_as_stopped_and_left_as_it_is(killed):
    before = inside(killed.run_dir)
    shown = launch("watch", killed.run_dir, "--once").stdout
    assert f"stopped (it was pid {killed.pid} on " in shown
    assert "start the same command again" in shown
    assert inside(killed.run_dir) == before
    assert text([state_of(killed.run_dir)] * 2).count("stopped") == 2


@pytest.mark.slow
def test_a_run_that_goes_on_is_followed_to_its_end(killed, tmp_path):
    run_dir = tmp_path / "run"
    shutil.copytree(killed.run_dir, run_dir)
    child = begin(run_dir)
    live, shown = follow(run_dir)
    assert child.wait(30) == 0 and live.wait(30) == 0
    assert "running" in shown() and "4 of 4 tasks" in shown()
    state = state_of(run_dir)
    assert state.complete and state.done == 4 and state.left == 0 and not state.trials
    assert state.mean_error(judged=False)[1] == 4 and state.mean_error(judged=True)[1] == 2


def follow(*paths):
    """Starts the live display in a terminal of its own; returns the process and what gives its text
    so far.
    """
    terminal, end = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "100", "LINES": "40"}
    # a shell's background jobs ignore it from the start
    heard = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    options = {"stdin": end, "stdout": end, "stderr": end, "env": environment, "preexec_fn": heard}
    live = subprocess.Popen([*WATCH, *map(str, paths)], **options)
    os.close(end)
    parts = []

    def shown():
        while True:
            try:
                part = os.read(terminal, 65536)
            except OSError:  # the process has ended
                break
            if not part:
                break
            parts.append(part)
            if live.poll() is None:
                break
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", b"".join(parts).decode(errors="replace"))

    return live, shown


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_the_display_and_not_the_run(tmp_path, whole, sent):
    unfinished = tmp_path / "run"
    shutil.copytree(whole, unfinished)
    ledger = unfinished / "ledger.jsonl"
    ledger.write_bytes(b"".join(ledger.read_bytes().splitlines(keepends=True)[:4]))
    live, shown = follow(unfinished, whole)
    until = time.monotonic() + 30
    while "complete" not in shown():
        assert time.monotonic() < until
    live.send_signal(sent)
    assert live.wait(30) == 0
    assert "Traceback" not in shown() and "interrupted" not in shown()


def test_several_runs_a_line_each(whole, tmp_path):
    done = launch("watch", whole, tmp_path, whole.parent / "run")
    assert done.returncode == 0 and f"left out: {tmp_path}: not a run directory" in done.stdout
    done = launch("watch", whole, tmp_path, *whole.iterdir(), "--once")
    assert done.returncode == 0 and done.stdout.count("not a run directory") == 1
    assert f"(and {len(list(whole.iterdir()))} more that cannot be shown)" in done.stdout
    assert "complete" in text(
        [state_of(whole), RunState(tmp_path / "later")]
    ) and "not started" in text([RunState(tmp_path)] * 2)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "name at least one run directory"),
        (["{}/none"], "To wait for a run that starts later: --wait"),
        (["{}/run/ledger.jsonl"], "not a run directory"),
        (["{}/run", "--evry=1"], "'--every'"),
    ],
)
def test_mistakes_are_explained(whole, words, message):
    done = launch("watch", *(word.format(whole.parent) for word in words))
    assert (
        done.returncode == 2
        and message.format(whole.parent) in done.stderr
        and "Traceback" not in done.stderr
    )


def test_a_run_directory_without_a_lock_has_no_holder(tmp_path):
    assert run_state.find_holder(tmp_path) is None


def test_who_holds_the_lock_is_named_and_alive(tmp_path):
    with lock_exclusively(tmp_path / "lock"):
        assert run_state.find_holder(tmp_path) == run_state.Holder(
            f"pid {os.getpid()} on {socket.gethostname()}", True
        )


def test_who_let_go_of_the_lock_is_not_alive(tmp_path):
    with lock_exclusively(tmp_path / "lock"):
        pass
    assert run_state.find_holder(tmp_path).alive is False


def test_who_holds_the_lock_on_another_machine_is_not_known_to_be_alive(tmp_path):
    (tmp_path / "lock").write_text("17 on elsewhere\n")
    holder = run_state.find_holder(tmp_path)
    assert holder == run_state.Holder("pid 17 on elsewhere", None)
    assert "on another machine" in text([RunState(tmp_path, "a run", holder=holder, doing="train")])


def test_a_live_process_that_a_lock_of_an_older_version_names_need_not_hold_it(tmp_path):
    (tmp_path / "lock").write_text("1\n")
    assert run_state.find_holder(tmp_path) == run_state.Holder("pid 1", False)


def test_an_empty_lock_has_no_holder(tmp_path):
    (tmp_path / "lock").write_text("")
    assert run_state.find_holder(tmp_path) is None


@pytest.fixture
def own_copy(whole, tmp_path):
    """A copy of the complete run, to be damaged."""
    return shutil.copytree(whole, tmp_path / "run")


def test_records_whose_end_is_not_yet_written_are_left_out(own_copy):
    ledger = own_copy / "ledger.jsonl"
    data = ledger.read_bytes()
    # in the last predict record
    ledger.write_bytes(data[: data.rfind(b"\n", 0, -1) - 5])
    with open(own_copy / "timing.jsonl", "a") as file:
        file.write('{"event": 8, "seco')
    state = state_of(own_copy)
    assert (state.done, state.doing, state.complete, state.trouble) == (3, "predict", False, "")


def test_a_damaged_record_is_named_by_its_line(whole, own_copy):
    ledger = own_copy / "ledger.jsonl"
    ledger.write_bytes(ledger.read_bytes().replace(b'"kind":"train"', b'"kind":"trian"', 1))
    shown = text([state_of(own_copy)], width=300)
    assert "cannot be read" in shown and "ledger.jsonl, line 2: not a ledger record" in shown
    assert "damaged" in text([state_of(own_copy), state_of(whole)])
    assert launch("watch", own_copy, "--once").returncode == 1


def test_a_run_is_shown_without_its_config_and_its_times(own_copy):
    for name in ("config.json", "timing.jsonl"):
        (own_copy / name).unlink()
    state = state_of(own_copy)
    assert state.done == 4
    assert "ToyLearner on toy seed 3" in " ".join(text([state]).split())


def test_a_run_is_shown_by_its_ledger_alone(own_copy):
    for name in ("config.json", "timing.jsonl", "stream.csv"):
        (own_copy / name).unlink()
    assert state_of(own_copy).done == 4


def test_a_run_without_its_ledger_is_at_its_beginning_and_its_stream_is_missed(own_copy):
    for name in ("config.json", "timing.jsonl", "stream.csv", "ledger.jsonl"):
        (own_copy / name).unlink()
    state = state_of(own_copy)
    assert "stream.csv is missing" in text([state])
    assert state.doing == "initialise"


def test_no_damage_ends_the_display(own_copy):
    """Files cut and altered at random places."""
    chance = random.Random(5)
    names = ["ledger.jsonl", "timing.jsonl", "config.json", "stream.csv", "lock"]
    good = {name: (own_copy / name).read_bytes() for name in names}
    for _ in range(150):
        for name in names:
            data = bytearray(good[name])
            for _ in range(chance.randint(0, 2)):
                data[chance.randrange(len(data))] = chance.choice(b'\0\n"{}[],:-0123456789eINa\xff')
            (own_copy / name).write_bytes(
                data[: chance.choice((len(data), chance.randrange(len(data) + 1)))]
            )
        assert text([state_of(own_copy)])


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120, 200])
def test_every_width_has_room(whole, width):
    state = state_of(whole)
    trials = tuple(TrialState(number, number < 3, 10**6 + number, 0.5) for number in range(40))
    working = RunState(
        **{**vars(state), "complete": False, "doing": "train", "trials": trials, "left": 1e6}
    )
    for states in ([state], [working], [state, working]):
        lines = text(states, width).splitlines()
        assert max(map(len, lines)) <= width
    if width >= 80:
        assert len(text([working], width, rows=24).splitlines()) <= 24
        assert "alpha_2" in text([working], width)


def test_the_tasks_left_take_as_long_as_those_done():
    def tasks(*seconds):
        states = [DONE] * (len(seconds) - 1) + [NOW, TO_COME, TO_COME]
        times = [*seconds, math.nan, math.nan]
        return [
            TaskState(str(i), "", False, state, math.nan, time)
            for i, (state, time) in enumerate(zip(states, times, strict=True))
        ]

    assert math.isnan(_left(tasks(math.nan), 5.0, adaptive=False))
    assert _left(tasks(10.0, 20.0, math.nan), 4.0, adaptive=False) == pytest.approx(30 + 15 - 4)
    # trained, being predicted
    assert _left(tasks(10.0, 20.0, 6.0), 1.0, adaptive=False) == pytest.approx(30 + 15 - 7)
    assert _left(tasks(10.0, 99.0), 50.0, adaptive=False) == pytest.approx(20)
    assert math.isnan(_left(tasks(10.0, 20.0, math.nan), 4.0, adaptive=True))
