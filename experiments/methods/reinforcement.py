"""A policy that is trained on the known models by `reinforcement_training`."""

import jax
import numpy as np

from nevis_stream.cost.compute import Compute
from nevis_stream.dynamic_evaluation.policies.sequential import STEPS
from nevis_stream.dynamic_evaluation.policy import Key, Plan, Policy
from nevis_stream.dynamic_evaluation.response import ResponsePosterior
from nevis_stream.experiments.methods.neural_process.descriptions import describe
from nevis_stream.queries.matrix import Matrix
from nevis_stream.queries.oracle import Query, Responses
from nevis_stream.storage.checkpoint import Tree


class Reinforcement(Policy):
    """Asks the samples that the trained policy finds most probable, at most `sequential.STEPS`
    batches of them.

    Args:
      shaped: whether each sample has a reward, and not only the last one of an episode.
      about: one line for people.
    """

    adaptive = True
    out_of_core = False
    needs = frozenset({"moments"})

    def __init__(self, shaped: bool, about: str):
        self.shaped, self.about = shaped, about

    def fit(self, known: Matrix, posterior: ResponsePosterior, key: Key, ctx: Compute) -> Tree:
        """Trains the policy."""
        # here, and below: Flax and Optax take a third of a second that other methods do not need
        from nevis_stream.experiments.methods import reinforcement_training as training

        cold = not known.column_sums()[1].all()
        descriptions = posterior.representations if cold else None
        if descriptions is None:
            descriptions = describe(known, key, ctx).all
        key = jax.random.fold_in(key, 2)
        parameters = training.train(known, posterior, descriptions, cold, key, ctx, self.shaped)
        return {
            "cold": cold,
            "descriptions": descriptions,
            "parameters": jax.tree.map(np.asarray, parameters),
        }

    def next(self, plan: Plan, answers: Responses, key: Key, ctx: Compute) -> Query:
        """Returns one batch; a batch is one sample of each model, if the budget is small."""
        from nevis_stream.experiments.methods import reinforcement_training as training

        tree, (models, asked) = plan.tree, answers.samples.shape
        batch = min(-(-plan.budget // STEPS), plan.budget - asked)
        state = training.make_state(answers, plan.posterior.moments(answers))
        act = ctx.jit(training.make_acting_program(tree["cold"]))
        logits, _ = act(tree["parameters"], tree["descriptions"], state)
        scores = np.array(logits, np.float64)
        np.put_along_axis(scores, answers.samples, -np.inf, axis=1)
        ctx.charge(models * plan.n)  # the selection
        best = np.argsort(-scores, axis=1, kind="stable")[:, :batch]
        return Query(best.astype(np.int64))
