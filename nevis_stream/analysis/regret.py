"""Regret: how a method's error adds up along the stream, relative to learning each task alone."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import accumulate

from nevis_stream.analysis.differences import EQUAL
from nevis_stream.analysis.points import (
    TRAINING,
    describe_progress,
    explain_unknown_costs,
    list_costs_by_task,
    list_task_errors,
    point,
)
from nevis_stream.analysis.runs import Run
from nevis_stream.cost.meter import format_engineering
from nevis_stream.run_directory.ledger import Ledger

REFERENCE = "indep"

# Costs within this factor of each other call for no remark: an ensemble or a search of other size.
_ALIKE = 3


@dataclass(frozen=True)
class Regret:
    """The regret curve of one run, in error or in FLOPs; below zero is better than the reference.

    Attributes:
      orders: place in the stream of each task.
      task_ids: the tasks, in stream order.
      differences: the run's error (or FLOPs) minus the reference's on each task; NaN where one of
        them is undefined.
      values: cumulative sum of the differences, NaN from the first undefined one on.
      reason: why there is no curve, or why it ends early; empty otherwise.
    """

    orders: tuple[int, ...]
    task_ids: tuple[str, ...]
    differences: tuple[float, ...]
    values: tuple[float, ...]
    reason: str


def make_empty_regret(reason: str) -> Regret:
    """Returns a regret without any value, for this reason."""
    return Regret((), (), (), (), reason)


def compute_error_regret(method: Ledger, reference: Ledger, judged_only: bool) -> Regret:
    """Returns sum_{j <= i} (e_j(method) - e_j(reference)) for every task i, in stream order.

    Args:
      method: a complete run.
      reference: a complete run over the same stream under the same protocol, usually indep.
      judged_only: whether to sum over the judged tasks only, not over the whole stream (every task
        on the protocol's split).

    Source: NEVIS'22, section 3 (regret curve, over S_Ts and over the full stream).
    """
    reason = _mismatch(method, reference)
    if reason:
        return make_empty_regret(reason)
    pairs = [
        (ours, theirs)
        for ours, theirs in zip(list_task_errors(method), list_task_errors(reference), strict=True)
        if ours.judged or not judged_only
    ]
    differences = tuple(ours.error - theirs.error for ours, theirs in pairs)
    undefined = [ours.task_id for (ours, _), d in zip(pairs, differences, strict=True) if d != d]
    return Regret(
        orders=tuple(ours.order for ours, _ in pairs),
        task_ids=tuple(ours.task_id for ours, _ in pairs),
        differences=differences,
        values=tuple(accumulate(differences)),
        reason=f"ends before {undefined[0]}, whose error is undefined" if undefined else "",
    )


def find_reference(run: Run, runs: Sequence[Run]) -> tuple[Run | None, str]:
    """Finds the complete indep run of the same stream, protocol, budget and seed.

    If there are several, it is the one that agrees with the run in every setting that both have.

    Returns:
      The run, and an empty text or a remark: the settings in which it differs, and its training
      FLOPs if they are less than a third or more than three times as many; without one, None and
      the reason.
    """
    budget, seed = run.header.budget, run.header.seed
    same = [other for other in runs if _get_comparison_key(other) == _get_comparison_key(run)]
    indep = [other for other in same if other.header.learner.casefold() == REFERENCE]
    name = f"indep run with {f'budget {budget}' if budget else 'no budget'} and seed {seed}"
    if not indep:
        return None, f"no {name}"
    complete = [other for other in indep if other.ledger.complete]
    if not complete:
        return None, f"the {name} is {describe_progress(indep[0].ledger)}"
    agreeing = [other for other in complete if not _differing(run, other)]
    if len(agreeing) != 1 and len(complete) > 1:
        return None, f"more than one {name}: {', '.join(other.name for other in complete)}"
    reference = (agreeing or complete)[0]
    remarks = []
    if differing := _differing(run, reference):
        remarks.append(f"differs in {', '.join(differing)}")
    # Budgets of unlike learners share a name only.
    ratio = point(reference.ledger).paper_total / (point(run.ledger).paper_total or math.nan)
    if not 1 / _ALIKE <= ratio <= _ALIKE and math.isfinite(ratio):
        remarks.append(f"costs {ratio:.3g} times as many training FLOPs")
    return reference, f"the reference, {reference.name}, {' and '.join(remarks)}" if remarks else ""


def _differing(run: Run, other: Run) -> list[str]:
    """Settings that both runs have, with different values; the learner's name is left out."""
    ours, theirs = run.settings or {}, other.settings or {}
    shared = ours.keys() & theirs.keys() - {"learner", "learner.name", "learner.learner", "keep"}
    return sorted(name for name in shared if ours[name] != theirs[name])


def _get_comparison_key(run: Run) -> tuple:
    return tuple(getattr(run.header, k) for k in ("stream_digest", "protocol", "budget", "seed"))


def _mismatch(method: Ledger, reference: Ledger) -> str:
    for ledger, whose in ((method, "the run"), (reference, "its reference")):
        if not ledger.complete:
            return f"{whose} is {describe_progress(ledger)}"
    for name in ("stream_digest", "protocol"):
        ours, theirs = getattr(method.header, name), getattr(reference.header, name)
        if ours != theirs:
            return f"different {name}: {ours} and {theirs}"
    ours, theirs = list_task_errors(method), list_task_errors(reference)
    if [(e.order, e.task_id) for e in ours] != [(e.order, e.task_id) for e in theirs]:
        return "regret needs the same tasks in the same order, but those of the two runs differ"
    for a, b in zip(ours, theirs, strict=True):
        if a.n != b.n and a.n and b.n:
            return f"{a.task_id} was scored on {a.n} and on {b.n} samples"
    return ""


def compute_flops_regret(run: Run, reference: Run, parts: Collection[str] = TRAINING) -> Regret:
    """Returns sum_{j <= i} (FLOP_j(run) - FLOP_j(reference)) for every task i of the whole stream;
    below zero the run has spent less. What `init` cost counts from the first task on.

    Args:
      run: a finished run.
      reference: a finished run over the same stream, usually indep of the same budget and seed.
      parts: what is counted (`points.PARTS`); by default the training of all trials.

    Returns:
      A curve of exact integers.

    Source: NEVIS'22, section 3 (eq. 3, added up along the stream).
    """
    for side in (run, reference):
        reason = explain_unknown_costs(side.ledger)
        if not reason and not side.ledger.complete:
            reason = describe_progress(side.ledger)
        if reason:
            return make_empty_regret(reason if side is run else f"{side.name}: {reason}")
    ours, theirs = list_costs_by_task(run.ledger), list_costs_by_task(reference.ledger)
    if [cost.task_id for cost in ours] != [cost.task_id for cost in theirs]:
        return make_empty_regret(f"{reference.name} does not have the same tasks in the same order")
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


def find_matched_reference(run: Run, runs: Sequence[Run]) -> tuple[Run | None, str]:
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
        f"no indep run within 5% of its {format_engineering(result.paper_total)} training FLOPs;"
        f" the nearest, {nearest.name}, cost {ratio:.3g} times as many"
    )
