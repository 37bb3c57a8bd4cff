"""The network of the neural process, and its training (active evaluation acquisition, section 2.2,
equation 3 and table A.1).

One encoder reads a set of samples with their values, and gives a normal distribution of the latent
variable z: the prior if the values are the answers so far, the posterior if they include those to
be predicted (attentive neural processes, Kim et al. 2019). The decoder reads z and, by
cross-attention, the answers. Sets are processed by layers of the Set Transformer with induced
points (Lee et al. 2019), or, where models are few, by layers that treat each element alone.

Training maximises the evidence lower bound of random tasks. A task is a known model, the samples
that were asked of it and those to be predicted. The choices that the paper leaves open, and the
measurement behind them, are in decision 0045.
"""

import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from nevis_stream.array_types import Bool, Float, Int
from nevis_stream.cost.compute import Compute
from nevis_stream.cost.counted import make_once
from nevis_stream.experiments.methods.neural_process.descriptions import Descriptions, Sizes
from nevis_stream.queries.samples import make_numpy_generator
from nevis_stream.storage.checkpoint import Tree
from nevis_stream.training.descent import begin, make_optimiser, make_steps
from nevis_stream.training.loop import train_in_parts

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
        """Returns float32[…, q, width]; `mask` is false for padding."""
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


Numbers = Float[jax.Array, "*cells"]

VERSION = 1  # of positions of trainings
STEPS = 1500
STEPS_TOGETHER = 25  # in one program
TASKS = 16  # in a batch
ASKED = 256  # samples of a task that may have been asked, at most
PREDICTED = 128  # samples of a task that are predicted, at most
OPTIMISER = {"rate": 2e-3, "decay": 1e-3, "largest_gradient": 1.0}


class Tasks(NamedTuple):
    """Batches of tasks of s steps; b samples of each may have been asked, c are predicted.

    Attributes:
      descriptions: float32[s, tasks, b + c, d].
      base: float32[s, tasks, b + c].
      values: float32[s, tasks, b + c].
      mask: bool[s, tasks, b + c], the known cells.
      kinds: int32[s, 1, b + c].
      asked: int32[s, tasks], how many were asked, the first ones.
      noise: float32[s, tasks, latent], normal.
    """

    descriptions: np.ndarray
    base: np.ndarray
    values: np.ndarray
    mask: np.ndarray
    kinds: np.ndarray
    asked: np.ndarray
    noise: np.ndarray


def draw(described: Descriptions, sizes: Sizes, random: np.random.Generator) -> Tasks:
    """Returns the tasks of `STEPS_TOGETHER` steps.

    The number of asked samples is uniform on a logarithmic scale, from none; all tasks of a step
    have the same samples.
    """
    steps, (models, n) = STEPS_TOGETHER, described.values.shape
    most = min(ASKED, max(n // 2, 1))
    together = min(most + PREDICTED, n)
    model = random.integers(models, size=(steps, TASKS))[..., None]
    columns = np.stack([random.permutation(n)[:together] for _ in range(steps)])[:, None]
    part = described.part[model]
    fraction = random.random((steps, TASKS))
    return Tasks(
        described.without[part, columns],
        described.base_without[part, columns],
        described.values[model, columns],
        described.mask[model, columns],
        described.kinds[columns],
        ((most + 1) ** fraction).astype(np.int32) - 1,
        random.normal(size=(steps, TASKS, sizes.latent)).astype(np.float32),
    )


def compute_loss(
    network: NeuralProcessNetwork, parameters: Tree, tasks: Tasks, most: int
) -> jax.Array:
    """Returns the negative evidence lower bound of a step's tasks for each predicted cell.

    Args:
      network: the network.
      parameters: its parameters.
      tasks: of one step.
      most: number of samples that may have been asked; the others are predicted.
    """

    def apply(method: Callable, *arguments: Any) -> Any:
        return network.apply(parameters, *arguments, method=method)

    samples = apply(NeuralProcessNetwork.samples, tasks.descriptions)
    kinds = jnp.broadcast_to(tasks.kinds, tasks.values.shape)
    before = (jnp.arange(most) < tasks.asked[:, None]) & tasks.mask[:, :most]
    target = tasks.mask[:, most:]
    both = jnp.concatenate([before, target], axis=1)
    parts = samples, tasks.values, kinds
    prior = apply(
        NeuralProcessNetwork.encode,
        *(part[:, :most] for part in parts),
        before,
        tasks.base[:, :most],
    )
    posterior = apply(NeuralProcessNetwork.encode, *parts, both, tasks.base)
    latent = posterior.mean + posterior.scale * tasks.noise
    attended = apply(NeuralProcessNetwork.attend, samples[:, most:], prior)
    expected, noise = apply(
        NeuralProcessNetwork.decode, samples[:, most:], attended, latent, tasks.base[:, most:]
    )
    likelihood = log_likelihood(expected, noise, tasks.values[:, most:], kinds[:, most:])
    divergence = (
        jnp.log(prior.scale / posterior.scale)
        + (posterior.scale**2 + (posterior.mean - prior.mean) ** 2) / (2 * prior.scale**2)
        - 0.5
    )
    return (divergence.sum() - (likelihood * target).sum()) / jnp.maximum(target.sum(), 1)


def log_likelihood(
    expected: Numbers, noise: Numbers, values: Numbers, kinds: Int[jax.Array, "*cells"]
) -> Numbers:
    """Returns the log-likelihood of each value: Bernoulli for outcomes, normal for scores."""
    p = jnp.clip(expected, 1e-6, 1 - 1e-6)
    of_outcome = values * jnp.log(p) + (1 - values) * jnp.log1p(-p)
    of_score = -0.5 * ((values - expected) / noise) ** 2 - jnp.log(noise * np.sqrt(2 * np.pi))
    return jnp.where(kinds > 0, of_score, of_outcome)


@make_once
def make_training_program(sizes: Sizes, most: int, steps: int) -> Callable[[Tree, Tasks], Tree]:
    """Returns the program that takes a state and tasks, and returns the state after them.

    Args:
      sizes: of the network.
      most: number of samples that may have been asked.
      steps: of the whole training.
    """
    network = NeuralProcessNetwork(sizes)
    return make_steps(
        lambda parameters, tasks: compute_loss(network, parameters, tasks, most),
        make_optimiser(steps=steps, **OPTIMISER).update,
    )


def train(described: Descriptions, sizes: Sizes, key: jax.Array, ctx: Compute) -> Tree:
    """Returns the parameters of a network that was trained on the known models.

    Args:
      described: the known models, and the descriptions of the samples.
      sizes: of the network.
      key: a JAX key.
      ctx: counts FLOPs.
    """
    network, n = NeuralProcessNetwork(sizes), described.values.shape[1]
    most = min(ASKED, max(n // 2, 1))
    one = np.zeros((1, 1), np.float32)
    parameters = jax.jit(network.init)(
        key, described.all[:1], one[0], one[0].astype(np.int32), one[0] > 1, described.base[:1]
    )
    start = begin(make_optimiser(steps=STEPS, **OPTIMISER), parameters)
    entropy = make_numpy_generator(key).integers(2**63)
    jitted = ctx.jit(make_training_program(sizes, most, STEPS))

    def advance(state: Tree, part: int, _: int) -> Tree:
        random = np.random.default_rng([entropy, part])
        return jitted(state, jax.tree.map(jnp.asarray, draw(described, sizes, random)))

    parts = -(-STEPS // STEPS_TOGETHER)
    name = lambda: _name(described, sizes, int(entropy))  # noqa: E731
    return train_in_parts(ctx, name, start, parts, advance)[0]


def _name(described: Descriptions, sizes: Sizes, entropy: int) -> str:
    content = hashlib.sha256(repr((VERSION, sizes, STEPS, entropy)).encode())
    for array in (described.values, described.mask, described.part, described.all):
        content.update(np.ascontiguousarray(array))
    return content.hexdigest()[:16]
