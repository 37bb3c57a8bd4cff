"""Policies that choose samples by the posterior of a predictor for each model: one after the other,
half of them in a few batches after a uniform grid, or by Bayesian quadrature of the benchmark's
mean.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from nevis_stream.array_types import Float
from nevis_stream.cost.compute import Compute
from nevis_stream.dynamic_evaluation import response
from nevis_stream.dynamic_evaluation.policy import (
    Key,
    Plan,
    Policy,
    make_grid,
    make_price_tree,
    read_prices,
)
from nevis_stream.dynamic_evaluation.predictors import linear_gaussian
from nevis_stream.dynamic_evaluation.response import (
    Abilities,
    Items,
    PaddedAnswers,
    ResponsePosterior,
    infer,
    moderate,
    predict_logits,
)
from nevis_stream.dynamic_evaluation.sorting import rank_samples
from nevis_stream.queries.matrix import Matrix
from nevis_stream.queries.oracle import Query, Responses
from nevis_stream.queries.prices import Prices
from nevis_stream.queries.samples import make_numpy_generator
from nevis_stream.storage.checkpoint import Tree

STEPS = 32  # at most so many batches: of a larger budget, a batch has several samples of each model


class Sequential(Policy):
    """Asks the samples of highest acquisition score, separately for each model; where samples
    differ in price, of highest score for their price.

    Args:
      acquisition_function: takes a posterior, the answers so far and a context; returns the score
        of each sample for each model, float[m, n].
      needs: the quantity that it reads from the posterior.
      about: one line for people.
      candidates: each sample is drawn from this number of those with the highest scores; 1: the one
        with the highest is taken.
    """

    adaptive = True
    out_of_core = False

    def __init__(
        self,
        acquisition_function: Callable[[ResponsePosterior, Responses, Compute], np.ndarray],
        needs: str,
        about: str,
        candidates: int = 1,
    ):
        self.acquisition_function, self.needs, self.about = (
            acquisition_function,
            frozenset({needs}),
            about,
        )
        self.candidates = candidates
        self.takes_prices = candidates == 1

    def count_affordable(self, prices: Prices) -> int:
        """Returns how many of the samples that tell most for their price the budget buys."""
        return prices.count_best() if self.takes_prices else super().count_affordable(prices)

    def fit(self, known: Matrix, posterior: ResponsePosterior, key: Key, ctx: Compute) -> Tree:
        """Stores the samples' prices."""
        return make_price_tree(known.facts.prices)

    def next(self, plan: Plan, answers: Responses, key: Key, ctx: Compute) -> Query:
        """Returns one batch; a batch is one sample of each model, if the budget is small."""
        models, asked = answers.samples.shape
        batch = min(-(-plan.budget // STEPS), plan.budget - asked)
        scores = np.array(self.acquisition_function(plan.posterior, answers, ctx), np.float64)
        np.put_along_axis(scores, answers.samples, -np.inf, axis=1)
        ctx.charge(models * plan.n)  # the selection
        if (prices := read_prices(plan.tree)) is not None:
            rest = plan.budget - asked
            rows = zip(answers.samples, scores, strict=True)
            bought = [buy(score, row, prices, batch, rest) for row, score in rows]
            return Query(np.array(bought, np.int64).reshape(models, batch))
        several = min(batch + self.candidates - 1, plan.n - asked)
        best = np.argsort(-scores, axis=1, kind="stable")[:, :several]
        if self.candidates > 1:
            random = make_numpy_generator(jax.random.fold_in(key, asked))
            best = random.permuted(best, axis=1)
        return Query(best[:, :batch].astype(np.int64))


def buy(score: np.ndarray, asked: np.ndarray, prices: Prices, batch: int, rest: int) -> list[int]:
    """Returns the samples to ask one model next: one after the other, that with the highest score
    for its price, among those after which the budget still buys the rest if the cheapest are taken.

    Args:
      score: float64[n], acquisition scores.
      asked: int64[k], the samples that were asked.
      prices: of the n samples.
      batch: number of samples to return.
      rest: number of samples that are still to be asked, at least `batch`.
    """
    price, worth, bought = prices.each, score / prices.each, []
    order = np.argsort(price, kind="stable")
    free = np.ones(len(price), bool)
    free[asked] = False
    money = prices.budget - float(price[asked].sum())
    for left in range(rest, rest - batch, -1):
        cheapest = order[free[order]][:left]
        most = money - float(price[cheapest[:-1]].sum())
        allowed = free & (price <= most)
        allowed[cheapest] = True  # in place of one of these, whatever rounding says
        sample = int(np.where(allowed, worth, -np.inf).argmax())
        bought.append(sample)
        free[sample] = False
        money -= float(price[sample])
    return bought


def score_fisher_information(
    posterior: ResponsePosterior, answers: Responses, ctx: Compute
) -> np.ndarray:
    """Returns the Fisher information of each cell at the model's estimated ability, float32[m, n].

    Adaptive testing: Lord 1980; Fluid Benchmarking, Hofmann et al. 2025. The published method
    estimates the ability by its posterior mode and reports it; here the ability is the posterior
    mean, and the predictor turns it into the mean over all samples. ATLAS (Li et al. 2025) draws
    from the five samples with the most information; it calibrates a three-parameter model and stops
    at a standard error, while here the item response model is the predictor's, and the budget is
    given.
    """
    padded_answers = response.PaddedAnswers.of(answers, answers.samples.shape[1])
    return np.asarray(ctx.jit(compute_fisher_information)(posterior.items, padded_answers))


def compute_fisher_information(
    items: response.Items, padded_answers: response.PaddedAnswers
) -> jax.Array:
    """Returns the Fisher information of each outcome, float32[m, n]: tr(a aᵀ V) p (1 - p), with V
    the posterior covariance of the ability, which only matters for several factors.

    Args:
      items: of n samples.
      padded_answers: of m models.
    """
    abilities = response.infer(items, padded_answers)
    mean, ability_variance, _ = response.predict_logits(items, abilities)
    p = jax.nn.sigmoid(mean)
    return ability_variance * p * (1 - p)


def score_mutual_information(
    posterior: ResponsePosterior, answers: Responses, ctx: Compute
) -> np.ndarray:
    """Returns what each cell reveals about what is unknown of the model, float32[m, n] (active
    evaluation acquisition, equation 6).
    """
    return posterior.information(answers)


def score_reduction(posterior: ResponsePosterior, answers: Responses, ctx: Compute) -> np.ndarray:
    """Returns by how much each cell reduces the variance of the mean, by the posterior,
    float32[m, n] (Bayesian quadrature, O'Hagan 1991).

    `Quadrature` does so with a linear-Gaussian model of its own.
    """
    return posterior.reduction(answers)


def score_variance(posterior: ResponsePosterior, answers: Responses, ctx: Compute) -> np.ndarray:
    """Returns the variance of each value, float32[m, n] (uncertainty sampling; active evaluation
    acquisition, equation 5).
    """
    return posterior.moments(answers)[1]


Cells = Float[jax.Array, "models samples"]

MOST_BATCHES = 8  # of `Adaptive`
COUNT_WEIGHT = 3.0  # weight of an error of one in the number of right samples, in wrong predictions


class Logits(NamedTuple):
    """The posterior-predictive logits of m models on n samples, [m, n] each.

    Attributes:
      p: P(right).
      mean, variance: of the logits.
      ability_variance: the part of the variance that comes from the abilities.
    """

    p: Cells
    mean: Cells
    variance: Cells
    ability_variance: Cells


def _score_information(items: Items, abilities: Abilities, logits: Logits) -> Cells:
    """Returns the Fisher information, as `compute_fisher_information` does.

    Args:
      items, abilities: posteriors of samples and models.
      logits: by them.
    """
    return logits.ability_variance * logits.p * (1 - logits.p)


def _score_error(items: Items, abilities: Abilities, logits: Logits) -> Cells:
    """Returns the errors that asking each sample is expected to prevent; arguments as above.

    Asking j changes the logit of i by a normal step of variance (a_i V a_j)² λ_j / (1 + λ_j a_j V
    a_j), λ = p (1 - p). A small step of variance τ² prevents 0.1 τ² wrong predictions times the
    density of the logit at 0, where the prediction changes: half the second derivative of
    E|p - 1/2|, that is 1/2 · 2 · 1/4, times the factor 1/√(2π) of the density.
    """
    p, mean, variance, ability_variance = logits
    m, n = p.shape
    k = abilities.mean.shape[1]
    weight = p * (1 - p)
    width = variance + 0.3
    density = jnp.exp(-0.5 * mean**2 / width) / jnp.sqrt(width)
    a = items.mean[:, 1:]
    outer = (a[:, :, None] * a[:, None, :]).reshape(n, -1)
    turning = abilities.covariance @ (density @ outer).reshape(m, k, k) @ abilities.covariance
    others = turning.reshape(m, -1) @ outer.T * weight / (1 + weight * ability_variance)
    return (
        jnp.minimum(p, 1 - p)
        + 0.1 * others
        + COUNT_WEIGHT * _reduce_count_deviation(weight, a, abilities, ability_variance)
    )


def _reduce_count_deviation(
    weight: Cells,
    a: Float[jax.Array, "samples factors"],
    abilities: Abilities,
    ability_variance: Cells,
) -> Cells:
    """Returns by how much asking each sample j reduces the standard deviation of the count Σ y_i of
    right samples; `weight` is λ = p (1 - p), and `a` the discriminations.

    The ability changes the count by c = Σ λ_i a_i, so its variance is cᵀ V c + Σ λ_i and its
    covariance with y_j is λ_j (a_j V c + 1); y_j has the variance λ_j (1 + λ_j a_j V a_j).
    """
    towards = weight @ a
    moved = jnp.einsum("mij,mj->mi", abilities.covariance, towards)
    variance = ((towards * moved).sum(axis=1) + weight.sum(axis=1))[:, None]
    gain = weight * (moved @ a.T + 1) ** 2 / (1 + weight * ability_variance)
    return jnp.sqrt(variance) - jnp.sqrt(jnp.maximum(variance - gain, 0))


ACQUISITION_FUNCTIONS = {"information": _score_information, "error": _score_error}


def score_samples(items: Items, padded_answers: PaddedAnswers, acquisition: str) -> jax.Array:
    """Returns the acquisition score of each sample, float32[m, n], at least 0.

    Args:
      items: of n samples.
      padded_answers: of m models.
      acquisition: "information" or "error".
    """
    abilities = infer(items, padded_answers)
    mean, ability_variance, item_variance = predict_logits(items, abilities)
    variance = ability_variance + item_variance
    p = jax.nn.sigmoid(moderate(mean, variance))
    logits = Logits(p, mean, variance, ability_variance)
    return ACQUISITION_FUNCTIONS[acquisition](items, abilities, logits)


class Adaptive(Policy):
    """Asks half of the budget on a grid of the rank order, and the rest in at most eight batches of
    the samples with the highest scores.

    Args:
      acquisition: a name in `ACQUISITION_FUNCTIONS`.
      factors: of the item response model that is fitted if the predictor has none.
      about: one line for people.
    """

    adaptive = True
    representative = True  # the grid has fractions
    out_of_core = False

    def __init__(self, acquisition: str, factors: int, about: str):
        self.acquisition, self.factors, self.about = acquisition, factors, about

    def fit(self, known: Matrix, posterior: ResponsePosterior, key: Key, ctx: Compute) -> Tree:
        """Ranks the samples and fits an item response model, unless the predictor has done so."""
        items = posterior.items
        if items is None:
            items, _ = response.fit(known.matrix(), self.factors, key, ctx)
        order = (posterior.rank or rank_samples(known, ctx)).order
        return {"order": order, "items": response.make_tree(items)}

    def next(self, plan: Plan, answers: Responses, key: Key, ctx: Compute) -> Query:
        """Returns the grid at first, and then one batch at a time."""
        budget, (models, asked) = plan.budget, answers.samples.shape
        first = -(-budget // 2)
        if not asked:
            return make_grid(plan.tree["order"], models, first)
        sizes = [len(part) for part in np.array_split(np.arange(budget - first), MOST_BATCHES)]
        batch = sizes[int(np.searchsorted(np.cumsum(sizes), asked - first, side="right"))]
        scores = ctx.jit(score_samples, static_argnames="acquisition")(
            Items(**plan.tree["items"]),
            PaddedAnswers.of(answers, budget),
            self.acquisition,
        )
        scores = np.array(scores)
        np.put_along_axis(scores, answers.samples, -1.0, axis=1)
        ctx.charge(models * plan.n)  # the selection of a batch
        best = np.argpartition(-scores, batch - 1, axis=1)[:, :batch]
        return Query(best.astype(np.int64))


class Quadrature(Policy):
    """Asks the first samples of all models alike, then chooses anew for each model, with the known
    models weighted by how close they are to its answers.

    Args:
      first: fraction of the budget that is asked of all models alike.
      about: one line for people.
    """

    out_of_core = False

    def __init__(self, first: float, about: str):
        self.first, self.about, self.adaptive = first, about, first < 1

    def fit(self, known: Matrix, posterior: ResponsePosterior, key: Key, ctx: Compute) -> Tree:
        """Fits the linear-Gaussian model."""
        return linear_gaussian.fit(known, key, ctx)

    def next(self, plan: Plan, answers: Responses, key: Key, ctx: Compute) -> Query:
        """Returns the common part, then the rest."""
        model, (models, asked) = linear_gaussian.Model(**plan.tree), answers.samples.shape
        first = int(np.ceil(self.first * plan.budget))
        if not asked:
            choose = ctx.jit(linear_gaussian.select_first, static_argnames="count")
            samples = np.asarray(choose(model, first), np.int64)
            return Query(np.broadcast_to(samples, (models, first)))
        choose = ctx.jit(linear_gaussian.select_next, static_argnames="count")
        samples = choose(
            model,
            answers.samples.astype(np.int32),
            answers.values.astype(np.float32),
            plan.budget - first,
        )
        return Query(np.asarray(samples, np.int64))
