"""Regret in FLOPs against sums by hand, and the choice of an indep run that cost as much."""

import math

import pytest

from nevis_stream.analysis import tables
from nevis_stream.analysis.methods import average_flops_regret, average_regret
from nevis_stream.analysis.points import PARTS, point
from nevis_stream.analysis.regret import compute_flops_regret, find_matched_reference
from nevis_stream.analysis.runs import read_runs
from nevis_stream.analysis.seeds import group_by_seed
from tests.report.synthetic import SyntheticRun

INDEP = SyntheticRun()  # its tasks cost 2000, 4000, 6000 and 8000 FLOPs of training
OURS = INDEP.but(learner="mt", flops=1500, init_flops=107)


def runs_of(tmp_path, *runs):
    return read_runs([run.write(tmp_path / str(i)) for i, run in enumerate(runs)])[0]


def test_flops_add_up_along_the_stream(tmp_path):
    indep, ours = runs_of(tmp_path, INDEP, OURS)
    curve, full = compute_flops_regret(ours, indep), compute_flops_regret(ours, indep, PARTS)
    assert curve.values == (1000, 3000, 6000, 10_000)
    assert curve.orders == (1, 2, 3, 4) and curve.reason == ""
    validation = [2 * (150 - 100) * task for task in (1, 2, 3, 4)]
    assert full.values == tuple(
        paper + 100 + more for paper, more in zip(curve.values, validation, strict=True)
    )
    assert curve.values[-1] == point(ours.ledger).paper_total - point(indep.ledger).paper_total
    assert full.values[-1] == point(ours.ledger).full_total - point(indep.ledger).full_total
    assert set(compute_flops_regret(indep, indep, PARTS).values) == {0}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"events": 4}, "unfinished"),
        ({"tasks": 5, "meta_test": 3, "digest": "f" * 16}, "same tasks"),
    ],
)
def test_no_curve_has_its_reason(tmp_path, changes, words):
    [indep], [ours] = runs_of(tmp_path / "a", INDEP), runs_of(tmp_path / "b", OURS.but(**changes))
    curve = compute_flops_regret(ours, indep)
    assert curve.values == () and words in curve.reason


def test_the_reference_costs_as_much_whatever_its_budget(tmp_path):
    cheap, seed_1, equal, ours = runs_of(
        tmp_path,
        INDEP,
        INDEP.but(budget="mid", flops=1500, seed=1),
        INDEP.but(budget="large", flops=1540),
        OURS,
    )
    everyone = [cheap, seed_1, equal, ours]
    # the run's seed goes before the nearer cost
    assert find_matched_reference(ours, everyone) == (equal, "")
    assert find_matched_reference(ours, [cheap, seed_1, ours]) == (seed_1, "")
    result, reason = find_matched_reference(ours, [cheap, ours])
    assert result is None and reason.endswith(
        f"the nearest, {cheap.name}, cost 0.667 times as many"
    )
    assert find_matched_reference(ours, [ours]) == (
        None,
        "no finished indep run whose cost is known",
    )


@pytest.mark.parametrize(
    "changes",
    [{"events": 6}, {"digest": "f" * 16}, {"protocol": "meta_train"}, {"learner": "bhpo"}],
)
def test_other_runs_are_no_reference(tmp_path, changes):
    other, ours = runs_of(tmp_path, INDEP.but(flops=1500, **changes), OURS)
    assert find_matched_reference(ours, [other, ours])[0] is None


def test_a_run_without_cost_has_no_match(tmp_path):
    indep, ours, half = runs_of(tmp_path, INDEP, OURS.but(flops=0), OURS.but(seed=1, events=3))
    assert find_matched_reference(ours, [indep, ours]) == (None, "training cost nothing")
    assert "unfinished" in find_matched_reference(half, [indep, half])[1]


def test_seeds_are_averaged_and_tables_are_exact(tmp_path):
    runs = runs_of(
        tmp_path,
        *(run.but(seed=seed) for run in (INDEP, OURS.but(flops=10**17)) for seed in (0, 1)),
    )
    ours = next(group for group in group_by_seed(runs) if group.learner == "mt")
    curve = average_flops_regret(ours, runs)
    assert (curve.n, curve.curve[-1].mean) == (2, pytest.approx(20 * (10**17 - 1000)))
    frame = tables.tabulate_flops_regrets(runs)
    last = frame[(frame["run"] == "2") & (frame["order"] == 4)].iloc[0]
    assert last["flops"] == 20 * (10**17 - 1000) and isinstance(last["flops"], int)
    matched = average_regret(ours, runs, True, find_matched_reference)
    assert matched.n == 0 and all("no indep run within 5%" in reason for reason in matched.reasons)
    assert math.isnan(
        tables.tabulate_regrets(runs, find_matched_reference).query("run == '2'")["regret"].iloc[0]
    )


def test_a_reference_that_differs_is_named_with_the_flops(tmp_path):
    runs = runs_of(tmp_path, INDEP.but(config=(("steps", 7),)), OURS.but(config=(("steps", 9),)))
    ours = next(group for group in group_by_seed(runs) if group.learner == "mt")
    curve = average_flops_regret(ours, runs)
    assert curve.n == 1
    assert curve.reasons == ("1: the reference, 0, differs in learner.steps",)
