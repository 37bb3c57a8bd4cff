"""Heads on frozen features, retrained on the labels as they come."""

import jax
import jax.numpy as jnp

from nevis_stream.active_testing.networks import Architecture, RetrainedEnsemble
from nevis_stream.active_testing.surrogate import SurrogateKind

WIDTH = 64


def _initialise(key, shape, classes):
    (width,), (first, second) = shape, jax.random.split(key)
    return {
        "hidden": jax.random.normal(first, (width, WIDTH)) * jnp.sqrt(2 / width),
        "hidden_bias": jnp.zeros(WIDTH),
        "head": jax.random.normal(second, (WIDTH, classes)) * (0.5 / WIDTH**0.5),
        "head_bias": jnp.zeros(classes),
    }


def _logits(parameters, inputs):
    hidden = jax.nn.relu(inputs @ parameters["hidden"] + parameters["hidden_bias"])
    return hidden @ parameters["head"] + parameters["head_bias"]


ARCHITECTURE = Architecture(_initialise, _logits)


class Heads(SurrogateKind):
    """Eight heads with a hidden layer of 64 units, each with its own initial weights and batches.

    Features should have a mean square of about 1. Without training examples the heads learn what to
    add to the tested model's logits.
    """

    about = "eight small heads on features, retrained on the labels as they come, calibrated"
    needs = ("features",)

    def build(self, material, seed):
        """Returns the surrogate."""
        return RetrainedEnsemble(ARCHITECTURE, "features", material, seed)
