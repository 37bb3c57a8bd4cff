"""The six predictors that `combination` combines, all fitted to the known models and given the same
answers.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from nevis_stream.array_types import Bool, Float, UInt8
from nevis_stream.cost.compute import Compute
from nevis_stream.dynamic_evaluation import neighbours, response
from nevis_stream.dynamic_evaluation.policy import Key
from nevis_stream.dynamic_evaluation.response import Abilities, Items, PaddedAnswers
from nevis_stream.queries.matrix import is_observed, numbers
from nevis_stream.queries.oracle import Responses
from nevis_stream.queries.samples import numpy_generator
from nevis_stream.storage.checkpoint import Tree

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
      known: uint8[m0, n] or float[m0, n], see `matrix`; of more than 512 models, 512 are drawn.
      key: a JAX key.
      ctx: compiles, and counts FLOPs.

    Returns: `two` and `many`, the samples' parameters under the two-parameter model and the
      multidimensional one; `leftover`, float32[n, q] each, the known models' residuals under these;
      `rows`, float32[m0, n], the known models' smoothed values.
    """
    if len(known) > MODELS:
        known = known[np.sort(numpy_generator(key).choice(len(known), MODELS, replace=False))]
    two, ability = response.fit(known, 1, key, ctx)
    many, abilities = response.fit(known, FACTORS, key, ctx)
    values, mask = jnp.asarray(numbers(known)), jnp.asarray(is_observed(known))
    leftover, rows = ctx.jit(_relate)(values, mask, two, ability, many, abilities)
    items = {"two": response.as_tree(two), "many": response.as_tree(many)}
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
    evidence = response.PaddedAnswers.of(answers, answers.samples.shape[1])
    logits, deviation = ctx.jit(_logits)(
        *items, list(tree["leftover"]), tree["rows"], evidence, weights.astype(np.float32)
    )
    return np.asarray(logits), np.asarray(deviation, np.float64)


def _relate(
    values: Float[jax.Array, "models samples"],
    mask: Bool[jax.Array, "models samples"],
    two: Items,
    ability: Abilities,
    many: Items,
    abilities: Abilities,
) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
    leftover = (
        neighbours.residuals(values, mask, two, ability),
        neighbours.residuals(values, mask, many, abilities),
    )
    return leftover, neighbours.smooth(values, mask, many, abilities)


def _logits(
    two: Items,
    many: Items,
    leftover: Sequence[jax.Array],
    rows: jax.Array,
    evidence: PaddedAnswers,
    weights: Float[jax.Array, " samples"],
) -> tuple[Float[jax.Array, "members models samples"], Float[jax.Array, " models"]]:
    plain, _ = response.predict(two, evidence, weights)
    wide, deviation = response.predict(many, evidence, weights)
    logits = [plain, wide]
    for items, residuals, scale in zip((two, many), leftover, RESIDUAL_SCALES, strict=True):
        features = jnp.concatenate([items.mean[:, 1:], scale * residuals], axis=1)
        logits.append(neighbours.regress(features, items.mean[:, 0], evidence))
    logits += [neighbours.nearest(rows, evidence, temperature) for temperature in TEMPERATURES]
    return jnp.stack(logits), deviation
