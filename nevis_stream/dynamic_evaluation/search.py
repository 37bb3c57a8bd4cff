"""Search: finds the place in the ranked list up to which a new model is right."""

import numpy as np

from nevis_stream.dynamic_evaluation.rank import Rank


def thresholds(outcomes: np.ndarray) -> np.ndarray:
    """Returns the number of leading ones that fits each row best, the smallest if several do; see
    `optima`.
    """
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

    Errors fall where they rise, so the optima are where they are largest, including the empty
    prefix: exact, in O(b). Unknown cells count 0.

    Source: Sort & Search, theorem 3.1; the published listing returns k - 1 and never tries the
      empty prefix.
    """
    steps = (outcomes == 1).astype(np.int32) - (outcomes == 0)
    prefix = np.zeros((*outcomes.shape[:-1], outcomes.shape[-1] + 1), np.int32)
    np.cumsum(steps, axis=-1, out=prefix[..., 1:])
    return prefix


def cuts(rank: Rank, positions: np.ndarray, outcomes: np.ndarray) -> np.ndarray:
    """Returns the threshold among all n positions, int64[m], with the fewest errors at the asked
    ones.

    All thresholds between two neighbouring asked positions have the same errors, so several may be
    optimal. Then the known models decide: take the median of the thresholds that are expected
    (`Rank.expect`) between the smallest and the largest optimum; the optimum nearest to this
    median is returned. If 0 (or b) leading ones are the only optimum for the b asked positions, the
    threshold is 0 (or n).

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
    doubled_median = np.where(low == 0, 0, rank.expect(np.maximum(low - 1, 0))) + rank.expect(high)
    while (low < high).any():
        middle = (low + high) // 2
        enough = 2 * rank.expect(middle) >= doubled_median
        low, high = (
            np.where(enough | (low == high), low, middle + 1),
            np.where(enough, middle, high),
        )
    return low
