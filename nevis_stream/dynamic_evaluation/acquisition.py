"""Which samples to ask of each new model: first a grid on the rank order, then in rounds those that
an item response model finds most useful.

Rules score every sample for every model:

  information  Fisher information of the outcome about the ability (Birnbaum 1968; Lord 1980,
  section 5): tr(a aᵀ V) p (1 - p),
               with V the posterior covariance of the ability;
  error        the error that asking is expected to spare: the sample's own, min(p, 1 - p), the
  wrong predictions of the other
               samples through the ability, and `COUNT` times the standard deviation of how many
               samples the model has right. The last is Bayesian quadrature of the accuracy (O'Hagan
               1991): it asks what tells models apart.
"""

import functools
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from nevis_stream.dynamic_evaluation.method import check_budget
from nevis_stream.dynamic_evaluation.response import Items, Observed, infer, logits, moderated

ROUNDS = 8
COUNT = 3.0  # wrong predictions that an error of one in the count of right outcomes weighs
RULES = ("information", "error")


@dataclass(frozen=True)
class Asked:
    """What was asked of m models.

    Args:
      samples: int64[m, b]; the first `grid` columns stand on the grid.
      outcomes: uint8[m, b].
      grid: how many samples the grid has.
    """

    samples: np.ndarray
    outcomes: np.ndarray
    grid: int


def _information(p, items, abilities, mean, ability, variance):
    return ability * p * (1 - p)


def _error(p, items, abilities, mean, ability, variance):
    """Asking j moves the logit of i by a normal step of variance (a_i V a_j)² λ_j / (1 + λ_j a_j V
    a_j), λ = p (1 - p).

    A small step of variance τ² spares 0.1 τ² wrong predictions times the density of the logit at 0,
    where the prediction turns: half the second derivative of E|p - 1/2|, that is 1/2 · 2 · 1/4, times 1/√(2π) of the density.
    """  # noqa: E501
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


def _count(weight, a, abilities, ability):
    """How much asking j takes from the standard deviation of the count Σ y_i.

    The ability moves the count by c = Σ λ_i a_i, so that its variance is cᵀ V c + Σ λ_i and its
    covariance with y_j is λ_j (a_j V c + 1), where y_j has the variance λ_j (1 + λ_j a_j V a_j).
    """
    towards = weight @ a
    moved = jnp.einsum("mij,mj->mi", abilities.covariance, towards)
    variance = ((towards * moved).sum(axis=1) + weight.sum(axis=1))[:, None]
    gain = weight * (moved @ a.T + 1) ** 2 / (1 + weight * ability)
    return jnp.sqrt(variance) - jnp.sqrt(jnp.maximum(variance - gain, 0))


@functools.partial(jax.jit, static_argnames="rule")
def scores(items: Items, observed: Observed, rule: str) -> jax.Array:
    """Returns how useful each sample is, float32[m, n]; -1 for those asked already.

    Args:
      items: of n samples.
      observed: of m models.
      rule: "information" or "error".
    """
    abilities = infer(items, observed)
    mean, ability, item = logits(items, abilities)
    variance = ability + item
    p = jax.nn.sigmoid(moderated(mean, variance))
    useful = {"information": _information, "error": _error}[rule](
        p, items, abilities, mean, ability, variance
    )
    return observed.scattered(useful, -1.0)


def acquire(
    ask, models: int, budget: int, order: np.ndarray, items: Items, rule: str | None
) -> Asked:
    """Asks `budget` samples of each new model.

    Half of them (all if there is no rule) stand at the centres of equal parts of the order, the
    rest are chosen in at most 8 batches, the highest scores first.

    Args:
      ask: where outcomes come from.
      models: m.
      budget: samples a model, 1 ... n.
      order: int64[n], samples from easy to hard.
      items: what the rule scores by.
      rule: "information", "error" or None.
    """
    n = len(order)
    check_budget(budget, n)
    grid = budget if rule is None else -(-budget // 2)
    first = order[(2 * np.arange(grid) + 1) * n // (2 * grid)]
    samples = np.broadcast_to(first, (models, grid)).astype(np.int64)
    outcomes = ask(samples)
    left = budget - grid
    for batch in (len(part) for part in np.array_split(np.arange(left), ROUNDS)):
        if not batch:
            break
        useful = np.asarray(scores(items, Observed.of(samples, outcomes, budget), rule))
        best = np.argpartition(-useful, batch - 1, axis=1)[:, :batch].astype(np.int64)
        samples, outcomes = np.hstack([samples, best]), np.hstack([outcomes, ask(best)])
    return Asked(samples, outcomes, grid)
