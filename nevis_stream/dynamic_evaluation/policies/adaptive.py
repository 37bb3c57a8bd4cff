"""Chooses the samples to ask of each new model: first a grid on the rank order, then, in rounds,
those that are most useful according to an item response model.

Rules score every sample for every model:

  information  Fisher information of the outcome about the ability (Birnbaum 1968; Lord 1980,
               section 5): tr(a aᵀ V) p (1 - p), with V the posterior covariance of the ability;
  error        the errors that asking is expected to prevent: the sample's own, min(p, 1 - p); wrong
               predictions of other samples, through the ability; and `COUNT` times the reduction of
               the standard deviation of the number of right samples. The last is Bayesian
               quadrature of the accuracy (O'Hagan 1991): it asks samples that distinguish models.
"""

import jax
import jax.numpy as jnp
import numpy as np

from nevis_stream.array_types import Float
from nevis_stream.cost.compute import Compute
from nevis_stream.dynamic_evaluation import response
from nevis_stream.dynamic_evaluation.known_models import KnownModels
from nevis_stream.dynamic_evaluation.policies.representative import grid
from nevis_stream.dynamic_evaluation.policy import Key, Plan, Policy
from nevis_stream.dynamic_evaluation.response import (
    Abilities,
    Items,
    PaddedAnswers,
    ResponsePosterior,
    infer,
    logits,
    moderate,
)
from nevis_stream.dynamic_evaluation.sorting import rank_samples
from nevis_stream.queries.oracle import Query, Responses
from nevis_stream.storage.checkpoint import Tree

Cells = Float[jax.Array, "models samples"]

ROUNDS = 8
COUNT = 3.0  # weight of an error of one in the number of right samples, in wrong predictions


def _information(
    p: Cells, items: Items, abilities: Abilities, mean: Cells, ability: Cells, variance: Cells
) -> Cells:
    return ability * p * (1 - p)


def _error(
    p: Cells, items: Items, abilities: Abilities, mean: Cells, ability: Cells, variance: Cells
) -> Cells:
    """Returns the errors that asking each sample is expected to prevent.

    Asking j changes the logit of i by a normal step of variance (a_i V a_j)² λ_j / (1 + λ_j a_j V
    a_j), λ = p (1 - p). A small step of variance τ² prevents 0.1 τ² wrong predictions times the
    density of the logit at 0, where the prediction changes: half the second derivative of
    E|p - 1/2|, that is 1/2 · 2 · 1/4, times the factor 1/√(2π) of the density.
    """
    m, n = p.shape
    k = abilities.mean.shape[1]
    weight = p * (1 - p)
    width = variance + 0.3
    density = jnp.exp(-0.5 * mean**2 / width) / jnp.sqrt(width)
    a = items.mean[:, 1:]
    outer = (a[:, :, None] * a[:, None, :]).reshape(n, -1)
    turning = abilities.covariance @ (density @ outer).reshape(m, k, k) @ abilities.covariance
    others = turning.reshape(m, -1) @ outer.T * weight / (1 + weight * ability)
    return jnp.minimum(p, 1 - p) + 0.1 * others + COUNT * _count(weight, a, abilities, ability)


def _count(
    weight: Cells, a: Float[jax.Array, "samples factors"], abilities: Abilities, ability: Cells
) -> Cells:
    """Returns the reduction of the standard deviation of the count Σ y_i by asking j.

    The ability changes the count by c = Σ λ_i a_i, so its variance is cᵀ V c + Σ λ_i and its
    covariance with y_j is λ_j (a_j V c + 1); y_j has the variance λ_j (1 + λ_j a_j V a_j).
    """
    towards = weight @ a
    moved = jnp.einsum("mij,mj->mi", abilities.covariance, towards)
    variance = ((towards * moved).sum(axis=1) + weight.sum(axis=1))[:, None]
    gain = weight * (moved @ a.T + 1) ** 2 / (1 + weight * ability)
    return jnp.sqrt(variance) - jnp.sqrt(jnp.maximum(variance - gain, 0))


RULES = {"information": _information, "error": _error}


def score_samples(items: Items, evidence: PaddedAnswers, rule: str) -> jax.Array:
    """Returns the acquisition score of each sample, float32[m, n], at least 0.

    Args:
      items: of n samples.
      evidence: of m models.
      rule: "information" or "error".
    """
    abilities = infer(items, evidence)
    mean, ability, item = logits(items, abilities)
    variance = ability + item
    p = jax.nn.sigmoid(moderate(mean, variance))
    return RULES[rule](p, items, abilities, mean, ability, variance)


class Adaptive(Policy):
    """Asks half of the budget on a grid of the rank order, and the rest in at most eight batches of
    the samples with the highest scores.

    Args:
      rule: a name in `RULES`.
      factors: of the item response model that is fitted if the predictor has none.
      about: one line for people.
    """

    adaptive = True
    representative = True  # the grid has fractions
    out_of_core = False

    def __init__(self, rule: str, factors: int, about: str):
        self.rule, self.factors, self.about = rule, factors, about

    def fit(self, known: KnownModels, beliefs: ResponsePosterior, key: Key, ctx: Compute) -> Tree:
        """Ranks the samples and fits an item response model, unless the predictor has done so."""
        items = beliefs.items
        if items is None:
            items, _ = response.fit(known.matrix(), self.factors, key, ctx)
        order = (beliefs.rank or rank_samples(known, ctx)).order
        return {"order": order, "items": response.as_tree(items)}

    def next(self, plan: Plan, answers: Responses, key: Key, ctx: Compute) -> Query:
        """Returns the grid at first, and then one batch at a time."""
        budget, (models, asked) = plan.budget, answers.samples.shape
        first = -(-budget // 2)
        if not asked:
            return grid(plan.tree["order"], models, first)
        sizes = [len(part) for part in np.array_split(np.arange(budget - first), ROUNDS)]
        batch = sizes[int(np.searchsorted(np.cumsum(sizes), asked - first, side="right"))]
        acquisition_score = ctx.jit(score_samples, static_argnames="rule")(
            Items(**plan.tree["items"]), PaddedAnswers.of(answers, budget), self.rule
        )
        acquisition_score = np.array(acquisition_score)
        np.put_along_axis(acquisition_score, answers.samples, -1.0, axis=1)
        ctx.charge(models * plan.n)  # the selection of a batch
        best = np.argpartition(-acquisition_score, batch - 1, axis=1)[:, :batch]
        return Query(best.astype(np.int64))
