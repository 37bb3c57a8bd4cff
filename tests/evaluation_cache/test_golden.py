"""A cache that an earlier version wrote (schema 1, before scores and features) opens unchanged."""

import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from nevis_stream.evaluation_cache import EvaluationCache, entries
from nevis_stream.evaluation_cache.additions import read_additions
from nevis_stream.evaluation_cache.exchange import import_file

GOLDEN = Path(__file__).with_name("golden")


def version(cache):
    with sqlite3.connect(cache.index.path) as db:
        return db.execute("PRAGMA user_version").fetchone()[0]


@pytest.fixture
def cache(tmp_path):
    shutil.copytree(GOLDEN, tmp_path / "golden")
    return EvaluationCache(tmp_path / "golden")


def test_all_that_it_holds_is_read(cache):
    expected = np.load(GOLDEN / "expected.npz")
    assert cache.verify() == [] and version(cache) == 1
    assert cache.samples() == expected["samples"].tolist()
    assert list(cache.models()) == expected["models"].tolist()
    assert not cache.scores and (cache.matrix() == expected["correct"]).all()
    np.testing.assert_equal(cache.confidence(), expected["confidence"])
    predicted = cache.states() == 2
    assert (predicted == (expected["predicted"] != 255)).all()
    assert (cache.predictions()[predicted] == expected["predicted"][predicted]).all()
    assert cache.probabilities("m0", np.arange(30, 40)).shape == (10, 3)
    assert cache.models()["m0"]["flops_per_sample"] == 1000.0
    assert cache.facts().dataset.tolist() == ["digits"] * 40 and cache.facts().low is None


def test_where_its_predictions_come_from_is_read(cache):
    with cache.index.reading() as db:
        (tile, *_) = entries.list_tiles(db, "state = 'predicted'")
        assert entries.read_origin(db, tile.number)["method"] == "sort_and_search"
    assert read_additions(cache.directory)[0].name == "m5"


def test_it_is_merged_into_a_new_cache(cache, tmp_path):
    copy = EvaluationCache(tmp_path / "copy", create=True, about=cache.about)
    copy.merge(cache)
    expected = np.load(GOLDEN / "expected.npz")["correct"]
    assert (copy.matrix() == expected).all() and copy.verify() == []


def test_a_file_of_what_it_holds_is_imported_to_the_same(cache, tmp_path):
    again = EvaluationCache(tmp_path / "again", create=True)
    import_file(again, GOLDEN / "expected.npz")
    assert (again.states() == cache.states()).all()


def test_it_takes_scores_and_features_and_then_says_so(cache):
    cache.append("m9", ["digits/test/0"], [1])
    assert version(cache) == 1
    cache.append("m0", ["essay"], [0.7], sample_provenance={"low": 0, "high": 10})
    cache.add_features(["essay"], np.ones((1, 3)))
    assert version(cache) == 2 and cache.verify() == []
    assert cache.scores and cache.matrix(["m0"], ["essay"])[0, 0] == np.float32(0.7)
    assert EvaluationCache(cache.directory).matrix(["m9"], ["digits/test/0"])[0, 0] == 1
