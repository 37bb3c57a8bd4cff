"""The page's table of cost: one row a method, one column a phase."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from nevis_stream.analysis.points import PHASES, costs_unknown, phase_flops
from nevis_stream.analysis.runs import Run
from nevis_stream.analysis.seeds import SeedGroup, spread


@dataclass(frozen=True)
class PhaseRow:
    """One method's mean cost by phase, over its finished runs.

    Attributes:
      label: the method.
      n: number of runs in the mean.
      cells: (FLOPs, share of the total) of each phase.
      total: FLOPs of all phases.
      partial: whether none of the runs is finished, so that this is the cost so far.
    """

    label: str
    n: int
    cells: tuple[tuple[float, float], ...]
    total: float
    partial: bool


def phase_columns(runs: Sequence[Run]) -> list[str]:
    """Returns the phases that a run may have, and any other that one of these has."""
    return list(dict.fromkeys([*PHASES, *(p for run in runs for p in phase_flops(run.ledger))]))


def phase_rows(groups: Sequence[SeedGroup], columns: Sequence[str]) -> list[PhaseRow]:
    """Returns one row for each method whose costs are known."""
    return [_row(group, columns) for group in groups if not costs_unknown(group.runs[0].ledger)]


def _row(group: SeedGroup, columns: Sequence[str]) -> PhaseRow:
    finished = [run for run in group.runs if run.ledger.complete]
    costs = [phase_flops(run.ledger) for run in finished or group.runs]
    means = [spread([cost.get(phase, 0) for cost in costs]).mean for phase in columns]
    total = spread([sum(cost.values()) for cost in costs]).mean
    shares = [mean / total if total else math.nan for mean in means]
    cells = tuple(zip(means, shares, strict=True))
    return PhaseRow(group.label, len(costs), cells, total, partial=not finished)
