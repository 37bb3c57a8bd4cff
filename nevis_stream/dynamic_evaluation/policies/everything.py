"""Every sample, regardless of the budget: for bounds that use the whole truth."""

import numpy as np

from nevis_stream.dynamic_evaluation.asking import Cells
from nevis_stream.dynamic_evaluation.policy import Policy


class Everything(Policy):
    """Asks all samples."""

    about = "every sample, regardless of the budget (for bounds)"
    representative = True

    def next(self, plan, answers, key, ctx) -> Cells:
        """Returns every cell."""
        shape = (len(answers.values), plan.n)
        return Cells(np.broadcast_to(np.arange(plan.n), shape), shares=np.full(shape, 1 / plan.n))


POLICY = Everything()
