"""The undamaged parts of a damaged cache are saved: everything but the damaged tiles, which are
named, at any kill.
"""

import itertools
import os
import signal
import sqlite3

import numpy as np
import pytest

from nevis_stream.errors import BadInput, DamagedCache
from nevis_stream.evaluation_cache import EvaluationCache, cells, entries, integrity
from nevis_stream.evaluation_cache.additions import Addition, append, read_additions
from tests.evaluation_cache.test_integrity import fill

U = 255
TOLD = Addition(
    kind="model",
    name="m0",
    method="sort_and_search",
    budget=16,
    seed=0,
    models=3,
    samples=100,
    asked=16,
)


@pytest.fixture
def cache(tmp_path):
    """Three models on 150 samples, several tiles of each state and plane, provenance and an
    account.
    """
    cache = fill(tmp_path / "cache", range(3), range(150), 0, 0.2)
    cache.append(
        "m9",
        ["s3", "s140", "s7"],
        [1, 0, 1],
        probabilities=np.eye(3),
        provenance={"run": "r", "seed": 1},
    )
    cache.append_predictions(
        ["m0", "m9"], ["s0", "s1"], [[0.75, 0.25], [np.nan, 0.5]], {"method": "x"}
    )
    append(cache.directory, TOLD)
    assert cache.verify() == []
    return cache


def tiles(cache):
    with cache.index.reading() as db:
        return entries.list_tiles(db, checked=False)


def flip(cache, place):
    data = bytearray(cache.cells.path.read_bytes())
    data[place] ^= 1 << place % 8
    cache.cells.path.write_bytes(data)


def contents(cache, without=()):
    """All content of a cache in which the cells of some tiles are unknown."""
    output = {
        "samples": cache.samples(),
        "models": cache.models(),
        "of samples": entries.spread_provenance(cache.sample_provenance()),
        "about": cache.about,
    }
    output["account"] = read_additions(cache.directory)
    planes = {
        ("observed", "correct"): cache.matrix(),
        ("observed", "confidence"): cache.confidence(),
        ("observed", "probabilities"): cache.probabilities("m9"),
        ("predicted", "correct"): cache.predictions(),
        ("predicted", "confidence"): cache.confidence(predicted=True),
    }
    for tile in without:
        shape = tile.shape
        plane = planes[shape.state, shape.plane]
        data = cache.cells.view(tile.offset + shape.length)[tile.offset :]
        at, _ = integrity.packing.decode(shape, data)
        (plane if plane.ndim == 2 and shape.plane == "probabilities" else plane[shape.model])[
            at
        ] = U if shape.plane == "correct" else np.nan
    return output | {str(name): plane for name, plane in planes.items()}


def same(one, other):
    assert one.keys() == other.keys()
    for name, value in one.items():
        if name == str(("observed", "probabilities")) and np.isnan(value).all():
            value = value[:, :0]  # if all are lost, the number of classes is unknown
        np.testing.assert_equal(other[name], value, name)


def test_every_flipped_bit_costs_its_tile_alone(cache, tmp_path):
    whole, sound = cache.cells.path.read_bytes(), tiles(cache)
    for number, tile in enumerate(sound):
        expected = contents(cache, without=[tile])
        flip(cache, tile.offset + number % tile.shape.length)
        before = cache.cells.path.read_bytes()
        out = EvaluationCache(tmp_path / str(number), create=True, about=cache.about)
        (line,) = cache.repair(out.directory).lines()
        assert (
            line.startswith(tile.describe(list(cache.models())[tile.shape.model]))
            and f"{tile.shape.cells} cells" in line
        )
        assert out.verify() == [] and len(tiles(out)) == len(sound) - 1
        same(expected, contents(out))
        assert cache.cells.path.read_bytes() == before, "the damaged cache stays as it is"
        cache.cells.path.write_bytes(whole)


def test_a_cut_file_costs_what_lay_behind_the_cut(cache, tmp_path):
    sound, size = tiles(cache), cache.cells.size()
    lines = []
    for number, length in enumerate(range(size - 1, 0, -size // 5)):
        lost = [tile for tile in sound if tile.offset + tile.shape.length > length]
        whole = cache.cells.path.read_bytes()
        expected = contents(cache, lost)
        os.truncate(cache.cells.path, length)
        with pytest.raises(DamagedCache, match=f"repair --cache={cache.directory} --out=NEW_DIR"):
            cache.matrix()
        out = tmp_path / str(number)
        lines.append(len(cache.repair(out).lines()))
        assert lines[-1] == len(lost) > 0
        assert EvaluationCache(out).verify() == []
        same(expected, contents(EvaluationCache(out)))
        cache.cells.path.write_bytes(whole)
    cache.cells.path.unlink()
    assert len(cache.repair(tmp_path / "none").lines()) == len(sound)
    none = EvaluationCache(tmp_path / "none")
    assert none.verify() == [] and none.shape == cache.shape and (none.matrix() == U).all()
    assert lines == sorted(set(lines))


def test_what_was_lost_is_written_again(cache, tmp_path):
    truth, sure = cache.matrix(), cache.confidence()
    os.truncate(cache.cells.path, cache.cells.size() // 2)
    cache.repair(tmp_path / "new")
    again = EvaluationCache(tmp_path / "new")
    assert (again.matrix() != truth).any()
    again.append_rows(list(cache.models()), cache.samples(), truth, sure)
    assert (again.matrix() == truth).all() and again.verify() == []
    np.testing.assert_equal(again.confidence(), sure)


def test_a_sound_cache_is_not_copied_and_no_cache_is_copied_over(cache, tmp_path):
    assert cache.repair(tmp_path / "new").lines() == [] and not (tmp_path / "new").exists()
    flip(cache, 0)
    for taken in (cache.directory, fill(tmp_path / "other", range(1), range(9), 0, 0).directory):
        with pytest.raises(BadInput, match="contains a cache already"):
            cache.repair(taken)
    assert len(cache.verify()) == 1


def test_what_is_not_in_the_cells_is_left_out_by_name(cache, tmp_path):
    with sqlite3.connect(cache.index.path) as db:
        db.execute("UPDATE models SET provenance = '{\"run\": ' || x'ff' WHERE id = 'm9'")
        db.execute("UPDATE tiles SET made_by = '{' WHERE number = (SELECT max(number) FROM tiles)")
        db.execute("UPDATE tiles SET first = 'x' WHERE number = 1")
        db.execute("INSERT INTO tiles SELECT 99, model, state, plane, form, first, span, cells, ones, classes, offset, digest, "  # noqa: E501
                   "made_by FROM tiles WHERE number = 2")  # fmt: skip
    with open(cache.directory / "additions.jsonl", "a") as file:
        file.write('{"kind": "model"}\n')
    with pytest.raises(DamagedCache, match="repair --cache="):
        cache.models()
    result = cache.repair(tmp_path / "new").lines()
    assert result == cache.verify()
    assert [line.split(" (")[0].split(":")[0] for line in result][1:-1] == [
        "tile 1",
        f"tile {len(tiles(cache)) - 1}",
        "tile 99",
    ]
    assert result[0] == "model 'm9': its provenance has changed since it was written"
    assert "additions.jsonl, line 2: not a record of an addition" in result[-1]
    new = EvaluationCache(tmp_path / "new")
    assert (
        new.verify() == [] and new.models()["m9"] == {} and read_additions(new.directory) == [TOLD]
    )
    assert len(tiles(new)) == len(tiles(cache)) - 3


@pytest.mark.parametrize(
    "change, named",
    [
        ("UPDATE samples SET id = 'x' WHERE number = 99", "samples 50–99: their ids"),
        (
            "UPDATE batches SET provenance = '{' WHERE first = 0",
            "samples 0–49: their ids or provenance",
        ),
        ("UPDATE about SET text = '{'", "its description has changed"),
        ("DELETE FROM models WHERE number = 1", "models: 3 ids, 4 were written"),
    ],
)
def test_what_only_the_index_knows_cannot_be_repaired(cache, tmp_path, change, named):
    with sqlite3.connect(cache.index.path) as db:
        db.execute(change)
    with pytest.raises(
        DamagedCache, match=f"{named}.*This cannot be repaired: only the index says"
    ):
        cache.repair(tmp_path / "new")
    assert not (tmp_path / "new").exists() and "This cannot be repaired" in cache.verify()[0]


def test_a_lost_index_is_told(cache, tmp_path):
    with sqlite3.connect(cache.index.path) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    data = bytearray(cache.index.path.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    (tmp_path / "malformed").mkdir()
    (tmp_path / "malformed" / "index.sqlite").write_bytes(data)
    with pytest.raises(DamagedCache, match="malformed.*This cannot be repaired"):
        EvaluationCache(tmp_path / "malformed").repair(tmp_path / "new")
    for name in ("index.sqlite", "index.sqlite-wal", "index.sqlite-shm"):
        (cache.directory / name).unlink(missing_ok=True)
    for create in (False, True):
        with pytest.raises(DamagedCache, match="its index.sqlite is gone. This cannot be repaired"):
            EvaluationCache(cache.directory, create=create)


def test_a_repair_that_is_killed_anywhere_begins_anew(cache, tmp_path, monkeypatch):
    """Children kill themselves before every third call that writes, one after the other into the
    same new directory.
    """
    lost = tiles(cache)[4]
    expected = contents(cache, [lost])
    flip(cache, lost.offset)
    monkeypatch.setattr(integrity, "_BYTES_AT_ONCE", 200)
    out, killed = tmp_path / "new", 0
    for limit in itertools.count(step=3):
        child = os.fork()
        if child == 0:
            _die_at_call(limit)
            cache.repair(out)
            os._exit(0)
        if os.waitpid(child, 0)[1] == 0:
            break
        killed += 1
        if (out / "index.sqlite").exists():
            assert EvaluationCache(out).shape == (0, 0) and EvaluationCache(out).verify() == []
    assert killed > 6
    assert EvaluationCache(out).verify() == []
    same(expected, contents(EvaluationCache(out)))


def _die_at_call(limit):
    calls = itertools.count()

    def counted(function):
        def call(*words, **more):
            if next(calls) == limit:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*words, **more)

        return call

    for module, names in ((os, ["link", "replace", "fsync", "fdatasync"]), (cells, ["enter"]),
                          (entries, ["add_samples", "add_model"])):  # fmt: skip
        for name in names:
            setattr(module, name, counted(getattr(module, name)))


def test_scores_and_features_are_verified_and_repaired(tmp_path):
    cache = EvaluationCache(tmp_path / "scored", create=True)
    samples = [f"s{k}" for k in range(40)]
    scores = np.random.default_rng(0).random((3, 40)).astype(np.float32)
    cache.append_rows(
        ["a", "b", "c"], samples, scores, sample_provenance={"dataset": "x", "low": 0, "high": 10}
    )
    cache.add_features(samples, np.arange(80.0).reshape(40, 2))
    *_, last = tiles(cache)
    assert last.shape.plane == "features" and cache.verify() == []
    flip(cache, tiles(cache)[1].offset + 5)
    flip(cache, last.offset + 5)
    first, second = cache.verify()
    assert "(observed score of model 'b', 40 cells" in first
    assert "(observed features, 40 cells" in second
    cache.repair(tmp_path / "mended")
    mended = EvaluationCache(tmp_path / "mended")
    assert mended.verify() == [] and mended.scores and mended.features() is None
    expected = scores.copy()
    expected[1] = np.nan
    np.testing.assert_equal(mended.matrix(), expected)
    assert mended.facts().high.tolist() == [10] * 40
    mended.append("b", samples, scores[1])
    mended.add_features(samples, np.arange(80.0).reshape(40, 2))
    np.testing.assert_equal(mended.matrix(), scores)
