"""Regret in FLOPs, and regret in error against Indep at equal compute."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from nevis_stream.analysis.costs import SEARCH, TRAIN, TaskCost, costs_by_task
from nevis_stream.analysis.differences import EQUAL
from nevis_stream.analysis.points import costs_unknown, point, unfinished
from nevis_stream.analysis.regret import REFERENCE
from nevis_stream.analysis.runs import Run
from nevis_stream.cost.engineering import engineering


@dataclass(frozen=True)
class ComputeRegret:
    """What a run has spent minus its reference, after each task; below zero it has spent less.

    Attributes:
      orders, task_ids: the tasks, in stream order.
      paper: cumulative FLOPs of training, all trials, minus the reference's, as exact integers.
      full: the same of all phases, from `init` on.
      reason: why there is no curve; empty otherwise.
    """

    orders: tuple[int, ...]
    task_ids: tuple[str, ...]
    paper: tuple[int, ...]
    full: tuple[int, ...]
    reason: str


def compute_regret(run: Run, reference: Run) -> ComputeRegret:
    """Returns sum_{j <= i} (FLOP_j(run) - FLOP_j(reference)) for every task i of the whole stream.

    Args:
      run: a finished run.
      reference: a finished run over the same stream, usually Indep of the same budget and seed.

    Source: NEVIS'22, section 3 (eq. 3, added up along the stream).
    """
    for side in (run, reference):
        reason = costs_unknown(side.ledger) or (
            "" if side.ledger.complete else unfinished(side.ledger)
        )
        if reason:
            return ComputeRegret(
                (), (), (), (), reason if side is run else f"{side.name}: {reason}"
            )
    ours, theirs = costs_by_task(run.ledger), costs_by_task(reference.ledger)
    if [cost.task_id for cost in ours] != [cost.task_id for cost in theirs]:
        return ComputeRegret(
            (), (), (), (), f"{reference.name} does not have the same tasks in the same order"
        )
    pairs = list(zip(ours, theirs, strict=True))
    paper = tuple(accumulate(_train(a) - _train(b) for a, b in pairs))[1:]
    full = tuple(accumulate(sum(a.flops.values()) - sum(b.flops.values()) for a, b in pairs))[1:]
    return ComputeRegret(
        tuple(c.order for c in ours[1:]), tuple(c.task_id for c in ours[1:]), paper, full, ""
    )


def matched_reference(run: Run, runs: Sequence[Run]) -> tuple[Run | None, str]:
    """Finds the finished Indep run, of any budget, that cost as much as a run.

    Costs (training FLOPs over the whole stream) are equal if they are within 5% of each other. If
    several are, the one with the run's seed is taken, then the one nearest in cost. Nothing is
    interpolated between budgets.

    Returns:
      The run and an empty text; without one, None and the reason.
    """
    ours = point(run.ledger).paper_total
    if not ours > 0:
        return None, point(run.ledger).reason or "training cost nothing"
    places = ("stream_digest", "protocol")
    candidates = []
    for other in runs:
        same = all(getattr(other.header, name) == getattr(run.header, name) for name in places)
        cost = (
            point(other.ledger).paper_total
            if same and other.header.learner.casefold() == REFERENCE
            else math.nan
        )
        if cost > 0:
            candidates.append(
                (
                    abs(math.log(cost / ours)),
                    other.header.seed != run.header.seed,
                    other,
                    cost,
                )
            )
    if not candidates:
        return None, "no finished Indep run whose cost is known"
    equal = [entry for entry in candidates if entry[0] <= math.log1p(EQUAL)]
    if equal:
        return min(equal, key=lambda entry: (entry[1], entry[0]))[2], ""
    _, _, nearest, cost = min(candidates, key=lambda entry: entry[:2])
    wanted = f"no Indep run within 5% of its {engineering(ours)} training FLOPs"
    return None, f"{wanted}; the nearest, {nearest.name}, cost {cost / ours:.3g} times as many"


def _train(cost: TaskCost) -> int:
    return cost.flops[TRAIN] + cost.flops[SEARCH]
