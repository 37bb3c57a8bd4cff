"""Files of outcomes: what is in them is read, what is wrong with them is said."""

import builtins
import os
from pathlib import Path

import numpy as np
import pytest

from nevis_stream.dynamic_evaluation.cache import EvaluationCache
from nevis_stream.dynamic_evaluation.cache.exchange import export_npz, import_file
from nevis_stream.dynamic_evaluation.cache.files import read_outcomes
from nevis_stream.errors import BadInput

U = 255
SHARED = Path(os.environ.get("NEVIS_STREAM_SHARED", "../shared")) / "matrices"


@pytest.fixture
def cache(tmp_path):
    return EvaluationCache(tmp_path / "cache", create=True)


def test_a_second_file_brings_more_samples_of_the_same_models(cache, tmp_path):
    for name, ids in (("monday", "ab"), ("tuesday", "bc")):
        np.savez(
            tmp_path / f"{name}.npz",
            correct=np.ones((1, 2), np.uint8),
            models=["m"],
            samples=list(ids),
        )
        import_file(cache, tmp_path / f"{name}.npz")
    assert cache.samples() == ["a", "b", "c"] and (cache.matrix() == 1).all()
    assert cache.models()["m"]["file"] == "monday.npz"


def test_shared_matrices_are_read_as_they_are(tmp_path):
    files = sorted(SHARED.glob("*.npz"))
    if not files:
        pytest.skip(f"{SHARED} is not there")
    for file in files:
        truth, found = np.load(file), read_outcomes(file)
        known = (
            ~truth["imputed"].astype(bool)
            if "imputed" in truth
            else np.ones(truth["correct"].shape, bool)
        )
        assert (found.correct[known] == truth["correct"][known]).all() and (
            found.correct[~known] == U
        ).all()
        assert (found.groups is None) == ("group" not in truth)
    for name in ("alpaca_eval2", "nlu_concat15"):
        cache, truth = (
            EvaluationCache(tmp_path / name, create=True),
            np.load(SHARED / f"{name}.npz"),
        )
        found = import_file(cache, SHARED / f"{name}.npz")
        assert (cache.matrix() == found.correct).all() and cache.samples() == truth[
            "samples"
        ].tolist()
        assert cache.verify() == []
        if name == "alpaca_eval2":
            sure = np.where(found.correct == U, np.nan, truth["score"].astype(np.float16))
            np.testing.assert_equal(cache.confidence(), sure)
            assert cache.models()[truth["models"][0]] == {
                "file": "alpaca_eval2.npz",
                "threshold": 0.5,
            }
        else:
            assert next(iter(cache.models().values()))["group"] == truth["group"][0]
            assert {of["dataset"] for _, of in cache.sample_provenance()} == set(
                truth["dataset"].tolist()
            )


ONE = {"correct": np.eye(1), "models": ["a"], "samples": ["0"]}


def write_csv(path, text):
    path.write_text(text)
    return path


def test_csv(tmp_path, cache):
    import_file(
        cache, write_csv(tmp_path / "a.csv", 'model,group,"s,0",s1,s2\na,g,1,0,\nb,g,nan,1,255\n')
    )
    assert cache.samples() == ["s,0", "s1", "s2"] and cache.matrix().tolist() == [
        [1, 0, U],
        [U, 1, U],
    ]
    assert np.isnan(cache.confidence()).all() and cache.models()["a"] == {
        "file": "a.csv",
        "group": "g",
    }
    real = write_csv(tmp_path / "b.csv", "model,s1,s3\nc,0.25,0.75\nd,,0.5\n")
    import_file(cache, real, threshold=0.2)
    assert cache.matrix(["c", "d"], ["s1", "s3"]).tolist() == [[1, 1], [U, 1]]
    assert read_outcomes(real).correct.tolist() == [[0, 1], [U, 0]]
    np.testing.assert_equal(
        cache.confidence(["d"], ["s1", "s3"]), np.array([[np.nan, 0.5]], np.float16)
    )
    # with a byte order mark
    (tmp_path / "spreadsheet.csv").write_text("model,s0\na,1\n", encoding="utf-8-sig")
    assert read_outcomes(tmp_path / "spreadsheet.csv").samples == ["s0"]


def test_parquet(tmp_path, cache, monkeypatch):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "a.parquet"
    parquet.write_table(
        pyarrow.table({"model": ["a", "b"], "s0": [1, None], "s1": [0.0, float("nan")]}), path
    )
    import_file(cache, path)
    assert cache.matrix().tolist() == [[1, 0], [U, U]]
    twice = pyarrow.table([["a"], [1], ["b"]], names=["model", "s0", "model"])
    parquet.write_table(twice, path)
    with pytest.raises(BadInput, match="columns 1, 3 have one name, 'model'"):
        read_outcomes(path)
    parquet.write_table(pyarrow.table({"model": ["a", None], "s0": [1, 0]}), path)
    with pytest.raises(BadInput, match="an empty model id"):
        read_outcomes(path)
    path.write_bytes(b"PAR1 not")
    with pytest.raises(BadInput, match="cannot be read as parquet"):
        read_outcomes(path)
    real = builtins.__import__

    def without(name, *rest, **more):
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(BadInput, match="pip install pyarrow"):
        read_outcomes(path)


def test_what_is_exported_is_imported_again(tmp_path, cache):
    cache.append_rows(
        ["a", "b"], ["0", "1"], [[1, U], [0, 1]], confidence=[[0.5, np.nan], [np.nan, 1]], provenances=[{"step": 1}, None],  # noqa: E501
        sample_provenance={"split": "test"},
    )  # fmt: skip
    cache.append("a", ["2"], [0], sample_provenance={"split": "dev"})
    cache.append_predictions(["b"], ["0", "2"], [[1, 1]])
    export_npz(cache, tmp_path / "out.npz")
    again = EvaluationCache(tmp_path / "again", create=True)
    import_file(again, tmp_path / "out.npz")
    assert (again.matrix() == cache.matrix()).all() and (again.states() == cache.states()).all()
    assert (again.matrix(predicted=True) == cache.matrix(predicted=True)).all()
    np.testing.assert_equal(again.confidence(), cache.confidence())
    assert (
        again.sample_provenance() == cache.sample_provenance() and again.models()["a"]["step"] == 1
    )


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "no column `model`; it begins with nothing"),
        ("name,s0\na,1\n", "no column `model`; it begins with name, s0"),
        ("model,s0\n", "has no models"),
        ("model\na\n", "has no samples"),
        ("model,s0\na,1\na,0\n", "model 'a' stands twice"),
        ("model,s0,s0\na,1,1\n", "columns 2, 3 have one name, 's0'"),
        ("model,s0,model\na,1,b\n", "columns 1, 3 have one name, 'model'; give each its own"),
        ("group,model,group,s0\ng,a,h,1\n", "columns 1, 3 have one name, 'group'"),
        ("model,sample,outcome,outcome\na,s,1,0\n", "columns 3, 4 have one name, 'outcome'"),
        ("model,s0\na,1\nb,yes\n", "model 'b', sample 's0': 'yes' is not a number"),
        ("model,s0\na,1\nb,1.5\n", "model 'b', sample 's0': 1.5 does not lie"),
        ("model,s0\na,inf\n", "inf does not lie"),
        ("model,s0,s1\na,1\n", r"row 1 \(it begins with 'a'\) has 2 fields, the header 3"),
        (",model\n1,a\n", "an empty sample id"),
    ],
)
def test_bad_csv_is_named(tmp_path, text, message):
    with pytest.raises(BadInput, match=message) as error:
        read_outcomes(write_csv(tmp_path / "bad.csv", text))
    assert "bad.csv" in str(error.value)


@pytest.mark.parametrize(
    "arrays, message",
    [
        ({"correct": np.ones((1, 2))}, "has the arrays correct; it needs"),
        (
            {"correct": np.ones((1, 2)), "models": ["a"], "samples": ["0"]},
            r"shape \(1, 2\); \(1, 1\) is expected",
        ),
        (
            {"correct": np.ones((1, 1)), "models": ["a"], "samples": ["0"], "group": ["x", "y"]},
            r"`group` has shape \(2,\)",
        ),
        (
            {"correct": np.full((1, 1), 7), "models": ["a"], "samples": ["0"]},
            "model 'a', sample '0': 7 does not lie",
        ),
        ({"correct": np.array([["1"]]), "models": ["a"], "samples": ["0"]}, "not numbers"),
        (ONE | {"model_provenance": ["{"]}, "`model_provenance` holds a text that"),
        (ONE | {"model_provenance": ["[]"]}, "1 JSON objects are expected"),
        (ONE | {"sample_provenance": []}, "`sample_provenance` has 0 entries"),
        (
            {"correct": np.array([[None]]), "models": ["a"], "samples": ["0"]},
            "cannot be read as an .npz",
        ),
    ],
)
def test_bad_npz_is_named(tmp_path, arrays, message):
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(BadInput, match=message):
        read_outcomes(tmp_path / "bad.npz")


def test_predictions_that_cannot_be_leave_nothing(tmp_path, cache):
    np.savez(
        tmp_path / "bad.npz",
        correct=np.full((1, 1), U),
        predicted=[[0.5]],
        models=["a"],
        samples=["0"],
    )
    with pytest.raises(BadInput, match="correct of model 'a', sample '0': 0.5 is not 0, 1"):
        import_file(cache, tmp_path / "bad.npz")
    assert cache.shape == (0, 0)


def test_bad_files_are_named(tmp_path):
    (tmp_path / "x.npz").write_bytes(b"PK\x03\x04 cut")
    (tmp_path / "x.csv").write_bytes(b"model,\xff\xfe\n")
    for name, message in [("x.npz", "it is no zip archive"), ("x.csv", "cannot be read as csv"), ("y.csv", "no such file"),  # noqa: E501
                          ("x.txt", "unknown kind of file '.txt'")]:  # fmt: skip
        with pytest.raises(BadInput, match=message):
            read_outcomes(tmp_path / name)
    with pytest.raises(BadInput, match="threshold 2"):
        read_outcomes(write_csv(tmp_path / "a.csv", "model,s\na,1\n"), threshold=2)


def test_csv_in_long_form_is_the_same_as_in_wide_form(tmp_path):
    wide = read_outcomes(
        write_csv(tmp_path / "wide.csv", "model,group,a,b,c\nm,g,1,0,\nk,h,,1,1\n")
    )
    rows = ["m,g,a,1,.75", "k,h,b,1,", "m,g,b,0,.25", "m,g,c,,", "k,h,c,1,1"]
    text = "model,group,sample,outcome,confidence\n" + "\n".join(rows)
    long = read_outcomes(write_csv(tmp_path / "long.csv", text))
    assert (long.models, long.samples, long.groups) == (wide.models, wide.samples, wide.groups)
    assert (long.correct == wide.correct).all() and wide.confidence is None
    np.testing.assert_equal(
        long.confidence, np.array([[0.75, 0.25, np.nan], [np.nan, np.nan, 1]], np.float16)
    )
    plain = read_outcomes(
        write_csv(tmp_path / "plain.csv", "model,sample,outcome\nm,a,0.8\nm,b,0.3\n")
    )
    assert (
        plain.correct.tolist() == [[1, 0]] and plain.confidence is not None and plain.groups is None
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("model,sample,outcome\nm,a,1\nm,a,0\n", "row 2: model 'm' on sample 'a' stands twice"),
        ("model,sample,outcome\nm,a,yes\n", "model 'm', sample 'a': 'yes' is not a number"),
        ("model,sample,outcome\nm,a,2\n", "2 does not lie between 0 and 1"),
        ("model,sample,outcome,confidence\nm,a,1,1.5\n", "1.5 does not lie between 0 and 1"),
        ("model,sample,outcome,confidence\nm,a,0.4,0.5\n", "must be 0 or 1"),
        (
            "model,sample,outcome,group\nm,a,1,g\nm,b,1,h\n",
            "model 'm' is of group 'h', but was of 'g'",
        ),
        ("model,sample,outcome\nm,a\n", "has 2 fields, the header 3"),
        ("model,sample,outcome\n,a,1\n", "an empty model id"),
        ("model,sample,outcome\n", "no models"),
    ],
)
def test_mistakes_in_long_form_are_named(tmp_path, text, told):
    with pytest.raises(BadInput, match=told):
        read_outcomes(write_csv(tmp_path / "long.csv", text))
