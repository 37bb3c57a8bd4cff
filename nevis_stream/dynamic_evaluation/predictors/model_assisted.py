"""A mean that holds for any new model: predictions corrected by draws with known probabilities."""

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from nevis_stream.array_types import Float, Int
from nevis_stream.cost.compute import Compute
from nevis_stream.dynamic_evaluation import response
from nevis_stream.dynamic_evaluation.method import Prediction
from nevis_stream.dynamic_evaluation.policies import staged_strata
from nevis_stream.dynamic_evaluation.policies.staged_strata import StagedStrata
from nevis_stream.dynamic_evaluation.policy import Key, Policy
from nevis_stream.dynamic_evaluation.predictors.item_response import (
    ItemResponse,
    ItemResponsePosterior,
)
from nevis_stream.dynamic_evaluation.response import ResponsePosterior
from nevis_stream.errors import BadInput
from nevis_stream.estimation import difference
from nevis_stream.queries.matrix import Matrix
from nevis_stream.queries.oracle import ANY_MODEL, Responses
from nevis_stream.queries.prices import Prices
from nevis_stream.storage.checkpoint import Tree

PerAnswer = Float[jax.Array, " answers"]

FACTORS = 4


class ModelAssisted(ItemResponse):
    """An item response model of four factors; the mean is corrected by the differences between
    the answers and predictions that do not depend on them (see `estimation.difference`).

    The mean is exactly unbiased and its interval holds for any new model, however unlike the known
    ones; like them, it has a short interval.
    """

    takes_scores = True
    holds_for = ANY_MODEL

    def __init__(self, cut_by: "tuple[ItemResponsePosterior, Responses] | None" = None) -> None:
        super().__init__(
            "item response model of four factors; the mean is corrected by draws of known"
            " probabilities, for any model",
            factors=FACTORS,
        )
        self._cut_by = cut_by

    def adapt_to_metric(self, posterior: ResponsePosterior, answers: Responses) -> "ModelAssisted":
        """Returns a predictor whose strata are those of the metric that was asked."""
        assert isinstance(posterior, ItemResponsePosterior)
        return ModelAssisted((posterior, answers))

    def is_calibrated(self, policy: Policy) -> bool:
        """Returns True: the intervals are those of the draws.

        Raises:
          BadInput: the policy does not draw a sample of each stratum.
        """
        if not isinstance(policy, StagedStrata):
            raise BadInput(
                "model_assisted needs draws from strata with known probabilities: policy"
                " staged_strata."
            )
        return True

    def fit_budget(
        self, tree: Tree, known: Matrix, policy: Policy, budget: int, key: Key, ctx: Compute
    ) -> Tree:
        """Notes the budget, which says where the stages end."""
        return {"budget": budget}

    def predict(
        self, tree: Tree, budget_fit: Tree, known: Matrix, answers: Responses, ctx: Compute
    ) -> Prediction:
        """Predicts the cells by all answers, and the mean by the stages that are complete."""
        prediction = super().predict(tree, budget_fit, known, answers, ctx)
        prices = known.facts.prices
        ends = np.cumsum([0, *staged_strata.plan_stages(budget_fit["budget"], prices)])
        ends = ends[ends <= answers.samples.shape[1]].tolist()
        if len(ends) == 1:  # asked step by step, and the first stage has just begun
            return dataclasses.replace(prediction, deviation=None)
        posterior, weights = self.make_posterior(tree, known, ctx), known.facts.weights
        stages = list(zip(ends[:-1], ends[1:], strict=True))
        whole = answers.first(ends[-1])
        found = estimate(posterior, weights, whole, stages, ctx, prices, self._cut_by)
        # of few draws it may lie outside what a mean can be; only there clipping makes it biased
        mean, low, high = np.clip(found, 0, 1)
        return Prediction(prediction.values, mean, (low, high))


def estimate(
    posterior: ItemResponsePosterior,
    weights: np.ndarray,
    answers: Responses,
    stages: Sequence[tuple[int, int]],
    ctx: Compute,
    prices: Prices | None = None,
    cut_by: tuple[ItemResponsePosterior, Responses] | None = None,
) -> np.ndarray:
    """Returns value, low and high of each model's mean, float64[3, m].

    Args:
      posterior: of an item response model.
      weights: float64[n], of the samples in the mean.
      answers: of m models.
      stages: the columns of the answers, from and to, that were drawn in each stage, in the order
        of the strata; answers between stages, which were not drawn, are known to later stages.
      ctx: compiles, and counts FLOPs.
      prices: of the samples; None: all cost the same.
      cut_by: the posterior and the answers that the strata were cut by, if those are of another
        metric of the same samples: which of a stratum was drawn depends on the values of neither.
    """
    models, n = len(answers.values), posterior.n
    cut_posterior, earlier = cut_by or (posterior, answers)
    drawn_stages: list[list[difference.Stage]] = [[] for _ in range(models)]
    chances = answers.query.probabilities
    if chances is None:
        raise ValueError("the answers were not drawn with known probabilities")
    for start, end in stages:
        strata = staged_strata.cut(
            cut_posterior, earlier.first(start), weights, end - start, prices
        )
        until = answers.first(end)
        for model, stratum in enumerate(strata):
            drawn = answers.samples[model, start:end]
            predicted = _predict_without_each(posterior, until, model, start, stratum, ctx)
            stage = difference.Stage(stratum, drawn, chances[model, start:end], predicted)
            drawn_stages[model].append(stage)
    values = np.full((models, n), np.nan)
    np.put_along_axis(values, answers.samples, answers.values.astype(np.float64), axis=1)
    outcomes = answers.values.dtype == np.uint8
    ctx.charge(10 * n * models * len(stages))
    rows = [
        difference.estimate(each, row, weights, outcomes=outcomes)
        for each, row in zip(drawn_stages, values, strict=True)
    ]
    return np.array(rows).T


def _predict_without_each(
    posterior: ItemResponsePosterior,
    answers: Responses,
    model: int,
    start: int,
    stratum: np.ndarray,
    ctx: Compute,
) -> np.ndarray:
    """Returns each sample's expected value given all answers of a model but the one that was drawn
    in the sample's stratum, float64[n]; the draws begin at column `start`.
    """
    one = answers.of(np.array([model]))
    padded_answers = response.PaddedAnswers.of(one, one.samples.shape[1])
    columns = np.where(stratum >= 0, stratum + start, 0).astype(np.int32)
    return np.asarray(
        ctx.jit(_leave_each_out)(posterior.items, padded_answers, columns), np.float64
    )


def _leave_each_out(
    items: response.Items,
    padded_answers: response.PaddedAnswers,
    columns: Int[jax.Array, " samples"],
) -> Float[jax.Array, " samples"]:
    """Returns p[j] for each sample, given all answers but that in column `columns[j]`."""
    abilities = _infer_without_each(
        items, padded_answers.samples[0], padded_answers.values[0], padded_answers.mask[0]
    )
    of_sample = response.Abilities(abilities.mean[columns], abilities.covariance[columns])
    return _predict_expected(items, of_sample)


def _infer_without_each(
    items: response.Items,
    samples: Int[jax.Array, " answers"],
    values: PerAnswer,
    mask: PerAnswer,
) -> response.Abilities:
    """Returns the abilities given all answers but one, for each of them."""
    length = len(mask)
    rest = response.PaddedAnswers(
        jnp.broadcast_to(samples, (length, length)),
        jnp.broadcast_to(values, (length, length)),
        mask * (1 - jnp.eye(length)),
    )
    return response.infer(items, rest)


def _predict_expected(
    items: response.Items, of_sample: response.Abilities
) -> Float[jax.Array, " samples"]:
    """Returns the expected value of each sample, each for abilities of its own."""
    mean = jnp.einsum("ni,ni->n", of_sample.extended, items.mean)
    a = items.mean[:, 1:]
    ability = jnp.einsum("ni,nij,nj->n", a, of_sample.covariance, a)
    item = jnp.einsum("nij,nij->n", of_sample.second_moment, items.covariance)
    return jax.nn.sigmoid(response.moderate(mean, ability + item))
