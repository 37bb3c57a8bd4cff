"""The network of the paper's CIFAR-10 simulation, and its training step.

Two 3×3 convolutions without padding (32 and 64 filters), each followed by max-pooling, dropout, and
a linear layer: 42,442 parameters for 32×32 RGB images and 10 classes (Appendix B.1, which does not
give the rate of dropout, the optimiser or the batch size).
"""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax

from nevis_stream.cost.counted import made_once, plain_convolutions

SIDE = 32
"""Side of the images in pixels."""
DROPOUT = 0.25
LEARNING_RATE = 2e-3

Parameters = Mapping[str, jax.Array]


def initialise(generator: np.random.Generator, classes: int) -> Parameters:
    """Returns new parameters, Glorot-uniform, with biases of 0."""
    side = ((SIDE - 2) // 2 - 2) // 2
    shapes = {"first": (3, 3, 3, 32), "second": (3, 3, 32, 64), "head": (side * side * 64, classes)}
    parameters = {}
    for name, shape in shapes.items():
        taps = int(np.prod(shape[:-2]))
        limit = np.sqrt(6 / (taps * (shape[-2] + shape[-1])))
        parameters[name] = jnp.asarray(generator.uniform(-limit, limit, shape), jnp.float32)
        parameters[f"{name}_bias"] = jnp.zeros(shape[-1])
    return parameters


def logits(
    parameters: Parameters, images: jax.Array, dropped: jax.Array | None = None
) -> jax.Array:
    """Returns float32[b, classes].

    Args:
      parameters: of the network.
      images: uint8[b, 32, 32, 3].
      dropped: JAX key of the dropout in training, or None.
    """
    x = images.astype(jnp.float32) / 127.5 - 1
    for name in ("first", "second"):
        x = _pool(_convolve(x, parameters[name])) + parameters[f"{name}_bias"]
        x = jax.nn.relu(x)
    x = x.reshape(len(x), -1)
    if dropped is not None:
        kept = jax.random.bits(dropped, x.shape, "uint8") < int(256 * (1 - DROPOUT))
        x = x * kept / (1 - DROPOUT)
    return x @ parameters["head"] + parameters["head_bias"]


def _convolve(x: jax.Array, kernel: jax.Array) -> jax.Array:
    names = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(x, kernel, (1, 1), "VALID", dimension_numbers=names)


def _pool(x: jax.Array) -> jax.Array:
    """Max-pooling 2×2; the gradient of `lax.reduce_window` takes three times as long on a CPU."""
    x = x[:, : x.shape[1] // 2 * 2, : x.shape[2] // 2 * 2]
    rows = jnp.maximum(x[:, 0::2], x[:, 1::2])
    return jnp.maximum(rows[:, :, 0::2], rows[:, :, 1::2])


@made_once
def optimiser() -> optax.GradientTransformation:
    """Returns Adam."""
    return optax.adam(LEARNING_RATE)


@made_once
def training_step():
    """Returns `step(parameters, moments, images, labels, key)`, one update on a batch."""

    def step(parameters, moments, images, labels, key):
        def loss(parameters):
            scores = logits(parameters, images, key)
            return optax.softmax_cross_entropy_with_integer_labels(scores, labels).mean()

        gradients = jax.grad(loss)(parameters)
        updates, moments = optimiser().update(gradients, moments, parameters)
        return optax.apply_updates(parameters, updates), moments

    step.compiler_options = plain_convolutions()  # type: ignore[attr-defined]
    return step


def predict(parameters: Parameters, images: jax.Array) -> jax.Array:
    """Returns int32[b], the most probable class of each image."""
    return jnp.argmax(logits(parameters, images), axis=-1)
