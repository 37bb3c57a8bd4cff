"""Pairs of methods, references, and learners over their budgets."""

import math

import pytest

from nevis_stream.analysis import methods, pairs
from nevis_stream.analysis.methods import list_method_points
from nevis_stream.analysis.runs import read_runs
from nevis_stream.analysis.seeds import group_by_seed
from tests.report.synthetic import SyntheticRun

RUN = SyntheticRun(tasks=8, meta_test=5, thumbnails=False)


def groups(tmp_path, *runs):
    return group_by_seed(read_runs([run.write(tmp_path / str(i)) for i, run in enumerate(runs)])[0])


def test_every_pair_of_finished_methods_once(tmp_path):
    skills = {"indep": 0, "b": 0.2, "c": 0.3}
    runs = [
        RUN.but(seed=seed, learner=name, skill=skill)
        for seed in (0, 1)
        for name, skill in skills.items()
    ]
    result, reasons = pairs.compare_pairs(
        groups(tmp_path, *runs, RUN.but(learner="half", events=5))
    )
    assert [(pair.a.learner, pair.b.learner) for pair in result] == [
        ("b", "c"),
        ("b", "indep"),
        ("c", "indep"),
    ]
    assert reasons == ["half · small: no finished run"]
    frame = pairs.make_table(result)
    assert frame["seeds_a"].tolist() == [2, 2, 2]
    assert (frame["says"][1], frame["cost_ratio"][1]) == ("A better", 1)
    assert frame["difference"][1] == pytest.approx(result[1].over_seeds.estimate)


def test_the_reference_is_indep_of_the_budget_else_the_nearest_in_cost(tmp_path):
    runs = [RUN.but(budget=budget, flops=flops) for budget, flops in (("s", 100), ("l", 10_000))]
    runs += [
        RUN.but(learner="a", budget="s", flops=9000),
        RUN.but(learner="b", budget="m", flops=7000),
    ]
    result = pairs.compare_with_references(groups(tmp_path, *runs))
    assert {(f.a.label, f.b.label) for f in result} == {
        ("a · s", "indep · s"),
        ("b · m", "indep · l"),
    }


def test_without_indep_the_best_is_the_reference(tmp_path):
    runs = [
        RUN.but(learner=name, skill=skill) for name, skill in (("a", 0), ("b", 0.3), ("c", 0.1))
    ]
    assert {f.b.learner for f in pairs.compare_with_references(groups(tmp_path, *runs))} == {"b"}
    assert pairs.compare_with_references(groups(tmp_path / "half", RUN.but(events=3))) == []


def test_learners_over_budgets(tmp_path):
    errors = {("a", "s"): 0.4, ("a", "l"): 0.2, ("b", "s"): 0.3}
    runs = [
        RUN.but(
            learner=name,
            budget=b,
            flops={"s": 10, "l": 1000}[b],
            errors=tuple((RUN.task_id(o), e) for o in range(4, 9)),
        )
        for (name, b), e in errors.items()
    ]
    learners = methods.group_points(
        list_method_points(groups(tmp_path, *runs, RUN.but(learner="half", events=3)))
    )
    costs = {10: 2 * 10 * 36, 1000: 2 * 1000 * 36}
    assert learners == {
        "a": [(pytest.approx(0.4), costs[10]), (pytest.approx(0.2), costs[1000])],
        "b": [(pytest.approx(0.3), costs[10])],
    }
    volumes = methods.measure_hypervolumes(learners).set_index("learner")
    assert volumes["hypervolume"]["a"] == pytest.approx(0.6 * 3 + 0.2 * 1)
    assert volumes["hypervolume"]["b"] == pytest.approx(0.7 * 3)
    assert volumes["hypervolume"]["all together"] == pytest.approx(0.7 * 3 + 0.1 * 1)
    assert volumes["reference_flops"].unique() == [10 * costs[1000]]
    a_b, b_a = methods.make_reach_table(learners).itertuples()
    assert (a_b.basis_a, a_b.basis_b, a_b.bound) == ("interpolated", "measured", "")
    assert (a_b.ratio, b_a.ratio) == (pytest.approx(10), pytest.approx(0.1))


def test_nothing_to_compare_is_empty():
    assert pairs.compare_pairs([]) == ([], [])
    assert pairs.make_table([]).empty and methods.make_reach_table({}).empty
    assert methods.measure_hypervolumes({}).empty
    assert math.isnan(methods.measure_hypervolumes({"a": []})["hypervolume"][0])
