"""How many answers a new model needs: measured on the models of the board, each left out in turn.

Standard errors of K of n samples are c √(1 / K - 1 / n), where c hardly depends on K. It is
measured at a few budgets and interpolated between them.

A difference d is told apart in four of five cases if d ≥ h + z σ: h is the half-width of the 95%
interval, σ the standard deviation of the estimate, z the 0.8 quantile of the normal distribution.
Of two new models, which are asked apart from each other, both grow by √2.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import jax
import numpy as np

from nevis_stream.dynamic_evaluation import known_models, methods
from nevis_stream.dynamic_evaluation.known_models import read_known
from nevis_stream.errors import BadInput, plural
from nevis_stream.progress import SILENT, Progress
from nevis_stream.queries.board import Board, check_board, check_common_mean
from nevis_stream.queries.oracle import MatrixOracle, check_budget

if TYPE_CHECKING:
    import pandas as pd

BUDGETS = (20, 50, 100, 200, 500, 1000)
POINTS = (1, 3, 5)
_Z = 0.8416  # 0.8 quantile of the normal distribution


@dataclass(frozen=True)
class PlannedBudget:
    """What a number of answers is expected to give.

    Attributes:
      answers: the number.
      error: the mean absolute error of the estimate, in the units of the board.
      width: the mean width of the 95% interval.
      prices: by unit, what so many samples cost in the mean.
    """

    answers: int
    error: float
    width: float
    prices: Mapping[str, float]


@dataclass(frozen=True)
class PlannedDifference:
    """How many answers tell a difference apart in four of five cases.

    Attributes:
      points: hundredths of the range of the samples.
      from_known: answers of a new model that is compared with a known one.
      from_new: answers of each of two new models.
    """

    points: float
    from_known: int
    from_new: int


@dataclass(frozen=True)
class BudgetPlan:
    """What new models of a board need.

    Attributes:
      budgets: what numbers of answers give.
      differences: what differences need.
      method: of the estimates.
      models: number of known models that were left out in turn.
      samples: number of samples of the board.
    """

    budgets: Sequence[PlannedBudget]
    differences: Sequence[PlannedDifference]
    method: str
    models: int
    samples: int

    def __str__(self) -> str:
        """Returns a line for each budget and difference, for people."""
        lines = [f"{self.method}, by {plural(self.models, 'known model')} left out in turn:"]
        for each in self.budgets:
            prices = "".join(f", {price:,.4g} {unit}" for unit, price in each.prices.items())
            lines.append(
                f"  {each.answers:,} answers: error {each.error:.4f}, 95% interval"
                f" {each.width:.4f} wide{prices}"
            )
        for difference in self.differences:
            lines.append(
                f"  {plural(difference.points, 'point')} apart, seen in 4 of 5 cases:"
                f" {difference.from_known:,} answers against a known model,"
                f" {difference.from_new:,} of each of two new ones"
            )
        return "\n".join(lines)

    def to_pandas(self) -> "pd.DataFrame":
        """Returns the budgets as rows, with a column for each price."""
        import pandas as pd  # takes a third of a second

        rows = [vars(each) | dict(each.prices) for each in self.budgets]
        return pd.DataFrame(rows).drop(columns="prices")


def plan(
    board: Board,
    budgets: Sequence[int] | None = None,
    points: Sequence[float] = POINTS,
    *,
    method: str | None = None,
    seed: int = 0,
    progress: Progress = SILENT,
) -> BudgetPlan:
    """Returns how many answers a new model needs, measured on the models of a board, each left out
    in turn and evaluated as if it were new.

    Args:
      board: the known models, at least two.
      budgets: numbers of answers; None: those of `BUDGETS` that are at most half of the samples.
      points: differences between models, in hundredths of the range of the samples.
      method: name of a method; None: `informed_mean`.
      seed: of the method's random choices.
      progress: is told the stages.

    Raises:
      BadInput: there are too few models, there is no such method, a budget is above the number of
        samples, or a difference is not above 0.
    """
    board = check_board(board)
    check_common_mean(board.facts, "read the board with one of them.")
    models, n = board.shape
    if budgets is None:
        budgets = [each for each in BUDGETS if each <= n // 2] or [max(n // 2, 1)]
    budgets = sorted({check_budget(each, n) for each in budgets})
    if wrong := [each for each in points if not 0 < each < np.inf]:
        raise BadInput(f"points={wrong[0]}: a difference above 0 is expected.")
    used = methods.get_within_budget(method or methods.DEFAULT)
    (part,) = board.facts.parts
    known = read_known(board.matrix, part.columns)
    if models < 2:
        raise BadInput(
            f"the board has {plural(models, 'model')}: a plan needs at least two, as each is left"
            " out and estimated by the others."
        )
    found: dict[int, list[np.ndarray]] = {}
    key, left_out = jax.random.key(seed), 0
    for values, rest in known_models.leave_out(known, np.random.default_rng(seed)):
        progress.stage(f"{plural(left_out, 'model')} left out so far")
        evaluator, left_out = used.fit(rest, None, key), left_out + len(values)
        measured, truth = values.shape[1], rest.facts.mean(values)
        for budget in [each for each in budgets if each < measured] or [max(measured // 2, 1)]:
            estimates = evaluator.evaluate(MatrixOracle(values), len(values), budget, key)
            errors, widths = estimates.accuracy - truth, estimates.high - estimates.low
            unit = _shrink(budget, measured)
            found.setdefault(budget, []).append(np.stack([errors, widths / 2]) / unit)
    scale, counts = part.high - part.low, np.array(sorted(found))
    each_budget = [np.concatenate(found[count], axis=1) for count in counts.tolist()]
    errors = np.array([np.abs(each[0]).mean() for each in each_budget])
    deviations = np.array([np.sqrt((each[0] ** 2).mean()) for each in each_budget])
    halves = np.array([_average(each[1]) for each in each_budget])
    rows = []
    for budget in budgets:
        error, half = (
            scale * _shrink(budget, n) * float(np.interp(np.log(budget), np.log(counts), each))
            for each in (errors, halves)
        )
        prices = {unit: budget * float(np.mean(each)) for unit, each in board.prices.items()}
        rows.append(PlannedBudget(budget, error, 2 * half, prices))
    needed = scale * (halves + _Z * deviations)
    count_for = partial(_count_for, lambda k: np.interp(np.log(k), np.log(counts), needed), n)
    differences = [
        PlannedDifference(each, count_for(gap), count_for(gap / np.sqrt(2)))
        for each in points
        for gap in [each / 100 * scale]
    ]
    return BudgetPlan(
        rows, differences, used.choose_for_known(known).name, min(left_out, models), n
    )


def _shrink(budget: int, n: int) -> float:
    """Returns the factor of a standard error of so many of n samples."""
    return float(np.sqrt(max(1 / budget - 1 / n, 0)))


def _average(halves: np.ndarray) -> float:
    """Returns the mean of the half-widths that there are; NaN if there are none."""
    there = halves[~np.isnan(halves)]
    return float(there.mean()) if len(there) else np.nan


def _count_for(constant: Callable[[np.ndarray], np.ndarray], n: int, gap: float) -> int:
    """Returns the least number of n answers with which a gap is seen; n where no smaller one is
    enough.
    """
    counts = np.arange(1, n + 1)
    seen = constant(counts) * np.sqrt(1 / counts - 1 / n) <= gap
    return int(counts[seen][0]) if seen.any() else n
