"""Sort & Search: one order of the samples, a uniform grid on it, the best threshold, observed outcomes kept."""

from dataclasses import dataclass

from nevis_stream.dynamic_evaluation import search
from nevis_stream.dynamic_evaluation.method import Estimates
from nevis_stream.dynamic_evaluation.sort import Rank, sort


@dataclass(frozen=True)
class SortAndSearch:
    """Sort & Search in its variants: `by` of `sort.sort`, `sampling` of `search.plan`."""

    name: str
    by: str = "sum"
    sampling: str = "uniform"

    def fit(self, known, groups, key) -> "Searcher":
        """Ranks the samples by the known models."""
        return Searcher(sort(known, self.by), self.sampling)


@dataclass(frozen=True)
class Searcher:
    """Searches new models' thresholds on one rank."""

    rank: Rank
    sampling: str

    def evaluate(self, ask, models, budget, key) -> Estimates:
        """Asks what is planned and predicts the rest."""
        plan = search.plan(self.rank, budget, models, self.sampling, key)
        return search.predict(self.rank, plan, ask(plan.samples))


METHOD = SortAndSearch("sort_and_search")
