"""The smallest error of any threshold on the order by sum, chosen with every sample seen: a bound,
not a method.
"""

import numpy as np

from nevis_stream.dynamic_evaluation.method import Prediction
from nevis_stream.dynamic_evaluation.predictors.sort_and_search import SortAndSearch
from nevis_stream.dynamic_evaluation.search import thresholds


class SingleOrderFloor(SortAndSearch):
    """The best threshold, chosen with the whole truth."""

    takes_all = False  # every sample is asked

    def __init__(self):
        super().__init__()
        self.about = "the best threshold on the order, chosen with the whole truth (a bound)"

    def predict(self, tree, tuned, known, answers, ctx) -> Prediction:
        """Returns the outcomes of the best threshold of models whose samples were all asked."""
        rank = self.rank(tree)
        truth = np.empty(answers.values.shape, np.uint8)
        np.put_along_axis(truth, rank.place[answers.samples], answers.values, axis=1)
        ctx.charge(2 * truth.size)
        return Prediction(rank.place < thresholds(truth)[:, None], keeps_answers=False)


PREDICTOR = SingleOrderFloor()
