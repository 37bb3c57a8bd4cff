"""Item response models as predictors of cells, by posterior-predictive values and their mean; and a
two-parameter model whose mean is averaged with another estimate of it.

The item response model is sure of a model's ability after few answers, but knows nothing else of
it. How much the other estimate adds depends on the known models, on the policy and on the budget,
so cross-validation on the known models learns its weight; with few known models, the weight stays
near a default.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import expit

from nevis_stream.array_types import Float, Int
from nevis_stream.cost.compute import Compute
from nevis_stream.dynamic_evaluation import known_models, response
from nevis_stream.dynamic_evaluation.known_models import count_groups
from nevis_stream.dynamic_evaluation.method import Prediction, ScorePredictor
from nevis_stream.dynamic_evaluation.policy import Key, Policy
from nevis_stream.dynamic_evaluation.predictors.linear_gaussian import LinearGaussian
from nevis_stream.dynamic_evaluation.response import ResponsePosterior, compute_normal_information
from nevis_stream.queries.matrix import Matrix
from nevis_stream.queries.oracle import MatrixOracle, Responses
from nevis_stream.queries.samples import make_numpy_generator
from nevis_stream.storage.checkpoint import Tree

Cells = Float[jax.Array, "models samples"]


class ItemResponsePosterior(ResponsePosterior):
    """The posterior of an item response model, whose ability is what is unknown of a model.

    Near the posterior's mean an outcome is linear in the ability, with noise of variance λ =
    p (1 - p): then information and reduction are those of a normal distribution.

    Args:
      items: of n samples.
      weights: float[n], of the samples in the mean.
      ctx: compiles, and counts FLOPs.
    """

    gives = frozenset({"items", "moments", "information", "reduction"})

    def __init__(self, items: response.Items, weights: np.ndarray, ctx: Compute):
        super().__init__(len(weights), items=items)
        self.weights, self._ctx = weights.astype(np.float32), ctx

    def _run(self, function: Callable, answers: Responses, *more: np.ndarray) -> Any:
        padded_answers = response.PaddedAnswers.of(answers, answers.samples.shape[1])
        return self._ctx.jit(function)(self.items, padded_answers, *more)

    def part(self, columns: Int[np.ndarray, " columns"]) -> "ItemResponsePosterior":
        """See `ResponsePosterior`."""
        items = response.Items(
            *(np.asarray(each)[columns] for each in (self.items.mean, self.items.covariance))
        )
        return ItemResponsePosterior(items, self.weights[columns], self._ctx)

    def moments(self, answers: Responses) -> tuple[np.ndarray, np.ndarray]:
        """See `ResponsePosterior`."""
        return tuple(np.asarray(each) for each in self._run(_compute_moments, answers))

    def information(self, answers: Responses) -> Float[np.ndarray, "models samples"]:
        """See `ResponsePosterior`."""
        return np.asarray(self._run(_compute_information, answers))

    def reduction(self, answers: Responses) -> Float[np.ndarray, "models samples"]:
        """See `ResponsePosterior`."""
        return np.asarray(self._run(_compute_reduction, answers, self.weights))


def _infer_state(
    items: response.Items, padded_answers: response.PaddedAnswers
) -> tuple[response.Abilities, Cells, Cells]:
    """Returns the abilities, P(right) and the variance of the logit from the ability."""
    abilities = response.infer(items, padded_answers)
    mean, ability, item = response.predict_logits(items, abilities)
    return abilities, jax.nn.sigmoid(response.moderate(mean, ability + item)), ability


def _compute_moments(
    items: response.Items, padded_answers: response.PaddedAnswers
) -> tuple[Cells, Cells]:
    _, p, _ = _infer_state(items, padded_answers)
    return p, p * (1 - p)


def _compute_information(items: response.Items, padded_answers: response.PaddedAnswers) -> Cells:
    _, p, ability = _infer_state(items, padded_answers)
    return compute_normal_information(p * (1 - p) * ability, 1.0)


def _compute_reduction(
    items: response.Items,
    padded_answers: response.PaddedAnswers,
    weights: Float[jax.Array, " samples"],
) -> Cells:
    """Returns by how much asking each sample j reduces the variance of the mean.

    The ability θ changes the mean by cᵀ θ, c = Σ w_i λ_i a_i over the samples that were not asked;
    so the mean's covariance with y_j is λ_j (a_j V c + w_j), and the variance of y_j is
    λ_j (1 + λ_j a_j V a_j).
    """
    abilities, p, ability = _infer_state(items, padded_answers)
    noise, a = p * (1 - p), items.mean[:, 1:]
    towards = padded_answers.scatter(noise * weights, 0.0) @ a
    moved = jnp.einsum("mij,mj->mi", abilities.covariance, towards)
    return noise * (moved @ a.T + weights) ** 2 / (1 + noise * ability)


class ItemResponse(ScorePredictor):
    """An item response model; see `response`.

    Args:
      about: one line for people.
      factors: k.
      common: whether all samples have the same discrimination.
    """

    takes_scores = True
    gives = ItemResponsePosterior.gives

    def __init__(self, about: str, factors: int = 1, common: bool = False):
        self.about, self.factors, self.common = about, factors, common

    def fit(self, known: Matrix, key: Key, ctx: Compute) -> Tree:
        """Fits the samples' parameters to the known models."""
        items, _ = response.fit(known.matrix(), self.factors, key, ctx, self.common)
        return response.make_tree(items)

    def read_items(self, tree: Tree) -> response.Items:
        """Returns the samples' parameters."""
        return response.Items(tree["mean"], tree["covariance"])

    def make_posterior(self, tree: Tree, known: Matrix, ctx: Compute) -> ItemResponsePosterior:
        """Returns the posterior of the model."""
        return ItemResponsePosterior(self.read_items(tree), known.facts.weights, ctx)

    def predict(
        self, tree: Tree, budget_fit: Tree, known: Matrix, answers: Responses, ctx: Compute
    ) -> Prediction:
        """Predicts by the posterior of each model's ability."""
        padded_answers = response.PaddedAnswers.of(answers, answers.samples.shape[1])
        weights = known.facts.weights.astype(np.float32)
        logits, deviation = (
            np.asarray(values, np.float64)
            for values in ctx.jit(response.predict)(self.read_items(tree), padded_answers, weights)
        )
        p = expit(logits)
        np.put_along_axis(p, answers.samples, answers.values, axis=1)
        return Prediction(p, known.facts.mean(p), deviation=deviation)


class AveragedResponse(ItemResponse, ABC):
    """The base of predictors that average a two-parameter model with something else.

    Args:
      about: one line for people.
      weight: the other estimate's default weight, from 0 to 1.
      groups: weight of this default as a prior, as a number of independent known models, or groups.
    """

    def __init__(self, about: str, weight: float, groups: float):
        super().__init__(about)
        self.weight, self.groups = weight, groups

    @abstractmethod
    def estimate_other(
        self, tree: Tree, known: Matrix, answers: Responses, ctx: Compute
    ) -> tuple[np.ndarray | None, np.ndarray]:
        """Returns the other estimate: the cells, float[m, n], or None if it has none; and the mean
        over all samples, float64[m].
        """

    def fit_budget(
        self, tree: Tree, known: Matrix, policy: Policy, budget: int, key: Key, ctx: Compute
    ) -> Tree:
        """Returns the other estimate's weight, `share`, and the `errors` of known models' means,
        float64[k], with the `unit` of each. The fits of the folds are added to the tree.
        """
        random, parts = make_numpy_generator(key), [np.empty((3, 0))]
        trees = tree.setdefault("folds", [])
        for number, (values, rest) in enumerate(known_models.make_folds(known, random)):
            if number == len(trees):
                model = self.fit(rest, key, ctx)
                learned = policy.fit(rest, self.make_posterior(model, rest, ctx), key, ctx)
                trees.append({"model": model, "policy": learned})
            oracle = MatrixOracle(known_models.fill_holes(values, random))
            model = trees[number]["model"]
            plan = policy.plan(
                trees[number]["policy"], self.make_posterior(model, rest, ctx), budget, key, ctx
            )
            answers = policy.ask(plan, oracle, len(values), key, ctx)
            by_response = super().predict(model, {}, rest, answers, ctx)
            away = self.estimate_other(model, rest, answers, ctx)[1] - by_response.mean
            missing = rest.facts.mean(oracle.truth) - by_response.mean
            parts.append(np.array([away, missing, by_response.deviation]))
        away, missing, unit = np.concatenate(parts, axis=1)
        independent = count_groups(known)
        weight = self._fit_weight(away, missing, independent)
        return {"share": weight, "errors": missing - weight * away, "unit": unit}

    def _fit_weight(self, away: np.ndarray, missing: np.ndarray, independent: int) -> float:
        """Returns the weight of least squares, with the default as a prior; models of a group do
        not count as independent.
        """
        prior = self.groups / independent * (away**2).sum()
        squares = (away**2).sum() + prior
        if not squares:
            return self.weight
        return float(np.clip((away @ missing + prior * self.weight) / squares, 0, 1))

    def predict(
        self, tree: Tree, budget_fit: Tree, known: Matrix, answers: Responses, ctx: Compute
    ) -> Prediction:
        """Averages the means, and the cells if the other estimate has cells."""
        by_response = super().predict(tree, budget_fit, known, answers, ctx)
        cells, mean = self.estimate_other(tree, known, answers, ctx)
        values, weight = by_response.values, budget_fit["share"]
        if cells is not None:
            values = values + weight * (cells - values)
            ctx.charge(3 * values.size)
        mean = by_response.mean + weight * (mean - by_response.mean)
        return Prediction(values, mean, deviation=by_response.deviation)


class ResponseAndGaussian(AveragedResponse):
    """A two-parameter item response model's cells and mean, averaged with those of a
    linear-Gaussian model.

    The item response model knows one ability; the linear-Gaussian model sees what else known models
    have in common. Their errors partly cancel, the more the more models are known.
    """

    def __init__(self) -> None:
        about = (
            "two-parameter item response and linear-Gaussian model, averaged by cross-validation"
        )
        super().__init__(about, weight=0.25, groups=20)
        self._gaussian = LinearGaussian()

    def fit(self, known: Matrix, key: Key, ctx: Compute) -> Tree:
        """Fits both models."""
        return super().fit(known, key, ctx) | {"gaussian": self._gaussian.fit(known, key, ctx)}

    def estimate_other(
        self, tree: Tree, known: Matrix, answers: Responses, ctx: Compute
    ) -> tuple[np.ndarray | None, np.ndarray]:
        """Returns the linear-Gaussian model's cells and their mean."""
        prediction = self._gaussian.predict(tree["gaussian"], {}, known, answers, ctx)
        cells = np.array(prediction.values, np.float64)
        np.put_along_axis(cells, answers.samples, answers.values, axis=1)
        return cells, known.facts.mean(cells)
