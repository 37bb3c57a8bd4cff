"""A policy and predictors that look at every cell regardless of the budget: bounds for studies, not
methods.
"""

import numpy as np

from nevis_stream.cost.compute import Compute
from nevis_stream.dynamic_evaluation.known_models import KnownModels
from nevis_stream.dynamic_evaluation.method import Prediction, ScorePredictor
from nevis_stream.dynamic_evaluation.policy import Key, Plan, Policy
from nevis_stream.dynamic_evaluation.predictors.sort_and_search import SortAndSearch
from nevis_stream.dynamic_evaluation.sorting import thresholds
from nevis_stream.queries.oracle import Query, Responses
from nevis_stream.storage.checkpoint import Tree


class Everything(Policy):
    """Asks all samples."""

    about = "every sample, regardless of the budget (for bounds)"
    representative = True

    def next(self, plan: Plan, answers: Responses, key: Key, ctx: Compute) -> Query:
        """Returns every cell."""
        shape = (len(answers.values), plan.n)
        return Query(
            np.broadcast_to(np.arange(plan.n), shape), fractions=np.full(shape, 1 / plan.n)
        )


class SingleOrderFloor(SortAndSearch):
    """The smallest error of any threshold on the order by sum, chosen with every sample seen."""

    takes_all = False  # every sample is asked

    def __init__(self) -> None:
        super().__init__()
        self.about = "the best threshold on the order, chosen with the whole truth (a bound)"

    def predict(
        self, tree: Tree, tuned: Tree, known: KnownModels, answers: Responses, ctx: Compute
    ) -> Prediction:
        """Returns the outcomes of the best threshold of models whose samples were all asked."""
        rank = self.rank(tree)
        truth = np.empty(answers.values.shape, np.uint8)
        np.put_along_axis(truth, rank.place[answers.samples], answers.values, axis=1)
        ctx.charge(2 * truth.size)
        return Prediction(rank.place < thresholds(truth)[:, None], keeps_answers=False)


class OracleAccuracyPrefix(ScorePredictor):
    """The true number of ones, for the first samples without sorting: the mean is exact, and the
    cells are nearly as wrong as possible.

    It shows that a small error of the mean says little about the cells (Sort & Search, theorem
    2.1).
    """

    about = "the true number of ones at the front (a bound)"
    out_of_core = True

    def predict(
        self, tree: Tree, tuned: Tree, known: KnownModels, answers: Responses, ctx: Compute
    ) -> Prediction:
        """Uses only the number of right samples."""
        correct = answers.values.sum(axis=1, dtype=np.int64)
        ctx.charge(answers.values.size)
        cells = np.arange(known.shape[1]) < correct[:, None]
        return Prediction(cells, correct / known.shape[1], keeps_answers=False)
