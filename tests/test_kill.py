"""kill -9 anywhere: the same command goes on and the ledger ends byte for byte as if nothing had happened."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from nevis_stream.ledger import Ledger

RUNNING = -signal.SIGKILL


EXECUTORS = ("inline", "threads")


def command(run_dir, learner, executor, fatal=0):
    options = '{"workers": 3}' if executor == "threads" else "{}"
    return [sys.executable, "-m", "tests.kill_target", str(run_dir), learner, str(fatal), executor, options]


def complete(run_dir, learner, executor="inline"):
    done = subprocess.run(command(run_dir, learner, executor), capture_output=True, text=True, check=True)
    return int(done.stdout.split()[-1]), done.stderr


def results(run_dir):
    """Everything that must not depend on kills: ledger, outcomes, thumbnails, the rows that were run."""
    files = [run_dir / "ledger.jsonl", run_dir / "config.json", run_dir / "stream.csv"]
    files += sorted((run_dir / "outcomes").iterdir()) + sorted((run_dir / "thumbnails").iterdir())
    return {str(file.relative_to(run_dir)): file.read_bytes() for file in files}


@pytest.fixture(scope="module")
def toy_reference(tmp_path_factory):
    run_dir = tmp_path_factory.mktemp("reference") / "run"
    operations, _ = complete(run_dir, "toy")
    return results(run_dir), operations


@pytest.mark.parametrize("executor", EXECUTORS)
def test_killed_at_every_kind_of_file_operation(tmp_path, toy_reference, executor):
    """One run is killed again and again, every few file operations; then many runs are killed once, anywhere."""
    expected, operations = toy_reference
    assert operations > 300  # the whole machinery is under test, not a corner of it
    chance, once = random.Random(0), 30 if executor == "inline" else 10
    often = tmp_path / "often"
    kills = 0
    while True:
        done = subprocess.run(
            command(often, "toy", executor, chance.randint(5, 60)), capture_output=True, check=False
        )
        if done.returncode == 0:
            break
        assert done.returncode == RUNNING, done.stderr.decode()
        kills += 1
        assert kills < 200
    assert kills >= 10
    assert results(often) == expected
    for number, fatal in enumerate(sorted(chance.sample(range(1, operations), once))):
        run_dir = tmp_path / f"once-{number}"
        done = subprocess.run(command(run_dir, "toy", executor, fatal), capture_output=True, check=False)
        assert done.returncode == RUNNING, f"operation {fatal}: {done.stderr.decode()}"
        complete(run_dir, "toy", executor)
        assert results(run_dir) == expected, f"killed at operation {fatal}"
        assert not list((run_dir / "checkpoints").glob("*.progress"))
        assert not list(run_dir.rglob(".tmp-*"))


@pytest.mark.parametrize("executor", EXECUTORS)
def test_killed_at_random_times_while_training(tmp_path, monkeypatch, executor):
    """FT-prev with real JAX training, killed again and again at random moments of one run."""
    kill_at_random(tmp_path, monkeypatch, "ft_prev", executor, 12 if executor == "inline" else 5)


VARIANTS = ("indep+halving", "indep+frozen", "ft_dynamic", "ft_static", "mt+ensemble", "bhpo", "pt_isup+halving", "pt_ft")


@pytest.mark.slow
@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("learner", VARIANTS)
def test_every_learner_survives_kills_under_each_executor(tmp_path, monkeypatch, learner, executor):
    """SIGKILL and SIGTERM in turn at random moments."""
    kill_at_random(tmp_path, monkeypatch, learner, executor, 6, (signal.SIGKILL, signal.SIGTERM))


def kill_at_random(tmp_path, monkeypatch, learner, executor, wanted, signals=(signal.SIGKILL,)):
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    complete(tmp_path / "warm", learner)  # fills the compilation cache
    child = subprocess.Popen(command(tmp_path / "reference", learner, "inline"), stdout=subprocess.PIPE)
    assert child.stdout.readline() == b"ready\n"
    began = time.monotonic()
    child.communicate()
    seconds = time.monotonic() - began
    chance, kills, run_dir = random.Random(1), 0, tmp_path / "killed"
    while kills < wanted:
        child = subprocess.Popen(command(run_dir, learner, executor), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert child.stdout.readline() == b"ready\n"
        time.sleep(chance.uniform(0, seconds))
        child.send_signal(signals[kills % len(signals)])
        child.communicate()
        kills += 1
        if Ledger(run_dir).complete:  # it lived long enough: begin another one
            assert results(run_dir) == results(tmp_path / "reference")
            os.rename(run_dir, tmp_path / f"finished-{kills}")
    complete(run_dir, learner, executor)
    assert results(run_dir) == results(tmp_path / "reference")
