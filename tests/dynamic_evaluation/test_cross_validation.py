import numpy as np
import pytest

from nevis_stream.dynamic_evaluation import cross_validation


def test_a_width_is_that_of_the_errors_and_grows_where_few_have_tried():
    errors, ones = np.random.default_rng(0).normal(scale=0.1, size=4000), np.ones(4000)

    def width(count, groups):
        return cross_validation.error_width(errors[:count], ones[:count], groups)

    assert width(4000, range(4000)) == pytest.approx(0.196, rel=0.05)
    assert width(5, range(5)) == pytest.approx(2.571 * np.sqrt((errors[:5] ** 2).mean()), rel=1e-3)
    assert width(50, ["a", "b", "c", "d", "e"] * 10) > 1.25 * width(50, range(50))
    assert np.isnan(width(4, range(4))) and np.isnan(width(40, ["a", "b"] * 20))
    assert np.isnan(cross_validation.compute_half_width(np.empty(0), np.empty(0), 0))
    units = np.array([0.0, 1.0, 2.0])
    assert cross_validation.compute_half_width(
        np.array([9.0, 1.0, 2.0]), units, 3, prior=4.0
    ) == pytest.approx(2.447, abs=1e-3)


def test_folds_keep_groups_together_and_leave_everyone_out():
    groups = np.repeat(["a", "b", "c", "d", "e", "f", "g"], 3)
    parts = cross_validation.divide_into_folds(21, groups, np.random.default_rng(0))
    assert len({len(part) for part in parts}) == 1 and set(np.concatenate(parts)) == set(range(21))
    for part in parts:
        assert all(np.isin(np.flatnonzero(groups == groups[i]), part).all() for i in part)
        assert len(part) < 21
    assert cross_validation.divide_into_folds(3, ["a"] * 3, np.random.default_rng(0)) == []
    assert (
        sum(map(len, cross_validation.divide_into_folds(5000, None, np.random.default_rng(0))))
        <= cross_validation.HELD_OUT
    )
