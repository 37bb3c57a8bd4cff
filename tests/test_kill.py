"""kill -9 anywhere: the same command continues and the ledger ends byte for byte as if nothing had
happened.
"""

import functools
import json
import os
import random
import shutil
import signal
import time

import numpy as np
import pytest

from nevis_stream.run_directory.ledger import Ledger
from tests import forked

KILLED = -signal.SIGKILL
EXECUTORS = ("inline", "threads")


def command(run_dir, learner, executor, fatal=0):
    options = {"workers": 3} if executor == "threads" else {}
    return ["tests.kill_target", run_dir, learner, fatal, executor, json.dumps(options)]


def complete(run_dir, learner, executor="inline"):
    done = forked.run(*command(run_dir, learner, executor))
    assert done.returncode == 0, done.stderr
    return int(done.stdout.split()[-1])


def results(run_dir):
    """Everything that must not depend on kills: ledger, outcomes, thumbnails, the rows that were
    run.
    """
    files = [run_dir / "ledger.jsonl", run_dir / "config.json", run_dir / "stream.csv"]
    files += sorted((run_dir / "outcomes").iterdir()) + sorted((run_dir / "thumbnails").iterdir())
    return {str(file.relative_to(run_dir)): file.read_bytes() for file in files}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The folder of all tests: configs record the path of the weights in it."""
    return tmp_path_factory.mktemp("runs")


@pytest.fixture
def folder(runs, request):
    """An empty folder for one test."""
    folder = runs / request.node.name
    folder.mkdir()
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def toy_reference(runs):
    run_dir = runs / "reference" / "run"
    operations = complete(run_dir, "toy")
    return results(run_dir), operations


@pytest.fixture(scope="module")
def reference(runs):
    """Gives a learner's results, and the seconds that its run takes, by its name; programs are
    compiled once for all runs.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NEVIS_STREAM_CACHE", str(runs / "cache"))
        yield functools.cache(functools.partial(_reference, runs / "references"))


def _reference(folder, learner):
    complete(folder / f"{learner}-warm", learner)  # fills the compilation cache
    child = forked.Started(*command(folder / learner, learner, "inline"))
    child.wait_for("ready")
    began = time.monotonic()
    assert child.wait() == 0, child.stderr
    return results(folder / learner), time.monotonic() - began


@pytest.mark.parametrize(
    ("executor", "parts"),
    [
        ("inline", 2),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in (("inline", 5), ("threads", 4))),
    ],
)
def test_killed_at_every_kind_of_file_operation(folder, toy_reference, executor, parts):
    """One run is killed again and again, every few file operations; then several runs are killed
    once, one in each part of the run: what follows a kill depends on where in an event it came.
    """
    expected, operations = toy_reference
    assert operations > 300  # the whole machinery is under test, not a corner of it
    chance, often = random.Random(0), folder / "often"
    kills = 0
    while True:
        fatal = chance.randint(5, 250 if parts == 2 else 100)
        done = forked.run(*command(often, "toy", executor, fatal))
        if done.returncode == 0:
            break
        assert done.returncode == KILLED, done.stderr
        kills += 1
        assert kills < 200
    assert kills >= (2 if parts == 2 else 8)
    assert results(often) == expected
    for number in range(parts):
        fatal = chance.randint(1 + number * operations // parts, (number + 1) * operations // parts)
        run_dir = folder / f"once-{number}"
        done = forked.run(*command(run_dir, "toy", executor, fatal))
        if done.returncode == 0:  # threads may take fewer operations than were counted
            run_dir, fatal = folder / f"earlier-{number}", fatal * 9 // 10
            done = forked.run(*command(run_dir, "toy", executor, fatal))
        assert done.returncode == KILLED, f"operation {fatal}: {done.stderr}"
        complete(run_dir, "toy", executor)
        assert results(run_dir) == expected, f"killed at operation {fatal}"
        assert not list((run_dir / "checkpoints").glob("*.progress"))
        assert not list(run_dir.rglob(".tmp-*"))


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["inline", "threads"])
def test_killed_at_random_times_while_training(folder, reference, executor):
    """FT-prev with real JAX training, killed again and again at random moments of one run."""
    kill_at_random(folder, reference, "ft_prev", executor, 4 if executor == "inline" else 2)


VARIANTS = (
    "indep+halving",
    "indep+frozen",
    "ft_prev@multi_label",
    "ft_dynamic",
    "ft_static",
    "mt+ensemble",
    "bhpo",
    "pt_isup+halving",
    "pt_ext",
    "pt_ft",
    "closed_form",
    "frontier",
    "frontier+network",
)


@pytest.mark.slow
@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("learner", VARIANTS)
def test_every_learner_survives_kills_under_each_executor(folder, reference, learner, executor):
    """SIGKILL and SIGTERM in turn at random moments."""
    kill_at_random(folder, reference, learner, executor, 6, (signal.SIGKILL, signal.SIGTERM))


def kill_at_random(folder, reference, learner, executor, wanted, signals=(signal.SIGKILL,)):
    expected, seconds = reference(learner)
    chance, kills, run_dir = random.Random(1), 0, folder / "killed"
    while kills < wanted:
        child = forked.Started(*command(run_dir, learner, executor))
        child.wait_for("ready")
        time.sleep(chance.uniform(0, seconds))
        child.send_signal(signals[kills % len(signals)])
        child.wait()
        kills += 1
        if Ledger(run_dir).complete:  # it was not killed in time: start another run
            assert results(run_dir) == expected
            os.rename(run_dir, folder / f"finished-{kills}")
    complete(run_dir, learner, executor)
    assert results(run_dir) == expected


def write_tasks(folder, count):
    """Writes tasks.csv with the first of three small tasks; what the third one chooses is a column
    more.
    """
    rows = ["order,year,task_id,dataset_id,meta_split,path,background"]
    for place, name in enumerate("abc"[:count], start=1):
        pixels = np.random.RandomState(place).randint(256, size=(40, 5, 5)).astype(np.uint8)
        np.savez(folder / f"{name}.npz", images=pixels, labels=np.arange(40) % 3)
        ground = "black" if name == "c" else ""
        rows.append(f"{place},{1990 + place},{name},{name},test,{name}.npz,{ground}")
    (folder / "tasks.csv").write_text("\n".join(rows) + "\n")
    return f"toy@{folder / 'tasks.csv'}"


def test_a_complete_run_grows_and_a_kill_does_not_disturb_it(folder):
    """With a task more at the end of its csv, a run becomes the run of the longer stream, byte for
    byte; it is killed at each of the operations in which it becomes one.
    """
    learner = write_tasks(folder, 2)
    complete(folder / "short", learner)
    complete(folder / "short-unfinished", learner)
    ledger = folder / "short-unfinished" / "ledger.jsonl"
    ledger.write_bytes(b"".join(ledger.read_bytes().splitlines(keepends=True)[:-1]))
    before = results(folder / "short-unfinished")
    write_tasks(folder, 3)
    complete(folder / "fresh", learner)
    refused = forked.run(*command(folder / "short-unfinished", learner, "inline"))
    assert "has 1 task more than when this run was begun" in refused.stderr
    assert results(folder / "short-unfinished") == before
    expected = results(folder / "fresh")
    for fatal in range(1, 41, 3):
        run_dir = folder / f"killed-{fatal}"
        shutil.copytree(folder / "short", run_dir)
        done = forked.run(*command(run_dir, learner, "inline", fatal))
        assert done.returncode == KILLED, done.stderr
        complete(run_dir, learner)
        assert results(run_dir) == expected, f"killed at operation {fatal}"
        assert len((run_dir / "overlap.csv").read_text()) == len(
            (folder / "fresh" / "overlap.csv").read_text()
        )


def test_a_run_does_not_grow_by_other_rows(folder):
    """An earlier task that has other images now makes it another run."""
    learner = write_tasks(folder, 2)
    complete(folder / "run", learner)
    before = results(folder / "run")
    write_tasks(folder, 3)
    np.savez(folder / "a.npz", images=np.zeros((40, 5, 5), np.uint8), labels=np.arange(40) % 3)
    refused = forked.run(*command(folder / "run", learner, "inline"))
    assert "contains another run (stream_digest" in refused.stderr
    assert results(folder / "run") == before
