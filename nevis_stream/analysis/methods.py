"""Methods compared: points and regret over seeds, and the Pareto front of the methods."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nevis_stream.analysis.compute_regret import ComputeRegret, compute_regret
from nevis_stream.analysis.pareto import pareto_front
from nevis_stream.analysis.points import Point, point
from nevis_stream.analysis.regret import Regret, reference_of, regret
from nevis_stream.analysis.runs import Run
from nevis_stream.analysis.seeds import SeedGroup, Spread, spread


@dataclass(frozen=True)
class MethodPoint:
    """The point of a method: mean and spread over its seeds.

    Attributes:
      group: the runs.
      points: each run's point, in the order of the group's runs.
      error, paper_total, full_total: over the runs whose E is defined (where none is: over the runs
        whose cost is).
      on_paper_front, on_full_front: whether it is on the Pareto front by that total.
      reasons: what is missing, one text a run.
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


def method_points(groups: Sequence[SeedGroup]) -> list[MethodPoint]:
    """Returns the point of each group of one stream and protocol, and whether it is on the front.

    Source: NEVIS'22, section 3: eq. 2 and 3, compared by the Pareto front.
    """
    rows = []
    for group in groups:
        points = tuple(point(run.ledger) for run in group.runs)
        used = [p for p in points if p.error == p.error] or points
        spreads = [spread([getattr(p, n) for p in used]) for n in ("error", *_TOTALS)]
        pairs = zip(group.runs, points, strict=True)
        reasons = [f"{run.name}: {p.reason}" for run, p in pairs if p.reason]
        rows.append((group, points, spreads, tuple(reasons)))
    fronts = [set(pareto_front([(r[2][0].mean, r[2][k].mean) for r in rows])) for k in (1, 2)]
    return [
        MethodPoint(group, points, *spreads, *(i in front for front in fronts), reasons)
        for i, (group, points, spreads, reasons) in enumerate(rows)
    ]


Find = Callable[[Run, Sequence[Run]], tuple[Run | None, str]]
"""Finds a run's reference among others: the run or None, and a remark."""


def method_regret(
    group: SeedGroup, runs: Sequence[Run], judged_only: bool, find: Find = reference_of
) -> MethodRegret:
    """Returns the mean regret of a group, each run against the Indep run of its budget and seed.

    Args:
      group: the method's runs.
      runs: where references are looked for.
      judged_only: over the judged tasks, else over the whole stream.
      find: another choice of the reference.

    Source: NEVIS'22, section 3 (regret curve).
    """

    def curve(run: Run, reference: Run) -> tuple[Regret, Sequence[float]]:
        errors = regret(run.ledger, reference.ledger, judged_only)
        return errors, errors.values

    # A mean over fewer seeds than before would show as a jump that no method made.
    return _mean_curve(group, runs, find, curve, lambda values: spread(_if_all_defined(values)))


def method_compute_regret(group: SeedGroup, runs: Sequence[Run]) -> MethodRegret:
    """Returns the mean regret in FLOPs (training, all trials) over the whole stream, as
    `method_regret`.
    """

    def curve(run: Run, reference: Run) -> tuple[ComputeRegret, Sequence[int]]:
        flops = compute_regret(run, reference)
        return flops, flops.paper

    return _mean_curve(group, runs, reference_of, curve, spread)


def _mean_curve(
    group: SeedGroup,
    runs: Sequence[Run],
    find: Find,
    curve_of: Callable[[Run, Run], tuple[Regret | ComputeRegret, Sequence[float]]],
    mean: Callable[[Sequence[float]], Spread],
) -> MethodRegret:
    curves, reasons = [], []
    for run in group.runs:
        reference, remark = find(run, runs)
        if reference is not None:
            curve, values = curve_of(run, reference)
            remark = "; ".join(filter(None, (remark, curve.reason)))
            if values:
                curves.append((curve, values))
        if remark:
            reasons.append(f"{run.name}: {remark}")
    if not curves:
        return MethodRegret(group, (), (), (), 0, tuple(reasons))
    first = curves[0][0]
    spreads = tuple(map(mean, zip(*(values for _, values in curves), strict=True)))
    return MethodRegret(group, first.task_ids, first.orders, spreads, len(curves), tuple(reasons))


def _if_all_defined(values: Sequence[float]) -> Sequence[float]:
    return values if all(value == value for value in values) else ()


_TOTALS = ("paper_total", "full_total")
