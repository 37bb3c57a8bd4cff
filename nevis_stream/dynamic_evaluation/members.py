"""The six predictors that `combination` combines (its members), all fitted to the known models and
given the same answers: item response models, these with directions of the known models' residuals
as further features, and means of the nearest known models.

Residuals and neighbours find relations between samples that a few factors miss: models of one
family err on the same samples.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from nevis_stream.array_types import Bool, Float, UInt8
from nevis_stream.cost.compute import Compute
from nevis_stream.dynamic_evaluation import response
from nevis_stream.dynamic_evaluation.policy import Key
from nevis_stream.dynamic_evaluation.response import (
    Abilities,
    Items,
    PaddedAnswers,
    compute_curvature,
    predict_logits,
)
from nevis_stream.queries.oracle import Responses
from nevis_stream.queries.samples import fill_unknown, is_observed, make_numpy_generator
from nevis_stream.storage.checkpoint import Tree

DIRECTIONS = 48  # at most this many principal directions of the residuals
SURE = 0.05  # smoothed outcomes of known models stay this far from 0 and 1


def compute_residual_directions(
    values: jax.Array, mask: jax.Array, items: Items, abilities: Abilities
) -> jax.Array:
    """Returns the principal directions of the known models' residuals y - p, float32[n, q], scaled
    so that inner products of samples are those of their residuals, but for the directions after the
    first `DIRECTIONS`; unknown residuals are 0.

    Args:
      values, mask: float32[m0, n] and bool[m0, n], the known models' values, and which of them are
        known.
      items, abilities: of the item response model that gives p.
    """
    p = jax.nn.sigmoid(predict_logits(items, abilities)[0])
    residual = jnp.where(mask, values - p, 0.0)
    _, directions = jnp.linalg.eigh(residual @ residual.T)
    return residual.T @ directions[:, ::-1][:, :DIRECTIONS]


def regress(
    features: Float[jax.Array, "samples features"],
    offset: Float[jax.Array, " samples"],
    padded_answers: PaddedAnswers,
) -> Float[jax.Array, "models samples"]:
    """Returns the logits of m models on n samples by logistic regression on the samples' features,
    float32[m, n].

    The weights of features have a standard normal prior; bound and updates are those of `response`.

    Args:
      features: float32[n, q].
      offset: float32[n], added to the logit.
      padded_answers: of m models.
    """
    x, base = features[padded_answers.samples], offset[padded_answers.samples]
    signs = (padded_answers.values - 0.5) * padded_answers.mask
    eye = jnp.eye(features.shape[1])

    def step(_: jax.Array, state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        weights = compute_curvature(state[0]) * padded_answers.mask
        precision = (x * weights[:, :, None]).transpose(0, 2, 1) @ x + eye
        lower = jnp.linalg.cholesky(precision)
        root = jax.lax.linalg.triangular_solve(
            lower, jnp.broadcast_to(eye, precision.shape), left_side=True, lower=True
        )
        right_side = jnp.einsum("mbi,mb->mi", x, signs - weights * base)
        weight = jnp.einsum("mji,mj->mi", root, jnp.einsum("mij,mj->mi", root, right_side))
        mean = base + jnp.einsum("mbi,mi->mb", x, weight)
        return mean**2 + ((x @ root.transpose(0, 2, 1)) ** 2).sum(axis=2), weight

    start = (jnp.ones(signs.shape), jnp.zeros((len(signs), features.shape[1])))
    return offset + jax.lax.fori_loop(0, 6, step, start)[1] @ features.T


def smooth(values: jax.Array, mask: jax.Array, items: Items, abilities: Abilities) -> jax.Array:
    """Returns the average of each known value and its probability under an item response model,
    float32[m0, n]; of an unknown value, the probability. Arguments as of
    `compute_residual_directions`.
    """
    p = jax.nn.sigmoid(predict_logits(items, abilities)[0])
    return jnp.clip(jnp.where(mask, 0.5 * p + 0.5 * values, p), SURE, 1 - SURE)


def average_nearest(
    rows: jax.Array, padded_answers: PaddedAnswers, temperature: float
) -> jax.Array:
    """Returns the mean of known models' probabilities, weighted by the likelihood of a new model's
    answers to the power 1 / temperature, as logits float32[m, n].

    Args:
      rows: float32[m0, n], probabilities of the known models.
      padded_answers: of m new models.
      temperature: 1 gives weights by Bayes' rule; with a higher one, more known models count.
    """

    def compare(one: tuple[jax.Array, ...]) -> Float[jax.Array, " models"]:
        samples, values, mask = one
        p = rows[:, samples]  # logarithms of all samples would take most of the time
        return (values * mask) @ jnp.log(p).T + ((1 - values) * mask) @ jnp.log1p(-p).T

    log_likelihood = jax.lax.map(
        compare, (padded_answers.samples, padded_answers.values, padded_answers.mask)
    )
    p = jax.nn.softmax(log_likelihood / temperature, axis=1) @ rows
    return jnp.log(p) - jnp.log1p(-p)


NAMES = (
    "2PL",
    "multidimensional",
    "2PL and residuals",
    "multidimensional and residuals",
    "near",
    "nearer",
)
FACTORS = 6
# prior standard deviation of the weights of residuals, for the 2PL and the multidimensional model
RESIDUAL_SCALES = (0.5, 0.25)
TEMPERATURES = (10.0, 3.0)
MODELS = 512  # at most this many known models are fitted, drawn at random


def fit(
    known: UInt8[np.ndarray, "models samples"] | Float[np.ndarray, "models samples"],
    key: Key,
    ctx: Compute,
) -> Tree:
    """Fits all members.

    Args:
      known: uint8[m0, n] or float[m0, n], see `Matrix.matrix`; of more than 512 models, 512
        are drawn.
      key: a JAX key.
      ctx: compiles, and counts FLOPs.

    Returns: `two` and `many`, the samples' parameters under the two-parameter model and the
      multidimensional one; `leftover`, float32[n, q] each, the directions of the known models'
      residuals under these; `rows`, float32[m0, n], the known models' smoothed values.
    """
    if len(known) > MODELS:
        known = known[np.sort(make_numpy_generator(key).choice(len(known), MODELS, replace=False))]
    two, ability = response.fit(known, 1, key, ctx)
    many, abilities = response.fit(known, FACTORS, key, ctx)
    values, mask = jnp.asarray(fill_unknown(known)), jnp.asarray(is_observed(known))
    leftover, rows = ctx.jit(_describe_known)(values, mask, two, ability, many, abilities)
    items = {"two": response.make_tree(two), "many": response.make_tree(many)}
    return items | {"leftover": list(leftover), "rows": rows}


def predict(
    tree: Tree, answers: Responses, weights: np.ndarray, ctx: Compute
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the members' logits, float32[6, m, n] in the order of `NAMES`, and the posterior
    standard deviation of the mean under the multidimensional model, float64[m].

    Args:
      tree: of `fit`.
      answers: of m models.
      weights: float[n], of the samples in the mean.
      ctx: compiles, and counts FLOPs.
    """
    items = Items(**tree["two"]), Items(**tree["many"])
    padded_answers = response.PaddedAnswers.of(answers, answers.samples.shape[1])
    logits, deviation = ctx.jit(_compute_logits)(
        *items, list(tree["leftover"]), tree["rows"], padded_answers, weights.astype(np.float32)
    )
    return np.asarray(logits), np.asarray(deviation, np.float64)


def _describe_known(
    values: Float[jax.Array, "models samples"],
    mask: Bool[jax.Array, "models samples"],
    two: Items,
    ability: Abilities,
    many: Items,
    abilities: Abilities,
) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
    leftover = (
        compute_residual_directions(values, mask, two, ability),
        compute_residual_directions(values, mask, many, abilities),
    )
    return leftover, smooth(values, mask, many, abilities)


def _compute_logits(
    two: Items,
    many: Items,
    leftover: Sequence[jax.Array],
    rows: jax.Array,
    padded_answers: PaddedAnswers,
    weights: Float[jax.Array, " samples"],
) -> tuple[Float[jax.Array, "members models samples"], Float[jax.Array, " models"]]:
    plain, _ = response.predict(two, padded_answers, weights)
    wide, deviation = response.predict(many, padded_answers, weights)
    logits = [plain, wide]
    for items, residuals, scale in zip((two, many), leftover, RESIDUAL_SCALES, strict=True):
        features = jnp.concatenate([items.mean[:, 1:], scale * residuals], axis=1)
        logits.append(regress(features, items.mean[:, 0], padded_answers))
    logits += [average_nearest(rows, padded_answers, temperature) for temperature in TEMPERATURES]
    return jnp.stack(logits), deviation
