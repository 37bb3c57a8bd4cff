"""The published script's grid, with its defects: its n' points start at the remainder
n - ⌊n/n'⌋ n', or at the centre of the first part where there is none, on an order with ties in
falling order of the columns.
"""

import numpy as np

from nevis_stream.dynamic_evaluation.asking import Cells
from nevis_stream.dynamic_evaluation.policy import Policy
from nevis_stream.dynamic_evaluation.sort import ranked


def points(n: int, budget: int) -> np.ndarray:
    """Returns the script's positions, int64[budget]."""
    step = n // budget
    return np.arange(n - step * budget or step // 2, n, step)


def published_order(known, ctx) -> np.ndarray:
    """Returns the script's order of the samples, int64[n]."""
    return np.argsort(ranked(known, ctx).scores, kind="stable")[::-1].copy()


class PublishedPolicy(Policy):
    """Asks the script's points."""

    about = "the published script's grid, with its defects"
    representative = True

    def fit(self, known, beliefs, key, ctx):
        """Ranks the samples by the known models."""
        return {"order": published_order(known, ctx)}

    def next(self, plan, answers, key, ctx) -> Cells:
        """Returns the whole grid."""
        shape = (len(answers.values), plan.budget)
        samples = plan.tree["order"][points(plan.n, plan.budget)]
        return Cells(np.broadcast_to(samples, shape), shares=np.full(shape, 1 / plan.budget))


POLICY = PublishedPolicy()
