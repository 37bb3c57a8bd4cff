"""FLOPs to reach an error, by hand and by properties."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nevis_stream.analysis.pareto import compare_flops_to_reach, find_flops_to_reach

POINTS = st.lists(st.tuples(st.floats(0.01, 0.99), st.floats(1e10, 1e20)), min_size=1, max_size=6)


def test_between_two_budgets_it_is_linear_in_error_and_log_flops():
    points = [(0.4, 10**10), (0.5, 10**11), (0.2, 10**12)]  # the second is dominated
    result = find_flops_to_reach(points, 0.25)
    assert (result.flops, result.basis) == (pytest.approx(10**11.5), "interpolated")


@pytest.mark.parametrize(
    ("error", "basis", "flops"),
    [
        (0.2, "measured", 1e12),
        (0.4, "measured", 1e10),
        (0.9, "at most", 1e10),
        (0.1, "never", math.nan),
    ],
)
def test_ends_are_stated(error, basis, flops):
    result = find_flops_to_reach([(0.4, 1e10), (0.2, 1e12)], error)
    assert result.basis == basis
    assert result.flops == flops or math.isnan(flops) and math.isnan(result.flops)


@given(POINTS, st.floats(0, 1), st.floats(0, 1))
def test_a_lower_error_never_costs_less(points, one, other):
    low, high = (find_flops_to_reach(points, e).flops for e in sorted((one, other)))
    assert math.isnan(low) or high <= low * (1 + 1e-12)


@given(POINTS, POINTS)
def test_ratio_is_at_an_error_that_both_reach_and_turns_over(a, b):
    first, other = compare_flops_to_reach(a, b), compare_flops_to_reach(b, a)
    assert first.value * other.value == pytest.approx(1)
    assert "never" not in (first.a.basis, first.b.basis)
    assert "measured" in (first.a.basis, first.b.basis)
    assert {first.bound, other.bound} in ({""}, {"≤", "≥"})


def test_a_better_single_point_gives_a_bound():
    result = compare_flops_to_reach([(0.2, 1e12)], [(0.3, 1e11)])
    assert (result.error, result.value, result.bound) == (0.3, 10, "≤")


def test_one_that_never_reaches_has_no_ratio():
    assert math.isnan(compare_flops_to_reach([(0.2, 1e12)], [(0.3, 1e11)], error=0.25).value)
    assert math.isnan(compare_flops_to_reach([], [(0.3, 1e11)]).value)
    assert math.isnan(compare_flops_to_reach([(math.nan, 1e11), (0.1, 0)], [(0.3, 1e11)]).error)
