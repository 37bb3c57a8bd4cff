"""Item response models, fitted to matrices with holes, and the abilities of new models.

P(model i is right on sample j) = σ(d_j + a_j · θ_i), with θ_i of k factors: k = 1 is the
two-parameter model (Birnbaum 1968, in Lord & Novick, chapter 17), a common a is the one-parameter
model (Rasch 1960), k > 1 the multidimensional one (Reckase 2009). Abilities have a standard normal
prior; samples (d_j, a_j) a normal one whose mean and covariance are fitted too (empirical Bayes),
which decides how much of the k factors is used. Posteriors are variational, with the quadratic
bound of the logistic (Jaakkola & Jordan 2000), under which all updates are those of linear
regression. A score in [0, 1] enters like an outcome: its quasi-likelihood is that of a fraction
(Papke & Wooldridge 1996).

The posterior of a fitted predictor for new models (`ResponsePosterior`) has these quantities for
policies to read; not every predictor gives each of them (`ScorePredictor.gives`):

  rank         the order of the samples from easy to hard, from the known models;
  items        the parameters of the samples under an item response model, from the known models;
  moments      mean and variance of each cell, given the answers so far;
  information  what asking a cell is expected to reveal about the model: the mutual information
               between its value and what is unknown of the model (of its ability, its coefficients
               or its latent variable), given the answers so far;
  reduction    the expected reduction of the variance of the model's mean by asking a cell, given
               the answers so far;
  factors      strata of equal size, by a factor model (`informed_strata.FactorPosterior`).
"""

import functools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from nevis_stream.array_types import Float, UInt8
from nevis_stream.cost.compute import Compute
from nevis_stream.dynamic_evaluation.sorting import Rank
from nevis_stream.queries.oracle import Responses
from nevis_stream.queries.samples import fill_unknown, is_observed, make_numpy_generator

Cells = Float[jax.Array, "models samples"]
Mean = Float[jax.Array, " size"]
Covariance = Float[jax.Array, "size size"]
Numbers = Float[jax.Array, "*cells"]

ITERATIONS = 30
# abilities and prior are fitted from at most this many samples; then all samples are fitted to them
COLUMNS = 2048
# number of samples that the starting covariance counts as, so that few samples cannot make the
# fitted one singular
PRIOR_SAMPLES = 5.0
PRIOR_VARIANCE = 0.3
# answers are padded to this length, twice it, and so on, so that few programs serve all budgets
SHORTEST = 16
COMMON_VARIANCE = 1e-6  # of the discrimination where it is common to all samples

_register = functools.partial(
    jax.tree_util.register_dataclass, data_fields=["mean", "covariance"], meta_fields=[]
)


@_register
@dataclass(frozen=True)
class Items:
    """Posterior of the samples' parameters (d, a).

    Args:
      mean: float32[n, 1 + k].
      covariance: float32[n, 1 + k, 1 + k].
    """

    mean: jax.Array
    covariance: jax.Array

    @property
    def second_moment(self) -> jax.Array:
        """float32[n, 1 + k, 1 + k]: E[x xᵀ]."""
        return self.covariance + self.mean[:, :, None] * self.mean[:, None, :]


@_register
@dataclass(frozen=True)
class Abilities:
    """Posterior of models' abilities θ.

    Args:
      mean: float32[m, k].
      covariance: float32[m, k, k].
    """

    mean: jax.Array
    covariance: jax.Array

    @property
    def extended(self) -> jax.Array:
        """float32[m, 1 + k]: E[(1, θ)]."""
        return jnp.concatenate([jnp.ones((len(self.mean), 1)), self.mean], axis=1)

    @property
    def second_moment(self) -> jax.Array:
        """float32[m, 1 + k, 1 + k]: E[(1, θ)(1, θ)ᵀ]."""
        t = self.extended
        return (t[:, :, None] * t[:, None, :]).at[:, 1:, 1:].add(self.covariance)


def invert(matrices: Float[jax.Array, "... size size"]) -> Float[jax.Array, "... size size"]:
    """Returns the inverses of symmetric positive definite matrices, float32[..., q, q], by
    elimination without pivoting.

    For many small matrices on a CPU this is many times faster than a factorisation of each.
    """
    place = jnp.arange(matrices.shape[-1])

    def sweep(i: jax.Array, left: jax.Array) -> jax.Array:
        row, column = left[..., i, :], left[..., :, i]
        pivot = row[..., i, None]
        swept = left - (column / pivot)[..., :, None] * row[..., None, :]
        here = place == i
        swept = jnp.where(here, -(column / pivot)[..., :, None], swept)
        swept = jnp.where(here[:, None], (row / pivot)[..., None, :], swept)
        return jnp.where(here & here[:, None], 1 / pivot[..., None], swept)

    return jax.lax.fori_loop(0, matrices.shape[-1], sweep, jnp.asarray(matrices))


def compute_curvature(second: Float[jax.Array, "..."]) -> Float[jax.Array, "..."]:
    """Returns the weight tanh(c / 2) / 2c of the logistic's quadratic bound (Jaakkola & Jordan
    2000), in the shape of `second`, the second moments c² of the logits.
    """
    c = jnp.sqrt(jnp.maximum(second, 1e-6))
    return jnp.tanh(c / 2) / (2 * c)


def _flatten(moments: Float[jax.Array, "rows size size"]) -> Float[jax.Array, "rows squared"]:
    return moments.reshape(len(moments), -1)


def _update_items(
    signs: Cells,
    mask: Cells,
    abilities: Abilities,
    prior_mean: Mean,
    prior_covariance: Covariance,
    items: Items,
) -> Items:
    """Returns the posterior of each sample's parameters, by one regression for each sample; `signs`
    are y - 1/2, or 0 where unknown, and `items` the posterior of the step before.
    """
    second = abilities.second_moment
    weights = compute_curvature(_flatten(second) @ _flatten(items.second_moment).T) * mask
    precision = invert(prior_covariance)
    q = len(prior_mean)
    covariance = invert((weights.T @ _flatten(second)).reshape(-1, q, q) + precision)
    mean = jnp.einsum(
        "nij,nj->ni", covariance, signs.T @ abilities.extended + precision @ prior_mean
    )
    return Items(mean, covariance)


def _standardise(
    abilities: Abilities,
    items: Items,
    prior_mean: Mean,
    prior_covariance: Covariance,
    rows: Float[jax.Array, " models"],
) -> tuple[Abilities, Items, Mean, Covariance]:
    """Standardises the abilities to mean 0 and covariance I, and changes the samples' parameters
    and their prior so that predictions stay the same; `rows` is 1 for models with values, else 0.
    """
    k = abilities.mean.shape[1]
    total = jnp.maximum(rows.sum(), 1)
    centre = rows @ abilities.mean / total
    away = (abilities.mean - centre) * rows[:, None]
    spread = (
        jnp.einsum("m,mij->ij", rows, abilities.covariance) + away.T @ away + 1e-3 * jnp.eye(k)
    ) / total
    lower = jnp.linalg.cholesky(spread)
    back = jax.scipy.linalg.solve_triangular(lower, jnp.eye(k), lower=True)
    abilities = Abilities((abilities.mean - centre) @ back.T, back @ abilities.covariance @ back.T)
    turn = jnp.eye(k + 1).at[0, 1:].set(centre).at[1:, 1:].set(lower.T)
    items = Items(items.mean @ turn.T, turn @ items.covariance @ turn.T)
    return abilities, items, turn @ prior_mean, turn @ prior_covariance @ turn.T


def _make_start(correct: Cells, mask: Cells, k: int) -> tuple[Abilities, Items, Mean, Covariance]:
    """Returns starting values, with the mean and covariance of the samples' prior: abilities from
    each model's fraction of right outcomes and from the principal components of the residuals.
    """
    m, n = correct.shape
    fraction = (correct.sum(axis=1) + 1) / (mask.sum(axis=1) + 2)
    ability = jnp.log(fraction / (1 - fraction))
    ability = (ability - ability.mean()) / (ability.std() + 0.1)
    counts = jnp.maximum(mask.sum(axis=0), 1)
    rest = (correct - (correct.sum(axis=0) / counts)) * mask
    rest = (rest - rest.mean(axis=1, keepdims=True)) * mask
    others = jnp.linalg.eigh(rest @ rest.T)[1][:, ::-1][:, : k - 1] * jnp.sqrt(m)
    others = jnp.pad(others, ((0, 0), (0, k - 1 - others.shape[1])))
    easiness = (correct.sum(axis=0) + 0.5) / (mask.sum(axis=0) + 1)
    d = jnp.log(easiness / (1 - easiness))
    mean = jnp.zeros((n, k + 1)).at[:, 0].set(d).at[:, 1].set(1.0)
    abilities = Abilities(jnp.concatenate([ability[:, None], others], axis=1), jnp.zeros((m, k, k)))
    return (
        abilities,
        Items(mean, jnp.zeros((n, k + 1, k + 1))),
        mean.mean(axis=0),
        jnp.diag(jnp.array([2.0] + [0.5] * k)),
    )


def _fit(correct: Cells, mask: Cells, k: int, common: bool) -> tuple[Abilities, Mean, Covariance]:
    """Returns the abilities, and mean and covariance of the prior of the samples' parameters."""
    signs, rows = (correct - 0.5) * mask, mask.any(axis=1).astype(jnp.float32)
    n = correct.shape[1]

    def step(
        _: jax.Array, state: tuple[Abilities, Items, jax.Array, jax.Array]
    ) -> tuple[Abilities, Items, jax.Array, jax.Array]:
        abilities, items, prior_mean, prior_covariance = state
        items = _update_items(signs, mask, abilities, prior_mean, prior_covariance, items)
        prior_mean = items.mean.mean(axis=0)
        away = items.mean - prior_mean
        scatter = items.covariance.sum(axis=0) + away.T @ away
        prior_covariance = (scatter + PRIOR_SAMPLES * PRIOR_VARIANCE * jnp.eye(k + 1)) / (
            n + PRIOR_SAMPLES
        )
        if common:
            prior_covariance = jnp.diag(jnp.diag(prior_covariance).at[1:].set(COMMON_VARIANCE))
        second = items.second_moment
        weights = compute_curvature(_flatten(abilities.second_moment) @ _flatten(second).T) * mask
        precision = (weights @ _flatten(second)).reshape(-1, k + 1, k + 1)
        covariance = invert(precision[:, 1:, 1:] + jnp.eye(k))
        mean = jnp.einsum("mij,mj->mi", covariance, signs @ items.mean[:, 1:] - precision[:, 1:, 0])
        return _standardise(Abilities(mean, covariance), items, prior_mean, prior_covariance, rows)

    abilities, _, prior_mean, prior_covariance = jax.lax.fori_loop(
        0, ITERATIONS, step, _make_start(correct, mask, k)
    )
    return abilities, prior_mean, prior_covariance


def _fit_items(
    correct: Cells,
    mask: Cells,
    abilities: Abilities,
    prior_mean: Mean,
    prior_covariance: Covariance,
) -> Items:
    signs, n, q = (correct - 0.5) * mask, correct.shape[1], len(prior_mean)
    items = Items(
        jnp.broadcast_to(prior_mean, (n, q)), jnp.broadcast_to(prior_covariance, (n, q, q))
    )
    return jax.lax.fori_loop(
        0,
        6,
        lambda _, items: _update_items(signs, mask, abilities, prior_mean, prior_covariance, items),
        items,
    )


def fit(
    known: UInt8[np.ndarray, "models samples"] | Float[np.ndarray, "models samples"],
    factors: int,
    key: jax.Array | None,
    ctx: Compute,
    common: bool = False,
) -> tuple[Items, Abilities]:
    """Fits an item response model.

    Args:
      known: uint8[m, n] of 0, 1 and 255, or float[m, n] of scores in [0, 1] with NaN. Abilities are
        fitted from at most 2,048 samples, drawn at random; then the parameters of all samples are
        fitted to the abilities. O(m n (1 + k)²).
      factors: k ≥ 1.
      key: a JAX key, for drawing the samples.
      ctx: compiles, and counts FLOPs.
      common: whether all samples have one discrimination (1PL); with k = 1 only.

    Returns: posteriors of the samples' parameters and of the known models' abilities.
    """
    n = known.shape[1]
    chosen = (
        np.sort(make_numpy_generator(key).choice(n, COLUMNS, replace=False))
        if n > COLUMNS
        else slice(None)
    )
    correct, mask = jnp.asarray(fill_unknown(known)), jnp.float32(is_observed(known))
    abilities, prior_mean, prior_covariance = ctx.jit(_fit, static_argnames=("k", "common"))(
        correct[:, chosen], mask[:, chosen], factors, common
    )
    items = ctx.jit(_fit_items)(correct, mask, abilities, prior_mean, prior_covariance)
    return items, abilities


def make_tree(posterior: Items | Abilities) -> dict[str, jax.Array]:
    """Returns a posterior as a tree that can be saved; `Items(**tree)` gives the posterior back."""
    return {"mean": posterior.mean, "covariance": posterior.covariance}


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["samples", "values", "mask"], meta_fields=[]
)
@dataclass(frozen=True)
class PaddedAnswers:
    """The answers of each of m models, padded to a common length.

    Args:
      samples: int32[m, b].
      values: float32[m, b] in [0, 1].
      mask: float32[m, b], 0 for padding, else 1.
    """

    samples: jax.Array
    values: jax.Array
    mask: jax.Array

    @classmethod
    def of(cls, answers: Responses, budget: int) -> "PaddedAnswers":
        """Pads the answers of m models, at most `budget` of each, to a length that depends on the
        budget only, not on their number.
        """
        length = next(each for each in list_padded_lengths() if each >= budget)
        samples, values = answers.samples, answers.values
        empty = ((0, 0), (0, length - samples.shape[1]))
        mask = np.pad(np.ones(samples.shape, np.float32), empty)
        padded = np.pad(samples.astype(np.int32), empty), np.pad(values.astype(np.float32), empty)
        return cls(*padded, mask)

    def scatter(self, into: Cells, values: jax.Array | float) -> Cells:
        """Returns `into`, float32[m, n], with values [m, b] written into the asked cells."""
        columns = jnp.where(self.mask > 0, self.samples, into.shape[1])
        return into.at[jnp.arange(len(columns))[:, None], columns].set(values, mode="drop")


def list_padded_lengths(most: float = math.inf) -> Iterator[int]:
    """Yields the lengths to which answers are padded, up to `most`."""
    length = SHORTEST
    while length <= most:
        yield length
        length *= 2


def infer(items: Items, padded_answers: PaddedAnswers) -> Abilities:
    """Returns the abilities of m new models, given the samples' parameters and their answers."""
    moments, centres = (
        items.second_moment[padded_answers.samples],
        items.mean[padded_answers.samples],
    )
    signs, (m, k) = (
        (padded_answers.values - 0.5) * padded_answers.mask,
        (len(padded_answers.samples), items.mean.shape[1] - 1),
    )

    def step(_: jax.Array, abilities: Abilities) -> Abilities:
        weights = (
            compute_curvature(jnp.einsum("mij,mbij->mb", abilities.second_moment, moments))
            * padded_answers.mask
        )
        precision = jnp.einsum("mb,mbij->mij", weights, moments)
        covariance = invert(precision[:, 1:, 1:] + jnp.eye(k))
        right_side = jnp.einsum("mb,mbi->mi", signs, centres[:, :, 1:]) - precision[:, 1:, 0]
        return Abilities(jnp.einsum("mij,mj->mi", covariance, right_side), covariance)

    return jax.lax.fori_loop(
        0, 10, step, Abilities(jnp.zeros((m, k)), jnp.broadcast_to(jnp.eye(k), (m, k, k)))
    )


def predict_logits(items: Items, abilities: Abilities) -> tuple[Cells, Cells, Cells]:
    """Returns mean and variances of the posterior-predictive logits of m models on n samples,
    float32[m, n] each: the mean, the variance from the abilities and that from the samples'
    parameters.
    """
    a = items.mean[:, 1:]
    mean = abilities.extended @ items.mean.T
    ability = _flatten(abilities.covariance) @ _flatten(a[:, :, None] * a[:, None, :]).T
    return mean, ability, _flatten(abilities.second_moment) @ _flatten(items.covariance).T


def moderate(mean: Numbers, variance: Numbers) -> Numbers:
    """Returns the logit of E[σ(x)] for normal x of a mean and variance of one shape, approximately.

    Source: MacKay 1992, The evidence framework applied to classification networks.
    """
    return mean / jnp.sqrt(1 + jnp.pi * variance / 8)


def predict(
    items: Items, padded_answers: PaddedAnswers, weights: Float[jax.Array, " samples"]
) -> tuple[Cells, Float[jax.Array, " models"]]:
    """Returns the logits of the posterior-predictive P(right), float32[m, n], and the posterior
    standard deviation of each model's mean over all samples, float32[m]: the uncertainty of its
    ability and, given the ability, of each unobserved outcome.

    Args:
      items: of n samples.
      padded_answers: of m models.
      weights: float32[n], of the samples in the mean.
    """
    abilities = infer(items, padded_answers)
    mean, ability, item = predict_logits(items, abilities)
    predicted = moderate(mean, ability + item)
    p = jax.nn.sigmoid(predicted)
    noise = padded_answers.scatter(p * (1 - p), 0.0)
    slope = (noise * weights) @ items.mean[:, 1:]
    spread = jnp.einsum("mi,mij,mj->m", slope, abilities.covariance, slope)
    return predicted, jnp.sqrt(spread + noise @ weights**2)


# what error messages call the quantities of the module's docstring
QUANTITIES: Mapping[str, str] = {
    "rank": "an order of the samples",
    "items": "the samples' item response parameters",
    "moments": "the variance of each cell",
    "information": "what a cell reveals about the model",
    "reduction": "the reduction of the variance of the mean by each cell",
    "factors": "the strata of a factor model",
}


class ResponsePosterior:
    """The posterior of a predictor that gives at most a rank and item response parameters; the base
    of all others. A predictor's `gives` names the quantities that may be read.

    Args:
      n: number of samples.
      rank: the order of the samples, or None if the predictor does not give it.
      items: the parameters of the samples, or None if the predictor does not give them.

    Attributes:
      representations: float32[n, d], what a network has learned about the samples, or None.
    """

    representations: np.ndarray | None = None

    def __init__(self, n: int, rank: Rank | None = None, items: Items | None = None):
        self.n, self.rank, self.items = n, rank, items

    def part(self, columns: np.ndarray) -> "ResponsePosterior":
        """Returns the posterior of some of the samples, int64[k], as if there were no others; from
        predictors that give moments.
        """
        raise NotImplementedError

    def moments(self, answers: Responses) -> tuple[np.ndarray, np.ndarray]:
        """Returns the mean and the variance of each cell's value as if it were not asked yet,
        float32[m, n] each, given answers of m models.
        """
        raise NotImplementedError

    def information(self, answers: Responses) -> np.ndarray:
        """Returns the expected information of each cell about its model, float32[m, n] in nats,
        given answers of m models.
        """
        raise NotImplementedError

    def reduction(self, answers: Responses) -> np.ndarray:
        """Returns the expected reduction of the variance of the model's mean by each cell,
        float32[m, n], given answers of m models.
        """
        raise NotImplementedError


def compute_normal_information(signal: jax.Array, noise: jax.Array) -> jax.Array:
    """Returns the information in nats of a normal observation about its normal signal, in the shape
    of the variances `signal` and `noise`: half the logarithm of 1 + signal / noise (Cover & Thomas,
    Elements of Information Theory, section 9.1).
    """
    return 0.5 * jnp.log1p(signal / noise)
