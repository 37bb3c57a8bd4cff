"""A rank: samples from easy to hard by the known models' values on them.

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

from nevis_stream.errors import BadInput
from nevis_stream.queries.matrix import UNKNOWN, check_outcomes

ALL = 1 << 29  # the unit of `Rank.expect`: two of them are an int32
_SPREAD, _ANYWHERE = 1.5, 0.05


@dataclasses.dataclass(frozen=True)
class Rank:
    """Samples from easy to hard.

    Args:
      total: float64[n], sum of the outcomes (or confidences) over the models that were observed on
        the sample. Exact: whole numbers, or multiples of 2⁻²⁴, for fewer than 2²⁹ models.
      seen: int64[n], the number of these models.
      ties: int64[n], the order of samples with equal scores; None: that of the columns.
    """

    total: np.ndarray
    seen: np.ndarray
    ties: np.ndarray | None = None

    @property
    def n(self) -> int:
        """Number of samples."""
        return len(self.total)

    @functools.cached_property
    def scores(self) -> np.ndarray:
        """float64[n], the mean over the models that were observed on each sample."""
        if not self.seen.any():
            raise BadInput("no outcome is known; a rank needs at least one.")
        overall = self.total.sum() / self.seen.sum()
        return np.divide(self.total, self.seen, out=np.full(self.n, overall), where=self.seen > 0)

    def _keys(self) -> np.ndarray:
        """Returns the values that fall along the order: sums if all samples have equally many
        observations, else scores.
        """
        return self.total if self.seen[0] and (self.seen == self.seen[0]).all() else self.scores

    @functools.cached_property
    def order(self) -> np.ndarray:
        """int64[n], columns from easy to hard."""
        return descending(self._keys(), self.ties)

    def bounds(self) -> np.ndarray:
        """Returns int64[g + 1], the places in the order at which groups of equal scores start
        and end.
        """
        keys = self._keys()[self.order]
        return np.concatenate([[0], np.flatnonzero(keys[1:] != keys[:-1]) + 1, [self.n]])

    @functools.cached_property
    def place(self) -> np.ndarray:
        """int64[n], the position of each column in the order."""
        place = np.empty(self.n, np.int64)
        place[self.order] = np.arange(self.n)
        return place

    def expect(self, thresholds: np.ndarray) -> np.ndarray:
        """Returns the fraction of models like the known ones whose threshold is at most a number of
        leading ones.

        If answers follow the order without noise, the known models that are right at a position are
        those with a threshold above it. Noise moves scores closer to one half than this fraction:
        in a normal ogive model a score is Φ(a d) if the fraction is Φ(d), with a below one. So
        scores are spread by `1 / a` = `_SPREAD` on the normal scale. A part `_ANYWHERE` is
        distributed evenly.

        Args:
          thresholds: int64[...] of 0 … n.

        Returns: int64[...], fractions in units of 1 / `ALL`: whole numbers, so that medians are the
          same on every machine.
        """
        inside = np.minimum(thresholds, self.n - 1)
        column = self.order[inside]
        total, seen = self.total[column], self.seen[column]
        score = total / np.maximum(seen, 1) if (seen > 0).all() else self.scores[column]
        mask = (1 - _ANYWHERE) * ndtr(-_SPREAD * ndtri(score)) + _ANYWHERE * (inside + 1) / (
            self.n + 1
        )
        return np.where(thresholds == self.n, ALL, np.floor(mask * ALL)).astype(np.int64)

    def add(self, rows: np.ndarray) -> "Rank":
        """Returns the rank with more rows; O(rows × n).

        By sum and by confidence it is the same as a rank of all rows. A recursive rank has the
        scores of all rows, but equal scores stay in the order of the old ties, which the new rows
        do not refine: to refine them, sort again.

        Args:
          rows: uint8[r, n] of 0, 1 and 255, or confidences float[r, n] with NaN, as the rows of the
            rank.
        """
        total, seen = sums(rows)
        if len(total) != self.n:
            raise BadInput(f"a row of {len(total)} samples cannot be added to a rank of {self.n}.")
        return Rank(self.total + total, self.seen + seen, self.ties)


def descending(scores: np.ndarray, ties: np.ndarray | None = None) -> np.ndarray:
    """Returns the order of falling scores, int64[n]; equal scores stay in the order `ties`."""
    low, high = scores.min(), scores.max()
    small = high - low < 1 << 16 and (scores == np.floor(scores)).all()
    # NumPy sorts keys of two bytes in linear time
    keys = (high - scores).astype(np.uint16) if small else -scores
    if ties is None:
        return np.argsort(keys, kind="stable")
    return ties[np.argsort(keys[ties], kind="stable")]


def sums(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns each column's sum over known cells, float64[n], and their number, int64[n].

    Confidences are rounded to float16, as a cache stores them: then their sums in float64 are
    exact, in any order of the rows.
    """
    rows = np.asarray(rows)
    if np.issubdtype(rows.dtype, np.floating) and rows.ndim == 2 and rows.size:
        mask = ~np.isnan(rows)
        inside = (rows[mask] >= 0) & (rows[mask] <= 1)
        if not inside.all():
            raise BadInput(
                f"a confidence is between 0 and 1, or NaN if unknown, not {rows[mask][~inside][0]}."
            )
        return np.where(mask, rows, 0).astype(np.float16).sum(axis=0, dtype=np.float64), mask.sum(
            axis=0
        )
    rows = check_outcomes(rows)
    return (rows == 1).sum(axis=0).astype(np.float64), (rows != UNKNOWN).sum(axis=0)
