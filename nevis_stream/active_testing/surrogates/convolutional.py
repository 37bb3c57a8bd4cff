"""Whole small networks, retrained on the labels as they come."""

import jax
import jax.numpy as jnp

from nevis_stream.active_testing.networks import Architecture, RetrainedEnsemble
from nevis_stream.active_testing.surrogate import SurrogateBuilder, SurrogateData
from nevis_stream.active_testing.testing import Surrogate
from nevis_stream.array_types import Float, UInt8
from nevis_stream.storage.checkpoint import Tree

CHANNELS = (16, 32)


def _initialise(key: jax.Array, shape: tuple[int, ...], classes: int) -> Tree:
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


def _logits(
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


ARCHITECTURE = Architecture(_initialise, _logits)


class Networks(SurrogateBuilder):
    """Eight networks with two convolutions (5×5 with 16 channels and 3×3 with 32, both with stride
    2) and a linear layer, for small images. Otherwise as `heads`.
    """

    about = "eight small convolutional networks, retrained on the labels as they come, calibrated"
    needs = ("images",)

    def build(self, data: SurrogateData, seed: int) -> Surrogate:
        """Returns the surrogate."""
        return RetrainedEnsemble(ARCHITECTURE, "images", data, seed)
