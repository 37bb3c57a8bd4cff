"""Learners with several budgets: the area that each dominates, and the FLOPs that each needs to
reach an error.
"""

import itertools
import math
from collections.abc import Mapping, Sequence

import pandas as pd

from nevis_stream.analysis.hypervolume import hypervolume, reference_point
from nevis_stream.analysis.methods import MethodPoint
from nevis_stream.analysis.reach import Points, reach_ratio

_VOLUMES = ["learner", "budgets", "hypervolume", "reference_error", "reference_flops"]
_NEEDS = ["flops_a", "basis_a", "flops_b", "basis_b"]
_REACH = ["learner_a", "learner_b", "error", *_NEEDS, "bound", "ratio"]


def by_learner(methods: Sequence[MethodPoint]) -> dict[str, Points]:
    """Returns for each learner the points (mean error, training FLOPs) of its methods, each a mean
    over seeds. Methods without an error or a cost are left out.
    """
    learners: dict[str, list[tuple[float, float]]] = {}
    for method in methods:
        if not math.isnan(method.error.mean) and method.paper_total.mean > 0:
            points = learners.setdefault(method.group.learner, [])
            points.append((method.error.mean, method.paper_total.mean))
    return learners


def hypervolumes(learners: Mapping[str, Points]) -> pd.DataFrame:
    """Returns one row for each learner, the largest area first. With several learners a last row
    has the area of all of them together. All areas have the same reference point.
    """
    together = [point for points in learners.values() for point in points]
    reference = reference_point(together)
    rows = [
        (name, len(points), hypervolume(points, reference), *reference)
        for name, points in learners.items()
    ]
    rows.sort(key=lambda row: -row[2])
    if len(learners) > 1:
        area = hypervolume(together, reference)
        rows.append(("all together", len(together), area, *reference))
    return pd.DataFrame(rows, columns=_VOLUMES)


def reach_table(learners: Mapping[str, Points]) -> pd.DataFrame:
    """Returns one row for each ordered pair of learners: the FLOPs of A divided by those of B at
    the lowest error that both reach.
    """
    rows = []
    for (a, points), (b, others) in itertools.permutations(learners.items(), 2):
        ratio = reach_ratio(points, others)
        needs = ratio.a.flops, ratio.a.basis, ratio.b.flops, ratio.b.basis
        rows.append((a, b, ratio.error, *needs, ratio.bound, ratio.value))
    return pd.DataFrame(rows, columns=_REACH)
