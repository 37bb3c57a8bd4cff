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
        (no point has such a low error).
    """

    flops: float
    basis: str


@dataclass(frozen=True)
class Ratio:
    """FLOPs of A over those of B for the same error.

    Attributes:
      error: at which the two are compared; NaN where a learner has no point.
      value: the ratio; NaN if one of them never reaches the error.
      a, b: what each needs.
    """

    error: float
    value: float
    a: Reach
    b: Reach

    @property
    def bound(self) -> str:
        """What the value is: "" (exact or interpolated), "≤", "≥", or "?" where both costs are
        upper bounds.
        """
        return {(False, False): "", (True, False): "≤", (False, True): "≥", (True, True): "?"}[
            self.a.basis == AT_MOST, self.b.basis == AT_MOST
        ]


def flops_to_reach(points: Points, error: float) -> Reach:
    """Returns what a learner with these (error, training FLOPs) points needs to reach an error.

    Only its Pareto front counts; nothing is extrapolated. Points with a NaN or without cost are
    left out.

    >>> flops_to_reach([(0.4, 1e10), (0.2, 1e12)], 0.3)
    Reach(flops=100000000000.0, basis='interpolated')
    """
    front = _front(points)
    reached = [i for i, (reached, _) in enumerate(front) if reached <= error]
    if not reached or math.isnan(error):
        return Reach(math.nan, NEVER)
    first = reached[0]
    e1, c1 = front[first]
    if e1 == error:
        return Reach(float(c1), MEASURED)
    if first == 0:
        return Reach(float(c1), AT_MOST)
    e0, c0 = front[first - 1]
    share = (e0 - error) / (e0 - e1)
    return Reach(10 ** (math.log10(c0) + share * (math.log10(c1) - math.log10(c0))), INTERPOLATED)


def reach_ratio(a: Points, b: Points, error: float | None = None) -> Ratio:
    """Returns the FLOPs of A over those of B to reach an error.

    Args:
      a, b: (error, training FLOPs) of each learner's budgets.
      error: to be reached; by default the lowest that both reach.
    """
    lowest = [min((e for e, _ in _front(points)), default=math.nan) for points in (a, b)]
    if error is None:
        error = math.nan if any(map(math.isnan, lowest)) else max(lowest)
    of_a, of_b = flops_to_reach(a, error), flops_to_reach(b, error)
    return Ratio(error, of_a.flops / of_b.flops, of_a, of_b)


def _front(points: Points) -> list[tuple[float, float]]:
    costly = [point for point in points if point[1] > 0]
    return [costly[i] for i in pareto_front(costly)]
