"""A run's point against numbers computed by hand."""

import math

import pytest

from nevis_stream.analysis.points import point, sum_phase_flops
from nevis_stream.run_directory.ledger import Ledger
from tests.report.synthetic import SyntheticRun

ERRORS = (("task_001", 0.9), ("task_002", 0.7), ("task_003", 0.5), ("task_004", 0.2))
# 4 tasks, 2 trials each, 1000 x order FLOPs per trial: 2 x 1000 x (1 + 2 + 3 + 4).
PAPER_TOTAL = 20_000
# validate 2 x 100 per task, select 3 per task, predict 11 per task, init 7.
FULL_TOTAL = PAPER_TOTAL + 800 + 12 + 44 + 7


def ledger_of(tmp_path, **values):
    return Ledger(SyntheticRun(**values).write(tmp_path / "run"))


def test_meta_test_judges_the_test_errors_of_the_meta_test_tasks(tmp_path):
    result = point(ledger_of(tmp_path, errors=ERRORS))
    assert result.error == pytest.approx((0.5 + 0.2) / 2)
    assert (result.paper_total, result.full_total) == (PAPER_TOTAL, FULL_TOTAL)
    assert (result.judged, result.reason) == (2, "")


def test_meta_train_judges_the_dev_test_errors_of_the_meta_train_tasks(tmp_path):
    result = point(ledger_of(tmp_path, errors=ERRORS, protocol="meta_train"))
    assert result.error == pytest.approx((0.9 + 0.7) / 2)
    assert result.paper_total == 2 * 1000 * (1 + 2)
    assert result.judged == 2


def test_phases_add_up_and_other_trials_predictions_do_not_count(tmp_path):
    expected = {"pretrain": 7, "train": PAPER_TOTAL, "select": 12, "validate": 800, "predict": 44}
    assert sum_phase_flops(ledger_of(tmp_path)) == expected


def test_costs_are_exact_beyond_floats_and_64_bits(tmp_path):
    result = point(ledger_of(tmp_path, flops=10**20 + 1, init_flops=3))
    assert result.paper_total == 20 * (10**20 + 1)
    assert isinstance(result.full_total, int)


@pytest.mark.parametrize("events", [0, 1, 5, 8])
def test_an_unfinished_run_has_no_number_at_all(tmp_path, events):
    result = point(ledger_of(tmp_path, errors=ERRORS, events=events))
    assert all(map(math.isnan, (result.error, result.paper_total, result.full_total)))
    assert result.reason.startswith("unfinished")
    assert f"{events} of 8 events" in result.reason


def test_an_undefined_error_is_not_skipped_or_taken_as_zero(tmp_path):
    result = point(ledger_of(tmp_path, errors=(*ERRORS[:3], ("task_004", None))))
    assert math.isnan(result.error)
    assert "task_004" in result.reason
    assert "no positive <label>" in result.reason
    assert result.paper_total == PAPER_TOTAL


def test_an_undefined_error_outside_of_the_judged_part_does_not_matter(tmp_path):
    result = point(ledger_of(tmp_path, errors=(("task_001", None), *ERRORS[1:])))
    assert result.error == pytest.approx(0.35)


def test_a_stream_without_judged_tasks_has_a_cost_but_no_error(tmp_path):
    result = point(ledger_of(tmp_path, meta_test=0))
    assert math.isnan(result.error)
    assert "no task that this protocol judges" in result.reason
    assert result.paper_total == PAPER_TOTAL
