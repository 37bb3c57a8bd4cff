"""Writers are killed at any instant: no acknowledged row is lost, none is torn."""

import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from nevis_stream.errors import BadInput
from nevis_stream.evaluation_cache import EvaluationCache
from tests.evaluation_cache.writer import row

ROOT = Path(__file__).resolve().parents[2]


def start(directory, writer, log):
    """Starts a writer after its last acknowledged row; the next row may already be written, and is
    then written again.
    """
    first = len(acknowledged(log))
    command = [
        sys.executable,
        "-m",
        "tests.evaluation_cache.writer",
        str(directory),
        str(writer),
        str(first),
    ]
    with open(log, "ab") as out:  # outlives the writer
        return subprocess.Popen(command, stdout=out, cwd=ROOT)


def acknowledged(log):
    return [int(line) for line in log.read_text().splitlines()] if log.exists() else []


def fill(directory, writers, rows, kills, pause):
    """Lets writers fill a cache and kills one after the other, each started again, until these
    numbers of rows and kills are reached. Only one that has written since its start is killed.
    """
    logs = [directory / f"log-{writer}" for writer in range(writers)]
    cache, chance = directory / "cache", random.Random(0)
    running = [start(cache, writer, logs[writer]) for writer in range(writers)]
    before = [0] * writers
    try:
        while kills > 0 or sum(len(acknowledged(item)) for item in logs) < rows:
            time.sleep(chance.uniform(0, pause))
            victim = chance.randrange(writers)
            assert running[victim].poll() is None, "a writer ended by itself"
            if kills > 0 and len(acknowledged(logs[victim])) > before[victim]:
                running[victim].kill()
                running[victim].wait()
                before[victim] = len(acknowledged(logs[victim]))
                running[victim] = start(cache, victim, logs[victim])
                kills -= 1
    finally:
        for process in running:
            process.kill()
            process.wait()
    return EvaluationCache(cache), [acknowledged(item) for item in logs]


def check(cache, log):
    """Every acknowledged row is there as it was, every other is whole, and `verify` is clean."""
    names = cache.samples()
    place = {name: k for k, name in enumerate(names)}
    models, matrix, confidences = cache.models(), cache.matrix(), cache.confidence()
    assert {
        f"w{writer}-{number}" for writer, numbers in enumerate(log) for number in numbers
    } <= models.keys()
    for i, (model, provenance) in enumerate(models.items()):
        name, samples, correct, confidence = row(provenance["writer"], provenance["number"])
        expected, sure = np.full(len(names), 255), np.full(len(names), np.nan)
        at = [place[f"s{k}"] for k in samples]
        expected[at], sure[at] = correct, confidence
        assert name == model and (matrix[i] == expected).all()
        np.testing.assert_equal(confidences[i], sure)
    assert (cache.column_sums()[0] == (matrix == 1).sum(0)).all()
    assert cache.verify() == []


def test_writers_are_killed(tmp_path):
    check(*fill(tmp_path, writers=4, rows=40, kills=5, pause=0.2))


@pytest.mark.slow
def test_ten_writers_of_two_thousand_rows_are_killed(tmp_path):
    check(*fill(tmp_path, writers=10, rows=2000, kills=100, pause=0.4))


def test_what_a_writer_left_is_skipped_and_never_written_over(tmp_path, monkeypatch):
    """SQLite's log may bring a killed writer's commit back, after the next writer has written its
    tiles.
    """
    cache = EvaluationCache(tmp_path / "c", create=True)
    cache.append("a", ["0", "1"], [1, 0])
    whole = cache.cells.append

    def part(tiles):
        whole([b"".join(tiles)[:30]])
        raise KeyboardInterrupt

    monkeypatch.setattr(cache.cells, "append", part)
    with pytest.raises(KeyboardInterrupt):
        cache.append("b", ["0", "2"], [1, 1], confidence=[0.5, 0.5])
    left = cache.cells.path.read_bytes()
    again = EvaluationCache(tmp_path / "c")
    assert again.verify() == [] and again.shape == (1, 2) and again.matrix().tolist() == [[1, 0]]
    again.append("b", ["2", "0"], [0, 1])
    assert again.verify() == [] and again.matrix().tolist() == [[1, 0, 255], [1, 255, 0]]
    assert len(left) == 94 and again.cells.path.read_bytes()[:94] == left


_MERGE = """
import os, signal, sys
from nevis_stream.evaluation_cache import EvaluationCache, merge
from nevis_stream.progress import Silent
merge._MOST_MODELS = 2
class Die(Silent):
    def stage(self, name, done=0, total=None):
        if done == 5:
            os.kill(os.getpid(), signal.SIGKILL)
target, source = map(EvaluationCache, sys.argv[1:])
target.merge(source, Die())
"""


def test_a_merge_is_killed_between_transactions_and_begun_again(tmp_path):
    source = EvaluationCache(tmp_path / "source", create=True)
    random = np.random.default_rng(0)
    for number in range(9):
        samples = [f"s{k}" for k in random.choice(40, 30, replace=False)]
        probabilities = random.dirichlet([1, 1], 30) if number % 3 == 0 else None
        values = random.integers(0, 2, 30)
        source.append(f"m{number}", samples, values, random.random(30), probabilities)
        made_by = {"method": "ab"[number % 2]}
        source.append_predictions([f"m{number}"], ["s0", "s1"], [[0, 1]], made_by=made_by)
    once, twice = (EvaluationCache(tmp_path / name, create=True) for name in ("once", "twice"))
    once.merge(source)
    words = [sys.executable, "-c", _MERGE, str(twice.directory), str(source.directory)]
    assert subprocess.run(words, cwd=ROOT).returncode == -9
    assert 0 < twice.shape[0] < 9 and twice.verify() == []
    twice.merge(source)
    assert once.models() == twice.models() == source.models()
    for cache in (once, twice):
        assert cache.verify() == [] and cache.samples() == source.samples()
        for read in ("matrix", "confidence", "predictions"):
            np.testing.assert_equal(getattr(cache, read)(), getattr(source, read)())
        for model in source.models():
            np.testing.assert_equal(cache.probabilities(model), source.probabilities(model))


def test_models_before_one_that_contradicts_are_merged(tmp_path):
    source, target = (EvaluationCache(tmp_path / name, create=True) for name in "ab")
    source.append_rows(["x", "y", "z"], ["0", "1"], np.ones((3, 2)))
    target.append("y", ["0"], [0])
    with pytest.raises(BadInput, match="model 'y', sample '0': observed as 0, now given as 1"):
        target.merge(source)
    assert set(target.models()) == {"x", "y"} and target.verify() == []
