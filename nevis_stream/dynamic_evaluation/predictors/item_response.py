"""Item response models as predictors of cells, by posterior-predictive values and their mean."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import expit

from nevis_stream.array_types import Float, Int
from nevis_stream.cost.compute import Compute
from nevis_stream.dynamic_evaluation import response
from nevis_stream.dynamic_evaluation.known_models import KnownModels
from nevis_stream.dynamic_evaluation.method import Prediction, ScorePredictor
from nevis_stream.dynamic_evaluation.policy import Key
from nevis_stream.dynamic_evaluation.response import ResponsePosterior, normal_information
from nevis_stream.queries.oracle import Responses
from nevis_stream.storage.checkpoint import Tree

Cells = Float[jax.Array, "models samples"]


class ResponseBeliefs(ResponsePosterior):
    """Beliefs of an item response model, whose ability is what is unknown of a model.

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

    def _of(self, function: Callable, answers: Responses, *more: np.ndarray) -> Any:
        evidence = response.PaddedAnswers.of(answers, answers.samples.shape[1])
        return self._ctx.jit(function)(self.items, evidence, *more)

    def part(self, columns: Int[np.ndarray, " columns"]) -> "ResponseBeliefs":
        """See `ResponsePosterior`."""
        items = response.Items(
            *(np.asarray(each)[columns] for each in (self.items.mean, self.items.covariance))
        )
        return ResponseBeliefs(items, self.weights[columns], self._ctx)

    def moments(self, answers: Responses) -> tuple[np.ndarray, np.ndarray]:
        """See `ResponsePosterior`."""
        return tuple(np.asarray(each) for each in self._of(_moments, answers))

    def information(self, answers: Responses) -> Float[np.ndarray, "models samples"]:
        """See `ResponsePosterior`."""
        return np.asarray(self._of(_information, answers))

    def reduction(self, answers: Responses) -> Float[np.ndarray, "models samples"]:
        """See `ResponsePosterior`."""
        return np.asarray(self._of(_reduction, answers, self.weights))


def _state(
    items: response.Items, evidence: response.PaddedAnswers
) -> tuple[response.Abilities, Cells, Cells]:
    """Returns the abilities, P(right) and the variance of the ability's part of the logit."""
    abilities = response.infer(items, evidence)
    mean, ability, item = response.logits(items, abilities)
    return abilities, jax.nn.sigmoid(response.moderate(mean, ability + item)), ability


def _moments(items: response.Items, evidence: response.PaddedAnswers) -> tuple[Cells, Cells]:
    _, p, _ = _state(items, evidence)
    return p, p * (1 - p)


def _information(items: response.Items, evidence: response.PaddedAnswers) -> Cells:
    _, p, ability = _state(items, evidence)
    return normal_information(p * (1 - p) * ability, 1.0)


def _reduction(
    items: response.Items, evidence: response.PaddedAnswers, weights: Float[jax.Array, " samples"]
) -> Cells:
    """The ability θ changes the mean by cᵀ θ, c = Σ w_i λ_i a_i over the samples that were not
    asked; so the mean's covariance with y_j is λ_j (a_j V c + w_j), and the variance of y_j is
    λ_j (1 + λ_j a_j V a_j).
    """
    abilities, p, ability = _state(items, evidence)
    noise, a = p * (1 - p), items.mean[:, 1:]
    towards = evidence.scatter(noise * weights, 0.0) @ a
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
    gives = ResponseBeliefs.gives

    def __init__(self, about: str, factors: int = 1, common: bool = False):
        self.about, self.factors, self.common = about, factors, common

    def fit(self, known: KnownModels, key: Key, ctx: Compute) -> Tree:
        """Fits the samples' parameters to the known models."""
        items, _ = response.fit(known.matrix(), self.factors, key, ctx, self.common)
        return response.as_tree(items)

    def items(self, tree: Tree) -> response.Items:
        """Returns the samples' parameters."""
        return response.Items(tree["mean"], tree["covariance"])

    def beliefs(self, tree: Tree, known: KnownModels, ctx: Compute) -> ResponseBeliefs:
        """Returns the beliefs of the model."""
        return ResponseBeliefs(self.items(tree), known.facts.weights, ctx)

    def predict(
        self, tree: Tree, tuned: Tree, known: KnownModels, answers: Responses, ctx: Compute
    ) -> Prediction:
        """Predicts by the posterior of each model's ability."""
        evidence = response.PaddedAnswers.of(answers, answers.samples.shape[1])
        weights = known.facts.weights.astype(np.float32)
        logits, deviation = (
            np.asarray(values, np.float64)
            for values in ctx.jit(response.predict)(self.items(tree), evidence, weights)
        )
        p = expit(logits)
        np.put_along_axis(p, answers.samples, answers.values, axis=1)
        return Prediction(p, known.facts.mean(p), deviation=deviation)
