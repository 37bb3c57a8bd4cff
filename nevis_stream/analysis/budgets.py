"""Learners over their budgets: the area that each dominates, and the FLOPs that each needs for an
error.
"""

import math
from collections.abc import Mapping, Sequence

import pandas as pd

from nevis_stream.analysis.hypervolume import hypervolume, reference_point
from nevis_stream.analysis.methods import MethodPoint
from nevis_stream.analysis.reach import Points, reach_ratio

_VOLUMES = ["learner", "budgets", "hypervolume", "reference_error", "reference_flops"]
_REACH = [
    "learner_a",
    "learner_b",
    "error",
    "flops_a",
    "how_a",
    "flops_b",
    "how_b",
    "bound",
    "ratio",
]


def by_learner(methods: Sequence[MethodPoint]) -> dict[str, Points]:
    """Returns the points (E, the paper's cFLOP) of each learner's methods that have one, a mean
    over seeds each.
    """
    found: dict[str, list[tuple[float, float]]] = {}
    for method in methods:
        if not math.isnan(method.error.mean) and method.paper_total.mean > 0:
            found.setdefault(method.group.learner, []).append(
                (method.error.mean, method.paper_total.mean)
            )
    return found


def hypervolumes(learners: Mapping[str, Points]) -> pd.DataFrame:
    """Returns one row a learner, the largest area first, and a last one for all together, all from
    one reference point.
    """
    together = [point for points in learners.values() for point in points]
    reference = reference_point(together)
    rows = [
        (name, len(points), hypervolume(points, reference), *reference)
        for name, points in learners.items()
    ]
    rows.sort(key=lambda row: -row[2])
    rows += (
        [("all together", len(together), hypervolume(together, reference), *reference)]
        if len(learners) > 1
        else []
    )
    return pd.DataFrame(rows, columns=_VOLUMES)


def reach_table(learners: Mapping[str, Points]) -> pd.DataFrame:
    """Returns one row for each ordered pair of learners: the FLOPs of A over B's at the lowest
    error that both reach.
    """
    rows = []
    for a, points in learners.items():
        for b, others in learners.items():
            if a != b:
                r = reach_ratio(points, others)
                rows.append(
                    (a, b, r.error, r.a.flops, r.a.basis, r.b.flops, r.b.basis, r.bound, r.value)
                )
    return pd.DataFrame(rows, columns=_REACH)
