"""The Pareto front of error and FLOPs: the points that no other beats, the area that they dominate,
and the FLOPs that a learner needs to reach an error.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass


def find_pareto_front(points: Sequence[tuple[float, float]]) -> list[int]:
    """Returns the indices of the non-dominated points, by rising cost, then error, then index.

    A point is dominated if another is no worse in both coordinates and better in one. Equal points
    do not dominate each other, so all of them are kept. Points with a NaN are ignored.

    Args:
      points: (error, FLOPs) of each method; lower is better in both.

    Source: NEVIS'22, section 3 (methods are compared by their Pareto front).

    >>> find_pareto_front([(0.30, 10), (0.20, 20), (0.25, 30), (0.20, 20)])
    [0, 1, 3]
    """
    order = sorted(
        (i for i, point in enumerate(points) if not any(map(math.isnan, point))),
        key=lambda i: (points[i][1], points[i][0], i),
    )
    front: list[int] = []
    for i in order:
        if not front or points[i][0] < points[front[-1]][0] or points[i] == points[front[-1]]:
            front.append(i)
    return front


WORST_ERROR = 1.0
ROOM = 10  # the reference's cost over the highest cost that is compared


def choose_reference_point(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Returns (1, ten times the highest cost), the corner from which areas of these points are
    measured.

    Every point with an error below 1 then has an area, even the costliest. Areas can be compared
    only if they have the same corner: that of all methods compared.

    Args:
      points: (error, FLOPs); NaN are ignored. Without any cost the result has a NaN.
    """
    costs = [cost for _, cost in points if not math.isnan(cost)]
    return WORST_ERROR, ROOM * max(costs) if costs else math.nan


def measure_hypervolume(
    points: Sequence[tuple[float, float]], reference: tuple[float, float]
) -> float:
    """Returns the area between the front of `points` and the reference, in error × decades of
    FLOPs.

    Exact, by sorting. Points beyond the reference, with a NaN, or with a cost of 0 (which has no
    logarithm) dominate nothing; without any other point the area is 0. It is NaN if every point has
    a NaN or a cost of 0.

    Args:
      points: (error, FLOPs) of each method or budget.
      reference: (error, FLOPs) of the worst corner.

    >>> measure_hypervolume([(0.5, 1e10), (0.25, 1e11)], (1.0, 1e12))
    1.25
    """
    worst_error, worst_cost = reference
    placed = [(error, cost) for error, cost in points if not math.isnan(error) and cost > 0]
    if not placed or math.isnan(worst_cost):
        return math.nan
    inside = [point for point in placed if point[0] < worst_error and point[1] < worst_cost]
    front = [inside[i] for i in find_pareto_front(inside)]
    area, height = 0.0, worst_error
    for error, cost in front:
        area += (height - error) * (math.log10(worst_cost) - math.log10(cost))
        height = error
    return area


MEASURED, INTERPOLATED, AT_MOST, NEVER = "measured", "interpolated", "at most", "never"
Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Reach:
    """What it costs to reach an error.

    Attributes:
      flops: the cost; NaN where the error is never reached.
      basis: "measured" (a point has this error), "interpolated" (between two points of the front,
        linear in error and log FLOPs), "at most" (the cheapest point is already better) or "never"
        (no point has an error as low as this).
    """

    flops: float
    basis: str


@dataclass(frozen=True)
class Ratio:
    """FLOPs of A over those of B for the same error.

    Attributes:
      error: at which the two are compared; NaN where a learner has no point.
      value: the ratio; NaN if A or B never reaches the error.
      a, b: what each needs.
    """

    error: float
    value: float
    a: Reach
    b: Reach

    @property
    def bound(self) -> str:
        """How the true ratio relates to the value: "" (equal or interpolated), "≤", "≥", or "?" if
        both costs are upper bounds.
        """
        return {(False, False): "", (True, False): "≤", (False, True): "≥", (True, True): "?"}[
            self.a.basis == AT_MOST, self.b.basis == AT_MOST
        ]


def find_flops_to_reach(points: Points, error: float) -> Reach:
    """Returns what a learner with these (error, training FLOPs) points needs to reach an error.

    Only its Pareto front counts, and nothing is extrapolated. Points with a NaN or without a cost
    are ignored.

    >>> find_flops_to_reach([(0.4, 1e10), (0.2, 1e12)], 0.3)
    Reach(flops=100000000000.0, basis='interpolated')
    """
    front = _front(points)
    first = next((i for i, point in enumerate(front) if point[0] <= error), None)
    if first is None:
        return Reach(math.nan, NEVER)
    error_1, cost_1 = front[first]
    if error_1 == error:
        return Reach(float(cost_1), MEASURED)
    if first == 0:
        return Reach(float(cost_1), AT_MOST)
    error_0, cost_0 = front[first - 1]
    share = (error_0 - error) / (error_0 - error_1)
    logarithm = math.log10(cost_0) + share * (math.log10(cost_1) - math.log10(cost_0))
    return Reach(10**logarithm, INTERPOLATED)


def compare_flops_to_reach(a: Points, b: Points, error: float | None = None) -> Ratio:
    """Returns the FLOPs of A over those of B to reach an error.

    Args:
      a, b: (error, training FLOPs) of each learner's budgets.
      error: to be reached; by default the lowest that both reach.
    """
    if error is None:
        fronts = _front(a), _front(b)
        error = max(front[-1][0] for front in fronts) if all(fronts) else math.nan
    reach_a, reach_b = find_flops_to_reach(a, error), find_flops_to_reach(b, error)
    return Ratio(error, reach_a.flops / reach_b.flops, reach_a, reach_b)


def _front(points: Points) -> list[tuple[float, float]]:
    costly = [point for point in points if point[1] > 0]
    return [costly[i] for i in find_pareto_front(costly)]
