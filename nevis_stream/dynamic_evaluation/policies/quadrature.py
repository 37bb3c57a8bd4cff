"""Bayesian quadrature of the benchmark's mean: asks the samples that reduce its variance most under
a linear-Gaussian model of the known models (see `linear_gaussian`).
"""

import numpy as np

from nevis_stream.cost.compute import Compute
from nevis_stream.dynamic_evaluation.known_models import KnownModels
from nevis_stream.dynamic_evaluation.policy import Key, Plan, Policy
from nevis_stream.dynamic_evaluation.predictors import linear_gaussian
from nevis_stream.dynamic_evaluation.response import ResponsePosterior
from nevis_stream.queries.oracle import Query, Responses
from nevis_stream.storage.checkpoint import Tree


class Quadrature(Policy):
    """Asks the first samples of all models alike, then chooses anew for each model, with the known
    models weighted by how close they are to its answers.

    Args:
      first: fraction of the budget that is asked of all models alike.
      about: one line for people.
    """

    out_of_core = False

    def __init__(self, first: float, about: str):
        self.first, self.about, self.adaptive = first, about, first < 1

    def fit(self, known: KnownModels, beliefs: ResponsePosterior, key: Key, ctx: Compute) -> Tree:
        """Fits the linear-Gaussian model."""
        return linear_gaussian.fit(known, key, ctx)

    def next(self, plan: Plan, answers: Responses, key: Key, ctx: Compute) -> Query:
        """Returns the common part, then the rest."""
        model, (models, asked) = linear_gaussian.Model(**plan.tree), answers.samples.shape
        first = int(np.ceil(self.first * plan.budget))
        if not asked:
            choose = ctx.jit(linear_gaussian.first_choice, static_argnames="count")
            samples = np.asarray(choose(model, first), np.int64)
            return Query(np.broadcast_to(samples, (models, first)))
        choose = ctx.jit(linear_gaussian.next_choice, static_argnames="count")
        samples = choose(
            model,
            answers.samples.astype(np.int32),
            answers.values.astype(np.float32),
            plan.budget - first,
        )
        return Query(np.asarray(samples, np.int64))
