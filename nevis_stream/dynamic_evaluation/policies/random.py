"""Samples drawn at random without replacement, separately for each model."""

import numpy as np

from nevis_stream.dynamic_evaluation.asking import Cells
from nevis_stream.dynamic_evaluation.policy import Policy
from nevis_stream.dynamic_evaluation.sampling import at_random, numpy_generator


class Random(Policy):
    """Draws samples.

    Args:
      shared: whether all models are asked the same samples.
    """

    representative = True

    def __init__(self, shared: bool = False):
        self.shared = shared
        self.about = f"random samples, {'the same' if shared else 'different ones'} for each model"

    def fit(self, known, beliefs, key, ctx):
        """Stores the predictor's order, on which positions are drawn."""
        return {"order": None if beliefs.rank is None else beliefs.rank.order}

    def next(self, plan, answers, key, ctx) -> Cells:
        """Returns the whole draw."""
        n, budget, order = plan.n, plan.budget, plan.tree["order"]
        shape = (len(answers.values), budget)
        samples = at_random(n, budget, 1 if self.shared else shape[0], numpy_generator(key))
        samples = samples if order is None else order[samples]
        chances = np.broadcast_to(1 / (n - np.arange(budget)), shape)
        return Cells(np.broadcast_to(samples, shape), chances, np.full(shape, 1 / budget))


POLICY = Random()
