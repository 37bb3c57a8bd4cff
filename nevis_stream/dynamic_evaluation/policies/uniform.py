"""A uniform grid on the order of the samples from easy to hard, the same for every model."""

import numpy as np

from nevis_stream.dynamic_evaluation.asking import Cells
from nevis_stream.dynamic_evaluation.policy import Policy
from nevis_stream.dynamic_evaluation.sampling import centres
from nevis_stream.dynamic_evaluation.sort import ranked


class Uniform(Policy):
    """Asks the centres of equal parts of the order."""

    about = "a uniform grid on the order of the samples from easy to hard"
    representative = True

    def fit(self, known, beliefs, key, ctx):
        """Ranks the samples, unless the predictor has done so."""
        return {"order": (beliefs.rank or ranked(known, ctx)).order}

    def next(self, plan, answers, key, ctx) -> Cells:
        """Returns the whole grid."""
        return grid(plan.tree["order"], len(answers.values), plan.budget)


def grid(order: np.ndarray, models: int, budget: int) -> Cells:
    """Returns a uniform grid of `budget` samples on an order, int64[n], for each of m models."""
    samples = order[centres(len(order), budget)]
    shape = (models, budget)
    return Cells(np.broadcast_to(samples, shape), shares=np.full(shape, 1 / budget))


POLICY = Uniform()
