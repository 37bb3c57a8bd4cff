"""Tables as people save them, and scores that come after outcomes."""

import gzip

import numpy as np
import pytest

from nevis_stream.errors import BadInput
from nevis_stream.evaluation_cache import EvaluationCache, large_tables, tables
from nevis_stream.evaluation_cache.exchange import export_npz, import_file
from nevis_stream.evaluation_cache.files import read_values

LONG = "model,sample,score\na,q1,1\na,q2,0\nb,q1,0.5\nb,q2,1\n"


@pytest.mark.parametrize(
    "name, text",
    [
        ("a.csv.gz", LONG),
        ("a.tsv", LONG.replace(",", "\t")),
        ("a.tsv.gz", LONG.replace(",", "\t")),
        ("a.csv", LONG.replace(",", ";").replace("0.5", "0,5")),
        ("a.csv", ",model,sample,score\n0,a,q1,1\n1,a,q2,0\n2,b,q1,0.5\n3,b,q2,1\n"),
        ("a.csv", "Unnamed: 0,model,sample,score\n0,a,q1,1\n1,a,q2,0\n2,b,q1,0.5\n3,b,q2,1\n"),
        ("a.csv", "index;model;q1;q2\n0;a;1;0\n1;b;0,5;1\n"),
    ],
)
def test_a_table_is_read_as_it_was_saved(name, text, tmp_path):
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    table = read_values(path)
    assert table.values.tolist() == [[1, 0], [0.5, 1]] and table.samples == ["q1", "q2"]
    if "0;a" in text or "0,a" in text:
        assert len(table.left_out) == 1 and "column" in table.left_out[0].reason


def test_a_cut_gzip_is_named(tmp_path):
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(LONG.encode() * 50)[:-12])
    with pytest.raises(BadInput, match="is not a sound gzip file"):
        read_values(path)


def test_scores_come_after_outcomes(tmp_path):
    files = {
        "first": "model,sample,score\na,q1,1\na,q2,0\n",
        "second": "model,sample,score\nb,q1,0.5\nb,q2,1\n",
        "again": "model,sample,score\na,q1,1\na,q3,0.25\n",
        "wrong": "model,sample,score\na,q1,0.75\nb,q1,0.5\n",
    }
    for name, text in files.items():
        (tmp_path / f"{name}.csv").write_text(text)
    for order in (("first", "second", "again"), ("second", "again", "first")):
        cache = EvaluationCache(tmp_path / order[0], create=True)
        for name in (*order, *order):  # a repetition changes nothing
            import_file(cache, tmp_path / f"{name}.csv")
        values = cache.matrix(["a", "b"], ["q1", "q2", "q3"])
        nan = np.nan
        expected = np.float32([[1, 0, 0.25], [0.5, 1, nan]])
        assert np.array_equal(values, expected, equal_nan=True)
        total, known = cache.column_sums()
        assert total.sum() == 2.75 and known.sum() == 5 and cache.verify() == []
        with pytest.raises(BadInput, match="observed as 1, now given as 0.75"):
            import_file(cache, tmp_path / "wrong.csv")
        export_npz(cache, tmp_path / "all.npz")
        copy = EvaluationCache(tmp_path / f"{order[0]}-copy", create=True)
        import_file(copy, tmp_path / "all.npz")
        merged = EvaluationCache(tmp_path / f"{order[0]}-merged", create=True)
        merged.merge(cache)
        for other in (copy, merged):
            assert np.array_equal(
                other.matrix(["a", "b"], ["q1", "q2", "q3"]), expected, equal_nan=True
            )
        cache.append_predictions(["b"], ["q3"], np.float32([[0.5]]))
        assert cache.matrix(["b"], ["q3"], predicted=True) == 0.5
    outcomes = EvaluationCache(tmp_path / "outcomes", create=True)
    import_file(outcomes, tmp_path / "first.csv")
    outcomes.append_predictions(["a"], ["q1"], np.uint8([[0]]))
    outcomes.merge(EvaluationCache(tmp_path / "second"))
    assert outcomes.matrix(["b"], ["q1"]) == 0.5
    outcomes.append_predictions(["a"], ["q1"], np.float32([[0.25]]))
    assert outcomes.predictions(["a"], ["q1"]) == 0.25  # the later one, though of another plane


def test_models_of_nearly_one_name_and_columns_that_are_no_samples_are_named(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("model,params,q1,q2\nGPT-4,7B,1,0\ngpt-4 ,7B,0,1\n")
    with pytest.raises(BadInput, match="'7B' is not a number; .*--ignore_columns=NAME"):
        read_values(path)
    path.write_text("model,q1,q2\nGPT-4,1,0\ngpt-4 ,0,1\n")
    (remark,) = [each for each in read_values(path).remarks if "nearly the same" in each]
    assert remark.startswith("these models are kept apart") and "'GPT-4' and 'gpt-4 '" in remark


def rows(header, count=400, models=7):
    """Returns the text of a table of random cells, each once or twice with the same value."""
    random = np.random.default_rng(len(header))
    lines = [",".join(header)]
    for cell in random.integers(0, models * 60, count).tolist():
        sample = cell // models % 30
        fields = {"model": f"m{cell % models}", "sample": f"q{sample}", "dataset": f"d{sample % 2}"}
        fields |= {"metric": "f1", "index": str(cell), "outcome": str((cell % models + sample) % 2)}
        fields |= {"score": f"{(cell % models + sample) % 11 / 10:g}"}
        lines.append(",".join(fields.get(name, fields["index"]) for name in header))
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    "text, by_columns",
    [
        (rows(["model", "sample", "score"]), True),
        (rows(["dataset", "sample", "metric", "model", "score"]), True),
        (rows(["", "sample", "model", "outcome"]), True),
        (rows(["model", "sample", "score"]).replace(",", "\t"), True),
        (rows(["model", "sample", "score"]).replace("\n", "\r\n"), True),
        (rows(["model", "sample", "outcome"]).replace(",1\n", ",\n"), True),
        ("\ufeff" + rows(["model", "sample", "score"]).rstrip("\n"), True),
        (rows(["model", "sample", "score"]).replace("m1,", '"m1",'), False),
        (rows(["model", "sample", "score"]).replace("\nm1,", "\n\nm1,"), False),
        (rows(["model", "sample", "outcome"]).replace(",1\n", ",true\n"), False),
        (rows(["model", "sample", "score"]).replace(",0.5\n", ",error\n"), False),
        (rows(["model", "sample", "score"]).replace(",0.5\n", ",n/a\n"), False),
        (rows(["model", "sample", "score"]) + "Average,q1,0.5\n", False),
        (rows(["model", "sample", "score"]) + "m1,q1\n", False),
        (rows(["model", "sample", "score"]) + "m1,q900,0.5,m9\nq1,0.5\n", False),
        (rows(["model", "sample", "score"]) + "m1,q1,0.55\n", False),
        (rows(["model", "sample", "score"]) + "m1,,0.55\n", False),
        (rows(["model", "sample", "score"]) + "m1,q1,7\n", False),
        (rows(["model", "sample", "score", "trial"]), False),
    ],
)
def test_a_large_table_is_read_by_columns_as_it_is_by_rows(text, by_columns, tmp_path, monkeypatch):
    path = tmp_path / "a.csv"
    path.write_bytes(text.encode())

    def read():
        try:
            return read_values(path)
        except BadInput as error:
            return str(error)

    expected = read()
    used, plain = [], tables._read_large
    monkeypatch.setattr(large_tables, "LARGE", 0)
    monkeypatch.setattr(large_tables, "_BLOCK_ROWS", 64)
    monkeypatch.setattr(tables, "_read_large", lambda path: used.append(plain(path)) or used[-1])
    found = read()
    assert by_columns == (used[-1] is not None)
    if isinstance(expected, str):
        assert found == expected
        return
    for name in ("models", "samples", "sample_provenance", "remarks", "left_out", "places"):
        assert getattr(found, name) == getattr(expected, name), name
    assert np.array_equal(found.values, expected.values, equal_nan=True)
