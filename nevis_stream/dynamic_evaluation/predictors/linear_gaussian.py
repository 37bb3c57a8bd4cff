"""A linear-Gaussian model of values: low rank plus diagonal covariance over samples.

A model's values are y = μ + Vᵀ w + s Bᵀ u + e. The rows of V span the known models; w is normal
with the weighted mean and covariance of their coordinates; e is independent noise, which holds the
rest of each sample's variance. B are bumps over the difficulty μ, and u is standard normal: a new
model may differ from all known ones, and then does so on easy, medium or hard samples as a whole.
Without bumps, too few known models are trusted too much.

Given answers, everything stays Gaussian: the mean of the benchmark has a posterior mean and
variance, and the sample that would reduce this variance most is known before it is asked (Bayesian
quadrature, O'Hagan 1991).
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from nevis_stream.array_types import Bool, Float, Int
from nevis_stream.cost.compute import Compute
from nevis_stream.dynamic_evaluation.known_models import draw_models
from nevis_stream.dynamic_evaluation.method import Prediction, ScorePredictor
from nevis_stream.dynamic_evaluation.policy import Key
from nevis_stream.dynamic_evaluation.response import (
    PaddedAnswers,
    ResponsePosterior,
    compute_normal_information,
)
from nevis_stream.queries.matrix import Matrix
from nevis_stream.queries.oracle import Responses
from nevis_stream.queries.samples import fill_unknown, is_observed
from nevis_stream.storage.checkpoint import Tree

PerSample = Float[jax.Array, " samples"]
Cells = Float[jax.Array, "models samples"]

RANK = 128  # of the basis, at most
MODELS = 4096  # known models that are fitted, drawn at random if there are more
# gains within this fraction of the best one are equal; rounding, which depends on the number of
# cores, is far below
TIE = 1e-4
# of each sample's variance; others were compared (docs/evidence/not-regenerated/acquisition.md)
NOISE_FRACTION = 0.5
BUMPS = 5
BUMP_SCALE = 0.1  # standard deviation of a new model's own deviation on each bump
EVEN = 0.02  # weight that is spread evenly, so that no known model is left out
PSEUDO_VARIANCE = 0.25  # variance of a value, in units of mean (1 - mean), of one more known model
LEAST_NOISE = 1e-6
BLOCK = 1 << 13  # samples; a larger matrix is decomposed block by block


class Model(NamedTuple):
    """What is learned from m0 known models on n samples.

    Attributes:
      mean: float32[n], their mean value.
      basis: float32[r, n], orthonormal rows.
      scores: float32[m0, r], the known models' coordinates.
      leftover: float32[n], the residual variance: mean square of what the basis does not hold.
      weights: float32[n], of the samples in the benchmark's mean.
    """

    mean: jax.Array
    basis: jax.Array
    scores: jax.Array
    leftover: jax.Array
    weights: jax.Array


class Prior(NamedTuple):
    """A distribution of new models' values: design rows with normal coefficients, and noise.

    Attributes:
      offset: float32[n].
      design: float32[q, n], basis and bumps.
      mean: float32[q], of the coefficients.
      covariance: float32[q, q].
      noise: float32[n], variances.
    """

    offset: jax.Array
    design: jax.Array
    mean: jax.Array
    covariance: jax.Array
    noise: jax.Array


def fit(known: Matrix, key: Key, ctx: Compute) -> Tree:
    """Returns a `Model` of the known models as a tree; holes count as the sample's mean.

    Args:
      known: values in [0, 1].
      key: a JAX key, which draws models where there are too many.
      ctx: charges the decomposition by formula, 2 n m² + 11 m³ for the smaller side m (Golub & Van
        Loan, Matrix Computations, section 8.6: values and vectors of one side).
    """
    values = known.matrix(draw_models(known, MODELS, key))
    mask = is_observed(values)
    values = fill_unknown(values).astype(np.float32)
    overall = values.sum() / max(mask.sum(), 1)
    # One more model, with the overall mean everywhere, keeps samples that all known ones got wrong
    # from being certain.
    mean = (values.sum(axis=0) + overall) / (mask.sum(axis=0) + 1)
    models, n = values.shape
    blocks = [slice(start, start + BLOCK) for start in range(0, n, BLOCK)]
    for block in blocks:
        values[:, block] = np.where(mask[:, block], values[:, block] - mean[block], 0)
    del mask
    scores, basis = _decompose(values, min(models, n, RANK), blocks)
    small, large = sorted((models, n))
    ctx.charge(2 * large * small**2 + 11 * small**3 + 5 * models * n)
    leftover = np.zeros(n, np.float32)
    if scores.any():
        leftover = np.concatenate(
            [((values[:, each] - scores @ basis[:, each]) ** 2).mean(axis=0) for each in blocks]
        )
    model = Model(mean, basis, scores, leftover, known.facts.weights)
    return {name: np.asarray(leaf, np.float32) for name, leaf in model._asdict().items()}


def _decompose(
    centred: np.ndarray, rank: int, blocks: Sequence[slice]
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the coordinates of the models, float32[m, r], on an orthonormal basis, float32[r, n],
    of the greatest singular values.

    Args:
      centred: float32[m, n].
      rank: r.
      blocks: columns; of several, the products of models are decomposed, which takes a tenth of the
        time and no second matrix.
    """
    models, n = centred.shape
    if not centred.any():  # models that are all alike, or a rehearsal of the cost
        return np.zeros((models, rank), np.float32), np.eye(rank, n, dtype=np.float32)
    if len(blocks) == 1 or models > n:
        left, sizes, basis = np.linalg.svd(centred, full_matrices=False)
        return (left * sizes)[:, :rank], basis[:rank].copy()
    products = np.zeros((models, models))
    for block in blocks:
        part = np.ascontiguousarray(centred[:, block])
        products += part @ part.T
    squares, vectors = np.linalg.eigh(products)
    sizes = np.sqrt(np.maximum(squares[::-1][:rank], np.finfo(np.float32).tiny))
    vectors = vectors[:, ::-1][:, :rank]
    inverse = (vectors / sizes).T.astype(np.float32)
    basis = np.concatenate([inverse @ centred[:, block] for block in blocks], axis=1)
    return (vectors * sizes).astype(np.float32), basis


def weight_models(
    model: Model, samples: jax.Array, values: jax.Array, mask: jax.Array
) -> jax.Array:
    """Returns the known models' weights, float32[m0], adding up to 1, after a new model's answers.

    Args:
      model: of m0 known models.
      samples, values, mask: int32[b], float32[b] and bool[b], the answers; others are padding.
    """
    theirs = model.mean[samples] + model.scores @ model.basis[:, samples]
    away = (((values - theirs) ** 2) * mask).sum(axis=1)
    weights = jax.nn.softmax(-away)
    return (weights + EVEN / len(weights)) / (1 + EVEN)


def compute_bumps(difficulty: PerSample) -> Float[jax.Array, "bumps samples"]:
    """Returns Gaussian bumps over the difficulty (here the mean value, float32[n]) of each sample,
    float32[BUMPS, n], which add up to 1 for each sample.
    """
    centres = jnp.linspace(0, 1, BUMPS)
    heights = jnp.exp(-(((jnp.clip(difficulty, 0, 1) - centres[:, None]) * (BUMPS - 1)) ** 2))
    return heights / heights.sum(axis=0)


def make_prior(model: Model, weights: Float[jax.Array, " models"]) -> Prior:
    """Returns the prior of a new model, given the known models' weights, float32[m0], which add up
    to 1.
    """
    effective = 1 / (weights**2).sum()
    unbiased = effective / jnp.maximum(effective - 1, 1)
    # The pseudo model of `fit`, now with the weights: coordinates 0.
    towards = effective / (effective + 1)
    centre = weights @ model.scores
    away = model.scores - centre
    covariance = (away * weights[:, None]).T @ away * unbiased
    mean = model.mean + towards * centre @ model.basis
    overall = model.weights @ mean
    variance = ((covariance @ model.basis) * model.basis).sum(axis=0) + model.leftover * unbiased
    pseudo = PSEUDO_VARIANCE * overall * (1 - overall) / (effective + 1)
    shrunk = (1 - NOISE_FRACTION) * covariance
    rank = len(shrunk)
    whole = jnp.zeros((rank + BUMPS, rank + BUMPS))
    whole = whole.at[:rank, :rank].set(shrunk).at[rank:, rank:].set(jnp.eye(BUMPS))
    explained = ((shrunk @ model.basis) * model.basis).sum(axis=0)
    return Prior(
        model.mean,
        jnp.concatenate([model.basis, BUMP_SCALE * compute_bumps(mean)]),
        jnp.concatenate([towards * centre, jnp.zeros(BUMPS)]),
        whole,
        jnp.maximum(variance - explained + pseudo, LEAST_NOISE),
    )


class GaussianState(NamedTuple):
    """Coefficients after some answers: mean float32[q] and covariance float32[q, q]."""

    mean: jax.Array
    covariance: jax.Array


def observe(
    prior: Prior,
    state: GaussianState,
    sample: jax.Array,
    value: jax.Array,
    mask: jax.Array,
) -> GaussianState:
    """Returns the state after one more answer, unchanged if `mask` is 0; all three are scalars."""
    x = prior.design[:, sample]
    projected = state.covariance @ x
    gain = projected / (x @ projected + prior.noise[sample]) * mask
    away = value - prior.offset[sample] - x @ state.mean
    return GaussianState(state.mean + gain * away, state.covariance - jnp.outer(gain, projected))


def observe_all(
    prior: Prior,
    samples: Int[jax.Array, " answers"],
    values: Float[jax.Array, " answers"],
    mask: jax.Array,
) -> GaussianState:
    """Returns the state after all answers of one model; arguments as of `weight_models`."""

    def step(state: GaussianState, answer: tuple[jax.Array, ...]) -> tuple[GaussianState, None]:
        return observe(prior, state, *answer), None

    state = GaussianState(prior.mean, prior.covariance)
    return jax.lax.scan(step, state, (samples, values, mask))[0]


def select_greedily(
    prior: Prior,
    weights: PerSample,
    state: GaussianState,
    free: Bool[jax.Array, " samples"],
    count: int,
) -> Int[jax.Array, " count"]:
    """Returns the samples that reduce the variance of the weighted mean most, one after the other,
    int32[count].

    Args:
      prior: the prior of one model.
      weights: float32[n], of the samples in the mean.
      state: after the answers so far.
      free: bool[n], the samples that may be asked; those that were asked count as known.
      count: how many.
    """

    def step(carry: tuple[jax.Array, ...], _: None) -> tuple[tuple[jax.Array, ...], jax.Array]:
        covariance, spread, free = carry
        open_weights = weights * free
        towards = covariance @ (prior.design @ open_weights)
        with_mean = towards @ prior.design + open_weights * prior.noise
        gain = jnp.where(free, with_mean**2 / (spread + prior.noise), -1)
        sample = (gain >= (1 - TIE) * gain.max()).argmax()
        x = prior.design[:, sample]
        projected = covariance @ x
        total = x @ projected + prior.noise[sample]
        spread = spread - (projected @ prior.design) ** 2 / total
        covariance = covariance - jnp.outer(projected, projected) / total
        return (covariance, jnp.maximum(spread, 0), free.at[sample].set(False)), sample

    design = prior.design
    spread = ((state.covariance @ design) * design).sum(axis=0)
    start = (state.covariance, spread, free)
    return jax.lax.scan(step, start, None, length=count)[1]


def compute_deviation_of_mean(
    prior: Prior, weights: PerSample, state: GaussianState, free: Bool[jax.Array, " samples"]
) -> Float[jax.Array, ""]:
    """Returns the posterior standard deviation of the weighted mean, float32."""
    open_weights = weights * free
    towards = prior.design @ open_weights
    return jnp.sqrt(towards @ state.covariance @ towards + open_weights**2 @ prior.noise)


def select_first(model: Model, count: int) -> Int[jax.Array, " count"]:
    """Returns the samples to ask of a model of which nothing is known, int32[count]."""
    known = len(model.scores)
    prior = make_prior(model, jnp.full(known, 1 / known))
    state = GaussianState(prior.mean, prior.covariance)
    free = jnp.ones(len(model.mean), bool)
    return select_greedily(prior, model.weights, state, free, count)


def select_next(
    model: Model,
    samples: Int[jax.Array, "models asked"],
    values: Float[jax.Array, "models asked"],
    count: int,
) -> Int[jax.Array, "models count"]:
    """Returns the samples to ask of m models after answers [m, b], int32[m, count]."""

    def choose(answers: tuple[jax.Array, jax.Array]) -> Int[jax.Array, " count"]:
        samples, values = answers
        mask = jnp.ones(len(samples), bool)
        prior = make_prior(model, weight_models(model, samples, values, mask))
        state = observe_all(prior, samples, values, mask)
        free = jnp.ones(len(model.mean), bool).at[samples].set(False)
        return select_greedily(prior, model.weights, state, free, count)

    return jax.lax.map(choose, (samples, values))


class GaussianPosterior(ResponsePosterior):
    """The posterior of a linear-Gaussian model, whose coefficients are what is unknown of a model.

    Args:
      model: the model.
      ctx: compiles, and counts FLOPs.
    """

    gives = frozenset({"moments", "information", "reduction"})

    def __init__(self, model: Model, ctx: Compute):
        super().__init__(len(model.mean))
        self._model, self._ctx = model, ctx

    def _compute_quantities(self, answers: Responses) -> tuple[np.ndarray, ...]:
        padded_answers = PaddedAnswers.of(answers, answers.samples.shape[1])
        return tuple(
            map(np.asarray, self._ctx.jit(_compute_quantities)(self._model, padded_answers))
        )

    def part(self, columns: np.ndarray) -> "GaussianPosterior":
        """See `ResponsePosterior`."""
        model = Model(*map(np.asarray, self._model))
        of_samples = {
            name: getattr(model, name)[columns] for name in ("mean", "leftover", "weights")
        }
        model = model._replace(basis=model.basis[:, columns], **of_samples)
        return GaussianPosterior(model, self._ctx)

    def moments(self, answers: Responses) -> tuple[np.ndarray, np.ndarray]:
        """See `ResponsePosterior`."""
        mean, variance, _, _ = self._compute_quantities(answers)
        return mean, variance

    def information(self, answers: Responses) -> np.ndarray:
        """See `ResponsePosterior`."""
        return self._compute_quantities(answers)[2]

    def reduction(self, answers: Responses) -> np.ndarray:
        """See `ResponsePosterior`."""
        return self._compute_quantities(answers)[3]


def _compute_quantities(
    model: Model, padded_answers: PaddedAnswers
) -> tuple[Cells, Cells, Cells, Cells]:
    """Returns mean and variance of each cell, its information and its reduction of the variance of
    the mean, float32[m, n] each.
    """
    asked = padded_answers.scatter(jnp.zeros((len(padded_answers.samples), len(model.mean))), 1.0)

    def compute_one(answers: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        samples, values, mask, asked = answers
        prior = make_prior(model, weight_models(model, samples, values, mask))
        state = observe_all(prior, samples, values, mask)
        mean = prior.offset + state.mean @ prior.design
        signal = ((state.covariance @ prior.design) * prior.design).sum(axis=0)
        open_weights = model.weights * (1 - asked)
        towards = state.covariance @ (prior.design @ open_weights)
        with_mean = towards @ prior.design + model.weights * prior.noise
        variance = signal + prior.noise
        information = compute_normal_information(signal, prior.noise)
        return mean, variance, information, with_mean**2 / variance

    answers = padded_answers.samples, padded_answers.values, padded_answers.mask, asked
    return jax.lax.map(compute_one, answers)


def predict_values(
    model: Model, samples: Int[jax.Array, "models asked"], values: Float[jax.Array, "models asked"]
) -> tuple[Cells, Float[jax.Array, " models"]]:
    """Returns expected values of m models, float32[m, n] in [0, 1], and the posterior standard
    deviation of their means, float32[m], after answers [m, b].
    """

    def expect(answers: tuple[jax.Array, jax.Array]) -> tuple[PerSample, Float[jax.Array, ""]]:
        samples, values = answers
        mask = jnp.ones(len(samples), bool)
        prior = make_prior(model, weight_models(model, samples, values, mask))
        state = observe_all(prior, samples, values, mask)
        free = jnp.ones(len(model.mean), bool).at[samples].set(False)
        cells = jnp.clip(prior.offset + state.mean @ prior.design, 0, 1)
        return cells, compute_deviation_of_mean(prior, model.weights, state, free)

    return jax.lax.map(expect, (samples, values))


class LinearGaussian(ScorePredictor):
    """Predicts by a linear-Gaussian model in which known models close to the answers weigh more."""

    about = "linear-Gaussian model of the known models, those close to the answers weighted"
    takes_scores = True
    gives = GaussianPosterior.gives

    def fit(self, known: Matrix, key: Key, ctx: Compute) -> Tree:
        """Decomposes the known models' values."""
        return fit(known, key, ctx)

    def make_posterior(self, tree: Tree, known: Matrix, ctx: Compute) -> GaussianPosterior:
        """Returns the posterior of the model."""
        return GaussianPosterior(Model(**tree), ctx)

    def predict(
        self, tree: Tree, budget_fit: Tree, known: Matrix, answers: Responses, ctx: Compute
    ) -> Prediction:
        """Gives posterior means, within 0 and 1."""
        model = Model(**tree)
        values, deviation = ctx.jit(predict_values)(
            model, answers.samples.astype(np.int32), answers.values.astype(np.float32)
        )
        return Prediction(np.asarray(values), deviation=np.asarray(deviation, np.float64))
