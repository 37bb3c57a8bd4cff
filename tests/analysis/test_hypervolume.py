"""The area against a count of the cells of a grid."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nevis_stream.analysis.pareto import (
    choose_reference_point,
    find_pareto_front,
    measure_hypervolume,
)

REFERENCE = (1.0, 1e20)
# Errors in tenths and costs in whole decades: the area is then exactly a number of cells.
GRID_POINT = st.tuples(st.integers(0, 12), st.integers(10, 22))
ANY = st.tuples(st.floats(0, 1.2), st.floats(1e5, 1e22))


def brute_force(points):
    cells = [(e, c) for e in range(10) for c in range(10, 20)]
    return sum(any(pe <= e and pc <= c for pe, pc in points) for e, c in cells) / 10


@given(st.lists(GRID_POINT, min_size=1, max_size=8))
def test_area_is_the_number_of_dominated_cells(points):
    placed = [(e / 10, 10.0**c) for e, c in points]
    assert measure_hypervolume(placed, REFERENCE) == pytest.approx(brute_force(points))


@given(st.lists(ANY, min_size=1, max_size=8), ANY)
def test_a_further_point_never_takes_area_and_a_dominated_one_adds_none(points, further):
    area, more = (
        measure_hypervolume(points, REFERENCE),
        measure_hypervolume([*points, further], REFERENCE),
    )
    assert more >= area - 1e-12
    if len(points) not in find_pareto_front([*points, further]):
        assert more == pytest.approx(area)


@given(st.lists(ANY, min_size=1, max_size=6), st.floats(0.1, 100))
def test_costs_in_another_unit_give_the_same_area(points, unit):
    scaled = [(e, unit * c) for e, c in points]
    assert measure_hypervolume(scaled, choose_reference_point(scaled)) == pytest.approx(
        measure_hypervolume(points, choose_reference_point(points)), abs=1e-9
    )


def test_reference_leaves_room_for_the_costliest_point():
    points = [(0.3, 10**18), (math.nan, 10**19), (0.2, math.nan)]
    assert choose_reference_point(points) == (1.0, 10**20)
    assert measure_hypervolume(points, (1.0, 10**20)) == pytest.approx(0.7 * 2)


def test_what_has_no_place_has_no_area():
    assert math.isnan(measure_hypervolume([(math.nan, 1e10), (0.5, 0), (0.5, math.nan)], REFERENCE))
    assert math.isnan(measure_hypervolume([], choose_reference_point([])))
    assert measure_hypervolume([(1.0, 1e10), (0.1, 1e20)], REFERENCE) == 0
