"""Every pair of methods compared, and every method with one reference."""

import contextlib
import itertools
import math
from collections.abc import Sequence

import pandas as pd

from nevis_stream.analysis.differences import Comparison, compare_groups, mean_cost
from nevis_stream.analysis.points import point
from nevis_stream.analysis.regret import REFERENCE
from nevis_stream.analysis.seeds import SeedGroup, spread
from nevis_stream.analysis.verdict import mark
from nevis_stream.errors import BadInput

_METHODS = ["label_a", "label_b", "seeds_a", "seeds_b", "tasks"]
_INTERVALS = ["difference", "tasks_low", "tasks_high", "seeds_low", "seeds_high"]
_COLUMNS = [*_METHODS, *_INTERVALS, "cost_ratio", "says", "remarks"]


def pairs(groups: Sequence[SeedGroup]) -> tuple[list[Comparison], list[str]]:
    """Returns every pair of methods that have a finished run, compared on the judged tasks, and why
    other pairs are missing.
    """
    finished = _finished(groups)
    reasons = [f"{group.label}: no finished run" for group in groups if group not in finished]
    comparisons = []
    for a, b in itertools.combinations(finished, 2):
        try:
            comparisons.append(compare_groups(a, b))
        except BadInput as error:
            reasons.append(f"{a.label} and {b.label}: {error}")
    return comparisons, reasons


def against_reference(groups: Sequence[SeedGroup]) -> list[Comparison]:
    """Returns each method against its reference: indep with its budget, else the indep nearest in
    cost.

    Without any indep, the reference of all is the method with the lowest mean error.
    """
    finished = _finished(groups)
    references = [group for group in finished if group.learner.casefold() == REFERENCE]
    references = references or sorted(finished, key=_error)[:1]
    comparisons = []
    for group in finished:
        if group in references:
            continue
        reference = min(
            references,
            key=lambda other, group=group: (other.budget != group.budget, _distance(group, other)),
        )
        # where two methods cannot be compared, the table of pairs gives the reason
        with contextlib.suppress(BadInput):
            comparisons.append(compare_groups(group, reference))
    return comparisons


def table(comparisons: Sequence[Comparison]) -> pd.DataFrame:
    """Returns one row for each pair: `difference` in mean error (A - B), its 95% intervals over
    tasks and seeds and over seeds alone, the ratio of training FLOPs (A / B) and the verdict in a
    few words.
    """
    rows = [
        {
            "label_a": comparison.a.label,
            "label_b": comparison.b.label,
            "seeds_a": comparison.over_tasks.seeds[0],
            "seeds_b": comparison.over_tasks.seeds[1],
            "tasks": comparison.over_tasks.tasks,
            "difference": comparison.over_tasks.estimate,
            "tasks_low": comparison.over_tasks.low,
            "tasks_high": comparison.over_tasks.high,
            "seeds_low": comparison.over_seeds.low,
            "seeds_high": comparison.over_seeds.high,
            "cost_ratio": comparison.paper.ratio,
            "says": mark(comparison),
            "remarks": "; ".join(comparison.remarks),
        }
        for comparison in comparisons
    ]
    return pd.DataFrame(rows, columns=_COLUMNS)


def _finished(groups: Sequence[SeedGroup]) -> list[SeedGroup]:
    """The groups that have a finished run."""
    return [group for group in groups if any(run.ledger.complete for run in group.runs)]


def _error(group: SeedGroup) -> float:
    error = spread([point(run.ledger).error for run in group.runs]).mean
    return math.inf if math.isnan(error) else error


def _distance(group: SeedGroup, other: SeedGroup) -> float:
    costs = mean_cost(group, "paper_total"), mean_cost(other, "paper_total")
    return abs(math.log(costs[0] / costs[1])) if all(cost > 0 for cost in costs) else math.inf
