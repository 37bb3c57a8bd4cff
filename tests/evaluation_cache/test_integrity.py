"""Damage is found and named; caches merge; sums are those of the matrix."""

import shutil
import sqlite3
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nevis_stream.dynamic_evaluation.sorting import sort
from nevis_stream.errors import BadInput, DamagedCache
from nevis_stream.evaluation_cache import EvaluationCache, entries, integrity
from nevis_stream.evaluation_cache.exchange import export_npz
from nevis_stream.evaluation_cache.packing import sum_packed

U = 255


def fill(directory, models, samples, seed, holes):
    """A cache of several tiles a row, and its matrix; outcomes depend on the ids alone, so that
    caches agree.
    """
    random = np.random.default_rng(seed)
    cache = EvaluationCache(directory, create=True)
    for part in np.array_split(random.permutation(samples), 3):
        truth = np.array([hash((model, int(k))) % 2 for model in models for k in part], np.uint8)
        truth = truth.reshape(len(models), len(part))
        truth[random.random(truth.shape) < holes] = U
        sure = random.random(truth.shape).astype(np.float16)
        names = [f"m{model}" for model in models]
        cache.append_rows(
            names, [f"s{k}" for k in part], truth, sure, sample_provenance={"part": len(part)}
        )
    return cache


def makers(cache):
    """What made the predicted tiles."""
    with cache.index.reading() as db:
        tiles = entries.list_tiles(db, "state = 'predicted'")
        return [entries.read_origin(db, tile.number) for tile in tiles]


@settings(max_examples=15, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.0, 0.3, 0.99]),
    st.integers(1, 300),
    st.integers(0, 20),
)
def test_sums_and_packed_rows_are_those_of_the_matrix(seed, holes, samples, models):
    with tempfile.TemporaryDirectory() as directory:
        cache = fill(Path(directory) / "c", range(models), range(samples), seed, holes)
        cache.append_predictions(["guessed"], ["s0"], [[1]])
        matrix = cache.matrix()
        correct, known = cache.column_sums()
        assert (correct == (matrix == 1).sum(0)).all() and (known == (matrix != U).sum(0)).all()
        correct, known = cache.row_sums()
        assert (correct == (matrix == 1).sum(1)).all() and (known == (matrix != U).sum(1)).all()
        for row, (bits, there) in zip(matrix, cache.packed_rows(), strict=True):
            assert (np.unpackbits(bits.view(np.uint8), count=samples) == (row == 1)).all()
            assert bits.shape == (-(-samples // 64),)
            known = (
                np.ones(samples)
                if there is None
                else np.unpackbits(there.view(np.uint8), count=samples)
            )
            assert (known == (row != U)).all()
        if (matrix != U).any():
            assert (sort(cache).order == sort(cache.matrix()).order).all()


@pytest.mark.parametrize("rows", [1, 2, 3, 63, 64, 1000])
def test_packed_sums_count_every_row(rows):
    bits = np.random.default_rng(rows).random((rows, 64 * 130)) < 0.7
    words = np.packbits(bits, axis=1).view(np.uint64).ravel()
    assert (sum_packed(words, [130 * i for i in range(rows)], 130) == bits.sum(0)).all()
    assert (sum_packed(np.full(130, -1, np.int64).view(np.uint64), [0] * rows, 130) == rows).all()


def test_a_bit_flip_is_found_by_the_tile_s_name(tmp_path):
    cache = fill(tmp_path / "c", range(3), range(100), 0, 0.2)
    assert cache.verify() == []
    file = cache.cells.path
    data = bytearray(file.read_bytes())
    random = np.random.default_rng(0)
    with cache.index.reading() as db:
        tiles = db.execute("SELECT number, offset FROM tiles ORDER BY offset").fetchall()
    for place in random.choice(len(data), 40, replace=False):
        changed = bytearray(data)
        changed[place] ^= 1 << int(random.integers(8))
        file.write_bytes(changed)
        number = max((offset, number) for number, offset in tiles if offset <= place)[1]
        (line,) = cache.verify()
        assert (
            line.startswith(f"tile {number} (observed ")
            and "its bytes have changed since they were written" in line
        )
    file.write_bytes(data[:-64])
    assert f"its place is beyond the {len(data) - 64} bytes" in cache.verify()[0]
    file.unlink()
    assert len(cache.verify()) == len(tiles)


@pytest.mark.parametrize(
    "change, named",
    [
        ("UPDATE tiles SET first = first + 1 WHERE number = 1", "tile 1 "),
        ("UPDATE tiles SET state = 'predicted' WHERE number = 2", "tile 2 "),
        ("UPDATE tiles SET form = 'other' WHERE number = 1", "tile 1 "),
        ("UPDATE models SET id = 'x' WHERE number = 0", "model 'x'"),
        (
            'UPDATE models SET provenance = \'{"run": "y"}\' WHERE number = 0',
            "model 'm0': its provenance",
        ),
        ("UPDATE samples SET id = 'x' WHERE number = 99", "samples 67–99"),
        ("DELETE FROM samples WHERE number = 99", "samples 67–99"),
    ],
)
def test_a_changed_index_is_found(tmp_path, change, named):
    cache = fill(tmp_path / "c", range(1), range(100), 0, 0.2)
    with sqlite3.connect(cache.index.path) as db:
        db.execute(change)
    assert any(named in line for line in cache.verify())


def test_provenance_that_grew_is_sound_and_an_older_cache_is_not_damaged(tmp_path):
    cache = fill(tmp_path / "c", range(2), range(20), 0, 0.2)
    cache.append("m0", ["s0"], [255], provenance={"run": "x"})
    assert cache.verify() == [] and cache.models()["m0"]["run"] == "x"
    with sqlite3.connect(cache.index.path) as db:
        db.execute("DROP TABLE checks")
    assert cache.verify() == []
    cache.append("m9", ["s0"], [1], provenance={"run": "z"})
    assert cache.verify() == []


def test_a_damaged_index_is_told(tmp_path):
    cache = fill(tmp_path / "c", range(3), range(100), 0, 0.2)
    with sqlite3.connect(cache.index.path) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    data = bytearray(cache.index.path.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    shutil.copytree(cache.directory, tmp_path / "copy")
    (tmp_path / "copy" / "index.sqlite").write_bytes(data)
    with pytest.raises(DamagedCache, match=r"malformed.*This cannot be repaired"):
        EvaluationCache(tmp_path / "copy")


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_caches_merge_as_their_matrices_do(one, two):
    with tempfile.TemporaryDirectory() as directory:
        a = fill(Path(directory) / "a", range(0, 4), range(0, 60), one, 0.3)
        b = fill(Path(directory) / "b", range(2, 6), range(30, 100), two, 0.3)
        b.append_predictions(["m3"], ["s40", "s35"], [[1, 0]], made_by={"method": "one"})
        cells = {}
        for cache in (b, a):
            rows, columns, matrix = list(cache.models()), cache.samples(), cache.matrix()
            cells |= {(rows[i], columns[k]): matrix[i, k] for i, k in np.argwhere(matrix != U)}
        for _ in range(2):
            a.merge(b)
            merged, rows, columns = a.matrix(), list(a.models()), a.samples()
            assert {
                (rows[i], columns[k]): merged[i, k] for i, k in np.argwhere(merged != U)
            } == cells
            assert a.verify() == [] and len(columns) == 100
        assert a.matrix(["m3"], ["s35", "s40"], predicted=True)[0].tolist() == [
            cells.get(("m3", "s35"), 0),
            cells.get(("m3", "s40"), 1),
        ]
        assert makers(a) == [{"method": "one"}]


def test_merging_refuses_what_does_not_belong(tmp_path):
    a = EvaluationCache(tmp_path / "a", create=True, about={"dataset": "a"})
    with pytest.raises(BadInput, match="they cannot be merged"):
        a.merge(EvaluationCache(tmp_path / "b", create=True, about={"dataset": "b"}))
    with pytest.raises(BadInput, match="into itself"):
        a.merge(EvaluationCache(tmp_path / "a"))
    c = EvaluationCache(tmp_path / "c", create=True, about={"dataset": "a"})
    a.append("m", ["0"], [1], probabilities=[[0.5, 0.5]])
    c.append("m", ["1", "0"], [1, 0])
    with pytest.raises(BadInput, match="model 'm', sample '0': observed as 1, now given as 0"):
        a.merge(c)
    empty = EvaluationCache(tmp_path / "d", create=True, about={"dataset": "a"})
    empty.merge(a)
    assert empty.matrix(samples=["0"]).tolist() == [[1]] and empty.probabilities(
        "m", ["0"]
    ).tolist() == [[0.5, 0.5]]


def test_what_is_damaged_is_not_copied_as_if_it_were_sound(tmp_path):
    cache = fill(tmp_path / "c", range(3), range(100), 0, 0.2)
    data = bytearray(cache.cells.path.read_bytes())
    data[0] ^= 1
    cache.cells.path.write_bytes(data)
    other = EvaluationCache(tmp_path / "d", create=True, about=cache.about)
    with pytest.raises(DamagedCache, match="it is not used: tile 1 "):
        other.merge(cache)
    assert other.shape == (0, 0)
    with pytest.raises(DamagedCache, match="it is not used: tile 1 "):
        export_npz(cache, tmp_path / "all.npz")


def test_stats(tmp_path):
    cache = EvaluationCache(tmp_path / "c", create=True)
    assert np.isnan(cache.stats()["mean"]) and np.isnan(cache.stats()["observed share"])
    cache.append_rows(["a", "b"], ["0", "1"], [[1, U], [0, 1]], sample_provenance={"split": "test"})
    cache.append_predictions(["a"], ["0", "1", "2"], [[1, 1, 0]], made_by={"method": "x"})
    stats = cache.stats()
    assert (stats["models"], stats["samples"], stats["observed"], stats["predicted"]) == (
        2,
        3,
        3,
        2,
    )
    assert stats["mean"] == 2 / 3 and stats["observed share"] == 0.5
    scores = EvaluationCache(tmp_path / "scores", create=True)
    ends = {"low": 0.0, "high": 200.0}
    scores.append_rows(["a"], ["0", "1"], np.float32([[0.25, 0.75]]), sample_provenance=ends)
    assert scores.stats()["mean"] == 100
    assert cache.sample_provenance() == [(slice(0, 2), {"split": "test"}), (slice(2, 3), {})]
    assert makers(cache) == [{"method": "x"}]


@pytest.mark.parametrize(
    "columns, plane, byte", [([0, 99], "correct", 3), (range(0, 100, 2), "confidence", 5)]
)
def test_a_flipped_bit_that_cannot_be_read_is_told(tmp_path, columns, plane, byte):
    """Columns are kept as a list of offsets, or as bits."""
    cache = EvaluationCache(tmp_path / "c", create=True)
    cache.append("a", [f"s{k}" for k in range(100)], np.ones(100))
    cache.append(
        "b", [f"s{k}" for k in columns], np.ones(len(columns)), confidence=np.ones(len(columns))
    )
    with cache.index.reading() as db:
        (place,) = db.execute(
            "SELECT offset FROM tiles WHERE model = 1 AND plane = ?", [plane]
        ).fetchone()
    data = bytearray(cache.cells.path.read_bytes())
    data[place + byte] ^= 128
    cache.cells.path.write_bytes(data)
    readers = {"correct": [cache.matrix, cache.column_sums]}
    readers["confidence"] = [
        cache.confidence,
        lambda: cache.confidence(["b"], ["s98", "s7"]),
    ]
    for read in readers[plane]:
        with pytest.raises(
            DamagedCache,
            match=rf"a tile of observed {plane} \(columns 0–9\d\) is damaged: .* verify",
        ):
            read()


@pytest.mark.parametrize(
    "change, named",
    [
        ("UPDATE about SET text = replace(text, '3.0', '1.0')", "its description has changed"),
        ("UPDATE about SET text = '{}'", "its description has changed"),
        ("UPDATE tiles SET made_by = replace(made_by, '16', '17')", "the record of what made it"),
        ("UPDATE tiles SET made_by = '{\"seed\": 2}'", "the record of what made it"),
    ],
)
def test_changed_weights_and_makers_are_noticed(tmp_path, change, named):
    cache = predicted(tmp_path / "cache")
    assert cache.verify() == [] and integrity.list_unchecked(cache) == []
    with cache.index.writing() as db:
        db.execute(change)
    assert cache.verify() and all(named in line for line in cache.verify())


def test_a_cache_of_an_earlier_version_opens_and_what_is_not_checked_is_said(tmp_path):
    cache = predicted(tmp_path / "cache")
    with cache.index.writing() as db:
        db.execute("DROP TABLE text_checks")
    assert cache.verify() == []
    assert [line.partition(": ")[2] for line in integrity.list_unchecked(cache)] == [
        "what the cache is about",
        "what made 1 tile of predictions",
    ]
    cache.set_dataset_weights({"": 2.0})
    cache.append_predictions(["b"], ["s0"], np.zeros((1, 1), np.uint8), made_by={"budget": 8})
    with cache.index.writing() as db:
        db.execute("UPDATE tiles SET made_by = '{}' WHERE made_by LIKE '%8%'")
    assert any("the record of what made it" in line for line in cache.verify())


def predicted(directory):
    """A cache with weights, an observed tile and one of predictions."""
    cache = EvaluationCache(directory, create=True)
    ids = [f"s{k}" for k in range(4)]
    cache.append("a", ids, np.array([1, 0, 1, 1], np.uint8))
    cache.set_dataset_weights({"": 3.0})
    values = np.array([[1, 0, 1, 1]], np.uint8)
    cache.append_predictions(["b"], ids, values, made_by={"budget": 16})
    return cache
