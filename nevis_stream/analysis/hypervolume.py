"""The area that points dominate in the plane of error and log10 FLOPs; larger is better."""

import math
from collections.abc import Sequence

from nevis_stream.analysis.pareto import pareto_front

WORST_ERROR = 1.0
ROOM = 10  # the reference's cost over the highest cost that is compared


def reference_point(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Returns (1, ten times the highest cost), the corner from which areas of these points are
    measured.

    Every point with an error below 1 then has an area, even the costliest. Areas can be compared
    only if they have the same corner: that of all methods compared.

    Args:
      points: (error, FLOPs); NaN are ignored. Without any cost the result has a NaN.
    """
    costs = [cost for _, cost in points if not math.isnan(cost)]
    return WORST_ERROR, ROOM * max(costs) if costs else math.nan


def hypervolume(points: Sequence[tuple[float, float]], reference: tuple[float, float]) -> float:
    """Returns the area between the front of `points` and the reference, in error × decades of
    FLOPs.

    Exact, by sorting. Points beyond the reference, with a NaN, or with a cost of 0 (which has no
    logarithm) dominate nothing; without any other point the area is 0. It is NaN if every point has
    a NaN or a cost of 0.

    Args:
      points: (error, FLOPs) of each method or budget.
      reference: (error, FLOPs) of the worst corner.

    >>> hypervolume([(0.5, 1e10), (0.25, 1e11)], (1.0, 1e12))
    1.25
    """
    worst_error, worst_cost = reference
    placed = [(error, cost) for error, cost in points if not math.isnan(error) and cost > 0]
    if not placed or math.isnan(worst_cost):
        return math.nan
    inside = [point for point in placed if point[0] < worst_error and point[1] < worst_cost]
    front = [inside[i] for i in pareto_front(inside)]
    area, height = 0.0, worst_error
    for error, cost in front:
        area += (height - error) * (math.log10(worst_cost) - math.log10(cost))
        height = error
    return area
