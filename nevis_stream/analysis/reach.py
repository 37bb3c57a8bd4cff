"""FLOPs that a learner needs to reach an error, from its points at several budgets."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from nevis_stream.analysis.pareto import pareto_front

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


def flops_to_reach(points: Points, error: float) -> Reach:
    """Returns what a learner with these (error, training FLOPs) points needs to reach an error.

    Only its Pareto front counts, and nothing is extrapolated. Points with a NaN or without a cost
    are ignored.

    >>> flops_to_reach([(0.4, 1e10), (0.2, 1e12)], 0.3)
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


def reach_ratio(a: Points, b: Points, error: float | None = None) -> Ratio:
    """Returns the FLOPs of A over those of B to reach an error.

    Args:
      a, b: (error, training FLOPs) of each learner's budgets.
      error: to be reached; by default the lowest that both reach.
    """
    if error is None:
        fronts = _front(a), _front(b)
        error = max(front[-1][0] for front in fronts) if all(fronts) else math.nan
    reach_a, reach_b = flops_to_reach(a, error), flops_to_reach(b, error)
    return Ratio(error, reach_a.flops / reach_b.flops, reach_a, reach_b)


def _front(points: Points) -> list[tuple[float, float]]:
    costly = [point for point in points if point[1] > 0]
    return [costly[i] for i in pareto_front(costly)]
