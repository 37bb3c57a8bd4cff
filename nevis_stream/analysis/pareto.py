"""The Pareto front: points that no other point beats in both error and cost."""

import math
from collections.abc import Sequence


def pareto_front(points: Sequence[tuple[float, float]]) -> list[int]:
    """Returns the indices of the non-dominated points, by rising cost, then error, then index.

    A point is dominated if another is no worse in both coordinates and better in one. Equal points
    do not dominate each other, so all of them are kept. Points with a NaN are ignored.

    Args:
      points: (error, FLOPs) of each method; lower is better in both.

    Source: NEVIS'22, section 3 (methods are compared by their Pareto front).

    >>> pareto_front([(0.30, 10), (0.20, 20), (0.25, 30), (0.20, 20)])
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
