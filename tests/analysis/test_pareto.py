"""The front against its definition."""

import math

from hypothesis import given
from hypothesis import strategies as st

from nevis_stream.analysis.pareto import find_pareto_front

# Few distinct values, so that ties in one and in both coordinates are common.
COORDINATES = st.sampled_from([0.0, 0.25, 0.5, 0.75, math.nan]) | st.floats(0, 1)
COSTS = st.sampled_from([0, 1, 2, 10**20, 10**20 + 1, math.nan]) | st.integers(0, 10**21)
POINTS = st.lists(st.tuples(COORDINATES, COSTS), max_size=12)


def dominates(a, b):
    return a[0] <= b[0] and a[1] <= b[1] and (a[0] < b[0] or a[1] < b[1])


def is_defined(point):
    return not any(math.isnan(value) for value in point)


@given(POINTS)
def test_front_is_what_no_defined_point_dominates(points):
    defined = [p for p in points if is_defined(p)]
    best = [p for p in defined if not any(dominates(q, p) for q in defined)]
    expected = {i for i, p in enumerate(points) if p in best}
    front = find_pareto_front(points)
    assert set(front) == expected
    assert len(front) == len(expected)


@given(POINTS)
def test_order_is_cost_then_error_then_index(points):
    front = find_pareto_front(points)
    assert front == sorted(front, key=lambda i: (points[i][1], points[i][0], i))


@given(POINTS, st.randoms())
def test_the_same_points_in_another_order_have_the_same_front(points, random):
    order = list(range(len(points)))
    random.shuffle(order)
    shuffled = [order[i] for i in find_pareto_front([points[i] for i in order])]
    assert sorted(shuffled) == sorted(find_pareto_front(points))


def test_equal_points_are_all_kept_in_their_order():
    assert find_pareto_front([(0.2, 5), (0.3, 5), (0.2, 5), (0.2, 6)]) == [0, 2]


def test_nan_neither_enters_nor_dominates():
    assert find_pareto_front([(math.nan, 1), (0.1, math.nan), (0.5, 10)]) == [2]
    assert find_pareto_front([(math.nan, math.nan)]) == []
    assert find_pareto_front([]) == []
