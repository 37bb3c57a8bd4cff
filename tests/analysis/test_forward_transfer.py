"""Forward transfer by hand."""

import json
import math

import numpy as np
import pytest

from nevis_stream.analysis.forward_transfer import (
    average_transfer,
    measure_areas,
    measure_forward_transfer,
)
from nevis_stream.run_directory.ledger import Ledger
from tests.report.synthetic import SyntheticRun

RUN = SyntheticRun(tasks=5, meta_test=2, thumbnails=False)


def ledger(path, datasets, curves):
    """A run whose tasks have these data sets and whose chosen trials have these curves."""
    RUN.write(path)
    records = RUN.records()
    for train, dataset, curve in zip(
        [r for r in records if r["kind"] == "train"], datasets, curves, strict=True
    ):
        train["dataset_id"] = dataset
        train["trials"][train["chosen"]]["info"]["curve"] = [
            [step, None, error] for step, error in curve
        ]
    (path / "ledger.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return Ledger(path)


FIRST = [(0, 0.8), (10, 0.4)]  # AUC 0.4
SECOND = [(0, 0.4), (10, 0.0)]  # AUC 0.8


def test_repeats_and_their_values_by_hand(tmp_path):
    result = measure_forward_transfer(
        ledger(tmp_path / "r", "abaca", [FIRST, SECOND, SECOND, FIRST, [(0, 0.8), (10, 0.8)]])
    )
    assert [repeat.tasks for repeat in result] == [
        ("task_001", "task_003"),
        ("task_001", "task_005"),
    ]
    assert result[0].areas == (pytest.approx(0.4), pytest.approx(0.8))
    assert [repeat.value for repeat in result] == [pytest.approx(2 / 3), pytest.approx(-1 / 3)]


def test_curves_of_other_lengths_are_compared_where_both_are():
    longer = [(0, 0.8), (20, 0.0)]  # 0.4 at step 10: over 0 to 10 the same as FIRST
    assert measure_areas(FIRST, longer) == (pytest.approx(0.4), pytest.approx(0.4))
    assert measure_areas(longer, FIRST) == (pytest.approx(0.4), pytest.approx(0.4))
    assert measure_areas([(5, 0.5), (10, 0.5)], FIRST)[1] == pytest.approx(0.5)


def test_an_uneven_grid_weighs_steps_not_points():
    dense = [(0, 1.0), (1, 0.9), (2, 0.8), (4, 0.6), (10, 0.0)]
    assert measure_areas(dense, [(0, 1.0), (10, 0.0)]) == (pytest.approx(0.5), pytest.approx(0.5))


def test_what_is_undefined_says_why(tmp_path):
    perfect = [(0, 0.0), (10, 0.0)]
    result = measure_forward_transfer(
        ledger(tmp_path / "r", "aabbb", [perfect, SECOND, [], SECOND, [(3, 0.5)]])
    )
    assert all(math.isnan(repeat.value) for repeat in result)
    assert ["nothing left" in repeat.reason for repeat in result] == [True, False, False]
    assert all("in common" in repeat.reason for repeat in result[1:])


def test_a_stream_without_repeats_has_none(tmp_path):
    assert measure_forward_transfer(Ledger(RUN.write(tmp_path / "r"))) == []


def test_the_mean_is_over_repeats_with_a_value_in_every_seed():
    values = np.array([[0.1, 0.3], [0.2, math.nan], [0.4, 0.2], [0.3, 0.3], [0.5, 0.1]])
    result = average_transfer(values)
    assert (result.tasks, result.seeds) == (4, (2, 1))
    assert result.estimate == pytest.approx(0.275)
    assert result.low < 0.275 < result.high
    assert "no repeat" in average_transfer(np.full((2, 1), math.nan)).reason
    assert "at least 4" in average_transfer(np.full((2, 1), 0.5)).reason
