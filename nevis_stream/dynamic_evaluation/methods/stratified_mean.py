"""The mean of samples drawn from equal strata of the rank order, one of each: a strong, unbiased
estimate of the accuracy.
"""

import hashlib
from dataclasses import dataclass

import numpy as np

from nevis_stream.dynamic_evaluation import intervals, sampling
from nevis_stream.dynamic_evaluation.known import Known, known_models
from nevis_stream.dynamic_evaluation.method import UNKNOWN, Estimates, check_budget, generator
from nevis_stream.dynamic_evaluation.search import cuts
from nevis_stream.dynamic_evaluation.sort import Rank, sort

MODELS_FOR_DESIGN = 64


class StratifiedMean:
    """Mean over strata for the accuracy, Sort & Search for the cells."""

    name = "stratified_mean"
    out_of_core = True

    def fit(self, known, groups, key) -> "Stratified":
        """Ranks the samples by the known models."""
        known = known_models(known)
        return Stratified(sort(known), known)


@dataclass(frozen=True)
class Stratified:
    """A rank, and the known models that it was made of."""

    rank: Rank
    known: Known

    def evaluate(self, ask, models, budget, key) -> Estimates:
        """Asks one sample of each stratum.

        The interval is Wilson's with as many draws as would give the variance of this design, which
        is known for the known models.
        """
        n = self.rank.n
        check_budget(budget, n)
        positions = sampling.in_strata(n, budget, models, generator(key))
        samples = self.rank.order[positions]
        answers = ask(samples)
        mean = answers @ np.diff(sampling.strata(n, budget)) / n
        seen = intervals.effective(budget, n, self._variance_ratio(budget))
        right = self.rank.place < cuts(self.rank, positions, answers)[:, None]
        return Estimates.of(right, samples, answers, mean, intervals.wilson(mean, seen))

    def _variance_ratio(self, budget: int) -> float:
        """Variance of the stratified mean over that of the mean of simple random samples, summed
        over known models.

        Each is left out of the rank by which it is stratified. 1, as if strata were no better,
        where so few known models are unlike each other that they say nothing of another one.
        """
        n, bounds = self.rank.n, sampling.strata(self.rank.n, budget)
        models = self.known.shape[0]
        if budget == n or models == 1:
            return 1.0
        sizes = np.diff(bounds)
        stratified, simple, unlike = 0.0, 0.0, set()
        for model in range(0, models, -(-models // MODELS_FOR_DESIGN)):
            row = self.known.matrix(np.array([model]))[0]
            there = row != UNKNOWN
            unlike.add(hashlib.sha256(row).digest())
            without = Rank(self.rank.total - (row == 1), self.rank.seen - there)
            if not without.seen.any():
                continue
            order = without.order
            guessed = np.where(there, row, without.scores)[order]
            means = np.add.reduceat(guessed, bounds[:-1]) / sizes
            stratified += (sizes**2 * means * (1 - means)).sum() / n**2
            simple += guessed.mean() * (1 - guessed.mean()) / budget * (n - budget) / (n - 1)
        return stratified / simple if simple and len(unlike) >= intervals.FEWEST else 1.0


METHOD = StratifiedMean()
