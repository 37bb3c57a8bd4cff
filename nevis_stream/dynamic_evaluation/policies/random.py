"""Samples drawn at random without replacement, separately for each model."""

import numpy as np

from nevis_stream.dynamic_evaluation.asking import Cells
from nevis_stream.dynamic_evaluation.method import Policy
from nevis_stream.dynamic_evaluation.sampling import at_random, numpy_generator


class Random(Policy):
    """Draws samples.

    Args:
      shared: whether all models are asked the same samples.
    """

    def __init__(self, shared: bool = False):
        self.shared = shared
        self.about = f"random samples, {'the same' if shared else 'different ones'} for each model"

    def fit(self, known, rank, items, key, ctx):
        """Stores the predictor's order, on which positions are drawn."""
        return {"order": None if rank is None else rank.order}

    def next(self, tree, answers, n, budget, key, ctx) -> Cells:
        """Returns the whole draw."""
        shape = (len(answers.values), budget)
        samples = at_random(n, budget, 1 if self.shared else shape[0], numpy_generator(key))
        samples = samples if tree["order"] is None else tree["order"][samples]
        chances = np.broadcast_to(1 / (n - np.arange(budget)), shape)
        return Cells(np.broadcast_to(samples, shape), chances, np.full(shape, 1 / budget))


POLICY = Random()
