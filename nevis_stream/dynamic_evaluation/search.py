"""Search: how far down the ranked list a new model is right."""

import numpy as np

from nevis_stream.dynamic_evaluation.sort import Rank


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
    is the median of what is expected of it (`Rank.expected`), and the optimum nearest to that is
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
