"""Every pair of methods compared, every method with one reference, and two methods given by
their run directories.
"""

import contextlib
import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from nevis_stream.analysis.differences import Comparison, average_cost, compare_groups
from nevis_stream.analysis.methods import list_method_points
from nevis_stream.analysis.points import point
from nevis_stream.analysis.regret import REFERENCE
from nevis_stream.analysis.runs import LeftOut, Run, read_runs
from nevis_stream.analysis.seeds import SeedGroup, group_by_seed, spread
from nevis_stream.analysis.verdict import abbreviate_verdict
from nevis_stream.errors import BadInput
from nevis_stream.run_directory.ledger import find_run_dirs

_METHODS = ["label_a", "label_b", "seeds_a", "seeds_b", "tasks"]
_INTERVALS = ["difference", "tasks_low", "tasks_high", "seeds_low", "seeds_high"]
_COLUMNS = [*_METHODS, *_INTERVALS, "cost_ratio", "says", "remarks"]


def compare_pairs(groups: Sequence[SeedGroup]) -> tuple[list[Comparison], list[str]]:
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


def compare_with_references(groups: Sequence[SeedGroup]) -> list[Comparison]:
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


def make_table(comparisons: Sequence[Comparison]) -> pd.DataFrame:
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
            "says": abbreviate_verdict(comparison),
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
    costs = average_cost(group, "paper_total"), average_cost(other, "paper_total")
    return abs(math.log(costs[0] / costs[1])) if all(cost > 0 for cost in costs) else math.inf


RunDirs = str | Path | Sequence[str | Path]
Points = Mapping[str, tuple[float, float]]
"""By a method's label: its mean error, and its mean training FLOPs."""


def compare(
    a: RunDirs, b: RunDirs, *, judged_only: bool = True, across_streams: bool = False
) -> Comparison:
    """Compares two methods: which has the lower error, on each task and overall, and at what cost.

    Args:
      a, b: a run directory of each method, or a folder of several seeds, or several of these. Runs
        that differ only in their seed are one method; of several methods on a side, the two that
        are closest in cost are compared.
      judged_only: whether to compare only the tasks that the protocol judges.
      across_streams: whether to compare the tasks that two streams have in common, with the same
        data.

    Returns: the comparison; printed, it says in words what the runs can tell.

    Raises:
      BadInput: a side has no usable run, both have the same one, or there is no common task.
    """
    sides = [
        [path for each in given for path in find_run_dirs(Path(each))]
        for given in ([side] if isinstance(side, str | Path) else side for side in (a, b))
    ]
    runs, left_out = read_runs(itertools.chain(*sides))
    groups = split_methods(runs, sides, left_out)
    first, second = find_nearest_pair(groups, [list_points(side) for side in groups])
    return compare_groups(first, second, judged_only=judged_only, across_streams=across_streams)


def split_methods(
    runs: Sequence[Run], sides: Sequence[Sequence[Path]], left_out: Sequence[LeftOut]
) -> list[list[SeedGroup]]:
    """Returns the methods of two sides.

    Args:
      runs: of both sides.
      sides: their paths.
      left_out: what could not be read, for the message.

    Raises:
      BadInput: a side has no usable run, or both have runs of one method.
    """
    groups = group_by_seed(runs)
    split = [
        [group for group in groups if {run.path for run in group.runs} & set(side)]
        for side in sides
    ]
    both = [group.label for group in split[0] if group in split[1]]
    if both:
        raise BadInput(
            f"A and B both contain runs of {both[0]}, which differ only in their seed and so are"
            " one method. Name two methods."
        )
    reasons = "".join(f"\n  {item.path}: {item.reason}" for item in left_out)
    for name, side in zip("AB", split, strict=True):
        if not side:
            raise BadInput(f"no usable run for {name}:{reasons}")
    return split


def list_points(methods: Sequence[SeedGroup]) -> Points:
    """Returns each method's error and training FLOPs."""
    return {m.group.label: (m.error.mean, m.paper_total.mean) for m in list_method_points(methods)}


def find_nearest_pair(
    groups: Sequence[Sequence[SeedGroup]], points: Sequence[Points]
) -> tuple[SeedGroup, SeedGroup]:
    """Returns the pair of methods closest in cost; of equally close pairs, the most expensive."""

    def distance(pair: tuple[SeedGroup, ...]) -> tuple[float, float]:
        costs = [float(side[group.label][1]) for side, group in zip(points, pair, strict=True)]
        if not all(cost > 0 for cost in costs):
            return math.inf, 0.0
        return round(abs(math.log(costs[0] / costs[1])), 3), -costs[0]

    first, second = min(itertools.product(*groups), key=distance)
    return first, second
