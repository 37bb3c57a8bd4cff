"""A Bayesian head on features: a radial posterior over its weights."""

from dataclasses import replace

import jax
import jax.numpy as jnp

from nevis_stream.active_testing.networks import RetrainedEnsemble
from nevis_stream.active_testing.surrogate import SurrogateBuilder, SurrogateData
from nevis_stream.active_testing.surrogates import heads
from nevis_stream.active_testing.testing import Surrogate
from nevis_stream.storage.checkpoint import Tree

MEMBERS = 20
_PRIOR = 1.0  # standard deviation of each weight, in units of its initial one
_SPREAD = -4.0  # at the start: softplus(-4) = 0.018, in the same units


def _initialise(key: jax.Array, shape: tuple[int, ...], classes: int) -> Tree:
    mean = heads.ARCHITECTURE.initialise(key, shape, classes)
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


ARCHITECTURE = replace(
    heads.ARCHITECTURE,
    initialise=_initialise,
    epochs=40,
    decay=0.0,
    sampled=_sample,
    penalty=_penalty,
)


class Bayesian(SurrogateBuilder):
    """One head as in `heads`, with a radial posterior over its weights; the members are 20 draws.

    Source: Farquhar, Osborne and Gal, Radial Bayesian Neural Networks, AISTATS 2020; the ASE paper
    uses one for its shift. Weights are scaled by their initial size.
    """

    about = "a head on features with a radial posterior over its weights, retrained, calibrated"
    needs = ("features",)

    def build(self, data: SurrogateData, seed: int) -> Surrogate:
        """Returns the surrogate."""
        return RetrainedEnsemble(ARCHITECTURE, "features", data, seed, MEMBERS)
