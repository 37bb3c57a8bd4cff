"""Search: how far down the ranked list a new model is right.

rank = sort(known)
plan = search.plan(rank, budget)
estimate = search.predict(rank, plan, oracle(plan))
"""

from dataclasses import dataclass

import numpy as np

from nevis_stream.dynamic_evaluation import sampling
from nevis_stream.dynamic_evaluation.method import UNKNOWN, Estimates, check_budget, generator
from nevis_stream.dynamic_evaluation.sort import Rank
from nevis_stream.errors import BadInput, unknown

SAMPLING = ("uniform", "random")


@dataclass(frozen=True)
class Plan:
    """What to ask of each new model.

    Args:
      positions: int64[m, b], places in the rank, ascending.
      samples: int64[m, b], the columns that stand there.
    """

    positions: np.ndarray
    samples: np.ndarray

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        """The samples, so that a plan can be handed to an oracle."""
        return np.array(self.samples, dtype, copy=copy)


def plan(rank: Rank, budget: int, models: int = 1, sampling_by: str = "uniform", key=None) -> Plan:
    """Chooses the samples to ask of each of m new models.

    Args:
      rank: the samples' order.
      budget: b, samples a model.
      models: m.
      sampling_by: "uniform", the centres of equal parts of the order, the same for all models; or
        "random", drawn for each.
      key: a JAX key, for "random" only.

    Raises:
      BadInput: a budget below 1 or above n, or an unknown way of sampling.
    """
    check_budget(budget, rank.n)
    if sampling_by not in SAMPLING:
        raise BadInput(unknown("sampling", sampling_by, SAMPLING))
    if sampling_by == "random":
        positions = sampling.at_random(rank.n, budget, models, generator(key))
    else:
        positions = np.broadcast_to(sampling.centres(rank.n, budget), (models, budget))
    return Plan(positions, rank.order[positions])


def thresholds(outcomes: np.ndarray) -> np.ndarray:
    """Returns how many leading ones fit each row best, the least such k in 0 … b; see `optima`."""
    return optima(outcomes)[0]


def optima(outcomes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the first and the last number of leading ones with the fewest errors: zeros before it
    and ones after it.

    Args:
      outcomes: uint8[..., b] in the rank's order; 255 where unknown.

    Returns: int64[...] twice.
    """
    prefix = _prefix(outcomes)
    return prefix.argmax(axis=-1), outcomes.shape[-1] - prefix[..., ::-1].argmax(axis=-1)


def _prefix(outcomes: np.ndarray) -> np.ndarray:
    """Returns the prefix sums of ±1, int32[..., b + 1].

    The errors fall as they rise, so the optima are where they are largest, the empty prefix
    included: exact, in O(b). Unknown cells count for nothing.

    Source: Sort & Search, theorem 3.1; the published listing returns k - 1 and never tries the
      empty prefix.
    """
    steps = (outcomes == 1).astype(np.int32) - (outcomes == 0)
    prefix = np.zeros((*outcomes.shape[:-1], outcomes.shape[-1] + 1), np.int32)
    np.cumsum(steps, axis=-1, out=prefix[..., 1:])
    return prefix


def cuts(rank: Rank, positions: np.ndarray, outcomes: np.ndarray) -> np.ndarray:
    """Returns the threshold among all n positions, int64[m], for outcomes at some: one with the
    fewest errors at these.

    Where several are optimal, the known models decide: between the least and the greatest optimum
    lies the median of what is expected of it (`Rank.expected`), and the optimum nearest to that is
    taken. Between two asked positions answers say nothing of where a model begins to fail, so all
    thresholds there are equal. None or all of the b, where nothing else is as good, are none and
    all of the n.

    Args:
      rank: the samples' order.
      positions: int64[m, b], ascending.
      outcomes: uint8[m, b].
    """
    prefix, (models, budget) = _prefix(outcomes), outcomes.shape
    optimal = prefix == prefix.max(axis=1, keepdims=True)
    first, last, rows = (
        optimal.argmax(axis=1),
        budget - optimal[:, ::-1].argmax(axis=1),
        np.arange(models),
    )
    low, high = np.zeros((models, budget + 1), np.int64), np.full((models, budget + 1), rank.n)
    # the thresholds that belong to each number of leading ones
    low[:, 1:], high[:, :-1] = positions + 1, positions
    low[first == budget, budget], high[last == 0, 0] = rank.n, 0
    middle = _median(rank, low[rows, first], high[rows, last])[:, None]
    away = np.where(optimal, np.maximum(np.maximum(low - middle, middle - high), 0), rank.n + 1)
    nearest = away.argmin(axis=1)
    return np.clip(middle[:, 0], low[rows, nearest], high[rows, nearest])


def _median(rank: Rank, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Returns the median of expected thresholds from `low` to `high`, int64[m], by bisection."""
    wanted = np.where(low == 0, 0, rank.expected(np.maximum(low - 1, 0))) + rank.expected(high)
    while (low < high).any():
        middle = (low + high) // 2
        enough = 2 * rank.expected(middle) >= wanted
        low, high = (
            np.where(enough | (low == high), low, middle + 1),
            np.where(enough, middle, high),
        )
    return low


def predict(rank: Rank, plan: Plan, outcomes: np.ndarray) -> Estimates:
    """Predicts every sample of m new models from the outcomes of the planned ones, which are kept
    as observed.

    Args:
      rank: the rank that the plan was made for.
      plan: what was asked.
      outcomes: uint8[m, b] of 0 and 1, the answers.

    Raises:
      BadInput: outcomes of another shape, or other than 0 and 1; a plan for another rank.
    """
    outcomes = np.asarray(outcomes)
    if outcomes.shape != plan.samples.shape:
        raise BadInput(
            f"the plan asks for {list(plan.samples.shape)} outcomes; these are"
            f" {list(outcomes.shape)}."
        )
    if not np.isin(outcomes, (0, 1)).all():
        hint = (
            f"; {UNKNOWN} means unknown, and a plan's samples must all be answered"
            if (outcomes == UNKNOWN).any()
            else ""
        )
        raise BadInput(f"outcomes are 0 or 1{hint}.")
    outcomes = outcomes.astype(np.uint8)
    if not np.array_equal(rank.order[np.minimum(plan.positions, rank.n - 1)], plan.samples):
        raise BadInput(
            "the plan was made for another rank: other samples stand at its positions in this one."
        )
    until = cuts(rank, plan.positions, outcomes)
    return Estimates.of(rank.place < until[:, None], plan.samples, outcomes)
