"""Anchors optimised for a weighted mean: those with which linear weights predict the known models'
means best (after SparseEval, Zhang et al. 2026).

As in the published method, the first anchors are nearest to the centroids of clusters, and then
the least important anchor is exchanged for the most promising candidate, again and again. The two
scores are ours: an anchor's importance is the size of its weight times its standard deviation, a
candidate's promise its correlation with the error that the anchors leave. So are the linear
weights, and the test that an exchange must pass: it reduces the leave-one-out error.
"""

import numpy as np

from nevis_stream.array_types import Int
from nevis_stream.cost.compute import Compute
from nevis_stream.dynamic_evaluation.known_models import KnownModels
from nevis_stream.dynamic_evaluation.policies.clusters import anchors, by_values
from nevis_stream.dynamic_evaluation.policy import Key, Plan, Policy
from nevis_stream.dynamic_evaluation.predictors import anchor_weights
from nevis_stream.dynamic_evaluation.response import ResponsePosterior
from nevis_stream.queries.oracle import Query, Responses
from nevis_stream.queries.samples import numpy_generator
from nevis_stream.storage.checkpoint import Tree

EXCHANGES = 100  # attempts, at most
PATIENCE = 10  # attempts without success


class SparseAnchors(Policy):
    """Asks the same samples of all models."""

    about = "anchors that are optimised for linear weights of them; use with anchor_weights"
    out_of_core = False

    def fit(self, known: KnownModels, beliefs: ResponsePosterior, key: Key, ctx: Compute) -> Tree:
        """Describes the samples by the known models' values."""
        vectors = by_values(known, None, key, ctx)
        weights = known.facts.weights.astype(np.float32)
        return anchor_weights.centre(known, key, ctx) | {"vectors": vectors, "weights": weights}

    def design(
        self, tree: Tree, beliefs: ResponsePosterior, budget: int, key: Key, ctx: Compute
    ) -> Tree:
        """Chooses the anchors."""
        rows = tree["rows"].astype(np.float64)
        benchmark, spread = rows @ tree["weights"], rows.std(axis=0)
        random = numpy_generator(key)
        samples, _ = anchors(tree["vectors"], tree["weights"], budget, random, ctx)

        def fit(samples: Int[np.ndarray, " anchors"]) -> anchor_weights.Weights:
            return anchor_weights.weights(rows[:, samples], benchmark, benchmark[:, None], ctx)

        current, failures = fit(samples), 0
        refused: set[int] = set()
        for _ in range(EXCHANGES):
            importance = np.abs(current.values[:, 0]) * spread[samples]
            promise = np.abs(current.left_out @ rows) / np.maximum(spread, 1e-9)
            ctx.charge(2 * rows.size)
            promise[[*samples, *refused]] = -1
            if promise.max() <= 0:
                break
            candidate = int(promise.argmax())
            changed = samples.copy()
            changed[importance.argmin()] = candidate
            attempt = fit(changed)
            if (attempt.left_out**2).sum() < (current.left_out**2).sum():
                samples, current, failures = changed, attempt, 0
                refused.clear()
            else:
                refused.add(candidate)
                failures += 1
            if failures == PATIENCE:
                break
        return {"samples": np.sort(samples)}

    def next(self, plan: Plan, answers: Responses, key: Key, ctx: Compute) -> Query:
        """Returns all anchors."""
        samples = plan.design["samples"]
        return Query(np.broadcast_to(samples, (len(answers.values), len(samples))))
