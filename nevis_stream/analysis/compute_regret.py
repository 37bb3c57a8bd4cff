"""Regret in FLOPs, and the choice of a reference for regret in error at equal compute."""

import math
from collections.abc import Collection, Sequence
from itertools import accumulate

from nevis_stream.analysis.costs import TRAINING, costs_by_task
from nevis_stream.analysis.differences import EQUAL
from nevis_stream.analysis.points import costs_unknown, describe_progress, point
from nevis_stream.analysis.regret import REFERENCE, Regret, without_curve
from nevis_stream.analysis.runs import Run
from nevis_stream.cost.meter import engineering


def compute_regret(run: Run, reference: Run, parts: Collection[str] = TRAINING) -> Regret:
    """Returns sum_{j <= i} (FLOP_j(run) - FLOP_j(reference)) for every task i of the whole stream;
    below zero the run has spent less. What `init` cost counts from the first task on.

    Args:
      run: a finished run.
      reference: a finished run over the same stream, usually indep of the same budget and seed.
      parts: what is counted (`costs.PARTS`); by default the training of all trials.

    Returns:
      A curve of exact integers.

    Source: NEVIS'22, section 3 (eq. 3, added up along the stream).
    """
    for side in (run, reference):
        reason = costs_unknown(side.ledger)
        if not reason and not side.ledger.complete:
            reason = describe_progress(side.ledger)
        if reason:
            return without_curve(reason if side is run else f"{side.name}: {reason}")
    ours, theirs = costs_by_task(run.ledger), costs_by_task(reference.ledger)
    if [cost.task_id for cost in ours] != [cost.task_id for cost in theirs]:
        return without_curve(f"{reference.name} does not have the same tasks in the same order")
    differences = [
        sum(cost.flops[part] - other.flops[part] for part in parts)
        for cost, other in zip(ours, theirs, strict=True)
    ]
    return Regret(
        orders=tuple(cost.order for cost in ours[1:]),
        task_ids=tuple(cost.task_id for cost in ours[1:]),
        differences=tuple(differences[1:]),
        values=tuple(accumulate(differences))[1:],
        reason="",
    )


def matched_reference(run: Run, runs: Sequence[Run]) -> tuple[Run | None, str]:
    """Finds the finished indep run, of any budget, that cost as much as a run.

    Costs (training FLOPs over the whole stream) are equal if they are within 5% of each other. Of
    several equal ones, the one with the run's seed is taken, then the one nearest in cost. Nothing
    is interpolated between budgets.

    Returns:
      The run and an empty text; without one, None and the reason.
    """
    result = point(run.ledger)
    if not result.paper_total > 0:
        return None, result.reason or "training cost nothing"
    candidates = []
    for other in runs:
        same = all(
            getattr(other.header, name) == getattr(run.header, name)
            for name in ("stream_digest", "protocol")
        )
        if same and other.header.learner.casefold() == REFERENCE:
            ratio = point(other.ledger).paper_total / result.paper_total
            if ratio > 0:
                another_seed = other.header.seed != run.header.seed
                candidates.append((abs(math.log(ratio)), another_seed, other, ratio))
    if not candidates:
        return None, "no finished indep run whose cost is known"
    equal = [candidate for candidate in candidates if candidate[0] <= math.log1p(EQUAL)]
    if equal:
        return min(equal, key=lambda candidate: (candidate[1], candidate[0]))[2], ""
    _, _, nearest, ratio = min(candidates, key=lambda candidate: candidate[:2])
    return None, (
        f"no indep run within 5% of its {engineering(result.paper_total)} training FLOPs; the"
        f" nearest, {nearest.name}, cost {ratio:.3g} times as many"
    )
