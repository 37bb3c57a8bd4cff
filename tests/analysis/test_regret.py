"""Regret against hand-computed sums, and its refusals."""

import json
import math

import pytest

from nevis_stream.analysis.methods import average_regret
from nevis_stream.analysis.regret import compute_error_regret, find_reference
from nevis_stream.analysis.runs import read_runs
from nevis_stream.analysis.seeds import group_by_seed
from nevis_stream.run_directory.ledger import Ledger
from tests.report.synthetic import SyntheticRun

NAMES = [f"task_{i:03d}" for i in range(1, 5)]
INDEP = SyntheticRun(errors=tuple(zip(NAMES, (0.5, 0.4, 0.3, 0.2), strict=True)))
OURS = INDEP.but(learner="ft_d", errors=tuple(zip(NAMES, (0.5, 0.2, 0.4, 0.1), strict=True)))


def pair(tmp_path, ours=OURS, indep=INDEP):
    return Ledger(ours.write(tmp_path / "ours")), Ledger(indep.write(tmp_path / "indep"))


def runs_of(tmp_path, *runs):
    return read_runs([run.write(tmp_path / str(i)) for i, run in enumerate(runs)])[0]


def test_the_whole_stream_and_the_judged_part(tmp_path):
    ours, indep = pair(tmp_path)
    whole = compute_error_regret(ours, indep, judged_only=False)
    assert whole.task_ids == tuple(NAMES)
    assert whole.differences == pytest.approx((0.0, -0.2, 0.1, -0.1))
    assert whole.values == pytest.approx((0.0, -0.2, -0.1, -0.2))
    judged = compute_error_regret(ours, indep, judged_only=True)
    assert judged.orders == (3, 4)
    assert judged.values == pytest.approx((0.1, 0.0))
    assert judged.values[-1] == pytest.approx(0.0)


def test_against_itself_it_is_zero_everywhere(tmp_path):
    _, indep = pair(tmp_path)
    assert set(compute_error_regret(indep, indep, judged_only=False).values) == {0.0}


def test_it_ends_before_an_undefined_error(tmp_path):
    errors = (*OURS.errors[:2], ("task_003", None), OURS.errors[3])
    curve = compute_error_regret(*pair(tmp_path, OURS.but(errors=errors)), judged_only=False)
    assert curve.values[:2] == pytest.approx((0.0, -0.2))
    assert all(map(math.isnan, curve.values[2:]))
    assert "task_003" in curve.reason


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"digest": "f" * 16}, "stream_digest"),
        ({"protocol": "meta_train"}, "protocol"),
        ({"events": 4}, "unfinished"),
        ({"tasks": 5, "meta_test": 3}, "same tasks"),
        ({"task_name": "other_{}"}, "same tasks"),
    ],
)
def test_runs_that_cannot_be_compared_have_no_curve(tmp_path, changes, words):
    curve = compute_error_regret(*pair(tmp_path, OURS.but(**changes)), judged_only=False)
    assert curve.values == ()
    assert words in curve.reason
    assert not curve.values


def test_other_numbers_of_samples_cannot_be_compared(tmp_path):
    path = OURS.write(tmp_path / "ours") / "ledger.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    records[2]["n"] += 1
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    curve = compute_error_regret(
        Ledger(path.parent), Ledger(INDEP.write(tmp_path / "indep")), judged_only=True
    )
    assert curve.reason == "task_001 was scored on 52 and on 51 samples"


def test_the_reference_has_the_same_budget_and_seed(tmp_path):
    runs = runs_of(tmp_path, OURS, INDEP.but(seed=1), INDEP.but(budget="large"), INDEP)
    assert find_reference(runs[0], runs) == (runs[3], "")
    result, reason = find_reference(runs[0], runs[:3])
    assert result is None
    assert reason == "no indep run with budget small and seed 0"


def test_an_unfinished_or_an_ambiguous_reference_is_none(tmp_path):
    runs = runs_of(tmp_path, OURS, INDEP.but(events=3))
    assert "unfinished" in find_reference(runs[0], runs)[1]
    runs = runs_of(tmp_path / "more", OURS, INDEP, INDEP.but(config=(("lr", 1),)))
    assert "more than one" in find_reference(runs[0], runs)[1]


def test_the_reference_with_the_same_settings_is_preferred(tmp_path):
    settings = ((OURS, 50), (INDEP, 10), (INDEP, 50), (INDEP, 90))
    runs = runs_of(tmp_path, *(run.but(config=(("steps", steps),)) for run, steps in settings))
    assert find_reference(runs[0], runs) == (runs[2], "")
    result, remark = find_reference(runs[0], runs[:2])
    assert result == runs[1]
    assert remark == "the reference, 1, differs in learner.steps"
    method = average_regret(group_by_seed(runs[:1])[0], runs[:2], judged_only=True)
    assert (method.n, method.reasons) == (1, (f"0: {remark}",))


def test_a_reference_of_another_scale_is_remarked(tmp_path):
    runs = runs_of(tmp_path, OURS.but(flops=10), INDEP.but(flops=2400))
    result, remark = find_reference(runs[0], runs)
    assert result == runs[1]
    assert remark == "the reference, 1, costs 240 times as many training FLOPs"


def test_a_method_is_the_mean_over_its_seeds(tmp_path):
    errors = tuple(zip(NAMES, (0.5, 0.4, 0.3, 0.0), strict=True))
    ours = [OURS, OURS.but(seed=1, errors=errors), OURS.but(seed=2)]
    runs = runs_of(tmp_path, *ours, INDEP, INDEP.but(seed=1))
    group = group_by_seed(runs)[0]
    result = average_regret(group, runs, judged_only=False)
    assert result.n == 2
    assert [value.mean for value in result.curve] == pytest.approx([0.0, -0.1, -0.05, -0.2])
    assert result.curve[2].std == pytest.approx(0.1 / math.sqrt(2))
    assert result.reasons == ("2: no indep run with budget small and seed 2",)


def test_a_seed_with_an_undefined_error_ends_the_mean_for_all(tmp_path):
    undefined = (*OURS.errors[:2], ("task_003", None), OURS.errors[3])
    ours = [OURS, OURS.but(seed=1, errors=undefined)]
    runs = runs_of(tmp_path, *ours, INDEP, INDEP.but(seed=1))
    result = average_regret(group_by_seed(runs)[0], runs, judged_only=False)
    assert [value.n for value in result.curve] == [2, 2, 0, 0]
    assert math.isnan(result.curve[2].mean)
    assert result.reasons == ("1: ends before task_003, whose error is undefined",)
