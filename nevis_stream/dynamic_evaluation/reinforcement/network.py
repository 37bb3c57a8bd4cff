"""The policy's network (active evaluation acquisition, equation 9 and table B.1).

In equation 9 the logit of a sample is the product of its representation with the actor's output.
Ours differs: a projection of the sample's element after the set layer, which has seen the answers,
is added to the representation, and the product is divided by the root of its length.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn

from nevis_stream.array_types import Float
from nevis_stream.dynamic_evaluation.neural_process.network import DIMENSION, SetLayer

WIDTH = 32
NEVER = -1e9  # the logit of a sample that was asked; -inf has no gradient
POINTS = 16  # induced points of the layer


class State(NamedTuple):
    """What the policy sees of each of n samples: float32[…, n] each.

    Attributes:
      asked: 1 for the samples that were asked.
      values: their values, 0 for the others.
      mean, deviation: expected values by the predictor, and their standard deviations.
    """

    asked: jax.Array
    values: jax.Array
    mean: jax.Array
    deviation: jax.Array


class ActorCritic(nn.Module):
    """Actor and critic on one layer of a Set Transformer.

    Args:
      frozen: whether representations of samples are not learned here: they are those of the neural
        process where there is one, else a fixed projection.
    """

    frozen: bool = False

    @nn.compact
    def __call__(
        self, descriptions: Float[jax.Array, "... samples descriptions"], state: State
    ) -> tuple[Float[jax.Array, "... samples"], Float[jax.Array, "..."]]:
        """Returns the logit of asking each sample, float32[…, n], and the value of the state,
        float32[…].

        Args:
          descriptions: float32[n, d], of the samples.
          state: of one or several models.
        """
        samples = nn.Dense(DIMENSION)(descriptions)
        if self.frozen:
            given = descriptions.shape[-1] == DIMENSION
            samples = descriptions if given else jax.lax.stop_gradient(samples)
        samples = jnp.broadcast_to(samples, (*state.asked.shape, DIMENSION))
        unknown = self.param("unknown", nn.initializers.normal(1.0), (DIMENSION,))
        known = nn.Dense(DIMENSION)(state.values[..., None])
        values = jnp.where(state.asked[..., None] > 0, known, unknown)
        beliefs = jnp.stack([state.mean, state.deviation], axis=-1)
        elements = nn.Dense(WIDTH)(jnp.concatenate([samples, values, beliefs], axis=-1))
        elements = SetLayer(WIDTH, POINTS)(elements, jnp.ones(state.asked.shape, bool))
        pooled = elements.mean(axis=-2)
        candidates = nn.Dense(DIMENSION)(elements) + samples
        wanted = nn.Dense(DIMENSION)(pooled)
        logits = jnp.einsum("...nd,...d->...n", candidates, wanted) / DIMENSION**0.5
        logits = jnp.where(state.asked > 0, NEVER, logits)
        return logits, nn.Dense(1)(pooled)[..., 0]
