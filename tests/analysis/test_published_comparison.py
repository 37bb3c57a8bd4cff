"""Errors of runs next to the published ones: which task is compared with which, and how other data
are described.
"""

import math

import pytest

from nevis_stream.analysis.published_comparison import compare_with_published
from nevis_stream.analysis.runs import read_runs
from nevis_stream.analysis.seeds import group_by_seed
from nevis_stream.catalogue import published
from nevis_stream.experiments import published as published_runs
from tests.report.synthetic import SyntheticRun

ROWS = (
    {
        "task_id": "mnist",
        "dataset_id": "mnist",
        "num_classes": 10,
        "n_train": 50_000,
        "n_dev": 1000,
    },
    {
        "task_id": "own_brodatz",
        "dataset_id": "brodatz",
        "num_classes": 7,
        "n_train": 40,
        "n_dev": 9,
    },
    {"task_id": "pico_coins", "dataset_id": "pico_coins"},
)


class Named(SyntheticRun):
    """A run whose tasks are the rows above."""

    def task_id(self, order):
        return ROWS[order - 1]["task_id"]

    def _train(self, order, event):
        return super()._train(order, event) | ROWS[order - 1]


def groups_of(tmp_path, *runs):
    return group_by_seed(read_runs([run.write(tmp_path / str(i)) for i, run in enumerate(runs)])[0])


def named(**changes):
    return Named(tasks=3, meta_test=1, errors=(("mnist", 0.25),)).but(**changes)


def test_a_task_is_compared_with_its_id_or_its_data_set(tmp_path):
    rows = compare_with_published(
        groups_of(tmp_path, named(seed=0), named(seed=1, errors=(("mnist", 0.35),)))
    )
    assert [(row.task_id, row.published_task) for row in rows] == [
        ("mnist", "mnist"),
        ("own_brodatz", "brodatz"),
    ]
    mnist, brodatz = rows
    (own,) = mnist.own
    assert (own.error.mean, own.error.n) == (pytest.approx(0.3), 2)
    assert own.difference == pytest.approx(0.3 - published.read_errors()["mnist"]["indep"])
    assert mnist.data_difference == ""
    assert brodatz.data_difference == "7 classes, published 111; 49 samples, published 672"


def test_a_learner_that_is_not_published_has_no_difference(tmp_path):
    rows = compare_with_published(groups_of(tmp_path, named(learner="bhpo")))
    assert all(
        math.isnan(row.own[0].difference) and not math.isnan(row.own[0].error.mean) for row in rows
    )


def test_an_undefined_or_missing_error_is_nan(tmp_path):
    groups = groups_of(tmp_path, named(errors=(("mnist", None),)), named(learner="mt", events=1))
    mnist = compare_with_published(groups)[0]
    assert all(math.isnan(own.error.mean) and math.isnan(own.difference) for own in mnist.own)


def test_other_splits_and_other_tasks_are_not_compared(tmp_path):
    assert compare_with_published(groups_of(tmp_path / "a", named(protocol="meta_train"))) == []
    assert compare_with_published(groups_of(tmp_path / "b", SyntheticRun())) == []
    paths = published_runs.write(tmp_path / "published")
    assert compare_with_published(group_by_seed(read_runs(paths)[0])) == []
