"""Heads on frozen features, retrained on the labels as they come."""

import jax
import jax.numpy as jnp

from nevis_stream.active_testing.networks import Architecture, RetrainedEnsemble
from nevis_stream.active_testing.surrogate import SurrogateBuilder, SurrogateData
from nevis_stream.active_testing.testing import Surrogate
from nevis_stream.array_types import Float
from nevis_stream.storage.checkpoint import Tree

WIDTH = 64


def _initialise(key: jax.Array, shape: tuple[int, ...], classes: int) -> Tree:
    (width,), (first, second) = shape, jax.random.split(key)
    return {
        "hidden": jax.random.normal(first, (width, WIDTH)) * jnp.sqrt(2 / width),
        "hidden_bias": jnp.zeros(WIDTH),
        "head": jax.random.normal(second, (WIDTH, classes)) * (0.5 / WIDTH**0.5),
        "head_bias": jnp.zeros(classes),
    }


def _logits(
    parameters: Tree, inputs: Float[jax.Array, "batch features"]
) -> Float[jax.Array, "batch classes"]:
    hidden = jax.nn.relu(inputs @ parameters["hidden"] + parameters["hidden_bias"])
    return hidden @ parameters["head"] + parameters["head_bias"]


ARCHITECTURE = Architecture(_initialise, _logits)


class Heads(SurrogateBuilder):
    """Eight heads with a hidden layer of 64 units, each with its own initial weights and batches.

    Features should have a mean square of about 1. Without training examples the heads learn what to
    add to the tested model's logits.
    """

    about = "eight small heads on features, retrained on the labels as they come, calibrated"
    needs = ("features",)

    def build(self, data: SurrogateData, seed: int) -> Surrogate:
        """Returns the surrogate."""
        return RetrainedEnsemble(ARCHITECTURE, "features", data, seed)
