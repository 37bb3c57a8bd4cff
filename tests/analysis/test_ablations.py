"""Variants side by side: only what judges the same tasks on the same data, with the numbers
computed by hand.
"""

import math

import pytest

from nevis_stream.analysis.ablations import compare_variants, find_variant
from nevis_stream.analysis.runs import read_runs
from nevis_stream.catalogue import published
from tests.report.synthetic import SyntheticRun

ERRORS = (("task_001", 0.9), ("task_002", 0.7), ("task_003", 0.5), ("task_004", 0.2))
FULL = SyntheticRun(learner="FT-d", stream="full", digest="f" * 16, errors=ERRORS)


def short(draw, errors, seed=0, digest=None):
    """A stream without the first tasks: the last two are the judged ones of FULL."""
    name = f"random_40@{draw}"
    return FULL.but(stream=name, digest=digest or f"{draw}" * 16, errors=errors, seed=seed, skip=1)


def found(tmp_path, *runs):
    return compare_variants(
        read_runs([run.write(tmp_path / str(i)) for i, run in enumerate(runs)])[0]
    )


def test_means_are_over_the_common_judged_tasks(tmp_path):
    first = short(0, (("task_003", 0.6), ("task_004", 0.3)))
    second = short(1, (("task_003", 0.7), ("task_004", 0.4)))
    (ablation,) = found(tmp_path, first, FULL, second, FULL.but(learner="MT"))
    assert (ablation.label, ablation.reference, ablation.compared) == (
        "FT-d · small",
        "full",
        ("task_003", "task_004"),
    )
    full, random = ablation.variants
    assert (full.name, full.runs, full.tasks, full.judged) == ("full", 1, 4, 2)
    assert full.error.mean == pytest.approx(0.35) and math.isnan(full.difference)
    assert full.whole_error.mean == pytest.approx((0.9 + 0.7 + 0.5 + 0.2) / 4)
    assert (random.name, random.runs, random.draws, random.seeds, random.tasks) == (
        "random_40",
        2,
        2,
        1,
        3,
    )
    assert random.error.mean == pytest.approx(0.5) and random.error.std == pytest.approx(
        0.1 / math.sqrt(2)
    )
    assert random.difference == pytest.approx(0.15)
    assert random.whole_error.n == 0
    assert random.paper_total.mean == 2 * 1000 * (2 + 3 + 4)
    assert random.published["error"] == 0.282 and full.published["std"] != full.published["std"]


def test_another_order_of_the_same_tasks_has_an_error_over_the_whole_stream(tmp_path):
    shuffled = FULL.but(
        stream="shuffled@1",
        digest="a" * 16,
        errors=tuple((task, error + 0.1) for task, error in ERRORS[:3]),
    )
    (ablation,) = found(tmp_path, FULL, shuffled.but(errors=(*shuffled.errors, ("task_004", 0.2))))
    assert ablation.variants[1].name == "shuffled" and ablation.variants[1].published is None
    assert ablation.variants[1].whole_error.mean == pytest.approx((1.0 + 0.8 + 0.6 + 0.2) / 4)


def test_what_judges_other_tasks_or_other_data_is_left_out_with_the_reason(tmp_path):
    same = short(0, (("task_003", 0.6), ("task_004", 0.3)))
    other = FULL.but(stream="short", digest="b" * 16, task_name="other_{:03d}", errors=())
    cut = FULL.but(stream="shuffled@2", digest="c" * 16, events=3)
    paths = [run.write(tmp_path / str(i)) for i, run in enumerate((FULL, same, other, cut))]
    changed = FULL.but(stream="shuffled@3", digest="d" * 16).write(tmp_path / "changed")
    for path, fingerprint in ((paths[0], "x"), (paths[1], "x"), (changed, "y")):
        (path / "stream.csv").write_text(
            f"task_id,fingerprint\ntask_003,{fingerprint}\ntask_004,x\n"
        )
    (ablation,) = compare_variants(read_runs([*paths, changed])[0])
    assert [variant.name for variant in ablation.variants] == ["full", "random_40"]
    reasons = dict(ablation.left_out)
    assert reasons["2"] == "judges 0 of the 2 tasks that full judges, on the same data"
    assert reasons["changed"] == "judges 1 of the 2 tasks that full judges, on the same data"
    assert reasons["3"].startswith("unfinished")


def test_partial_streams_and_other_protocols_are_not_mixed(tmp_path):
    partial = FULL.but(digest="e" * 16 + "-partial")
    (ablation,) = found(tmp_path, FULL, partial)
    assert [variant.name for variant in ablation.variants] == ["full", "full+partial"]
    assert found(tmp_path / "b", FULL, FULL.but(digest="a" * 16, protocol="meta_train")) == []


def test_one_stream_or_one_method_each_is_no_ablation(tmp_path):
    assert found(tmp_path, FULL, FULL.but(seed=1)) == []
    assert found(tmp_path / "b", FULL, FULL.but(learner="MT", digest="a" * 16)) == []


def test_published_variants_are_streams():
    from nevis_stream.streams.rows import stream_names

    assert set(published.read_variants()) <= set(stream_names())
    assert find_variant("remove_random_30@4") in published.read_variants()
