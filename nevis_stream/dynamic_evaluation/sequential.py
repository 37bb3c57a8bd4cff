"""Policies that ask step by step what is most useful, given what the predictor believes by then."""

from collections.abc import Callable

import jax
import numpy as np

from nevis_stream.dynamic_evaluation.asking import Answers, Cells
from nevis_stream.dynamic_evaluation.beliefs import Beliefs
from nevis_stream.dynamic_evaluation.policy import Policy
from nevis_stream.dynamic_evaluation.sampling import numpy_generator
from nevis_stream.learner import Context

STEPS = 32  # at most; a larger budget is asked in batches of equal size


class Sequential(Policy):
    """Asks the samples of highest usefulness, separately for each model.

    Args:
      useful: takes beliefs, the answers so far and a context, and returns float[m, n].
      needs: the quantity that it reads from the beliefs.
      about: one line for people.
      exposed: each sample is drawn from this number of the most useful ones.
    """

    adaptive = True
    out_of_core = False

    def __init__(
        self,
        useful: Callable[[Beliefs, Answers, Context], np.ndarray],
        needs: str,
        about: str,
        exposed: int = 1,
    ):
        self.useful, self.needs, self.about = useful, frozenset({needs}), about
        self.exposed = exposed

    def next(self, plan, answers, key, ctx) -> Cells:
        """Returns one batch; a batch is one sample of each model, if the budget is small."""
        models, asked = answers.samples.shape
        batch = min(-(-plan.budget // STEPS), plan.budget - asked)
        useful = np.array(self.useful(plan.beliefs, answers, ctx), np.float64)
        np.put_along_axis(useful, answers.samples, -np.inf, axis=1)
        ctx.charge(models * plan.n)  # the selection
        several = min(batch + self.exposed - 1, plan.n - asked)
        best = np.argsort(-useful, axis=1, kind="stable")[:, :several]
        if self.exposed > 1:
            random = numpy_generator(jax.random.fold_in(key, asked))
            best = random.permuted(best, axis=1)
        return Cells(best[:, :batch].astype(np.int64))
