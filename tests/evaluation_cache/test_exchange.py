"""Files of outcomes: their content is read, and errors in them are reported."""

import builtins
import os
from pathlib import Path

import numpy as np
import pytest

from nevis_stream.errors import BadInput
from nevis_stream.evaluation_cache import EvaluationCache
from nevis_stream.evaluation_cache.exchange import export_npz, import_file
from nevis_stream.evaluation_cache.facts import read_features
from nevis_stream.evaluation_cache.files import read_values

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


@pytest.mark.slow
def test_shared_matrices_are_read_as_they_are():
    files = sorted(SHARED.glob("*.npz"))
    if not files:
        pytest.skip(f"{SHARED} is not there")
    for file in files:
        truth = np.load(file)
        known = ~truth["imputed"].astype(bool) if "imputed" in truth else np.True_
        result = read_values(file, threshold=0.5 if "score" in truth else None)
        assert (result.values == np.where(known, truth["correct"], U)).all()
        assert (result.groups is None) == ("group" not in truth)


def test_a_shared_matrix_is_imported_as_it_is(tmp_path):
    file = SHARED / "nlu_concat15.npz"
    if not file.exists():
        pytest.skip(f"{file} is not there")
    cache, truth = EvaluationCache(tmp_path / "nlu", create=True), np.load(file)
    result = import_file(cache, file)
    assert (cache.matrix() == result.values).all() and not cache.scores
    assert cache.samples() == truth["samples"].tolist() and cache.verify() == []
    assert next(iter(cache.models().values()))["group"] == truth["group"][0]
    assert (cache.facts().dataset == truth["dataset"]).all()


def test_real_scores_of_a_leaderboard_are_kept_with_their_holes(tmp_path):
    file = SHARED / "alpaca_eval2.npz"
    if not file.is_file():
        pytest.skip(f"{file} is not there")
    cache, truth = EvaluationCache(tmp_path / "alpaca", create=True), np.load(file)
    table = import_file(cache, file)
    score = np.where(truth["imputed"] == 1, np.nan, truth["score"])
    assert table.remarks == (
        "58 models × 805 samples, 10 cells unknown (0.021%)",
        f"models: {', '.join(table.models[:5])} and 53 more",
        f"values: 805 samples, scores from 0 to 1, mean {np.nanmean(score):.4f}; higher is better"
        " (not stated)",
        "`score` is read, not `correct`",
    )
    assert cache.scores and cache.matrix().dtype == np.float32
    np.testing.assert_equal(cache.matrix(), score)
    total, known = cache.column_sums()
    np.testing.assert_allclose(total, np.nansum(score.astype(np.float64), axis=0), rtol=1e-6)
    assert (known == (~np.isnan(score)).sum(axis=0)).all()
    total, known = cache.row_sums()
    np.testing.assert_allclose(total, np.nansum(score.astype(np.float64), axis=1), rtol=1e-6)
    assert cache.stats()["mean"] == pytest.approx(np.nanmean(score.astype(np.float64)))
    assert cache.verify() == [] and cache.models()[truth["models"][0]] == {"file": file.name}
    import_file(cache, file)  # again changes nothing
    merged = EvaluationCache(tmp_path / "merged", create=True)
    merged.merge(cache)
    export_npz(merged, tmp_path / "out.npz")
    again = EvaluationCache(tmp_path / "again", create=True)
    import_file(again, tmp_path / "out.npz")
    np.testing.assert_equal(again.matrix(), score)


MIXED = """model,dataset,sample,metric,low,high,score,subject
a,qa,1,F1,0,100,50,x
a,qa,2,F1,0,100,,y
a,mt,1,win rate,,,0.25,
a,yes,1,exact,,,1,
b,qa,1,F1,0,100,100,x
b,qa,2,F1,0,100,0,y
b,mt,1,win rate,,,0.5,
b,yes,1,exact,,,0,
b,yes,1,exact,,,0,
"""


def test_mixed_scores_have_each_their_range(tmp_path, cache):
    table = import_file(cache, write_csv(tmp_path / "mixed.csv", MIXED))
    assert table.remarks == (
        "2 models × 4 samples, 1 cell unknown (12%)",
        "models: a, b",
        "1 repeated cell with the same value was left out",
        "qa F1: 2 samples, scores from 0 to 100, mean 50.0000; higher is better (not stated)",
        "mt win rate: 1 sample, scores from 0 to 1, mean 0.3750; higher is better (not stated)",
        "yes exact: 1 sample, outcomes, mean 0.5000; higher is better (not stated)",
    )
    assert cache.samples() == ["qa/1", "qa/2", "mt/1", "yes/1"] and cache.scores
    np.testing.assert_equal(
        cache.matrix(), np.array([[0.5, np.nan, 0.25, 1], [1, 0, 0.5, 0]], np.float32)
    )
    facts = cache.facts()
    assert facts.dataset.tolist() == ["qa", "qa", "mt", "yes"]
    assert facts.group.tolist() == ["x", "y", "", ""] and facts.high.tolist() == [100, 100, 1, 1]
    assert cache.facts().dataset_weights is None
    cache.append_predictions(["a"], ["qa/2", "yes/1"], np.array([[0.75, np.nan]]))
    assert cache.matrix(["a"], predicted=True)[0].tolist() == [0.5, 0.75, 0.25, 1]
    assert cache.states().tolist() == [[1, 2, 1, 1], [1, 1, 1, 1]]
    export_npz(cache, tmp_path / "out.npz")
    assert np.load(tmp_path / "out.npz")["score"][1].tolist() == [100, 0, 0.5, 0]
    again = EvaluationCache(tmp_path / "again", create=True)
    import_file(again, tmp_path / "out.npz")
    np.testing.assert_equal(again.matrix(predicted=True), cache.matrix(predicted=True))
    assert again.samples() == cache.samples()
    with pytest.raises(BadInput, match="'qa/1', line 2, has the range 0 to 100 in this cache"):
        import_file(
            again, write_csv(tmp_path / "other.csv", "model,dataset,sample,score\nc,qa,1,1\n")
        )
    with pytest.raises(BadInput, match="sample 'qa/1': observed as 0.5, now given as 0.25"):
        import_file(again, write_csv(tmp_path / "new.csv", MIXED.replace("100,50", "100,25")))


def test_each_data_set_has_a_weight(cache):
    cache.add_samples(list("abcdef"), [{"dataset": name} for name in ("qa", "mt", "yes")] * 2)
    cache.set_dataset_weights({"qa": 1, "mt": 1, "yes": 2})
    assert cache.facts().weights.tolist() == [0.125, 0.125, 0.25] * 2
    for weights, message in (
        ({"qa": 1}, "no weight for mt, yes"),
        ({"q": 1}, "'q'.*'qa'"),
    ):
        with pytest.raises(BadInput, match=message):
            cache.set_dataset_weights(weights)
    with pytest.raises(BadInput, match="mt, qa, yes have weights in the mean, but not 'new'"):
        cache.add_samples(["g"], [{"dataset": "new"}])
    cache.set_dataset_weights(None)
    cache.add_samples(["g"], [{"dataset": "new"}])
    with pytest.raises(BadInput, match="data set 'new' has one sample"):
        cache.set_dataset_weights("equal")


def test_features_come_with_ids_or_in_order(tmp_path, cache):
    features = np.arange(8, dtype=np.float32).reshape(4, 2)
    np.savez(
        tmp_path / "features.npz",
        features=features[::-1],
        samples=["yes/1", "mt/1", "qa/2", "qa/1"],
    )
    mixed = write_csv(tmp_path / "mixed.csv", MIXED)
    import_file(cache, mixed, features=lambda ids: read_features(tmp_path / "features.npz", ids))
    assert (cache.features() == features).all() and (cache.facts().features == features).all()
    other = EvaluationCache(tmp_path / "other", create=True)
    other.merge(cache)
    assert (other.features() == features).all() and other.verify() == []
    export_npz(cache, tmp_path / "out.npz")
    assert (read_values(tmp_path / "out.npz").features == features).all()
    cache.append("a", ["new"], [1])
    assert cache.facts().features is None and np.isnan(cache.features()[-1]).all()
    for arrays, message in (
        ({"features": features[:3]}, "features.npz: `features` has shape \(3, 2\)"),
        ({"features": features, "samples": list("abcd")}, "features.npz: .*'a'.*mt/1, qa/1"),
        ({"features": features[0]}, "`features` has shape \\(2,\\)"),
        ({"features": features * np.nan}, "sample 'qa/1': not all are finite"),
    ):
        np.savez(tmp_path / "features.npz", **arrays)
        with pytest.raises(BadInput, match=message):
            read_features(tmp_path / "features.npz", other.samples())
    np.savez(tmp_path / "features.npz", features=features)
    _, lines = read_features(tmp_path / "features.npz", ["q1", "q2", "q10", "q11"])
    assert lines[0].endswith("its rows are taken in the order q1, q2, …, q11")
    with pytest.raises(BadInput, match="has two orders|have two orders: 'q10' or 'q2' may"):
        read_features(tmp_path / "features.npz", ["q1", "q10", "q11", "q2"])
    with pytest.raises(BadInput, match="features: 3 numbers for each sample; this cache has 2"):
        other.add_features(["qa/1"], np.ones((1, 3)))
    with pytest.raises(BadInput, match="sample 'qa/1': it already has other features"):
        other.add_features(["qa/1"], np.ones((1, 2)))


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
    assert read_values(real, threshold=0.5).values.tolist() == [[0, 1], [U, 0]]
    np.testing.assert_equal(
        read_values(real).values, np.array([[0.25, 0.75], [np.nan, 0.5]], np.float32)
    )
    np.testing.assert_equal(
        cache.confidence(["d"], ["s1", "s3"]), np.array([[np.nan, 0.5]], np.float16)
    )
    # with a byte order mark
    (tmp_path / "spreadsheet.csv").write_text("model,s0\na,1\n", encoding="utf-8-sig")
    assert read_values(tmp_path / "spreadsheet.csv").samples == ["s0"]


def test_parquet(tmp_path, cache, monkeypatch):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "a.parquet"
    parquet.write_table(
        pyarrow.table({"model": ["a", "b"], "s0": [1, None], "s1": [0.0, 1.0]}), path
    )
    import_file(cache, path)
    assert cache.matrix().tolist() == [[1, 0], [U, 1]]
    twice = pyarrow.table([["a"], [1], ["b"]], names=["model", "s0", "model"])
    parquet.write_table(twice, path)
    with pytest.raises(BadInput, match="columns 1, 3 have the same name, 'model'"):
        read_values(path)
    parquet.write_table(pyarrow.table({"model": ["a", None], "s0": [1, 0]}), path)
    with pytest.raises(BadInput, match="an empty model id"):
        read_values(path)
    path.write_bytes(b"PAR1 not")
    with pytest.raises(BadInput, match=f"{path.name}: .*parquet"):
        read_values(path)
    real = builtins.__import__

    def without(name, *rest, **more):
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(BadInput, match="needs pyarrow: pip install"):
        read_values(path)


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
        ("", "is empty"),
        ("name,s0\na,1\n", "no column `model`; it begins with name, s0"),
        ("model,s0\n", "has no models"),
        ("model\na\n", "has no samples"),
        ("model,s0\na,1\na,0\n", "model 'a' occurs twice"),
        ("model,s0,s0\na,1,1\n", "columns 2, 3 have the same name, 's0'"),
        ("model,s0,model\na,1,b\n", "columns 1, 3 have the same name, 'model'; give each its own"),
        ("group,model,group,s0\ng,a,h,1\n", "columns 1, 3 have the same name, 'group'"),
        ("model,sample,outcome,outcome\na,s,1,0\n", "columns 3, 4 have the same name, 'outcome'"),
        ("model,s0\na,1\nb,yes\n", "model 'b', sample 's0': 'yes' is not a number"),
        ("model,s0\na,1\nb,1.5\n", "model 'b', sample 's0': 1.5 is not between 0 and 1"),
        ("model,s0\na,inf\n", "inf is not between"),
        ("model,s0,s1\na,1\n", "line 2: it begins with 'a' and has 2 fields, the header 3"),
        (",model\n1,a\n", "has no samples"),
    ],
)
def test_bad_csv_is_named(tmp_path, text, message):
    with pytest.raises(BadInput, match=message) as error:
        read_values(write_csv(tmp_path / "bad.csv", text))
    assert "bad.csv" in str(error.value)


@pytest.mark.parametrize(
    "arrays, message",
    [
        ({"correct": np.ones((1, 2))}, "has the arrays correct; it needs"),
        (
            {"correct": np.ones((1, 2)), "models": ["a"], "samples": ["0"]},
            r"shape \(1, 2\); .*\(1, 1\)",
        ),
        (
            {"correct": np.ones((1, 1)), "models": ["a"], "samples": ["0"], "group": ["x", "y"]},
            r"`group` has shape \(2,\)",
        ),
        (
            {"correct": np.full((1, 1), 7), "models": ["a"], "samples": ["0"]},
            "model 'a', sample '0': 7 is not between 0 and 1",
        ),
        ({"correct": np.array([["1"]]), "models": ["a"], "samples": ["0"]}, "not numbers"),
        (ONE | {"model_provenance": ["{"]}, "`model_provenance` contains a string that"),
        (ONE | {"model_provenance": ["[]"]}, "1 JSON objects are expected"),
        (ONE | {"sample_provenance": []}, "`sample_provenance` has 0 entries"),
        (
            {"correct": np.array([[None]]), "models": ["a"], "samples": ["0"]},
            "bad.npz: .*allow_pickle",
        ),
    ],
)
def test_bad_npz_is_named(tmp_path, arrays, message):
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(BadInput, match=message):
        read_values(tmp_path / "bad.npz")


def test_predictions_that_cannot_be_leave_nothing(tmp_path, cache):
    np.savez(
        tmp_path / "bad.npz",
        correct=np.full((1, 1), U),
        predicted=[[1.5]],
        models=["a"],
        samples=["0"],
    )
    with pytest.raises(
        BadInput, match="confidence of model 'a', sample '0': 1.5 is not from 0 to 1"
    ):
        import_file(cache, tmp_path / "bad.npz")
    assert cache.shape == (0, 0)


def test_bad_files_are_named(tmp_path):
    (tmp_path / "x.npz").write_bytes(b"PK\x03\x04 cut")
    (tmp_path / "x.csv").write_bytes(b"model,\xff\xfe\n")
    (tmp_path / "x.txt").write_text("model")
    os.mkfifo(tmp_path / "z.csv.gz")
    for name, message in [("x.npz", "it is not a zip archive"), ("x.csv", "is not UTF-8 text .*; save it as UTF-8"), ("y.csv", "y.csv: "),  # noqa: E501
                          ("z.csv.gz", "a pipe or a device; write its content to a file"), ("x.txt", "is neither a file of values .*HELM")]:  # fmt: skip  # noqa: E501
        with pytest.raises(BadInput, match=message):
            read_values(tmp_path / name)
    with pytest.raises(BadInput, match="--threshold=2 is outside the range 0 to 1 of sample 's'"):
        read_values(write_csv(tmp_path / "a.csv", "model,s\na,0.5\n"), threshold=2)


def test_csv_in_long_form_is_the_same_as_in_wide_form(tmp_path):
    wide = read_values(write_csv(tmp_path / "wide.csv", "model,group,a,b,c\nm,g,1,0,\nk,h,,1,1\n"))
    rows = ["m,g,a,1,.75", "k,h,b,1,", "m,g,b,0,.25", "m,g,c,,", "k,h,c,1,1"]
    text = "model,group,sample,outcome,confidence\n" + "\n".join(rows)
    long = read_values(write_csv(tmp_path / "long.csv", text))
    assert (long.models, long.samples, long.groups) == (wide.models, wide.samples, wide.groups)
    assert (long.values == wide.values).all() and wide.confidence is None
    np.testing.assert_equal(
        long.confidence, np.array([[0.75, 0.25, np.nan], [np.nan, np.nan, 1]], np.float16)
    )
    text = "model,sample,outcome\nm,a,0.8\nm,b,0.3\n"
    plain = read_values(write_csv(tmp_path / "plain.csv", text), threshold=0.5)
    assert plain.values.tolist() == [[1, 0]]
    assert plain.confidence is not None and plain.groups is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "model,sample,outcome\nm,a,1\nm,a,0\n",
            "line 3: model 'm' on sample 'a' has the outcome 0, but 1 in line 2",
        ),
        ("model,sample,outcome\nm,a,yes\n", "model 'm', sample 'a': 'yes' is not a number"),
        (
            "model,sample,outcome\nm,a,2\n",
            "line 2: model 'm', sample 'a': 2 is not between 0 and 1",
        ),
        (
            "model,sample,outcome,confidence\nm,a,1,1.5\n",
            "the confidence 1.5 is not between 0 and 1",
        ),
        (
            "model,sample,outcome,confidence\nm,a,0.4,0.5\n",
            "only outcomes \\(0 or 1\\) can have a confidence",
        ),
        (
            "model,sample,outcome,group\nm,a,1,g\nm,b,1,h\n",
            "model 'm' has group = h, but had g before",
        ),
        ("model,sample,outcome\nm,a\n", "has 2 fields, the header 3"),
        ("model,sample,outcome\n,a,1\n", "an empty model id"),
        ("model,sample,outcome\n", "no models"),
        (
            "model,sample,score,low,high\nm,a,1,1,0\n",
            "a range of scores from low = 1.0 to high = 0",
        ),
        ("model,sample,score,low\nm,a,1,0\n", "sample 'a': a range of scores from low = 0.0 to"),
        ("model,sample,score,high,low\nm,a,7,5,0\n", "line 2: model 'm', sample 'a': 7 is not bet"),
        ("model,sample,score\nm,a,7\nm,b,\nk,a,\n", "line 2: model 'm'.*or by --range=LOW,HIGH"),
        ("model,sample,score\nm,a,1\nk,a,\n", "model 'k' has no values"),
        ("model,sample,score,outcome\nm,a,1,1\n", "has the columns `outcome` and `score`"),
        (
            "model,sample,score,metric,dataset\nm,a,1,F1,x\nk,a,1,F1,x\nk,b,nan,EM,x\nk,b,.5,EM,x\n",
            "line 5: model 'k' on sample 'b' has the score 0.5, but nan in line 4",
        ),
    ],
)
def test_mistakes_in_long_form_are_named(tmp_path, text, message):
    with pytest.raises(BadInput, match=message):
        read_values(write_csv(tmp_path / "long.csv", text))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"Model,Sample,Outcome\nm0,s0,1\n",
            "has no column `model`; .* Did you mean `model` instead of 'Model', `sample` instead of"
            " 'Sample', `outcome` instead of 'Outcome'",
        ),
        (b"model,Sample,Outcome\nm0,s0,1\n", "`sample` instead of 'Sample'"),
        (
            b"model,sample,result\nm0,s0,1\n",
            "has no column `outcome` or `score`, so it is not a table with one row per cell",
        ),
        (b"model,sample,score,note\nm0,s0,1,x\n", r"has other columns \('note'\) than category"),
        (b"", "is empty"),
        (b"model,s0\nm\xe9,1\n", "is not UTF-8 text .*; save it as UTF-8"),
        (b"model,s0\nm\x00,1\n", "line 2: contains a NUL byte"),
    ],
)
def test_what_is_wrong_with_a_csv_is_named_with_the_file(tmp_path, content, message):
    path = tmp_path / "board.csv"
    path.write_bytes(content)
    with pytest.raises(BadInput, match=f"board.csv.*: .*{message}|board.csv, {message}"):
        read_values(path)


def test_true_and_false_are_outcomes(tmp_path):
    path = tmp_path / "board.csv"
    path.write_text("model,s0,s1,s2\nm0,True,False,\nm1,TRUE,false,1\n")
    assert read_values(path).values.tolist() == [[1, 0, U], [1, 0, 1]]
