"""Policies and predictors for studies, not methods to use: bounds, which look at every cell
regardless of the budget; and the published script of Sort & Search, with its defects, which other
methods are compared with.

The script's grid of n' points starts at the remainder n - ⌊n/n'⌋ n', or at the centre of the first
part where there is none, on an order with ties in falling order of the columns. Its threshold is
the index of the largest prefix sum, which is one less than the number of ones that is meant, and it
ignores the empty prefix. The predicted vector is ones up to the position of that sample in the full
order, and replaces the observed outcomes.
"""

import numpy as np

from nevis_stream.array_types import Int
from nevis_stream.cost.compute import Compute
from nevis_stream.dynamic_evaluation.method import Prediction, ScorePredictor
from nevis_stream.dynamic_evaluation.policy import Key, Plan, Policy
from nevis_stream.dynamic_evaluation.predictors.sort_and_search import SortAndSearch
from nevis_stream.dynamic_evaluation.response import ResponsePosterior
from nevis_stream.dynamic_evaluation.sorting import fit_thresholds, rank_samples
from nevis_stream.queries.matrix import Matrix
from nevis_stream.queries.oracle import Query, Responses
from nevis_stream.storage.checkpoint import Tree


class Everything(Policy):
    """Asks all samples."""

    about = "every sample, regardless of the budget (for bounds)"
    representative = drawn = is_bound = True

    def next(self, plan: Plan, answers: Responses, key: Key, ctx: Compute) -> Query:
        """Returns every cell."""
        shape = (len(answers.values), plan.n)
        return Query(
            np.broadcast_to(np.arange(plan.n), shape), fractions=np.full(shape, 1 / plan.n)
        )


class SingleOrderFloor(SortAndSearch):
    """The smallest error of any threshold on the order by sum, chosen with every sample seen."""

    takes_all = False  # every sample is asked
    is_bound = True

    def __init__(self) -> None:
        super().__init__()
        self.about = "the best threshold on the order, chosen with the whole truth (a bound)"

    def predict(
        self, tree: Tree, budget_fit: Tree, known: Matrix, answers: Responses, ctx: Compute
    ) -> Prediction:
        """Returns the outcomes of the best threshold of models whose samples were all asked."""
        rank = self.read_rank(tree)
        truth = np.empty(answers.values.shape, np.uint8)
        np.put_along_axis(truth, rank.place[answers.samples], answers.values, axis=1)
        ctx.charge(2 * truth.size)
        return Prediction(rank.place < fit_thresholds(truth)[:, None], keeps_answers=False)


class OracleAccuracyPrefix(ScorePredictor):
    """The true number of ones, for the first samples without sorting: the mean is exact, and the
    cells are nearly as wrong as possible.

    It shows that a small error of the mean says little about the cells (Sort & Search, theorem
    2.1).
    """

    about = "the true number of ones at the front (a bound)"
    out_of_core = is_bound = True

    def predict(
        self, tree: Tree, budget_fit: Tree, known: Matrix, answers: Responses, ctx: Compute
    ) -> Prediction:
        """Uses only the number of right samples."""
        correct = answers.values.sum(axis=1, dtype=np.int64)
        ctx.charge(answers.values.size)
        cells = np.arange(known.shape[1]) < correct[:, None]
        return Prediction(cells, correct / known.shape[1], keeps_answers=False)


def choose_points(n: int, budget: int) -> np.ndarray:
    """Returns the script's positions, int64[budget]."""
    step = n // budget
    return np.arange(n - step * budget or step // 2, n, step)


def rank_as_published(known: Matrix, ctx: Compute) -> Int[np.ndarray, " samples"]:
    """Returns the script's order of the samples, int64[n]."""
    return np.argsort(rank_samples(known, ctx).scores, kind="stable")[::-1].copy()


class PublishedPolicy(Policy):
    """Asks the script's points."""

    about = "the published script's grid, with its defects"
    representative = True

    def fit(self, known: Matrix, posterior: ResponsePosterior, key: Key, ctx: Compute) -> Tree:
        """Ranks the samples by the known models."""
        return {"order": rank_as_published(known, ctx)}

    def next(self, plan: Plan, answers: Responses, key: Key, ctx: Compute) -> Query:
        """Returns the whole grid."""
        shape = (len(answers.values), plan.budget)
        samples = plan.tree["order"][choose_points(plan.n, plan.budget)]
        return Query(np.broadcast_to(samples, shape), fractions=np.full(shape, 1 / plan.budget))


def find_last_indices(outcomes: np.ndarray) -> np.ndarray:
    """Returns the script's thresholds of uint8[m, b], int64[m]: indices, although they should be
    counts.
    """
    return np.cumsum(2 * outcomes.astype(np.int64) - 1, axis=1).argmax(axis=1)


class PublishedPredictor(ScorePredictor):
    """Searches thresholds as published."""

    about = "the published script's rule, with its defects"

    def fit(self, known: Matrix, key: Key, ctx: Compute) -> Tree:
        """Ranks the samples by the known models."""
        place = np.empty(known.shape[1], np.int64)
        place[rank_as_published(known, ctx)] = np.arange(known.shape[1])
        return {"place": place}

    def predict(
        self, tree: Tree, budget_fit: Tree, known: Matrix, answers: Responses, ctx: Compute
    ) -> Prediction:
        """Predicts every cell, also those that were asked."""
        places = tree["place"][answers.samples]
        order = np.argsort(places, axis=1, kind="stable")
        last = find_last_indices(np.take_along_axis(answers.values, order, axis=1))
        cut = np.take_along_axis(np.sort(places, axis=1), last[:, None], axis=1)
        ctx.charge(2 * answers.values.size + len(cut) * known.shape[1])
        return Prediction(tree["place"] < cut, keeps_answers=False)
