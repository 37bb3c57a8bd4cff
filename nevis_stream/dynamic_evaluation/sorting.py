"""Sort & Search: ranks samples from easy to hard by the known models' values on them, and finds the
place in the ranked list up to which a new model is right.

A sample's score is its mean over the models that were observed on it, so holes (255, or NaN for a
confidence) do not affect it; a sample without observations gets the mean of all samples. Samples
with equal scores stay in the order `ties`, by default that of the columns. So the rank does not
depend on the order of the rows. A row that is ones and then zeros along the rank, as Search
predicts, does not change it, provided that no sample has holes.
"""

import dataclasses
import functools

import numpy as np
from scipy.special import ndtr, ndtri

from nevis_stream.cost.compute import Compute
from nevis_stream.errors import BadInput, unknown
from nevis_stream.queries.matrix import Matrix
from nevis_stream.queries.samples import UNKNOWN, sum_columns

ALL = 1 << 29  # what `Rank.compute_cdf` returns for all models: two of them are an int32
_SPREAD, _EVEN = 1.5, 0.05  # see `Rank.compute_cdf`


@dataclasses.dataclass(frozen=True)
class Rank:
    """Samples from easy to hard.

    Args:
      total: float64[n], sum of the outcomes (or confidences) over the models that were observed on
        each sample. It is exact: whole numbers, or multiples of 2⁻²⁴, for fewer than 2²⁹ models.
      counts: int64[n], the number of these models.
      ties: int64[n], the order of samples with equal scores; None: that of the columns.
    """

    total: np.ndarray
    counts: np.ndarray
    ties: np.ndarray | None = None

    @property
    def n(self) -> int:
        """Number of samples."""
        return len(self.total)

    @functools.cached_property
    def scores(self) -> np.ndarray:
        """float64[n], the mean over the models that were observed on each sample."""
        if not self.counts.any():
            raise BadInput("no outcome is known; a rank needs at least one.")
        overall = self.total.sum() / self.counts.sum()
        return np.divide(
            self.total, self.counts, out=np.full(self.n, overall), where=self.counts > 0
        )

    def _choose_keys(self) -> np.ndarray:
        """Returns the values that samples are sorted by, float64[n]: sums if all samples have
        equally many observations, else scores.
        """
        return (
            self.total if self.counts[0] and (self.counts == self.counts[0]).all() else self.scores
        )

    @functools.cached_property
    def order(self) -> np.ndarray:
        """int64[n], columns from easy to hard."""
        return sort_descending(self._choose_keys(), self.ties)

    @functools.cached_property
    def place(self) -> np.ndarray:
        """int64[n], the position of each column in the order."""
        place = np.empty(self.n, np.int64)
        place[self.order] = np.arange(self.n)
        return place

    def compute_cdf(self, thresholds: np.ndarray) -> np.ndarray:
        """Returns the cumulative distribution of the thresholds (numbers of leading ones) of models
        like the known ones: the fraction of models whose threshold is at most a given one.

        If answers follow the order without noise, the known models that are right at a position are
        those with a threshold above it. Noise moves scores closer to one half than this fraction:
        in a normal ogive model a score is Φ(a d) if the fraction is Φ(d), with a below one. So
        scores are spread by `1 / a` = `_SPREAD` on the normal scale. A fraction `_EVEN` of the
        thresholds is distributed evenly.

        Args:
          thresholds: int64[...] of 0 … n.

        Returns: int64[...], fractions in units of 1 / `ALL`: whole numbers, so that medians are the
          same on every machine.
        """
        inside = np.minimum(thresholds, self.n - 1)
        column = self.order[inside]
        total, counts = self.total[column], self.counts[column]
        score = total / np.maximum(counts, 1) if (counts > 0).all() else self.scores[column]
        fraction = (1 - _EVEN) * ndtr(-_SPREAD * ndtri(score)) + _EVEN * (inside + 1) / (self.n + 1)
        return np.where(thresholds == self.n, ALL, np.floor(fraction * ALL)).astype(np.int64)

    def add(self, rows: np.ndarray) -> "Rank":
        """Returns the rank with more rows; O(rows × n).

        If it was sorted by sum, it is the same as a rank of all rows. One by
        recursive sum has the scores of all rows, but equal scores stay in the order of the old
        ties, which the new rows do not refine: to refine them, sort again.

        Args:
          rows: uint8[r, n] of 0, 1 and 255.
        """
        total, counts = sum_columns(rows)
        if len(total) != self.n:
            raise BadInput(f"a row of {len(total)} samples cannot be added to a rank of {self.n}.")
        return Rank(self.total + total, self.counts + counts, self.ties)


def sort_descending(scores: np.ndarray, ties: np.ndarray | None = None) -> np.ndarray:
    """Returns the order of falling scores, float64[n], as int64[n] columns; equal scores stay in
    the order `ties`, int64[n], or, if that is None, in the order of the columns.
    """
    low, high = scores.min(), scores.max()
    small = high - low < 1 << 16 and (scores == np.floor(scores)).all()
    # NumPy sorts keys of two bytes in linear time
    keys = (high - scores).astype(np.uint16) if small else -scores
    if ties is None:
        return np.argsort(keys, kind="stable")
    return ties[np.argsort(keys[ties], kind="stable")]


BY = ("sum", "recursive")


def sort(
    known: Matrix | np.ndarray,
    by: str = "sum",
    depth: int = 2,
    ties: np.ndarray | None = None,
) -> Rank:
    """Ranks samples from easy to hard.

    Args:
      known: a `Matrix`, or an `EvaluationCache` (its observed cells); or
        uint8[m0, n] of 0, 1 and 255.
      by: "sum" of the outcomes, or "recursive" sum.
      depth: for "recursive" only: 1 is the plain sum, 2 the paper's two stages; more stages refine
        the order further.
      ties: int64[n], the order of samples with equal scores (for example of an older rank); None:
        that of the columns.

    Raises:
      BadInput: `by` is unknown, the matrix does not fit it, the depth is below 1, or ties are not
        an order of the samples.

    Source: Sort & Search, section 3.
    """
    if by not in BY:
        raise BadInput(unknown("order", by, BY))
    if depth < 1:
        raise BadInput(f"a recursive sum of depth {depth}: at least 1, the plain sum, is expected.")
    if ties is not None and not np.array_equal(np.sort(ties), np.arange(known.shape[1])):
        raise BadInput(
            f"ties must be an order of the {known.shape[1]} samples, with every column once."
        )
    if hasattr(known, "column_sums"):
        if by == "sum":
            total, counts = known.column_sums()
            return Rank(total.astype(np.float64), counts.astype(np.int64), ties)
        known = known.matrix()
    rank = Rank(*sum_columns(known), ties)
    return refine(known, rank, depth) if by == "recursive" else rank


def rank_samples(known: Matrix, ctx: Compute, by: str = "sum") -> Rank:
    """Returns the rank of known models (a `Matrix`), and counts the FLOPs of `sort`."""
    models, n = known.shape
    ctx.charge((2 if by == "sum" else 6) * models * n + n * max(n - 1, 1).bit_length())
    return sort(known, by)


def refine(known: np.ndarray, rank: Rank, depth: int) -> Rank:
    """Returns the rank with ties ordered by the models whose threshold is among them (recursive
    sum).

    A group of tied samples has the positions lo … hi. Only models whose best threshold is in this
    range distinguish its samples, so the group is ordered by the mean over these models. Groups
    that remain are treated in the same way, `depth` - 1 times in all.

    Source: Sort & Search, section 3, "recursive sum".
    """
    order, levels = rank.order.copy(), [rank.scores]
    for _ in range(depth - 1):
        columns = known[:, order]
        cuts = fit_thresholds(columns)
        changes = np.any([level[order][1:] != level[order][:-1] for level in levels], axis=0)
        bounds = np.concatenate([[0], np.flatnonzero(changes) + 1, [len(order)]])
        level = np.zeros(len(order))
        for lo, hi in zip(bounds[:-1], bounds[1:], strict=True):
            deciding = (
                columns[(cuts >= lo) & (cuts <= hi), lo:hi] if hi - lo > 1 else columns[:0, lo:hi]
            )
            counts = (deciding != UNKNOWN).sum(axis=0)
            mean = (deciding == 1).sum() / max(counts.sum(), 1)
            level[order[lo:hi]] = np.divide(
                (deciding == 1).sum(axis=0), counts, out=np.full(hi - lo, mean), where=counts > 0
            )
            order[lo:hi] = order[lo:hi][np.argsort(-level[order[lo:hi]], kind="stable")]
        levels.append(level)
    return dataclasses.replace(rank, ties=order)


def fit_thresholds(outcomes: np.ndarray) -> np.ndarray:
    """Returns the number of leading ones that fits each row best, int64[...], the smallest if
    several do; the argument is that of `find_optima`.
    """
    return find_optima(outcomes)[0]


def find_optima(outcomes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the smallest and the largest number of leading ones with the fewest errors, which are
    zeros among the leading ones and ones after them.

    Args:
      outcomes: uint8[..., b] in the rank's order; 255 where unknown.

    Returns: int64[...] twice.
    """
    prefix = _sum_prefixes(outcomes)
    return prefix.argmax(axis=-1), outcomes.shape[-1] - prefix[..., ::-1].argmax(axis=-1)


def _sum_prefixes(outcomes: np.ndarray) -> np.ndarray:
    """Returns the sums of all prefixes of outcomes, int32[..., b + 1]: ones count 1, zeros -1 and
    unknown cells 0.

    Errors fall where these sums rise, so the optima are where they are largest, including the empty
    prefix: exact, in O(b).

    Source: Sort & Search, theorem 3.1; the published listing returns k - 1 and never tries the
      empty prefix.
    """
    steps = (outcomes == 1).astype(np.int32) - (outcomes == 0)
    prefix = np.zeros((*outcomes.shape[:-1], outcomes.shape[-1] + 1), np.int32)
    np.cumsum(steps, axis=-1, out=prefix[..., 1:])
    return prefix


def find_thresholds(rank: Rank, positions: np.ndarray, outcomes: np.ndarray) -> np.ndarray:
    """Returns the threshold among all n positions, int64[m], with the fewest errors at the asked
    ones.

    All thresholds between two neighbouring asked positions have the same errors, so several may be
    optimal. Then the known models decide: of their thresholds (`Rank.compute_cdf`) between the
    smallest and the largest optimum, the median is taken, and the optimum nearest to it is
    returned. If 0 (or b) leading ones are the only optimum for the b asked positions, the
    threshold is 0 (or n).

    Args:
      rank: the samples' order.
      positions: int64[m, b], of the asked samples in the order, ascending.
      outcomes: uint8[m, b], of these samples; 255 where unknown.
    """
    prefix, (models, budget) = _sum_prefixes(outcomes), outcomes.shape
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
    middle = _find_median(rank, low[rows, first], high[rows, last])[:, None]
    away = np.where(optimal, np.maximum(np.maximum(low - middle, middle - high), 0), rank.n + 1)
    nearest = away.argmin(axis=1)
    return np.clip(middle[:, 0], low[rows, nearest], high[rows, nearest])


def _find_median(rank: Rank, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Returns the median of the thresholds from `low` to `high`, int64[m] each, of models like the
    known ones, by bisection.
    """
    below = np.where(low == 0, 0, rank.compute_cdf(np.maximum(low - 1, 0)))
    doubled_median = below + rank.compute_cdf(high)
    while (low < high).any():
        middle = (low + high) // 2
        enough = 2 * rank.compute_cdf(middle) >= doubled_median
        low, high = (
            np.where(enough | (low == high), low, middle + 1),
            np.where(enough, middle, high),
        )
    return low
