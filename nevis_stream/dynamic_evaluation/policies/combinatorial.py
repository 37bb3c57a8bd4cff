"""Greedy combinatorial choice: one after the other the sample with which the known models' other
values are predicted best (active evaluation acquisition, algorithm 1 and equation 4).

The loss of a set of samples is the mean of the known models' expected squared errors, bias² plus
variance, in all cells. Algorithm 1 tries every sample in each step, which takes K M N predictions
of N cells; here some are drawn and the best of them is taken (stochastic greedy, Mirzasoleiman et
al. 2015), and of many samples a random part stands for all.
"""

from collections.abc import Sequence

import numpy as np

from nevis_stream.array_types import Float
from nevis_stream.cost.compute import Compute
from nevis_stream.dynamic_evaluation.known_models import KnownModels
from nevis_stream.dynamic_evaluation.policy import Key, Plan, Policy
from nevis_stream.dynamic_evaluation.response import ResponsePosterior
from nevis_stream.queries.matrix import is_observed, numbers, sample_means
from nevis_stream.queries.oracle import Query, Responses
from nevis_stream.queries.samples import numpy_generator
from nevis_stream.storage.checkpoint import Tree

MODELS = 32  # known models that take part, drawn at random
SAMPLES = 2048  # that may be chosen, and whose cells make up the loss, drawn at random
CANDIDATES = 16  # of these samples are tried in each step, drawn at random


class Combinatorial(Policy):
    """Asks the same samples of all models."""

    about = "greedily the samples from which the known models' values are predicted best"
    out_of_core = False
    needs = frozenset({"moments"})

    def fit(self, known: KnownModels, beliefs: ResponsePosterior, key: Key, ctx: Compute) -> Tree:
        """Draws known models; holes get the sample's mean."""
        models = min(known.shape[0], MODELS)
        rows = np.sort(numpy_generator(key).choice(known.shape[0], models, replace=False))
        values = known.matrix(rows)
        filled = np.where(is_observed(values), numbers(values), sample_means(values))
        return {"values": filled.astype(np.float32)}

    def design(
        self, tree: Tree, beliefs: ResponsePosterior, budget: int, key: Key, ctx: Compute
    ) -> Tree:
        """Chooses the samples."""
        random, columns = numpy_generator(key), np.arange(beliefs.n)
        if (most := max(SAMPLES, budget)) < beliefs.n:
            columns = np.sort(random.choice(beliefs.n, most, replace=False))
        values, part = tree["values"][:, columns], beliefs.part(columns)
        chosen: list[int] = []  # of these columns
        for _ in range(budget):
            free = np.setdiff1d(np.arange(part.n), chosen)
            tried = random.choice(free, min(CANDIDATES, len(free)), replace=False)
            losses = self._losses(values, chosen, tried, part, ctx)
            chosen.append(int(tried[losses.argmin()]))
        return {"samples": columns[chosen]}

    def _losses(
        self,
        values: Float[np.ndarray, "models samples"],
        chosen: Sequence[int],
        tried: Sequence[int],
        beliefs: ResponsePosterior,
        ctx: Compute,
    ) -> np.ndarray:
        """Returns the loss after each candidate, float64[c]: the sum of the expected squared errors
        of cells that are not asked; weights of data sets are left out, as in the paper.

        Args:
          values: float32[m0, n], of the known models.
          chosen: samples, in the order of their choice.
          tried: int64[c], the candidates.
          beliefs, ctx: as of `design`.
        """
        models, n = values.shape
        sets = np.array([[*chosen, sample] for sample in tried], np.int64)  # [c, b]
        samples = np.repeat(sets, models, axis=0)
        asked = np.tile(values, (len(tried), 1))
        answers = Responses(Query(samples), np.take_along_axis(asked, samples, axis=1))
        mean, variance = beliefs.moments(answers)
        loss = (mean - asked) ** 2 + variance
        np.put_along_axis(loss, samples, 0, axis=1)
        ctx.charge(4 * loss.size)
        return loss.sum(axis=1, dtype=np.float64).reshape(len(tried), models).sum(axis=1)

    def next(self, plan: Plan, answers: Responses, key: Key, ctx: Compute) -> Query:
        """Returns all samples."""
        samples = plan.design["samples"]
        return Query(np.broadcast_to(samples, (len(answers.values), len(samples))))
