"""The network of the neural process (active evaluation acquisition, section 2.2 and table A.1).

One encoder reads a set of samples with their values, and gives a normal distribution of the latent
variable z: the prior if the values are the answers so far, the posterior if they include those to
be predicted (attentive neural processes, Kim et al. 2019). The decoder reads z and, by
cross-attention, the answers. Sets are processed by layers of the Set Transformer with induced
points (Lee et al. 2019), or, where models are few, by layers that treat each element alone.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn

from nevis_stream.array_types import Bool, Float, Int
from nevis_stream.dynamic_evaluation.neural_process.sizes import Sizes

Queries = Float[jax.Array, "... queries width"]
Vectors = Float[jax.Array, "... samples dimension"]
PerSample = Float[jax.Array, "... samples"]

DIMENSION = 16  # of the representations of samples and of values
HEADS = 8
START = 0.05  # of the last layer's weights, so that training starts near the samples' means
LEAST_NOISE = 0.02  # standard deviation of a score
LEAST_SCALE = 0.01  # standard deviation of a latent variable


class Memory(NamedTuple):
    """What the encoder says about a set of b elements.

    Attributes:
      keys: float32[…, b + 1, 16], representations of the samples.
      values: float32[…, b + 1, width], of the elements.
      mask: bool[…, b + 1], false for padding; the last element is always there.
      mean, scale: float32[…, latent], of the latent variable.
    """

    keys: jax.Array
    values: jax.Array
    mask: jax.Array
    mean: jax.Array
    scale: jax.Array


class Attention(nn.Module):
    """Multi-head attention from one set to another, with padding."""

    width: int

    @nn.compact
    def __call__(
        self,
        queries: Queries,
        keys: Float[jax.Array, "... keys key_width"],
        values: Float[jax.Array, "... keys value_width"],
        mask: Bool[jax.Array, "... keys"],
    ) -> Float[jax.Array, "... queries out"]:
        """Returns float32[…, q, width]; there is bool[…, k]."""
        attend = nn.MultiHeadDotProductAttention(
            HEADS, qkv_features=self.width, out_features=self.width
        )
        return attend(queries, keys, values, mask=mask[..., None, None, :])


class Block(nn.Module):
    """Attention and a layer for each element, with skip connections and normalisation."""

    width: int

    @nn.compact
    def __call__(
        self,
        queries: Queries,
        keys: Float[jax.Array, "... keys width"],
        mask: Bool[jax.Array, "... keys"],
    ) -> Queries:
        """Returns float32[…, q, width]."""
        attended = Attention(self.width)(queries, keys, keys, mask)
        elements = nn.LayerNorm()(queries + attended)
        return nn.LayerNorm()(elements + nn.relu(nn.Dense(self.width)(elements)))


class SetLayer(nn.Module):
    """A layer that is equivariant to permutations of the elements.

    The induced points attend to the elements, and the elements to the points.
    """

    width: int
    points: int

    @nn.compact
    def __call__(
        self,
        elements: Float[jax.Array, "... elements width"],
        mask: Bool[jax.Array, "... elements"],
    ) -> Float[jax.Array, "... elements width"]:
        """Returns float32[…, b, width]."""
        if not self.points:
            return elements + nn.relu(nn.Dense(self.width)(elements))
        points = self.param("points", nn.initializers.normal(1.0), (self.points, self.width))
        points = jnp.broadcast_to(points, (*elements.shape[:-2], *points.shape))
        summary = Block(self.width)(points, elements, mask)
        return Block(self.width)(elements, summary, jnp.ones(summary.shape[:-1], bool))


class NeuralProcessNetwork(nn.Module):
    """Encoder and decoder.

    Args:
      sizes: of the network.
    """

    sizes: Sizes

    def setup(self) -> None:
        """Makes the layers."""
        width, layers, points, latent = self.sizes
        self.of_sample = nn.Dense(DIMENSION)
        self.of_outcome = nn.Embed(2, DIMENSION)
        self.of_score = nn.Dense(DIMENSION)
        self.of_surprise = nn.Dense(DIMENSION, use_bias=False)
        self.of_kind = nn.Embed(2, DIMENSION)
        self.inward = nn.Dense(width)
        self.encoder = [SetLayer(width, points) for _ in range(layers)]
        self.no_key = self.param("no_key", nn.initializers.normal(1.0), (1, DIMENSION))
        self.no_element = self.param("no_element", nn.initializers.normal(1.0), (1, width))
        self.seed = self.param("seed", nn.initializers.normal(1.0), (1, width))
        self.pool = Attention(width)
        self.to_latent = nn.Dense(2 * latent)
        self.cross = Attention(width)
        self.outward = nn.Dense(width)
        self.decoder = [SetLayer(width, points) for _ in range(layers)]
        self.result = nn.Dense(2, kernel_init=nn.initializers.normal(START))

    def samples(self, descriptions: Float[jax.Array, "... samples descriptions"]) -> Vectors:
        """Returns representations of samples, float32[…, b, 16], from descriptions [..., b, d]."""
        return self.of_sample(descriptions)

    def encode(
        self,
        samples: Vectors,
        values: PerSample,
        kinds: Int[jax.Array, "... samples"],
        mask: Bool[jax.Array, "... samples"],
        base: PerSample,
    ) -> Memory:
        """Reads a set of samples with their values.

        Args:
          samples: float32[…, b, 16], representations.
          values: float32[…, b] in [0, 1].
          kinds: int32[…, b], 0 for outcomes and 1 for scores.
          mask: bool[…, b], false for padding.
          base: float32[…, b], the logit of each sample's mean; values also enter less this mean,
            which says at once how a model differs from the known ones.
        """
        value = jnp.where(
            kinds[..., None] > 0,
            self.of_score(values[..., None]),
            self.of_outcome((values >= 0.5).astype(jnp.int32)),
        )
        value = value + self.of_surprise((values - nn.sigmoid(base))[..., None])
        elements = self.inward(jnp.concatenate([samples, value, self.of_kind(kinds)], axis=-1))

        def extend(
            array: Float[jax.Array, "... samples width"], last: Float[jax.Array, "one width"]
        ) -> Float[jax.Array, "... more width"]:
            last = jnp.broadcast_to(last, (*array.shape[:-2], *last.shape))
            return jnp.concatenate([array, last], axis=-2)

        elements = extend(elements, self.no_element)
        mask = jnp.concatenate([mask, jnp.ones((*mask.shape[:-1], 1), bool)], axis=-1)
        for layer in self.encoder:
            elements = layer(elements, mask)
        seed = jnp.broadcast_to(self.seed, (*elements.shape[:-2], *self.seed.shape))
        pooled = self.pool(seed, elements, elements, mask)[..., 0, :]
        mean, scale = jnp.split(self.to_latent(pooled), 2, axis=-1)
        scale = LEAST_SCALE + nn.softplus(scale)
        return Memory(extend(samples, self.no_key), elements, mask, mean, scale)

    def attend(self, samples: Vectors, memory: Memory) -> Float[jax.Array, "... samples width"]:
        """Returns what samples [..., n, 16] read of the answers, float32[…, n, width]."""
        return self.cross(samples, memory.keys, memory.values, memory.mask)

    def decode(
        self,
        samples: Vectors,
        attended: Float[jax.Array, "... samples width"],
        latent: Float[jax.Array, "... latent"],
        base: PerSample,
    ) -> tuple[PerSample, PerSample]:
        """Returns expected values and standard deviations of scores, float32[…, n] each.

        Args:
          samples: float32[…, n, 16].
          attended: float32[…, n, width].
          latent: float32[…, latent].
          base: float32[…, n], the logit of each sample's mean, to which the network adds.
        """
        latent = jnp.broadcast_to(latent[..., None, :], (*samples.shape[:-1], latent.shape[-1]))
        elements = nn.relu(self.outward(jnp.concatenate([samples, attended, latent], axis=-1)))
        mask = jnp.ones(elements.shape[:-1], bool)
        for layer in self.decoder:
            elements = layer(elements, mask)
        result = self.result(elements)
        noise = LEAST_NOISE + 0.3 * nn.softplus(result[..., 1])
        return nn.sigmoid(base + result[..., 0]), noise

    def __call__(
        self,
        descriptions: Float[jax.Array, "... samples descriptions"],
        values: PerSample,
        kinds: Int[jax.Array, "... samples"],
        mask: Bool[jax.Array, "... samples"],
        base: PerSample,
    ) -> tuple[PerSample, PerSample]:
        """Uses every layer once, so that all parameters are made."""
        samples = self.samples(descriptions)
        memory = self.encode(samples, values, kinds, mask, base)
        return self.decode(samples, self.attend(samples, memory), memory.mean, base)
