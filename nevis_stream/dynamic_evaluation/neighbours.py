"""Predictions from the rows of the known models: from their residuals under an item response model,
and from the nearest of them.

Both find relations between samples that a few factors miss: models of one family err on the same
samples.
"""

import jax
import jax.numpy as jnp

from nevis_stream.array_types import Float
from nevis_stream.dynamic_evaluation.response import (
    Abilities,
    Items,
    PaddedAnswers,
    curvature,
    logits,
)

DIRECTIONS = 48  # at most this many principal directions of the residuals
SURE = 0.05  # smoothed outcomes of known models stay this far from 0 and 1


def residuals(values: jax.Array, mask: jax.Array, items: Items, abilities: Abilities) -> jax.Array:
    """Returns the principal directions of the known models' residuals y - p, float32[n, q], scaled
    so that they have the same Gram matrix; unknown residuals are 0.

    Args:
      values, mask: float32[m0, n] and bool[m0, n], the known models' values, and which of them are
        known.
      items, abilities: the model that gives p.
    """
    p = jax.nn.sigmoid(logits(items, abilities)[0])
    residual = jnp.where(mask, values - p, 0.0)
    _, directions = jnp.linalg.eigh(residual @ residual.T)
    return residual.T @ directions[:, ::-1][:, :DIRECTIONS]


def regress(
    features: Float[jax.Array, "samples features"],
    offset: Float[jax.Array, " samples"],
    evidence: PaddedAnswers,
) -> Float[jax.Array, "models samples"]:
    """Returns the logits of m models on n samples by logistic regression on the samples' features,
    float32[m, n].

    The weights have a standard normal prior; the bound and the updates are those of `response`.

    Args:
      features: float32[n, q].
      offset: float32[n], added to the logit.
      evidence: of m models.
    """
    x, base = features[evidence.samples], offset[evidence.samples]
    signs = (evidence.values - 0.5) * evidence.mask
    eye = jnp.eye(features.shape[1])

    def step(_: jax.Array, state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        weights = curvature(state[0]) * evidence.mask
        precision = (x * weights[:, :, None]).transpose(0, 2, 1) @ x + eye
        lower = jnp.linalg.cholesky(precision)
        root = jax.lax.linalg.triangular_solve(
            lower, jnp.broadcast_to(eye, precision.shape), left_side=True, lower=True
        )
        correct = jnp.einsum("mbi,mb->mi", x, signs - weights * base)
        weight = jnp.einsum("mji,mj->mi", root, jnp.einsum("mij,mj->mi", root, correct))
        mean = base + jnp.einsum("mbi,mi->mb", x, weight)
        return mean**2 + ((x @ root.transpose(0, 2, 1)) ** 2).sum(axis=2), weight

    start = (jnp.ones(signs.shape), jnp.zeros((len(signs), features.shape[1])))
    return offset + jax.lax.fori_loop(0, 6, step, start)[1] @ features.T


def smooth(values: jax.Array, mask: jax.Array, items: Items, abilities: Abilities) -> jax.Array:
    """Returns the averages of known values and their probabilities, float32[m0, n]; for unknown
    values the probability. Arguments as of `residuals`.
    """
    p = jax.nn.sigmoid(logits(items, abilities)[0])
    return jnp.clip(jnp.where(mask, 0.5 * p + 0.5 * values, p), SURE, 1 - SURE)


def nearest(rows: jax.Array, evidence: PaddedAnswers, temperature: float) -> jax.Array:
    """Returns the mean of known models weighted by likelihood^(1 / temperature), as logits
    float32[m, n].

    Args:
      rows: float32[m0, n], probabilities of the known models.
      evidence: of m models.
      temperature: 1 gives weights by Bayes' rule; a higher one includes more neighbours.
    """

    def compare(one: tuple[jax.Array, ...]) -> Float[jax.Array, " models"]:
        samples, values, mask = one
        theirs = rows[:, samples]  # of all samples, logarithms would take most of the time
        return (values * mask) @ jnp.log(theirs).T + ((1 - values) * mask) @ jnp.log1p(-theirs).T

    likelihood = jax.lax.map(compare, (evidence.samples, evidence.values, evidence.mask))
    p = jax.nn.softmax(likelihood / temperature, axis=1) @ rows
    return jnp.log(p) - jnp.log1p(-p)
