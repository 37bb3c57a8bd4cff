"""Runs that differ only in their seed."""

import math
import statistics

import pytest

from nevis_stream.analysis.methods import list_method_points
from nevis_stream.analysis.runs import read_runs
from nevis_stream.analysis.seeds import group_by_seed, spread
from tests.report.synthetic import SyntheticRun

RUN = SyntheticRun()


def groups_of(tmp_path, *runs):
    return group_by_seed(read_runs([run.write(tmp_path / str(i)) for i, run in enumerate(runs)])[0])


def test_seeds_are_one_method_and_other_settings_are_not(tmp_path):
    other = RUN.but(config=(("lr", 0.5),))
    groups = groups_of(tmp_path, RUN.but(seed=2), RUN, other, RUN.but(budget="large"))
    assert {g.label: [run.header.seed for run in g.runs] for g in groups} == {
        "indep · small · lr=unset": [0, 2],
        "indep · small · lr=0.5": [0],
        "indep · large": [0],
    }


def test_many_differing_settings_have_no_label_but_their_hash(tmp_path):
    three = groups_of(tmp_path / "three", RUN, RUN.but(config=(("a", 1), ("b", 2), ("c", 3))))
    assert {group.apart for group in three} == {"a=unset, b=unset, c=unset", "a=1, b=2, c=3"}
    four = groups_of(
        tmp_path / "four", RUN, RUN.but(config=(("a", 1), ("b", 2), ("c", 3), ("d", 4)))
    )
    assert all(group.apart.startswith("config ") for group in four)


def test_methods_stand_by_learner_and_cost(tmp_path):
    runs = [RUN.but(budget=b, flops=f) for b, f in (("b", 30), ("c", 10), ("a", 20))]
    groups = groups_of(tmp_path, RUN.but(learner="mt"), *runs)
    assert [group.label for group in groups] == [
        "indep · c",
        "indep · a",
        "indep · b",
        "mt · small",
    ]


def test_without_a_config_nothing_is_averaged(tmp_path):
    paths = [RUN.but(seed=seed).write(tmp_path / str(seed)) for seed in (0, 1)]
    (paths[0] / "config.json").unlink()
    (paths[1] / "config.json").write_text("[")
    groups = group_by_seed(read_runs(paths)[0])
    assert [len(group.runs) for group in groups] == [1, 1]
    assert len({group.label for group in groups}) == 2


def test_a_learner_without_a_budget(tmp_path):
    (group,) = groups_of(tmp_path, RUN.but(budget=None), RUN.but(budget=None, seed=1))
    assert (group.label, group.budget) == ("indep", "")


def test_spread_is_the_sample_standard_deviation_of_what_is_defined():
    values = [0.1, math.nan, 0.4, 0.2]
    result = spread(values)
    assert result.n == 3
    assert result.mean == pytest.approx(0.7 / 3)
    assert result.std == pytest.approx(statistics.stdev([0.1, 0.4, 0.2]))


def test_one_value_has_no_spread_and_stays_exact():
    result = spread([10**21 + 1])
    assert (result.mean, result.n) == (10**21 + 1, 1)
    assert math.isnan(result.std)
    assert spread([math.nan]).n == 0
    assert math.isnan(spread([]).mean)


def test_points_of_methods_average_finished_seeds_and_say_which_are_not(tmp_path):
    runs = [
        RUN.but(errors=(("task_003", 0.5), ("task_004", 0.3)), flops=100),
        RUN.but(errors=(("task_003", 0.5), ("task_004", 0.5)), seed=1, flops=200),
        RUN.but(seed=2, events=3),
        RUN.but(learner="worse", errors=(("task_003", 0.9), ("task_004", 0.9)), flops=500),
    ]
    ours, worse = list_method_points(groups_of(tmp_path, *runs))
    assert (ours.error.mean, ours.error.n) == (pytest.approx(0.45), 2)
    assert ours.error.std == pytest.approx(statistics.stdev([0.4, 0.5]))
    assert ours.paper_total.mean == 20 * 150
    assert len(ours.reasons) == 1
    assert "3 of 8 events" in ours.reasons[0]
    assert (ours.on_paper_front, worse.on_paper_front, worse.on_full_front) == (True, False, False)
