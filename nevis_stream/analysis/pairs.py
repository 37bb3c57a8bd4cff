"""Every pair of methods compared, and every method with one reference."""

import itertools
import math
from collections.abc import Sequence

import pandas as pd

from nevis_stream.analysis.differences import Comparison, compare
from nevis_stream.analysis.points import point
from nevis_stream.analysis.regret import REFERENCE
from nevis_stream.analysis.seeds import SeedGroup, spread
from nevis_stream.analysis.verdict import mark
from nevis_stream.errors import BadInput

_COLUMNS = [
    "label_a",
    "label_b",
    "seeds_a",
    "seeds_b",
    "tasks",
    "difference",
    "tasks_low",
    "tasks_high",
]
_COLUMNS += ["seeds_low", "seeds_high", "cost_ratio", "says", "remarks"]


def pairs(groups: Sequence[SeedGroup]) -> tuple[list[Comparison], list[str]]:
    """Returns every pair of methods that have a finished run, compared on the judged tasks, and why
    others are missing.
    """
    finished = [group for group in groups if any(run.ledger.complete for run in group.runs)]
    reasons = [f"{group.label}: no finished run" for group in groups if group not in finished]
    found = []
    for a, b in itertools.combinations(finished, 2):
        try:
            found.append(compare(a, b))
        except BadInput as error:
            reasons.append(f"{a.label} and {b.label}: {error}")
    return found, reasons


def against_reference(groups: Sequence[SeedGroup]) -> list[Comparison]:
    """Returns each method against its reference: Indep with its budget, else the Indep nearest in
    cost.

    Without any Indep, the reference of all is the method with the lowest mean error.
    """
    finished = [group for group in groups if any(run.ledger.complete for run in group.runs)]
    references = [group for group in finished if group.learner.casefold() == REFERENCE]
    references = references or sorted(finished, key=_error)[:1]
    found = []
    for group in finished:
        if group in references:
            continue
        reference = min(
            references,
            key=lambda other, group=group: (other.budget != group.budget, _distance(group, other)),
        )
        try:
            found.append(compare(group, reference))
        except BadInput:
            continue  # the table of pairs gives the reason
    return found


def table(comparisons: Sequence[Comparison]) -> pd.DataFrame:
    """Returns one row a pair: `difference` in E (A - B), its 95% intervals over tasks and seeds and
    over seeds alone, the ratio of training FLOPs (A / B) and the verdict in a few words.
    """
    rows = [
        {
            "label_a": found.a.label,
            "label_b": found.b.label,
            "seeds_a": found.over_tasks.seeds[0],
            "seeds_b": found.over_tasks.seeds[1],
            "tasks": found.over_tasks.tasks,
            "difference": found.over_tasks.estimate,
            "tasks_low": found.over_tasks.low,
            "tasks_high": found.over_tasks.high,
            "seeds_low": found.over_seeds.low,
            "seeds_high": found.over_seeds.high,
            "cost_ratio": found.paper.ratio,
            "says": mark(found),
            "remarks": "; ".join(found.remarks),
        }
        for found in comparisons
    ]
    return pd.DataFrame(rows, columns=_COLUMNS)


def _error(group: SeedGroup) -> float:
    error = spread([point(run.ledger).error for run in group.runs]).mean
    return math.inf if math.isnan(error) else error


def _distance(one: SeedGroup, other: SeedGroup) -> float:
    costs = [
        spread([point(run.ledger).paper_total for run in group.runs]).mean for group in (one, other)
    ]
    return abs(math.log(costs[0] / costs[1])) if all(cost > 0 for cost in costs) else math.inf
