"""A run's result: its mean error and its cost, the point (E, cFLOP) of NEVIS'22."""

import math
from dataclasses import dataclass

from nevis_stream.analysis.judged import task_errors
from nevis_stream.run_directory.ledger import Ledger
from nevis_stream.run_directory.records import TrainRecord
from nevis_stream.vocabulary import PHASES


@dataclass(frozen=True)
class Point:
    """The result of one run; lower is better in every number.

    Attributes:
      error: the mean error over the judged tasks (E in the paper); NaN if undefined.
      paper_total: FLOPs of the `train` phase over all trials of all tasks (cFLOP in the paper); NaN
        if the run is unfinished or its cost unknown.
      full_total: FLOPs of all phases, `init` included; NaN as `paper_total`, and if only a part of
        the cost is known.
      judged: number of judged tasks.
      reason: why a number is NaN; empty where all are defined.
    """

    error: float
    paper_total: int | float
    full_total: int | float
    judged: int
    reason: str


def point(ledger: Ledger) -> Point:
    """Returns the point of one run.

    An unfinished run has no point: a mean over some of the tasks, or the cost of a part of the
    stream, would be the result of another experiment.

    Source: NEVIS'22, section 3: eq. 2 (E, the mean error) and eq. 3 (cFLOP, every trial included).
    """
    judged = [result for result in task_errors(ledger) if result.judged]
    if not ledger.complete:
        return Point(math.nan, math.nan, math.nan, len(judged), describe_progress(ledger))
    costs = phase_flops(ledger)
    totals = costs["train"], sum(costs.values())
    unknown = costs_unknown(ledger)
    if not judged:
        reason = "the stream has no task that this protocol judges"
        return Point(math.nan, *totals, 0, _both(reason, unknown))
    undefined = [f"{r.task_id}: {r.reason}" for r in judged if math.isnan(r.error)]
    if undefined:
        more = f" and {len(undefined) - 3} more" if len(undefined) > 3 else ""
        reason = f"error undefined for {'; '.join(undefined[:3])}{more}"
        return Point(math.nan, *totals, len(judged), _both(reason, unknown))
    error = math.fsum(result.error for result in judged) / len(judged)
    return Point(error, *totals, len(judged), unknown)


def costs_unknown(ledger: Ledger) -> str:
    """Returns why the costs of a run, or a part of them, are unknown; empty if they were counted.

    What nobody counted is unknown and not nothing: a learner that computes nothing charges 0.
    """
    if ledger.header.flops is None:
        return ledger.header.flops_reason
    missing = " and ".join(ledger.uncounted)
    return missing and (
        f"cost unknown: nothing was charged to {missing} (ctx.jit or ctx.charge; ctx.charge(0)"
        " says that it costs nothing)"
    )


def phase_flops(ledger: Ledger) -> dict[str, int | float]:
    """Returns the FLOPs of each phase over all records and trials: exact integers, or NaN if they
    are unknown.

    The predictions of kept trials that were not chosen (`others`) are left out: they serve the
    evaluation cache, not the learner.
    """
    if ledger.header.flops is None:
        return dict.fromkeys(PHASES, math.nan)
    totals: dict[str, int | float] = dict.fromkeys(PHASES, 0)
    totals |= dict.fromkeys(ledger.uncounted, math.nan)
    for record in (ledger.header, *ledger.events):
        for phase, by_trial in record.flops.items():
            totals[phase] += sum(by_trial.values())
    return totals


def _both(*reasons: str) -> str:
    return "; ".join(filter(None, reasons))


def describe_progress(ledger: Ledger) -> str:
    """Returns how far an incomplete run has come, in words."""
    tasks, events = len(ledger.of_kind(TrainRecord)), len(ledger.events)
    if ledger.header.tasks is None:  # the number follows from the results
        return f"unfinished: {tasks} tasks trained, {events} events done"
    return (
        f"unfinished: {tasks} of {ledger.header.tasks} tasks trained,"
        f" {events} of {ledger.header.events} events done"
    )
