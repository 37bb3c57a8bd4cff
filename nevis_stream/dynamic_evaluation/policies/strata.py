"""One random sample from each of equal strata of the order from easy to hard."""

import numpy as np

from nevis_stream.dynamic_evaluation.asking import Cells
from nevis_stream.dynamic_evaluation.policy import Policy
from nevis_stream.dynamic_evaluation.sampling import in_strata, numpy_generator, strata
from nevis_stream.dynamic_evaluation.sort import ranked


class Strata(Policy):
    """Draws from strata, separately for each model."""

    about = "one random sample from each of equal strata of the order from easy to hard"
    representative = True

    def fit(self, known, beliefs, key, ctx):
        """Ranks the samples, unless the predictor has done so."""
        return {"order": (beliefs.rank or ranked(known, ctx)).order}

    def next(self, plan, answers, key, ctx) -> Cells:
        """Returns the whole draw."""
        models, n, budget = len(answers.values), plan.n, plan.budget
        positions = in_strata(n, budget, models, numpy_generator(key))
        sizes = np.broadcast_to(np.diff(strata(n, budget)), positions.shape)
        return Cells(plan.tree["order"][positions], 1 / sizes, sizes / n)


POLICY = Strata()
