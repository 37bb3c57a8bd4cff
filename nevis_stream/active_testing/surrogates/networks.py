"""Ensembles of small networks in JAX, trained anew whenever labels have been bought: heads on
frozen features, a Bayesian head, and whole convolutional networks.

A member is trained with Adam on batches drawn with replacement, so its cost does not depend on the
number of examples beyond a number of steps that is rounded up to a power of two: few programs are
compiled.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from nevis_stream.active_testing.surrogate import (
    SurrogateBuilder,
    SurrogateData,
    calibrate,
    start_logits,
)
from nevis_stream.active_testing.testing import EnsemblePredictions, Surrogate
from nevis_stream.array_types import Float, Int, UInt8
from nevis_stream.cost.counted import make_counted, make_once
from nevis_stream.queries.oracle import Cost, Responses
from nevis_stream.seeds import generator, key_of, seed_for
from nevis_stream.storage.checkpoint import Tree
from nevis_stream.training.descent import make_steps

BATCH = 64
_CAPACITY = 1024  # numbers of examples are rounded up to multiples of it
_FEWEST_STEPS = 64
_PREDICTED = 2048  # samples per call
_HELD_OUT = 5  # one example of so many is for calibration if there are no others


@dataclass(frozen=True)
class Architecture:
    """A network and how it is trained.

    Attributes:
      initialise: `initialise(key, shape, classes)` returns parameters for inputs of a shape.
      logits: `logits(parameters, inputs)` returns float32[b, c].
      epochs: passes over the examples.
      rate: Adam's step size at the start; it falls linearly to 0.
      decay: decoupled weight decay per unit of step size.
      sampled: for a posterior over weights: `sampled(parameters, key)` draws a network's weights.
        One posterior is trained, and the members are draws from it. None: every member is a
        network that is trained by itself.
      penalty: of a posterior: `penalty(parameters, weights)` estimates its divergence from the
        prior by the drawn weights, in nats.
    """

    initialise: Callable[[jax.Array, tuple[int, ...], int], Any]
    logits: Callable[[Any, jax.Array], jax.Array]
    epochs: int = 10
    rate: float = 2e-3
    decay: float = 1e-2
    sampled: Callable[[Any, jax.Array], Any] | None = None
    penalty: Callable[[Any, Any], jax.Array] | None = None


@make_once
def _training(architecture: Architecture, steps: int, classes: int) -> Callable[..., Tree]:
    """Returns `train(key, inputs, labels, offsets, count)`, the parameters of one member."""

    def update(
        gradients: Tree, memory: tuple[Tree, Tree, jax.Array], parameters: Tree
    ) -> tuple[Tree, tuple[Tree, Tree, jax.Array]]:
        # Adam. That of optax divides in another order, which would change the last digits.
        mean, square, number = memory
        mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, gradients)
        square = jax.tree.map(lambda s, g: 0.99 * s + 0.01 * g * g, square, gradients)
        done, rate = number + 1, architecture.rate * (number / steps - 1)
        time = done.astype(jnp.float32)
        first, second = 1 - 0.9**time, jnp.sqrt(1 - 0.99**time)

        def change(p: jax.Array, m: jax.Array, s: jax.Array) -> jax.Array:
            return rate * (m / first / (jnp.sqrt(s) / second + 1e-8) + architecture.decay * p)

        return jax.tree.map(change, parameters, mean, square), (mean, square, done)

    def train(
        key: jax.Array,
        inputs: Float[jax.Array, "examples ..."],
        labels: Int[jax.Array, " examples"],
        offsets: Float[jax.Array, "examples classes"],
        count: jax.Array,
    ) -> Tree:
        start, order = jax.random.split(key)
        parameters = architecture.initialise(start, inputs.shape[1:], classes)

        def loss(parameters: Tree, number: jax.Array) -> jax.Array:
            batch, noise = jax.random.fold_in(order, number), jax.random.fold_in(start, number)
            rows = (jax.random.uniform(batch, (BATCH,)) * count).astype(jnp.int32)
            sampled, penalty = architecture.sampled, architecture.penalty
            weights = sampled(parameters, noise) if sampled else parameters
            scores = architecture.logits(weights, inputs[rows]) + offsets[rows]
            chosen = jnp.take_along_axis(jax.nn.log_softmax(scores), labels[rows][:, None], 1)
            return (penalty(parameters, weights) / count if penalty else 0) - chosen.mean()

        zero = jax.tree.map(jnp.zeros_like, parameters)
        state = parameters, (zero, zero, jnp.int32(0))
        return make_steps(loss, update)(state, jnp.arange(steps))[0]

    return train


@make_once
def _prediction(architecture: Architecture) -> Callable[..., jax.Array]:
    def predict(
        parameters: Tree, inputs: jax.Array, offsets: Float[jax.Array, "samples classes"]
    ) -> Float[jax.Array, "samples classes"]:
        return jax.nn.softmax(architecture.logits(parameters, inputs) + offsets)

    return predict


@dataclass(frozen=True)
class RetrainedEnsemble:
    """A surrogate: networks trained on the training examples and the bought labels, calibrated.

    Attributes:
      architecture: of every member.
      inputs: "features" or "images", an attribute of `SurrogateData`.
      data: what is known.
      seed: of all random numbers.
      members: number of networks.
    """

    architecture: Architecture
    inputs: str
    data: SurrogateData
    seed: int
    members: int = 8

    def __call__(self, answers: Responses) -> EnsemblePredictions:
        """Returns the members' probabilities, float32[e, n, c], and the FLOPs."""
        inputs, labels, offsets = self.data.learned_from(self.inputs, answers)
        pool, pool_offsets = getattr(self.data, self.inputs), self.data.offsets()
        if not len(labels):  # nothing to learn from: the tested model
            probabilities = np.exp(pool_offsets)
            probabilities /= probabilities.sum(axis=1, keepdims=True)
            return EnsemblePredictions(probabilities[None])
        calibration, training = self.data.calibration, self.data.training
        known = None if calibration is None else getattr(calibration, self.inputs)
        if known is not None and (training is not None or calibration.predictions is not None):
            held_out, held_labels = known, calibration.labels
            held_offsets = np.zeros((len(held_labels), pool_offsets.shape[1]), np.float32)
            if training is None:
                held_offsets = start_logits(calibration.predictions)
        else:
            order = generator(self.seed, "held out").permutation(len(labels))
            part, kept = np.split(order, [len(labels) // _HELD_OUT])
            held_out, held_labels, held_offsets = inputs[part], labels[part], offsets[part]
            inputs, labels, offsets = inputs[kept], labels[kept], offsets[kept]
        parameters, flops = self._train(inputs, labels, offsets)
        members, more = self._predict(parameters, pool, pool_offsets)
        held, rest = self._predict(parameters, held_out, held_offsets)
        flops += more + rest
        return EnsemblePredictions(calibrate(members, held, held_labels), Cost(flops))

    def _train(
        self,
        inputs: np.ndarray,
        labels: Int[np.ndarray, " examples"],
        offsets: Float[np.ndarray, "examples classes"],
    ) -> tuple[list[Tree], int]:
        count = len(labels)
        steps = max(_FEWEST_STEPS, self.architecture.epochs * count // BATCH)
        steps = 1 << (steps - 1).bit_length()
        inputs, labels, offsets = (
            _pad(each, -count % _CAPACITY) for each in (inputs, labels, offsets)
        )
        program = make_counted(_training(self.architecture, steps, offsets.shape[1]))
        parameters, flops = [], 0
        sampled = self.architecture.sampled
        for member in range(1 if sampled else self.members):
            key = key_of(seed_for(self.seed, "member", member))
            trained, cost = program.call_and_count(key, inputs, labels, offsets, np.float32(count))
            parameters.append(trained)
            flops += cost
        if sampled:
            draws = [key_of(seed_for(self.seed, "weights", each)) for each in range(self.members)]
            parameters = [sampled(parameters[0], key) for key in draws]
        return parameters, flops

    def _predict(
        self,
        parameters: Sequence[Tree],
        inputs: np.ndarray,
        offsets: Float[np.ndarray, "samples classes"],
    ) -> tuple[Float[np.ndarray, "members samples classes"], int]:
        program, flops = make_counted(_prediction(self.architecture)), 0
        probabilities = np.empty((len(parameters), *offsets.shape), np.float32)
        block = min(_PREDICTED, 1 << max(len(inputs) - 1, 1).bit_length())
        for start in range(0, len(inputs), block):
            part, part_offsets = inputs[start : start + block], offsets[start : start + block]
            count = len(part)
            padded = _pad(part, block - count), _pad(part_offsets, block - count)
            for number, each in enumerate(parameters):
                predicted, cost = program.call_and_count(each, *padded)
                probabilities[number, start : start + count] = np.asarray(predicted)[:count]
                flops += cost
        return probabilities, flops


def _pad(array: np.ndarray, rows: int) -> jax.Array:
    return jnp.asarray(np.pad(array, [(0, rows)] + [(0, 0)] * (array.ndim - 1)))


WIDTH = 64


def _initialise_head(key: jax.Array, shape: tuple[int, ...], classes: int) -> Tree:
    (width,), (first, second) = shape, jax.random.split(key)
    return {
        "hidden": jax.random.normal(first, (width, WIDTH)) * jnp.sqrt(2 / width),
        "hidden_bias": jnp.zeros(WIDTH),
        "head": jax.random.normal(second, (WIDTH, classes)) * (0.5 / WIDTH**0.5),
        "head_bias": jnp.zeros(classes),
    }


def _head_logits(
    parameters: Tree, inputs: Float[jax.Array, "batch features"]
) -> Float[jax.Array, "batch classes"]:
    hidden = jax.nn.relu(inputs @ parameters["hidden"] + parameters["hidden_bias"])
    return hidden @ parameters["head"] + parameters["head_bias"]


HEADS = Architecture(_initialise_head, _head_logits)


class Heads(SurrogateBuilder):
    """Eight heads with a hidden layer of 64 units, each with its own initial weights and batches.

    Features should have a mean square of about 1. Without training examples the heads learn what to
    add to the tested model's logits.
    """

    about = "eight small heads on features, retrained on the labels as they come, calibrated"
    needs = ("features",)

    def build(self, data: SurrogateData, seed: int) -> Surrogate:
        """Returns the surrogate."""
        return RetrainedEnsemble(HEADS, "features", data, seed)


MEMBERS = 20
_PRIOR = 1.0  # standard deviation of each weight, in units of its initial one
_SPREAD = -4.0  # at the start: softplus(-4) = 0.018, in the same units


def _initialise_posterior(key: jax.Array, shape: tuple[int, ...], classes: int) -> Tree:
    mean = HEADS.initialise(key, shape, classes)
    return {"mean": mean, "spread": jax.tree.map(lambda m: jnp.full_like(m, _SPREAD), mean)}


def _unit(mean: jax.Array) -> float:
    """Returns the scale of an array's weights under the prior."""
    return 1.0 if mean.ndim < 2 else (2 / mean.shape[0]) ** 0.5


def _sample(parameters: Tree, key: jax.Array) -> Tree:
    """Draws weights: a random direction, whose length is that of a single normal variable."""
    weights = {}
    for number, (name, mean) in enumerate(sorted(parameters["mean"].items())):
        direction, length = jax.random.split(jax.random.fold_in(key, number))
        noise = jax.random.normal(direction, mean.shape)
        noise = noise / jnp.linalg.norm(noise) * jax.random.normal(length)
        spread = jax.nn.softplus(parameters["spread"][name]) * _unit(mean)
        # a direction has entries of the order 1 / sqrt(size): this keeps them near the spread
        weights[name] = mean + spread * noise * mean.size**0.5
    return weights


def _penalty(parameters: Tree, weights: Tree) -> jax.Array:
    """Returns the divergence from a normal prior, up to a constant, in nats."""
    total = 0.0
    for name, mean in parameters["mean"].items():
        spread = jax.nn.softplus(parameters["spread"][name])
        scaled = weights[name] / (_unit(mean) * _PRIOR)
        total += (scaled**2 / 2 - jnp.log(spread)).sum()
    return total


BAYESIAN = replace(
    HEADS,
    initialise=_initialise_posterior,
    epochs=40,
    decay=0.0,
    sampled=_sample,
    penalty=_penalty,
)


class Bayesian(SurrogateBuilder):
    """One head as in `Heads`, with a radial posterior over its weights; the members are 20 draws.

    Source: Farquhar, Osborne and Gal, Radial Bayesian Neural Networks, AISTATS 2020; the ASE paper
    uses one for its shift. Weights are scaled by their initial size.
    """

    about = "a head on features with a radial posterior over its weights, retrained, calibrated"
    needs = ("features",)

    def build(self, data: SurrogateData, seed: int) -> Surrogate:
        """Returns the surrogate."""
        return RetrainedEnsemble(BAYESIAN, "features", data, seed, MEMBERS)


CHANNELS = (16, 32)


def _initialise_convolutions(key: jax.Array, shape: tuple[int, ...], classes: int) -> Tree:
    height, width, channels = shape
    parameters = {}
    for number, (side, outputs) in enumerate(zip((5, 3), CHANNELS, strict=True)):
        key, used = jax.random.split(key)
        scale = (2 / (side * side * channels)) ** 0.5
        kernel = jax.random.normal(used, (side, side, channels, outputs)) * scale
        parameters |= {f"kernel{number}": kernel, f"bias{number}": jnp.zeros(outputs)}
        height, width, channels = -(-height // 2), -(-width // 2), outputs
    inputs = height * width * channels
    head = jax.random.normal(key, (inputs, classes)) * (0.5 / inputs**0.5)
    return parameters | {"head": head, "head_bias": jnp.zeros(classes)}


def _convolution_logits(
    parameters: Tree, inputs: UInt8[jax.Array, "batch height width channels"]
) -> Float[jax.Array, "batch classes"]:
    x = inputs.astype(jnp.float32) / 127.5 - 1
    for number in range(len(CHANNELS)):
        x = _convolve(x, parameters[f"kernel{number}"])
        x = jax.nn.relu(x + parameters[f"bias{number}"])
    return x.reshape(len(x), -1) @ parameters["head"] + parameters["head_bias"]


def _convolve(
    x: Float[jax.Array, "batch height width channels"],
    kernel: Float[jax.Array, "side side channels outputs"],
) -> Float[jax.Array, "batch high across outputs"]:
    """Returns the convolution with stride 2, as one product of matrices: XLA's convolutions are
    slow on a CPU inside a loop.
    """
    side, _, _, outputs = kernel.shape
    high, across = (-(-length // 2) for length in x.shape[1:3])
    reach = 2 * max(high, across) + side
    before = (side - 1) // 2
    ends = [(before, reach - before - length) for length in x.shape[1:3]]
    x = jnp.pad(x, ((0, 0), *ends, (0, 0)))
    patches = [
        x[:, row : row + 2 * high : 2, column : column + 2 * across : 2]
        for row in range(side)
        for column in range(side)
    ]
    return jnp.concatenate(patches, axis=-1) @ kernel.reshape(-1, outputs)


CONVOLUTIONS = Architecture(_initialise_convolutions, _convolution_logits)


class Networks(SurrogateBuilder):
    """Eight networks with two convolutions (5×5 with 16 channels and 3×3 with 32, both with stride
    2) and a linear layer, for small images. Otherwise as `Heads`.
    """

    about = "eight small convolutional networks, retrained on the labels as they come, calibrated"
    needs = ("images",)

    def build(self, data: SurrogateData, seed: int) -> Surrogate:
        """Returns the surrogate."""
        return RetrainedEnsemble(CONVOLUTIONS, "images", data, seed)
