"""Training of the neural process: the evidence lower bound of random tasks (active evaluation
acquisition, equation 3).

A task is a known model, the samples that were asked of it and those to be predicted. The choices
that the paper leaves open, and the measurement behind them, are in decision 0045.
"""

import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from nevis_stream.array_types import Float, Int
from nevis_stream.cost.compute import Compute
from nevis_stream.cost.counted import made_once
from nevis_stream.dynamic_evaluation import fits
from nevis_stream.dynamic_evaluation.neural_process.descriptions import Descriptions
from nevis_stream.dynamic_evaluation.neural_process.network import NeuralProcessNetwork
from nevis_stream.dynamic_evaluation.neural_process.sizes import Sizes
from nevis_stream.queries.samples import numpy_generator
from nevis_stream.storage.checkpoint import Tree

Numbers = Float[jax.Array, "*cells"]

VERSION = 1  # of positions of trainings
STEPS = 1500
STEPS_TOGETHER = 25  # in one program
TASKS = 16  # in a batch
ASKED = 256  # samples of a task that may have been asked, at most
PREDICTED = 128  # samples of a task that are predicted, at most
LEARNING_RATE = 2e-3
WEIGHT_DECAY = 1e-3
LARGEST_GRADIENT = 1.0


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
    asked = min(ASKED, max(n // 2, 1))
    together = min(asked + PREDICTED, n)
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
        ((asked + 1) ** fraction).astype(np.int32) - 1,
        random.normal(size=(steps, TASKS, sizes.latent)).astype(np.float32),
    )


def loss(network: NeuralProcessNetwork, parameters: Tree, tasks: Tasks, most: int) -> jax.Array:
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


def optimiser() -> optax.GradientTransformation:
    """Returns AdamW with a learning rate that falls to 0 along a cosine."""
    return optax.chain(
        optax.clip_by_global_norm(LARGEST_GRADIENT),
        optax.adamw(optax.cosine_decay_schedule(LEARNING_RATE, STEPS), weight_decay=WEIGHT_DECAY),
    )


@made_once
def program(sizes: Sizes, most: int, steps: int) -> Callable[[Tree, Tasks], Tree]:
    """Returns the program that takes a state and tasks, and returns the state after them.

    Args:
      sizes: of the network.
      most: number of samples that may have been asked.
      steps: of the whole training.
    """
    network, update = NeuralProcessNetwork(sizes), optimiser().update

    def advance(state: Tree, tasks: Tasks) -> Tree:
        def step(state: Tree, tasks: Tasks) -> tuple[Tree, None]:
            parameters, memory = state
            slope = jax.grad(lambda inner: loss(network, inner, tasks, most))(parameters)
            changes, memory = update(slope, memory, parameters)
            return (optax.apply_updates(parameters, changes), memory), None

        return jax.lax.scan(step, state, tasks)[0]

    return advance


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
    start = parameters, optimiser().init(parameters)
    entropy = numpy_generator(key).integers(2**63)
    jitted = ctx.jit(program(sizes, most, STEPS))

    def advance(state: Tree, part: int) -> Tree:
        random = np.random.default_rng([entropy, part])
        return jitted(state, jax.tree.map(jnp.asarray, draw(described, sizes, random)))

    parts = -(-STEPS // STEPS_TOGETHER)
    name = lambda: _name(described, sizes, int(entropy))  # noqa: E731
    return fits.train(ctx, name, start, parts, advance)[0]


def _name(described: Descriptions, sizes: Sizes, entropy: int) -> str:
    content = hashlib.sha256(repr((VERSION, sizes, STEPS, entropy)).encode())
    for array in (described.values, described.mask, described.part, described.all):
        content.update(np.ascontiguousarray(array))
    return content.hexdigest()[:16]
