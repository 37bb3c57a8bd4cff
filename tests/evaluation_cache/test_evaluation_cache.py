"""The evaluation cache: what is written is read, and nothing else."""

import errno
import itertools
import os
import pickle
import shutil
import sqlite3
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nevis_stream.errors import BadInput, DamagedCache, StorageFull
from nevis_stream.evaluation_cache import EvaluationCache

U = 255


@pytest.fixture
def cache(tmp_path):
    return EvaluationCache(tmp_path / "cache", create=True, about={"dataset": "d"})


def test_rows_and_columns_grow(cache):
    cache.append(
        "a",
        ["0", "1", "2"],
        [1, 0, U],
        provenance={"task": "t", "flops_per_sample": np.float32(2.5)},
    )
    cache.append("b", ["3", "1"], [True, True], confidence=np.array([0.5, 0.25]))
    cache.append("a", ["2"], [np.nan], provenance={"step": 7})
    assert cache.shape == (2, 4) and cache.samples() == ["0", "1", "2", "3"]
    assert cache.matrix().tolist() == [[1, 0, U, U], [U, 1, U, 1]]
    assert cache.matrix(["b"], ["1", "3", "0"]).tolist() == [[1, 1, U]]
    assert cache.matrix(np.array([1, 0]), np.array([3])).tolist() == [[1], [U]]
    np.testing.assert_equal(
        cache.confidence(["b"]), np.array([[np.nan, 0.25, np.nan, 0.5]], np.float16)
    )
    assert cache.models() == {"a": {"task": "t", "flops_per_sample": 2.5, "step": 7}, "b": {}}
    assert EvaluationCache(cache.directory).about == {"dataset": "d"}


def test_predictions_stay_apart(cache):
    cache.append_rows(["a", "b"], ["0", "1", "2"], np.array([[1, 0, U], [1, 1, 1]]))
    cache.append_predictions(["a"], ["0", "1", "2", "3"], [[0.25, 0.75, 0.125, 0.0]])
    assert cache.matrix().tolist() == [[1, 0, U, U], [1, 1, 1, U]]
    assert cache.matrix(predicted=True).tolist() == [[1, 0, 0, 0], [1, 1, 1, U]]
    assert cache.states().tolist() == [[1, 1, 2, 2], [1, 1, 1, 0]]
    assert np.isnan(cache.confidence()).all()
    assert cache.confidence(predicted=True)[0].tolist() == [0.25, 0.75, 0.125, 0.0]
    cache.append_predictions(["a"], ["3"], [[1]])
    cache.append("a", ["2"], [1])
    assert cache.matrix(predicted=True)[0].tolist() == [1, 0, 1, 1]
    assert cache.states()[0].tolist() == [1, 1, 1, 2]


def test_probabilities(cache):
    given = np.array([[0.5, 0.25, 0.25], [0.0, 1.0, 0.0]])
    cache.append("a", ["1", "0"], [0, 1], probabilities=given)
    cache.append("a", ["2"], [0])
    assert cache.probabilities("a", ["0", "1"]).tolist() == given[::-1].tolist()
    assert cache.probabilities("a").shape == (3, 3) and np.isnan(cache.probabilities("a")[2]).all()
    with pytest.raises(BadInput, match="2 classes for each cell; this cache has 3"):
        cache.append("a", ["3"], [0], probabilities=[[0.5, 0.5]])


def test_the_same_again_changes_nothing_and_a_contradiction_is_an_error(cache):
    for _ in range(2):
        cache.append("a", ["0", "1"], [1, 0], confidence=[0.5, 0.25], provenance={"run": "r"})
    size = (cache.directory / "cells.bin").stat().st_size
    cache.append("a", ["1", "0"], [0, 1], confidence=[0.75, 0.75])
    assert (cache.directory / "cells.bin").stat().st_size == size
    with pytest.raises(BadInput, match="model 'a', sample '1': observed as 0, now given as 1"):
        cache.append("a", ["9", "1"], [1, 1])
    with pytest.raises(BadInput, match="provenance says run = 'r', not 's'"):
        cache.append("a", ["9"], [1], provenance={"run": "s"})
    assert cache.samples() == ["0", "1"], "what failed leaves nothing"


@pytest.mark.parametrize(
    "call, message",
    [
        (
            lambda c: c.append("a", ["0"], [2]),
            r"correct of model 'a', sample '0': 2 is not 0, 1, or 255",
        ),
        (lambda c: c.append("a", ["0", "1"], [1]), r"shape \(1, 1\)"),
        (lambda c: c.append("a", ["0"], ["x"]), "not numbers"),
        (
            lambda c: c.append("a", ["0"], [1], confidence=[1.5]),
            r"confidence of model 'a', sample '0': 1.5 is not from 0 to 1",
        ),
        (lambda c: c.append("a", ["0", "0"], [1, 1]), "'0' occurs twice"),
        (lambda c: c.append("a", ["0", ""], [1, 1]), "'' is not an id"),
        (lambda c: c.append("", ["0"], [1]), "'' is not an id"),
        (lambda c: c.append("a", ["0", "0\0"], [1, 1]), "without NUL"),
        (lambda c: c.append("a", np.array([5]), [1]), "the cache has 0 to 0"),
        (lambda c: c.append("a", np.array([0.5]), [1]), "numbers are integers"),
        (lambda c: c.append_rows(["a", "a"], ["0"], [[1], [1]]), "'a' occurs twice"),
        (lambda c: c.append("a", ["0"], [1], provenance={"x": object()}), "a dict of JSON values"),
        (lambda c: c.append("a", ["0"], [1], provenance=["x"]), "is a list"),
        (
            lambda c: c.append("a", ["0"], [1], provenance={"x": float("nan")}),
            "a dict of JSON values",
        ),
        (lambda c: c.append("a", "first", [1] * 5), "'first' is a single string"),
        (lambda c: c.append("a\ud800", ["0"], [1]), "is not an id"),
        (
            lambda c: c.append_rows(["a", "b"], ["0"], [[1], [1]], provenances=[{}]),
            "provenances: 1 for 2 models",
        ),
        (lambda c: EvaluationCache(c.cells.path, create=True), "is a file; a cache is a directory"),
        (lambda c: c.matrix("model-a"), "'model-a' is a single string"),
        (lambda c: c.matrix(["model-b"]), "unknown model 'model-b'. Did you mean 'model-a'"),
        (lambda c: c.matrix(None, ["first", "first"]), "one id occurs twice"),
    ],
)
def test_bad_input_is_named(cache, call, message):
    cache.append("model-a", ["first"], [1])
    with pytest.raises(BadInput, match=message):
        call(cache)
    assert cache.shape == (1, 1)


def test_what_is_no_cache_is_said(tmp_path, cache):
    with pytest.raises(BadInput, match="does not exist"):
        EvaluationCache(tmp_path / "nothing")
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "index.sqlite").write_text(
        "not a database, but long enough to be looked at" * 100
    )
    with pytest.raises(DamagedCache, match="not a database"):
        EvaluationCache(tmp_path / "text")
    with sqlite3.connect(cache.index.path) as db:
        db.execute("PRAGMA user_version = 9")
    with pytest.raises(BadInput, match="has schema version 9; this program reads versions 1 to 3"):
        EvaluationCache(cache.directory)


def test_a_cut_file_is_said(cache):
    cache.append("a", ["0"], [1])
    (cache.directory / "cells.bin").write_bytes(b"")
    with pytest.raises(DamagedCache, match="has 0 bytes, its index expects 64"):
        cache.matrix()


def test_a_cache_that_cannot_be_written_can_be_read(cache, monkeypatch):
    cache.append("a", ["0"], [1])
    with sqlite3.connect(cache.index.path) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copytree(
        cache.directory, cache.directory / "copy", ignore=shutil.ignore_patterns("*-wal", "*-shm")
    )
    monkeypatch.setattr("os.access", lambda path, mode: False)
    copy = EvaluationCache(cache.directory / "copy")
    assert copy.matrix().tolist() == [[1]] and copy.verify() == []
    with pytest.raises(BadInput, match="cannot be written"):
        copy.append("b", ["0"], [1])
    assert not list(copy.directory.glob("*-wal"))


def test_a_full_disk_stops_clearly_and_loses_nothing(cache, monkeypatch):
    cache.append("a", ["0"], [1])

    def full(descriptor):
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patch:
        patch.setattr("os.fdatasync", full)
        with pytest.raises(StorageFull, match="Nothing already written is lost"):
            cache.append("b", ["0", "1"], [1, 0])
    assert cache.matrix().tolist() == [[1]] and cache.verify() == []
    cache.append("b", ["0", "1"], [1, 0])
    assert cache.matrix().tolist() == [[1, U], [1, 0]]


def test_threads_and_a_fork_share_an_object(cache):
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda i: cache.append(f"m{i}", ["0", str(i)], [1, 0]), range(1, 9)))
    assert cache.shape == (8, 9) and cache.verify() == []
    child = os.fork()
    if child == 0:
        cache.append("child", ["0"], [0])
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert cache.matrix(["child"], ["0"]).tolist() == [[0]]


def test_an_object_crosses_processes(cache):
    cache.append("a", ["0"], [1])
    assert pickle.loads(pickle.dumps(cache)).matrix().tolist() == [[1]]


MODELS, SAMPLES = [f"m{i}" for i in range(4)], [f"s{i}" for i in range(200)]


@st.composite
def writes(draw):
    """A write of some cells: scattered, dense with holes, or contiguous, so that every form of tile
    comes up.
    """
    number = st.integers(0, 50)
    spans = st.builds(
        lambda low, size, step: list(range(3 * low, 3 * low + size, step)),
        number,
        number,
        st.integers(1, 3),
    )
    columns = draw(st.lists(st.sampled_from(range(len(SAMPLES))), max_size=6, unique=True) | spans)
    rows = draw(st.lists(st.sampled_from(MODELS), max_size=3, unique=True))
    return (
        draw(st.sampled_from(["observed", "predicted"])),
        rows,
        columns,
        draw(st.integers(0, 2**32 - 1)),
    )


@settings(max_examples=30, deadline=None)
@given(st.lists(writes(), max_size=8))
def test_any_sequence_of_writes_is_read_as_a_dict_would_be(sequence):
    known = {"observed": {}, "predicted": {}}
    sure = {}
    truth = np.random.default_rng(0).integers(0, 2, [len(MODELS), len(SAMPLES)])
    with tempfile.TemporaryDirectory() as directory:
        cache = EvaluationCache(Path(directory) / "c", create=True)
        for state, rows, columns, seed in sequence:
            random = np.random.default_rng(seed)
            values = random.integers(0, 2, [len(rows), len(columns)])
            if state == "observed":
                values = truth[np.ix_([MODELS.index(row) for row in rows], columns)]
            values = np.where(random.random(values.shape) < 0.2, U, values)
            confidence = np.where(
                random.random(values.shape) < 0.3, np.nan, random.random(values.shape)
            ).astype(np.float16)
            ids = [SAMPLES[k] for k in columns]
            if state == "observed":
                cache.append_rows(rows, ids, values, confidence)
            else:
                cache.append_predictions(rows, ids, values)
            for (i, row), (k, name) in itertools.product(enumerate(rows), enumerate(ids)):
                if values[i, k] != U:
                    known[state][row, name] = values[i, k]
                    if state == "observed" and not np.isnan(confidence[i, k]):
                        sure.setdefault((row, name), confidence[i, k])
            cache = EvaluationCache(cache.directory) if seed % 3 == 0 else cache
        names, ids = list(cache.models()), cache.samples()
        observed = [[known["observed"].get((row, name), U) for name in ids] for row in names]
        predicted = [[known["predicted"].get((row, name), U) for name in ids] for row in names]
        expected = np.array(observed, np.uint8).reshape(len(names), len(ids))
        guesses = np.array(predicted, np.uint8).reshape(expected.shape)
        assert (cache.matrix() == expected).all()
        assert (cache.matrix(predicted=True) == np.where(expected == U, guesses, expected)).all()
        confidences = np.array(
            [[sure.get((row, name), np.nan) for name in ids] for row in names], np.float16
        )
        np.testing.assert_equal(cache.confidence(), confidences.reshape(expected.shape))
        subset = np.random.default_rng(1).permutation(len(ids))[: len(ids) // 2]
        assert (cache.matrix(names[::-1], subset) == expected[::-1, subset]).all()
        np.testing.assert_equal(cache.confidence(samples=subset), cache.confidence()[:, subset])
