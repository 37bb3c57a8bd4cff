"""The posterior of a trained neural process for new models, from samples of its latent variable,
and what it predicts of them.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from nevis_stream.array_types import Float, Int
from nevis_stream.cost.compute import Compute
from nevis_stream.cost.counted import make_once
from nevis_stream.dynamic_evaluation.method import Prediction, ScorePredictor
from nevis_stream.dynamic_evaluation.policy import Key
from nevis_stream.dynamic_evaluation.response import (
    PaddedAnswers,
    ResponsePosterior,
    compute_normal_information,
)
from nevis_stream.experiments.methods.neural_process.descriptions import (
    Sizes,
    choose_sizes,
    describe,
)
from nevis_stream.queries.matrix import Matrix
from nevis_stream.queries.oracle import Responses
from nevis_stream.queries.samples import make_numpy_generator
from nevis_stream.storage.checkpoint import Tree

LATENTS = 16  # samples of the latent variable


class Process(NamedTuple):
    """A trained neural process on n samples.

    Attributes:
      parameters: of the network.
      descriptions: float32[n, d].
      base: float32[n], logits of the samples' means.
      kinds: int32[n], 1 for scores.
      weights: float32[n], of the samples in the benchmark's mean.
      draws: float32[LATENTS, latent], normal.
    """

    parameters: dict
    descriptions: jax.Array
    base: jax.Array
    kinds: jax.Array
    weights: jax.Array
    draws: jax.Array


class Quantities(NamedTuple):
    """What the posterior gives of m models: float32[m, n] each, and float32[m] for `deviation`.

    Attributes:
      mean, variance, information, reduction: see `ResponsePosterior`.
      deviation: standard deviation of the mean over all samples.
    """

    mean: jax.Array
    variance: jax.Array
    information: jax.Array
    reduction: jax.Array
    deviation: jax.Array


@make_once
def make_prediction_program(sizes: Sizes) -> Callable[[Process, PaddedAnswers], Quantities]:
    """Returns the program that takes a process and the answers of m models, and returns
    `Quantities`.
    """
    # here, and below: Flax and Optax take a third of a second that other methods do not need
    from nevis_stream.experiments.methods.neural_process.network import NeuralProcessNetwork

    network = NeuralProcessNetwork(sizes)

    def predict_values(process: Process, padded_answers: PaddedAnswers) -> Quantities:
        apply = functools.partial(network.apply, process.parameters)
        samples = apply(process.descriptions, method=NeuralProcessNetwork.samples)
        asked = padded_answers.scatter(
            jnp.zeros((len(padded_answers.samples), len(process.base))), 1.0
        )

        def of_one(model: tuple[jax.Array, ...]) -> Quantities:
            columns, values, mask, asked = model
            memory = apply(
                samples[columns],
                values,
                process.kinds[columns],
                mask > 0,
                process.base[columns],
                method=NeuralProcessNetwork.encode,
            )
            attended = apply(samples, memory, method=NeuralProcessNetwork.attend)
            latents = memory.mean + memory.scale * process.draws

            def decode(latent: Float[jax.Array, " latent"]) -> tuple[jax.Array, jax.Array]:
                return apply(
                    samples, attended, latent, process.base, method=NeuralProcessNetwork.decode
                )

            expected, noise = jax.lax.map(decode, latents)
            return _quantities(expected, noise, process.kinds, process.weights, asked)

        return jax.lax.map(
            of_one, (padded_answers.samples, padded_answers.values, padded_answers.mask, asked)
        )

    return predict_values


@make_once
def make_representation_program(sizes: Sizes) -> Callable[..., jax.Array]:
    """Returns the program that takes parameters and descriptions, and returns representations."""
    from nevis_stream.experiments.methods.neural_process.network import NeuralProcessNetwork

    return functools.partial(NeuralProcessNetwork(sizes).apply, method=NeuralProcessNetwork.samples)


def _quantities(
    expected: Float[jax.Array, "latents samples"],
    noise: Float[jax.Array, "latents samples"],
    kinds: Int[jax.Array, " samples"],
    weights: Float[jax.Array, " samples"],
    asked: Float[jax.Array, " samples"],
) -> Quantities:
    """Returns the posterior of one model.

    Args:
      expected, noise: float32[latents, n], of each sample of the latent variable.
      kinds, weights: as of `Process`.
      asked: float32[n], 1 for the samples that were asked.
    """
    mean = expected.mean(axis=0)
    between = expected.var(axis=0, ddof=1)
    own = expected * (1 - expected)
    within = jnp.where(kinds > 0, noise**2, own).mean(axis=0)
    entropies = _entropy(mean) - _entropy(expected).mean(axis=0)
    information = jnp.where(kinds > 0, compute_normal_information(between, within), entropies)
    free = weights * (1 - asked)
    sums = expected @ free
    away = (sums - sums.mean()) / (len(sums) - 1)
    together = away @ (expected - mean) + weights * within
    deviation = jnp.sqrt(sums.var(ddof=1) + free**2 @ within)
    variance = between + within
    return Quantities(mean, variance, information, together**2 / variance, deviation)


def _entropy(p: Float[jax.Array, "..."]) -> Float[jax.Array, "..."]:
    p = jnp.clip(p, 1e-6, 1 - 1e-6)
    return -p * jnp.log(p) - (1 - p) * jnp.log1p(-p)


class ProcessPosterior(ResponsePosterior):
    """The posterior of a neural process, whose latent variable is what is unknown of a model.

    Args:
      process: the process.
      sizes: of its network.
      ctx: compiles, and counts FLOPs.
    """

    gives = frozenset({"moments", "information", "reduction"})

    def __init__(self, process: Process, sizes: Sizes, ctx: Compute):
        super().__init__(len(process.base))
        self._process, self._sizes, self._ctx = process, sizes, ctx

    @functools.cached_property
    def representations(self) -> np.ndarray:
        """See `ResponsePosterior`; float32[n, 16]."""
        represent = self._ctx.jit(make_representation_program(self._sizes))
        return np.asarray(represent(self._process.parameters, self._process.descriptions))

    def part(self, columns: np.ndarray) -> "ProcessPosterior":
        """See `ResponsePosterior`."""
        names = ("descriptions", "base", "kinds", "weights")
        of_samples = {name: np.asarray(getattr(self._process, name))[columns] for name in names}
        return ProcessPosterior(self._process._replace(**of_samples), self._sizes, self._ctx)

    def all(self, answers: Responses) -> Quantities:
        """Returns all quantities, as numpy arrays."""
        padded_answers = PaddedAnswers.of(answers, answers.samples.shape[1])
        return jax.tree.map(
            np.asarray,
            self._ctx.jit(make_prediction_program(self._sizes))(self._process, padded_answers),
        )

    def moments(self, answers: Responses) -> tuple[np.ndarray, np.ndarray]:
        """See `ResponsePosterior`."""
        quantities = self.all(answers)
        return quantities.mean, quantities.variance

    def information(self, answers: Responses) -> np.ndarray:
        """See `ResponsePosterior`."""
        return self.all(answers).information

    def reduction(self, answers: Responses) -> np.ndarray:
        """See `ResponsePosterior`."""
        return self.all(answers).reduction


class NeuralProcess(ScorePredictor):
    """Trained on tasks that are drawn from the known models."""

    about = "attentive latent neural process, trained on the known models"
    takes_scores = True
    gives = ProcessPosterior.gives

    def fit(self, known: Matrix, key: Key, ctx: Compute) -> Tree:
        """Describes the samples and trains the network."""
        from nevis_stream.experiments.methods.neural_process import network as training

        shape = choose_sizes(known.shape[0])
        samples = describe(known, key, ctx)
        parameters = training.train(samples, shape, key, ctx)
        draws = make_numpy_generator(jax.random.fold_in(key, 1)).normal(
            size=(LATENTS, shape.latent)
        )
        process = Process(
            parameters,
            samples.all,
            samples.base,
            samples.kinds,
            known.facts.weights.astype(np.float32),
            draws.astype(np.float32),
        )
        return {"sizes": list(shape), "process": jax.tree.map(np.asarray, process._asdict())}

    def make_posterior(self, tree: Tree, known: Matrix, ctx: Compute) -> ProcessPosterior:
        """Returns the posterior of the process."""
        return ProcessPosterior(Process(**tree["process"]), Sizes(*tree["sizes"]), ctx)

    def predict(
        self, tree: Tree, budget_fit: Tree, known: Matrix, answers: Responses, ctx: Compute
    ) -> Prediction:
        """Gives expected values, averaged over the latent variable."""
        quantities = self.make_posterior(tree, known, ctx).all(answers)
        return Prediction(quantities.mean, deviation=quantities.deviation.astype(np.float64))
