"""Slices against hand-made groups of tasks, and what they do where facts or errors are missing."""

import math

import numpy as np
import pytest

from nevis_stream import run
from nevis_stream.analysis.bootstrap import bound_over_tasks
from nevis_stream.analysis.runs import read_runs
from nevis_stream.analysis.seeds import group_by_seed
from nevis_stream.analysis.slices import (
    DIMENSIONS,
    average_resolution,
    compare_slices,
    count_training_samples,
    make_table,
)
from nevis_stream.run_directory.records import TrainRecord
from tests import toy
from tests.report.synthetic import SyntheticRun

RUN = SyntheticRun(tasks=12, meta_test=4)
OURS = RUN.but(learner="ft_d", skill=0.1)
TASKS = range(1, 13)


def groups_of(tmp_path, *runs):
    result, left_out = read_runs([run.write(tmp_path / f"{i}") for i, run in enumerate(runs)])
    assert not left_out
    return result, {group.label: group for group in group_by_seed(result)}


def by_name(found, dimension):
    return {item.name: item for item in found if item.dimension == dimension}


def test_slices_are_means_over_their_tasks_and_seeds(tmp_path):
    runs, groups = groups_of(
        tmp_path, *(run.but(seed=seed) for run in (RUN, OURS) for seed in (0, 1))
    )
    result = compare_slices(groups["ft_d · small"], runs)
    domains = by_name(result, "domain")
    assert set(domains) == {"object", "medical", "texture", "face"}
    errors = np.array([[OURS.but(seed=s).error(t) for s in (0, 1)] for t in TASKS if t % 4 == 1])
    indep = np.array([[RUN.but(seed=s).error(t) for s in (0, 1)] for t in TASKS if t % 4 == 1])
    medical = domains["medical"]
    assert (medical.tasks, medical.pairs, medical.error.n) == (3, 3, 2)
    assert medical.error.mean == pytest.approx(errors.mean())
    assert medical.error.std == pytest.approx(errors.mean(axis=0).std(ddof=1))
    assert medical.difference == pytest.approx((errors - indep).mean())
    assert math.isnan(medical.low) and "at least 4" in medical.reason
    parts = by_name(result, "part of the stream")
    assert [(name, item.tasks) for name, item in parts.items()] == [
        ("meta-train", 8),
        ("meta-test", 4),
        ("whole stream", 12),
    ]
    every = [
        np.array([[run.but(seed=s).error(t) for s in (0, 1)] for t in TASKS]) for run in (OURS, RUN)
    ]
    interval = bound_over_tasks(*every)
    whole = parts["whole stream"]
    assert (whole.low, whole.high) == pytest.approx((interval.low, interval.high))
    assert whole.low < whole.difference < whole.high


def test_every_dimension_covers_every_task_once(tmp_path):
    runs, groups = groups_of(tmp_path, RUN, OURS)
    for dimension in DIMENSIONS:
        result = by_name(compare_slices(groups["ft_d · small"], runs), dimension)
        result.pop("whole stream", None)
        assert sum(item.tasks for item in result.values()) == 12
        mean = sum(item.tasks * item.error.mean for item in result.values()) / 12
        assert mean == pytest.approx(np.mean([OURS.error(task) for task in TASKS]))


def train(**facts):
    """A train record with these facts."""
    return TrainRecord.from_json(RUN.records()[1] | facts)


@pytest.mark.parametrize(
    ("samples", "name"),
    [
        (0, "< 1k"),
        (999, "< 1k"),
        (1000, "1k–10k"),
        (9999, "1k–10k"),
        (10_000, "10k–100k"),
        (100_000, "> 100k"),
    ],
)
def test_groups_by_training_samples(samples, name):
    ((_, result),) = DIMENSIONS["training samples"](train(n_train=samples, n_dev=0))
    assert result == name


@pytest.mark.parametrize(
    ("height", "width", "name"),
    [(63, 64, "< 64"), (64, 64, "64–127"), (32, 512, "128–255"), (480, 480, "256–511"), (1024, 256, "≥ 512"),  # noqa: E501
     (None, None, "not recorded")],
)  # fmt: skip
def test_groups_by_resolution(height, width, name):
    ((_, result),) = DIMENSIONS["mean resolution, px"](train(mean_height=height, mean_width=width))
    assert result == name


def test_facts_that_are_not_recorded():
    unknown = train(n_train=None, n_dev=None)
    assert math.isnan(average_resolution(unknown)) and math.isnan(count_training_samples(unknown))
    assert count_training_samples(train(n_train=None, n_dev=None, size=102)) == 102
    assert count_training_samples(train(n_train=80, n_dev=20)) == 100
    assert (
        DIMENSIONS["year"](train(year=None))[0][1]
        == DIMENSIONS["domain"](train(domain=""))[0][1]
        == "not recorded"
    )
    assert DIMENSIONS["year"](train(year=2019)) == [(2015, "2015–2019")]


def test_an_undefined_error_leaves_its_task_out_and_n_says_so(tmp_path):
    lacking = OURS.but(errors=(("task_001", None),))
    runs, groups = groups_of(tmp_path, RUN.but(errors=(("task_005", None),)), lacking)
    medical = by_name(compare_slices(groups["ft_d · small"], runs), "domain")["medical"]
    assert (medical.tasks, medical.pairs) == (2, 1)
    assert medical.error.mean == pytest.approx(np.mean([OURS.error(5), OURS.error(9)]))
    assert medical.difference == pytest.approx(OURS.error(9) - RUN.error(9))


def test_without_a_reference_there_is_an_error_but_no_difference(tmp_path):
    runs, groups = groups_of(
        tmp_path, RUN.but(budget="big"), OURS, OURS.but(learner="mt", events=7)
    )
    for item in compare_slices(groups["ft_d · small"], runs):
        assert math.isnan(item.difference) and "no indep run with budget small" in item.reason
        assert not math.isnan(item.error.mean)
    assert {item.reason for item in compare_slices(groups["indep · big"], runs)} == {
        "the reference itself"
    }
    results = {label: compare_slices(group, runs) for label, group in groups.items()}
    assert results["mt · small"] == []
    frame = make_table(results, list(groups.values()))
    (unfinished,) = frame[frame["label"] == "mt · small"].to_dict("records")
    assert "4 of 12 tasks trained" in unfinished["reason"] and math.isnan(unfinished["error"])


def test_intervals_stay_within_what_is_possible(tmp_path):
    tasks = [f"task_{order:03d}" for order in (9, 10, 11, 12)]
    higher, lower = (
        tuple(zip(tasks, e, strict=True))
        for e in ((0.96, 0.95, 0.58, 0.99), (0.03, 0.06, 0.38, 0.04))
    )
    runs, groups = groups_of(tmp_path, RUN.but(errors=lower), OURS.but(errors=higher))
    results = [
        item for item in compare_slices(groups["ft_d · small"], runs) if item.low == item.low
    ]
    assert results and all(-1 <= item.low <= item.high <= 1 for item in results)
    assert any(item.high == 1 for item in results)


def test_meta_train_has_the_meta_train_part_alone(tmp_path):
    runs, groups = groups_of(tmp_path, *(run.but(protocol="meta_train") for run in (RUN, OURS)))
    parts = by_name(compare_slices(groups["ft_d · small"], runs), "part of the stream")
    assert [(name, item.tasks) for name, item in parts.items()] == [
        ("meta-train", 8),
        ("whole stream", 8),
    ]


def test_a_run_tells_the_mean_size_of_its_pictures(tmp_path):
    tasks = toy.stream()
    trained = run(toy.ToyLearner(), tasks, tmp_path / "run").of_kind(TrainRecord)
    for task, train in zip(tasks.tasks, trained, strict=True):
        sizes = tasks.splits(task)["train"].images.sizes
        assert (train.mean_height, train.mean_width) == tuple(sizes.mean(axis=0).round(2))
