"""An index that this program did not write, or that damage changed, ends in one line, at once."""

import json
import os
import shutil
import sqlite3

import numpy as np
import pytest

from nevis_stream.errors import DamagedCache
from nevis_stream.evaluation_cache import EvaluationCache, records
from nevis_stream.evaluation_cache.additions import Addition, append
from nevis_stream.evaluation_cache.boards import read_board
from nevis_stream.evaluation_cache.exchange import export_npz, import_file
from nevis_stream.evaluation_cache.records import Imported

IDS = [f"s{k}" for k in range(40)]
ENDLESS = (
    "WITH RECURSIVE r(number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM r) SELECT number,"
    " 0 model, 'observed' state, 'correct' plane, 'all' form, 0 first, 8 span, 8 cells, 1 ones,"
    " 0 classes, 0 offset, x'00' digest, '{}' made_by FROM r"
)
BIG = 1 << 40
# nothing of these is copied: only the index knows which cell is whose
BEYOND_REPAIR = {
    "endless view": f"DROP TABLE tiles; CREATE VIEW tiles AS {ENDLESS}",
    "another view": f"CREATE VIEW more AS {ENDLESS}",
    "trigger": "CREATE TRIGGER t AFTER INSERT ON samples BEGIN DELETE FROM models; END",
    "generated column": "DROP TABLE checks; CREATE TABLE checks (model INTEGER PRIMARY KEY,"
    " digest BLOB AS (zeroblob(900000000)))",
    "expression in an index": "CREATE INDEX i ON samples (length(id))",
    "another table": "CREATE TABLE notes (text)",
    "no table": "DROP TABLE batches",
    "end is text": "UPDATE about SET end = 'abc'",
    "end is negative": "UPDATE about SET end = -64",
    "end is no whole number": "UPDATE about SET end = 64.5",
    "end is a blob": "UPDATE about SET end = x'00'",
    "no description": "DELETE FROM about",
    "description is a blob": "UPDATE about SET text = x'7b7d'",
    "huge sample": f"INSERT INTO samples VALUES ({BIG}, 'x')",
    "negative sample": "INSERT INTO samples VALUES (-5, 'x')",
    "huge model": f"INSERT INTO models VALUES ({BIG}, 'x', '{{}}')",
    "missing model": "DELETE FROM models WHERE number = 0",
    "sample id is a blob": "UPDATE samples SET id = x'ff' WHERE number = 1",
    "model id is a blob": "UPDATE models SET id = x'ff' WHERE number = 1",
    "huge batch": f"UPDATE batches SET count = {BIG}",
    "negative batch": "UPDATE batches SET count = -1",
    "batch is text": "UPDATE batches SET count = 'many'",
    "batch in another place": "UPDATE batches SET first = 7",
    "provenance of samples is a blob": "UPDATE batches SET provenance = x'7b7d'",
    "checksum without a number": "UPDATE text_checks SET number = 'x'",
    "many batches": "INSERT INTO batches SELECT number + 1, 40, '{}', x'' FROM samples",
}
# the others are copied
REPAIRED = {
    "tile of a huge span": f"UPDATE tiles SET span = {BIG}, cells = {BIG} WHERE number = 1",
    "tile far away": f"UPDATE tiles SET offset = {BIG} WHERE number = 1",
    "negative offset": "UPDATE tiles SET offset = -64 WHERE number = 1",
    "tile of a model that is not there": f"UPDATE tiles SET model = {BIG} WHERE number = 1",
    "huge number of classes": f"UPDATE tiles SET classes = {BIG} WHERE number = 1",
    "tile is text": "UPDATE tiles SET first = 'x', cells = x'00' WHERE number = 1",
    "unknown plane": "UPDATE tiles SET plane = x'ff' WHERE number = 1",
    "maker is a list": "UPDATE tiles SET made_by = '[1]' WHERE state = 'predicted'",
    "provenance is a list": "UPDATE models SET provenance = '[1]' WHERE number = 0",
    "provenance is a blob": "UPDATE models SET provenance = x'ff' WHERE number = 0",
    "deep provenance": f"UPDATE models SET provenance = '{'[' * 5000}' WHERE number = 0",
    "hash is a blob": "UPDATE contents SET hash = x'ff' WHERE sample = 1",
    "hash of no sample": f"INSERT INTO contents VALUES ({BIG}, 'x', x'00')",
    "record of an import is a number": "UPDATE imports SET text = '7'",
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    cache = EvaluationCache(tmp_path_factory.mktemp("hostile") / "sound", create=True)
    cache.add_samples(IDS, [{"dataset": "x", "hash": f"h{k}"} for k in range(40)])
    cache.append("a", IDS, [1, 0] * 20, provenance={"run": "r"})
    cache.append("b", IDS, [1, 1] * 20)
    cache.append_predictions(["c"], IDS, np.ones((1, 40), np.uint8), made_by={"budget": 8})
    with cache.index.writing() as db:
        records.add_imports(db, [Imported("board.csv", ("2 models",))])
    told = {"method": "mean", "budget": 8, "seed": 0, "models": 2, "samples": 40, "asked": 8}
    append(cache.directory, Addition(kind="model", name="c", **told))
    assert cache.verify() == []
    with sqlite3.connect(cache.index.path) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return cache.directory


def changed(sound, directory, sql):
    shutil.copytree(sound, directory)
    with sqlite3.connect(directory / "index.sqlite") as db:
        db.executescript(sql)
    return directory


def readers(directory, tmp_path):
    """All ways to use a cache, each by its name."""
    (tmp_path / "new.csv").write_text("model,s0,s1\nnew,1,0\n")
    yield "stats", lambda: EvaluationCache(directory).stats()
    yield "verify", lambda: EvaluationCache(directory).verify()
    yield "models", lambda: EvaluationCache(directory).models()
    yield "facts", lambda: EvaluationCache(directory).facts()
    yield "hashes", lambda: EvaluationCache(directory).hashes()
    yield "imports", lambda: EvaluationCache(directory).imports()
    yield "board", lambda: read_board(directory).means()
    yield "import", lambda: import_file(EvaluationCache(directory), tmp_path / "new.csv")
    yield "export", lambda: export_npz(EvaluationCache(directory), tmp_path / "out.npz")
    yield (
        "merge",
        lambda: EvaluationCache(tmp_path / "into", create=True).merge(EvaluationCache(directory)),
    )


@pytest.mark.parametrize("name", BEYOND_REPAIR)
def test_what_only_the_index_knows_is_refused_when_it_is_opened(sound, tmp_path, name):
    directory = changed(sound, tmp_path / "c", BEYOND_REPAIR[name])
    with pytest.raises(DamagedCache, match="cannot be repaired.* Import the runs") as caught:
        EvaluationCache(directory)
    assert str(caught.value).startswith(str(directory)) and "\n" not in str(caught.value)


@pytest.mark.parametrize("name", REPAIRED)
def test_the_rest_is_read_or_refused_and_repaired(sound, tmp_path, name):
    directory = changed(sound, tmp_path / "c", REPAIRED[name])
    assert EvaluationCache(directory).verify()
    refused = 0
    for _, read in readers(directory, tmp_path):
        try:
            read()
        except DamagedCache as error:
            refused += 1
            assert str(directory) in str(error) and "\n" not in str(error)
            assert f"repair --cache={directory}" in str(error)
    assert refused >= 2
    EvaluationCache(directory).repair(tmp_path / "mended")
    mended = EvaluationCache(tmp_path / "mended")
    assert mended.verify() == [] and mended.samples() == IDS and {"a", "b"} <= {*mended.models()}
    for name, read in readers(mended.directory, tmp_path):
        read()
        assert mended.verify() == [], name


def test_ranges_that_are_none_are_refused(sound, tmp_path):
    directory = changed(
        sound, tmp_path / "c", 'UPDATE batches SET provenance = \'{"low": "x", "high": 1}\''
    )
    for read in (EvaluationCache(directory).facts, EvaluationCache(directory).has_one_mean):
        with pytest.raises(DamagedCache, match="low = x"):
            read()


def test_an_index_that_is_no_file_is_refused(sound, tmp_path):
    shutil.copytree(sound, tmp_path / "c")
    (tmp_path / "c" / "index.sqlite").unlink()
    os.mkfifo(tmp_path / "c" / "index.sqlite")
    with pytest.raises(DamagedCache, match="not a regular file"):
        EvaluationCache(tmp_path / "c")


def test_weights_of_another_type_are_refused(sound, tmp_path):
    text = json.dumps({"dataset_weights": [1]})
    directory = changed(sound, tmp_path / "c", f"UPDATE about SET text = '{text}'")
    with pytest.raises(DamagedCache, match="weights of data sets"):
        EvaluationCache(directory).facts()
