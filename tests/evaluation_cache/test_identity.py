"""What identifies a column of a cache: a difference is refused, a missing fact matches any."""

import sqlite3

import numpy as np
import pytest

from nevis_stream.errors import BadInput
from nevis_stream.evaluation_cache import EvaluationCache, records
from nevis_stream.evaluation_cache.exchange import export_npz, import_file, read_for_cache
from nevis_stream.evaluation_cache.records import Imported, LeftOut

HEADER = "model,dataset,sample,metric,score"


def _csv(path, *rows, header=HEADER):
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


@pytest.fixture
def f1(tmp_path):
    """A cache of F1 scores of one model."""
    path = _csv(tmp_path / "f1.csv", "a,squad,1,F1,.8", "a,squad,2,F1,.6")
    import_file(tmp_path / "cache", path)
    return EvaluationCache(tmp_path / "cache")


def test_two_metrics_in_one_column_are_refused(f1, tmp_path):
    path = _csv(tmp_path / "em.csv", "b,squad,1,EM,0", "b,squad,2,EM,1")
    expected = r"em.csv: sample 'squad/1', line 2, has the metric F1 in this cache, not EM"
    with pytest.raises(BadInput, match=expected):
        import_file(f1, path)
    with pytest.raises(BadInput, match=expected):
        read_for_cache(f1, path)
    import_file(tmp_path / "other", path)
    with pytest.raises(BadInput, match="has the metric F1 in this cache, not EM"):
        f1.merge(EvaluationCache(tmp_path / "other"))
    assert f1.shape == (1, 2)


def test_ids_do_not_depend_on_how_many_metrics_a_file_has(f1, tmp_path):
    two = _csv(tmp_path / "two.csv", "b,squad,1,F1,.5", "b,squad,1,EM,0")
    import_file(f1, two)
    assert f1.samples() == ["squad/1", "squad/2", "squad/1#EM"]
    import_file(tmp_path / "first", two)
    other = EvaluationCache(tmp_path / "first")
    assert other.samples() == ["squad/1#F1", "squad/1#EM"]
    import_file(other, _csv(tmp_path / "one.csv", "c,squad,1,F1,.9"))
    assert other.samples() == ["squad/1#F1", "squad/1#EM"]
    assert other.matrix()[1, 0] == pytest.approx(0.9) and other.shape[0] == 2
    f1.merge(other)
    assert f1.samples() == ["squad/1", "squad/2", "squad/1#EM"]


@pytest.mark.parametrize(
    "column, first, second, message",
    [
        ("higher_is_better", "true", "false", "direction higher is better in this cache, not low"),
        ("hash", "9f", "e1", "content 9f in this cache, not e1: it is another question"),
    ],
)
def test_another_direction_or_content_is_refused(column, first, second, message, tmp_path):
    header = f"model,sample,score,{column}"
    import_file(tmp_path / "c", _csv(tmp_path / "a.csv", f"a,1,.5,{first}", header=header))
    cache = EvaluationCache(tmp_path / "c")
    with pytest.raises(BadInput, match=f"sample '1', line 2, has the {message}"):
        import_file(cache, _csv(tmp_path / "b.csv", f"b,1,.5,{second}", header=header))


def test_a_missing_fact_matches_any_is_counted_and_is_gained(tmp_path):
    cache = EvaluationCache(tmp_path / "c", create=True)
    cache.append("old", ["q/1", "q/2", "q/3"], [1, 0, 1], sample_provenance={"dataset": "q"})
    rows = [f"new,q,{k},acc,{k % 2},false,h{k}" for k in (1, 2)]
    path = _csv(
        tmp_path / "new.csv",
        *rows,
        header="model,dataset,sample,metric,outcome,higher_is_better,hash",
    )
    table = import_file(cache, path)
    assert table.remarks[-1] == (
        "stated only by the cache or only here, so not compared: the content of 2 samples, the"
        " direction of 2 samples, the metric of 2 samples"
    )
    gained = {"dataset": "q", "metric": "acc", "higher_is_better": False}
    assert cache.sample_provenance() == [(slice(0, 2), gained), (slice(2, 3), {"dataset": "q"})]
    assert cache.hashes() == {"q/1": "h1", "q/2": "h2"} and cache.verify() == []
    assert import_file(cache, path).remarks[-1].startswith("q acc: 2 samples")
    with pytest.raises(BadInput, match="metric acc in this cache, not f1"):
        import_file(cache, _csv(tmp_path / "f1.csv", "x,q,2,f1,1"))


def test_what_identifies_a_column_is_verified_repaired_merged_and_exported(f1, tmp_path):
    header = f"{HEADER},hash,higher_is_better"
    import_file(f1, _csv(tmp_path / "b.csv", "b,squad,1,F1,.1,9f,true", header=header))
    export_npz(f1, tmp_path / "all.npz")
    import_file(tmp_path / "again", tmp_path / "all.npz")
    merged = EvaluationCache(tmp_path / "merged", create=True)
    merged.merge(f1)
    merged.merge(f1)
    for copy in (EvaluationCache(tmp_path / "again"), merged):
        assert copy.hashes() == {"squad/1": "9f"}
        assert copy.sample_provenance() == f1.sample_provenance()
    assert merged.imports() == f1.imports() and len(f1.imports()) == 2
    with sqlite3.connect(f1.index.path) as db:
        db.execute("UPDATE contents SET hash = 'e1'")
        db.execute("UPDATE imports SET text = replace(text, 'b.csv', 'c.csv')")
    assert f1.verify() == [
        "sample 'squad/1': the hash of its content has changed",
        "import 1: the record of what was understood has changed since it was written",
    ]
    f1.repair(tmp_path / "repaired")
    repaired = EvaluationCache(tmp_path / "repaired")
    assert repaired.hashes() == {} and repaired.verify() == []
    assert [each.source for each in repaired.imports()] == ["f1.csv"]
    np.testing.assert_array_equal(repaired.matrix(), f1.matrix())


def test_what_a_model_was_asked_with_is_kept_by_data_set(tmp_path):
    cache = EvaluationCache(tmp_path / "c", create=True)
    cache.append("m", ["a/1"], [1], provenance={"tasks": {"a": {"num_fewshot": 0}}})
    more = {"a": {"template": "t"}, "b": {"num_fewshot": 5}}
    cache.append("m", ["b/1"], [1], provenance={"tasks": more})
    tasks = {"a": {"num_fewshot": 0, "template": "t"}, "b": {"num_fewshot": 5}}
    assert cache.models()["m"]["tasks"] == tasks and cache.verify() == []
    with pytest.raises(
        BadInput, match=r"'m' on a: has num_fewshot = 0 in this cache, not 5.*'m \["
    ):
        cache.append("m", ["a/2"], [1], provenance={"tasks": {"a": {"num_fewshot": 5}}})


def test_what_was_left_out_is_said_with_an_example():
    record = Imported("x.csv", ("2 models × 3 samples",), (LeftOut("rows", 2, "line 3"),))
    assert record.lines() == ["2 models × 3 samples", "left out: rows (2), for example line 3"]
    assert LeftOut("rows", 1, "line 3").line() == "left out: rows (1): line 3"
    assert Imported.from_text(record.to_text()) == record


def test_imports_are_kept_in_the_cache(f1):
    (record,) = f1.imports()
    assert record.source == "f1.csv" and record.understood[0] == "1 model × 2 samples"
    assert (
        "squad F1: 2 samples, scores from 0 to 1, mean 0.7000; higher is better"
        in record.understood[2]
    )
    with f1.index.writing() as db:
        records.add_imports(db, [record])
    assert f1.imports() == [record]
