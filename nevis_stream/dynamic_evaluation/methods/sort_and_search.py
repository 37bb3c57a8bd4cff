"""Sort & Search: one order of the samples, a uniform grid on it, the best threshold, observed
outcomes kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nevis_stream.dynamic_evaluation import intervals, search
from nevis_stream.dynamic_evaluation.known import Known, known_models, parts
from nevis_stream.dynamic_evaluation.method import UNKNOWN, Estimates
from nevis_stream.dynamic_evaluation.sort import Rank, sort


@dataclass(frozen=True)
class SortAndSearch:
    """Sort & Search in its variants: `by` of `sort.sort`, `sampling` of `search.plan`."""

    name: str
    by: str = "sum"
    sampling: str = "uniform"

    @property
    def out_of_core(self) -> bool:
        """Whether known models are read from a cache piece by piece."""
        return self.by == "sum"

    def fit(self, known, groups, key) -> "Searcher":
        """Ranks the samples by the known models."""
        known = known_models(known)
        return Searcher(sort(known, self.by), self.sampling, known, groups, key)


class Searcher:
    """Searches new models' thresholds on one rank; intervals are kept by budget."""

    def __init__(self, rank: Rank, sampling: str, known: Known, groups: Sequence[str] | None, key):
        self.rank, self.sampling, self._known, self._groups, self._key = (
            rank,
            sampling,
            known,
            groups,
            key,
        )
        self._halves: dict[int, float] = {}

    def evaluate(self, ask, models, budget, key) -> Estimates:
        """Asks what is planned and predicts the rest; the interval is that of known models which
        play new ones.
        """
        plan = search.plan(self.rank, budget, models, self.sampling, key)
        estimates = search.predict(self.rank, plan, ask(plan.samples))
        if budget not in self._halves:
            self._halves[budget] = intervals.tried(
                self._errors(budget), self._groups or range(self._known.shape[0])
            )
        return estimates.within(self._halves[budget], intervals.TOO_FEW)

    def _errors(self, budget: int) -> np.ndarray:
        """Returns how far known models' accuracies are from those that an order without them gives,
        float64[m0 at most].

        Sums without some models are sums less theirs, so nothing is read but these models' rows;
        the order by recursive sum is taken for that by sum here, of which it breaks ties.
        """
        (right, seen), found = self._known.row_sums(), np.full(self._known.shape[0], np.nan)
        for part in parts(len(found), self._groups):
            total, there = self._known.column_sums(part)
            without = Rank(self.rank.total - total, self.rank.seen - there, self.rank.ties)
            if without.seen.any():
                plan = search.plan(without, budget, 1, self.sampling, self._key)
                outcomes = self._known.matrix(part, plan.samples[0])
                positions = np.broadcast_to(plan.positions, outcomes.shape)
                until = search.cuts(without, positions, outcomes)
                kept = np.where(
                    outcomes == UNKNOWN, 0, outcomes.astype(np.int64) - (positions < until[:, None])
                )
                found[part] = (until + kept.sum(axis=1)) / without.n
        errors = np.divide(right, seen, out=np.full(len(found), np.nan), where=seen > 0) - found
        return errors[~np.isnan(errors)]


METHOD = SortAndSearch("sort_and_search")
