"""Forward transfer (FWT): what a learner gains when it meets a data set for the second time."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nevis_stream.analysis.bootstrap import Interval, bound_over_tasks
from nevis_stream.analysis.points import list_learning_curves
from nevis_stream.run_directory.ledger import Ledger
from nevis_stream.run_directory.records import TrainRecord

Curve = Sequence[tuple[float, float]]

PUBLISHED = {"FT-prev": 0.199, "FT-s": 0.456}
"""By learner: mean FWT over the nine repeats of the full stream (NEVIS'22)."""


@dataclass(frozen=True)
class Repeat:
    """One data set that a run met again.

    Attributes:
      dataset_id: the data set.
      tasks: ids of the first and of the later task.
      curves: (step, dev error) of the chosen trial of each.
      areas: AUC of each, in [0, 1].
      value: FWT; at most 1, negative where the first time went better; NaN where undefined.
      reason: why the value is NaN; empty otherwise.
    """

    dataset_id: str
    tasks: tuple[str, str]
    curves: tuple[Curve, Curve]
    areas: tuple[float, float]
    value: float
    reason: str


def measure_forward_transfer(ledger: Ledger) -> list[Repeat]:
    """Returns FWT = (AUC_k - AUC_1) / (1 - AUC_1) for each later meeting with a data set, in stream
    order.

    AUC is the area under dev accuracy (1 - dev error) of the chosen trial against steps, by the
    trapezoid rule on the curve's own points, over the steps that both curves cover, divided by
    their number. The paper states no grid.

    Source: NEVIS'22, eq. 5.
    """
    curves = list_learning_curves(ledger)
    first_tasks: dict[str, str] = {}
    repeats = []
    for train in ledger.of_kind(TrainRecord):
        first = first_tasks.setdefault(train.dataset_id, train.task_id)
        if first != train.task_id:
            repeats.append(
                _repeat(
                    train.dataset_id,
                    (first, train.task_id),
                    (curves[first], curves[train.task_id]),
                )
            )
    return repeats


def measure_areas(first: Curve, later: Curve) -> tuple[float, float]:
    """Returns both curves' AUC over the steps that both cover; NaN where that is no range of steps.

    >>> measure_areas([(0, 1.0), (10, 0.0)], [(0, 0.5), (10, 0.0), (20, 0.0)])
    (0.5, 0.75)
    """
    if not first or not later:
        return math.nan, math.nan
    low = max(min(curve)[0] for curve in (first, later))
    high = min(max(curve)[0] for curve in (first, later))
    if low >= high:
        return math.nan, math.nan
    return _area(first, low, high), _area(later, low, high)


def average_transfer(values: np.ndarray) -> Interval:
    """Returns the mean FWT over repeats and seeds with its 95% interval over both.

    Args:
      values: float[repeats, seeds]; repeats without a value in every seed are left out.
    """
    defined = values[np.isfinite(values).all(axis=1)]
    if not defined.size:
        reason = "no repeat has a value in every seed"
        return Interval(math.nan, math.nan, math.nan, 0, (values.shape[1], 1), reason)
    return bound_over_tasks(defined, np.zeros((len(defined), 1)))


def _repeat(dataset_id: str, tasks: tuple[str, str], curves: tuple[Curve, Curve]) -> Repeat:
    first, later = measure_areas(*curves)
    value, reason = math.nan, ""
    if math.isnan(first):
        reason = "the two learning curves have no range of steps in common"
    elif first >= 1:
        reason = "the first curve has nothing left to gain"
    else:
        value = (later - first) / (1 - first)
    return Repeat(dataset_id, tasks, curves, (first, later), value, reason)


def _area(curve: Curve, low: float, high: float) -> float:
    last = dict(curve)  # of points at one step the last
    steps = np.array(sorted(last), dtype=float)
    accuracy = 1 - np.array([last[step] for step in sorted(last)], dtype=float)
    grid = np.unique([low, *steps[(steps > low) & (steps < high)], high])
    return float(np.trapezoid(np.interp(grid, steps, accuracy), grid) / (high - low))
