"""Points and regret of methods over seeds, the Pareto front of the methods, and for each
learner, over its budgets, the hypervolume and the FLOPs to reach an error.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from nevis_stream.analysis.pareto import (
    Points,
    choose_reference_point,
    compare_flops_to_reach,
    find_pareto_front,
    measure_hypervolume,
)
from nevis_stream.analysis.points import Point, point
from nevis_stream.analysis.regret import (
    Regret,
    compute_error_regret,
    compute_flops_regret,
    find_reference,
)
from nevis_stream.analysis.runs import Run
from nevis_stream.analysis.seeds import SeedGroup, Spread, spread

SPREADS = ("error", "paper_total", "full_total")


@dataclass(frozen=True)
class MethodPoint:
    """The point of a method: mean and spread over its seeds.

    Attributes:
      group: the runs.
      points: each run's point, in the order of the group's runs.
      error, paper_total, full_total: over the runs whose mean error is defined; if there are none,
        over those whose cost is.
      on_paper_front, on_full_front: whether it is on the Pareto front by that total.
      reasons: what is missing, one text for each run.
    """

    group: SeedGroup
    points: tuple[Point, ...]
    error: Spread
    paper_total: Spread
    full_total: Spread
    on_paper_front: bool
    on_full_front: bool
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class MethodRegret:
    """The regret curve of a method: mean and sample standard deviation over its seeds, by task.

    Attributes:
      group: the runs.
      task_ids, orders: the tasks in stream order.
      curve: the spread after each task; NaN from an undefined error on.
      n: number of seeds.
      reasons: why a run has no curve or a shorter one, or how its reference differs.
    """

    group: SeedGroup
    task_ids: tuple[str, ...]
    orders: tuple[int, ...]
    curve: tuple[Spread, ...]
    n: int
    reasons: tuple[str, ...]


def list_method_points(groups: Sequence[SeedGroup]) -> list[MethodPoint]:
    """Returns the point of each group of one stream and protocol, and whether it is on the front.

    Source: NEVIS'22, section 3: eq. 2 and 3, compared by the Pareto front.
    """
    rows = []
    for group in groups:
        points = tuple(point(run.ledger) for run in group.runs)
        used = [p for p in points if p.error == p.error] or points
        spreads = [spread([getattr(p, n) for p in used]) for n in SPREADS]
        pairs = zip(group.runs, points, strict=True)
        reasons = [f"{run.name}: {p.reason}" for run, p in pairs if p.reason]
        rows.append((group, points, spreads, tuple(reasons)))
    paper_front, full_front = (
        set(find_pareto_front([(r[2][0].mean, r[2][k].mean) for r in rows])) for k in (1, 2)
    )
    return [
        MethodPoint(
            group,
            points,
            error,
            paper_total,
            full_total,
            i in paper_front,
            i in full_front,
            reasons,
        )
        for i, (group, points, (error, paper_total, full_total), reasons) in enumerate(rows)
    ]


Find = Callable[[Run, Sequence[Run]], tuple[Run | None, str]]
"""Finds a run's reference among others; returns it, or None, and a remark."""


def average_regret(
    group: SeedGroup, runs: Sequence[Run], judged_only: bool, find: Find = find_reference
) -> MethodRegret:
    """Returns the mean regret of a group, each run against the indep run of its budget and seed.

    Args:
      group: the method's runs.
      runs: where references are looked for.
      judged_only: over the judged tasks, else over the whole stream.
      find: how the reference is chosen.

    Source: NEVIS'22, section 3 (regret curve).
    """

    def curve(run: Run, reference: Run) -> Regret:
        return compute_error_regret(run.ledger, reference.ledger, judged_only)

    return _mean_curve(group, runs, find, curve)


def average_flops_regret(group: SeedGroup, runs: Sequence[Run]) -> MethodRegret:
    """Returns the mean regret in FLOPs (training, all trials) over the whole stream, as
    `average_regret`.
    """
    return _mean_curve(group, runs, find_reference, compute_flops_regret)


def _mean_curve(
    group: SeedGroup, runs: Sequence[Run], find: Find, curve_of: Callable[[Run, Run], Regret]
) -> MethodRegret:
    curves, reasons = [], []
    for run in group.runs:
        reference, remark = find(run, runs)
        if reference is not None:
            curve = curve_of(run, reference)
            remark = "; ".join(filter(None, (remark, curve.reason)))
            if curve.values:
                curves.append(curve)
        if remark:
            reasons.append(f"{run.name}: {remark}")
    if not curves:
        return MethodRegret(group, (), (), (), 0, tuple(reasons))
    # A mean over fewer seeds than before would show as a jump that no method made.
    values = zip(*(curve.values for curve in curves), strict=True)
    spreads = tuple(spread(_if_all_defined(after_task)) for after_task in values)
    first = curves[0]
    return MethodRegret(group, first.task_ids, first.orders, spreads, len(curves), tuple(reasons))


def _if_all_defined(values: Sequence[float]) -> Sequence[float]:
    return values if all(value == value for value in values) else ()


_VOLUMES = ["learner", "budgets", "hypervolume", "reference_error", "reference_flops"]
_NEEDS = ["flops_a", "basis_a", "flops_b", "basis_b"]
_REACH = ["learner_a", "learner_b", "error", *_NEEDS, "bound", "ratio"]


def group_points(methods: Sequence[MethodPoint]) -> dict[str, Points]:
    """Returns for each learner the points (mean error, training FLOPs) of its methods, each a mean
    over seeds. Methods without an error or a cost are left out.
    """
    learners: dict[str, list[tuple[float, float]]] = {}
    for method in methods:
        if not math.isnan(method.error.mean) and method.paper_total.mean > 0:
            points = learners.setdefault(method.group.learner, [])
            points.append((method.error.mean, method.paper_total.mean))
    return learners


def measure_hypervolumes(learners: Mapping[str, Points]) -> pd.DataFrame:
    """Returns one row for each learner, the largest area first. With several learners a last row
    has the area of all of them together. All areas have the same reference point.
    """
    together = [point for points in learners.values() for point in points]
    reference = choose_reference_point(together)
    rows = [
        (name, len(points), measure_hypervolume(points, reference), *reference)
        for name, points in learners.items()
    ]
    rows.sort(key=lambda row: -row[2])
    if len(learners) > 1:
        area = measure_hypervolume(together, reference)
        rows.append(("all together", len(together), area, *reference))
    return pd.DataFrame(rows, columns=_VOLUMES)


def make_reach_table(learners: Mapping[str, Points]) -> pd.DataFrame:
    """Returns one row for each ordered pair of learners: the FLOPs of A divided by those of B at
    the lowest error that both reach.
    """
    rows = []
    for (a, points), (b, others) in itertools.permutations(learners.items(), 2):
        ratio = compare_flops_to_reach(points, others)
        needs = ratio.a.flops, ratio.a.basis, ratio.b.flops, ratio.b.basis
        rows.append((a, b, ratio.error, *needs, ratio.bound, ratio.value))
    return pd.DataFrame(rows, columns=_REACH)
