"""The published script of Sort & Search, with its defects: the reference for the other methods.

Its grid of n' points starts at the remainder n - ⌊n/n'⌋ n', or at the centre of the first part
where there is none, on an order with ties in falling order of the columns.

Its threshold is the index of the largest prefix sum, which is one less than the number of ones that
is meant, and it ignores the empty prefix. The predicted vector is ones up to the position of that
sample in the full order, and replaces the observed outcomes.
"""

import numpy as np

from nevis_stream.array_types import Int
from nevis_stream.cost.compute import Compute
from nevis_stream.dynamic_evaluation.known_models import KnownModels
from nevis_stream.dynamic_evaluation.method import Prediction, ScorePredictor
from nevis_stream.dynamic_evaluation.policy import Key, Plan, Policy
from nevis_stream.dynamic_evaluation.response import ResponsePosterior
from nevis_stream.dynamic_evaluation.sorting import rank_samples
from nevis_stream.queries.oracle import Query, Responses
from nevis_stream.storage.checkpoint import Tree


def points(n: int, budget: int) -> np.ndarray:
    """Returns the script's positions, int64[budget]."""
    step = n // budget
    return np.arange(n - step * budget or step // 2, n, step)


def published_order(known: KnownModels, ctx: Compute) -> Int[np.ndarray, " samples"]:
    """Returns the script's order of the samples, int64[n]."""
    return np.argsort(rank_samples(known, ctx).scores, kind="stable")[::-1].copy()


class PublishedPolicy(Policy):
    """Asks the script's points."""

    about = "the published script's grid, with its defects"
    representative = True

    def fit(self, known: KnownModels, beliefs: ResponsePosterior, key: Key, ctx: Compute) -> Tree:
        """Ranks the samples by the known models."""
        return {"order": published_order(known, ctx)}

    def next(self, plan: Plan, answers: Responses, key: Key, ctx: Compute) -> Query:
        """Returns the whole grid."""
        shape = (len(answers.values), plan.budget)
        samples = plan.tree["order"][points(plan.n, plan.budget)]
        return Query(np.broadcast_to(samples, shape), fractions=np.full(shape, 1 / plan.budget))


def last_indices(outcomes: np.ndarray) -> np.ndarray:
    """Returns the script's thresholds of uint8[m, b], int64[m]: indices, although they should be
    counts.
    """
    return np.cumsum(2 * outcomes.astype(np.int64) - 1, axis=1).argmax(axis=1)


class PublishedPredictor(ScorePredictor):
    """Searches thresholds as published."""

    about = "the published script's rule, with its defects"

    def fit(self, known: KnownModels, key: Key, ctx: Compute) -> Tree:
        """Ranks the samples by the known models."""
        place = np.empty(known.shape[1], np.int64)
        place[published_order(known, ctx)] = np.arange(known.shape[1])
        return {"place": place}

    def predict(
        self, tree: Tree, tuned: Tree, known: KnownModels, answers: Responses, ctx: Compute
    ) -> Prediction:
        """Predicts every cell, also those that were asked."""
        places = tree["place"][answers.samples]
        order = np.argsort(places, axis=1, kind="stable")
        last = last_indices(np.take_along_axis(answers.values, order, axis=1))
        cut = np.take_along_axis(np.sort(places, axis=1), last[:, None], axis=1)
        ctx.charge(2 * answers.values.size + len(cut) * known.shape[1])
        return Prediction(tree["place"] < cut, keeps_answers=False)
