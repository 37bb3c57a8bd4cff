"""A weighted mean of the logits of six predictors (`members`) whose weights, correction and
intervals come from cross-validation on known models.

Each known model is treated as new once: the members are fitted to the models outside its fold
(groups stay together), the same number of its samples is asked, and the predictions are compared
with its observed values. Only a few parameters are fitted to this, with priors around defaults, so
that few known models do no harm.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import numpy as np
from scipy.special import expit

from nevis_stream.cost.compute import Compute
from nevis_stream.dynamic_evaluation import known_models, members
from nevis_stream.dynamic_evaluation.known_models import count_groups
from nevis_stream.dynamic_evaluation.method import Prediction, ScorePredictor
from nevis_stream.dynamic_evaluation.policy import Key, Policy
from nevis_stream.dynamic_evaluation.predictors.item_response import ItemResponsePosterior
from nevis_stream.dynamic_evaluation.predictors.mean import compute_mean_weights
from nevis_stream.dynamic_evaluation.response import Items
from nevis_stream.estimation import intervals
from nevis_stream.queries.matrix import Matrix
from nevis_stream.queries.oracle import MatrixOracle, Responses
from nevis_stream.queries.samples import SampleFacts, is_observed, make_numpy_generator
from nevis_stream.storage.checkpoint import Tree

COLUMNS = 4096  # at most this many samples take part in the cross-validation
CELLS = 100_000  # the weights are fitted to at most this many cells
# strength of the pull towards equal weights, in units of the mean loss of a cell
TOWARDS_DEFAULT = 0.02
# the prior of the correction, as a number of models without bias: residuals of one model are noisy
UNBIASED_MODELS = 30.0
# the prior of the widening, as a number of models whose errors are as large as the members claim
PRIOR_MODELS = 4.0
STEPS = 8  # of Newton's method

EQUAL = np.full(len(members.NAMES), 1 / len(members.NAMES))
# Used if there is a single known model or group, so that none can be left out.
DEFAULT = {"weights": EQUAL, "correction": 0.0, "widening": 3.0}


@dataclass(frozen=True)
class MemberPredictions:
    """The members' predictions of m models, given the same answers.

    Attributes:
      answers: of m models.
      logits: float32[6, m, n].
      deviation: float64[m], posterior standard deviation of the mean.
      facts: about the samples.
    """

    answers: Responses
    logits: np.ndarray
    deviation: np.ndarray
    facts: SampleFacts

    def combine(self, weights: np.ndarray) -> np.ndarray:
        """Returns the weighted predictions, float32[m, n], also for asked cells; `weights` are
        float[6], of the members.
        """
        return expit(np.tensordot(weights.astype(np.float32), self.logits, axes=1))

    def estimate_means(self, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns each model's mean by the combined predictions p, float32[m, n], and the answers
        y in their place, float64[m], and an estimate of its error, float64[m].

        The representative cells cover all samples, so the mean of y - p on them estimates the mean
        of y - p on the cells that were not asked.
        """
        samples, weights = self.answers.samples, self.facts.weights
        away = self.answers.values - np.take_along_axis(p, samples, axis=1).astype(np.float64)
        mean = self.facts.mean(p) + (away * weights[samples]).sum(axis=1)
        residual = (compute_mean_weights(self.answers, self.facts) * away).sum(axis=1)
        return mean, residual * self.unasked

    @property
    def unasked(self) -> np.ndarray:
        """float64[m], the weight in the mean of the cells that were not asked."""
        return 1 - self.facts.weights[self.answers.samples].sum(axis=1)


class Combination(ScorePredictor):
    """Six members, weighted by cross-validation."""

    about = "item response models, their residuals and neighbours, weighted by cross-validation"
    takes_scores = needs_several = True
    gives = ItemResponsePosterior.gives

    def is_calibrated(self, policy: Policy) -> bool:
        """Returns True: its cross-validation covers the widths of intervals too."""
        return True

    def fit(self, known: Matrix, key: Key, ctx: Compute) -> Tree:
        """Fits the members to all known models."""
        return members.fit(known.matrix(), jax.random.split(key)[0], ctx)

    def make_posterior(self, tree: Tree, known: Matrix, ctx: Compute) -> ItemResponsePosterior:
        """Returns the posterior of the multidimensional member."""
        return ItemResponsePosterior(Items(**tree["many"]), known.facts.weights, ctx)

    def fit_budget(
        self, tree: Tree, known: Matrix, policy: Policy, budget: int, key: Key, ctx: Compute
    ) -> Tree:
        """Returns `weights` of the members, float64[6]; `correction`, the fraction, from 0 to 1, of
        the estimated error (`MemberPredictions.estimate_means`) that is added to the mean;
        `widening`, the half-width of the 95% interval in posterior standard deviations; and
        `errors`, float64[k], of the known models' means. The fits of the folds are added to the
        tree.
        """
        key = jax.random.split(key)[1]
        divided = list(known_models.make_folds(known, make_numpy_generator(key), COLUMNS))
        if not divided:
            return DEFAULT
        if "folds" not in tree:
            fits = [members.fit(rest.matrix(), key, ctx) for _, rest in divided]
            policies = [
                policy.fit(rest, self.make_posterior(fit, rest, ctx), key, ctx)
                for (_, rest), fit in zip(divided, fits, strict=True)
            ]
            tree["folds"] = {"fits": fits, "policies": policies}
        random, values = make_numpy_generator(key), [values for values, _ in divided]
        truths, all_predicted = [known_models.fill_holes(each, random) for each in values], []
        fits, policies = tree["folds"]["fits"], tree["folds"]["policies"]
        each_fold = zip(truths, divided, fits, policies, strict=True)
        for truth, (_, rest), fit, learned in each_fold:
            posterior, most = self.make_posterior(fit, rest, ctx), min(budget, rest.shape[1])
            plan = policy.plan(learned, posterior, most, key, ctx)
            answers = policy.ask(plan, MatrixOracle(truth), len(truth), key, ctx)
            all_predicted.append(_predict_members(fit, answers, rest.facts, ctx))
        groups = count_groups(known)
        return _calibrate(all_predicted, truths, values, groups, random, ctx)

    def predict(
        self, tree: Tree, budget_fit: Tree, known: Matrix, answers: Responses, ctx: Compute
    ) -> Prediction:
        """Combines the members."""
        predicted = _predict_members(tree, answers, known.facts, ctx)
        p = predicted.combine(budget_fit["weights"])
        ctx.charge(2 * predicted.logits.size)
        mean, residual = predicted.estimate_means(p)
        mean = np.clip(mean + budget_fit["correction"] * residual, 0, 1)
        half = budget_fit["widening"] * predicted.deviation
        fractions = compute_mean_weights(answers, known.facts)
        effective = 1 / (fractions**2).sum(axis=1)
        fraction = (effective * (fractions * answers.values).sum(axis=1) + 1) / (effective + 2)
        error = np.sqrt(fraction * (1 - fraction) / effective) * predicted.unasked
        unbiased = mean + (1 - budget_fit["correction"]) * residual
        return Prediction(p, mean, intervals.extend(mean - half, mean + half, unbiased, error))


def _predict_members(
    tree: Tree, answers: Responses, facts: SampleFacts, ctx: Compute
) -> MemberPredictions:
    return MemberPredictions(answers, *members.predict(tree, answers, facts.weights, ctx), facts)


def _calibrate(
    all_predicted: Sequence[MemberPredictions],
    truths: Sequence[np.ndarray],
    values: Sequence[np.ndarray],
    groups: int,
    random: np.random.Generator,
    ctx: Compute,
) -> Tree:
    """Returns weights, correction and widening; see `Combination.fit_budget`.

    Args:
      all_predicted: of each fold's models.
      truths: their values, holes filled.
      values: their values with holes.
      groups: number of groups of known models.
      random: draws cells.
      ctx: counts FLOPs.
    """
    weights = _fit_weights(all_predicted, values, random, ctx)
    residuals, missing = [], []
    for predicted, truth in zip(all_predicted, truths, strict=True):
        mean, residual = predicted.estimate_means(predicted.combine(weights))
        ctx.charge(2 * predicted.logits.size)
        residuals.append(residual)
        missing.append(predicted.facts.mean(truth) - mean)
    residual, missing = np.concatenate(residuals), np.concatenate(missing)
    squares = (residual**2).sum() + UNBIASED_MODELS * (residual**2).mean()
    correction = float(np.clip(residual @ missing / squares, 0, 1)) if squares else 0.0
    deviation = np.concatenate([predicted.deviation for predicted in all_predicted])
    errors = missing - correction * residual
    widening = float(known_models.compute_half_width(errors, deviation, groups, PRIOR_MODELS))
    learned = {"weights": weights, "correction": correction, "widening": widening}
    return learned | {"errors": errors}


def _fit_weights(
    all_predicted: Sequence[MemberPredictions],
    values: Sequence[np.ndarray],
    random: np.random.Generator,
    ctx: Compute,
) -> np.ndarray:
    """Returns the weights of a logistic regression on the cells that were not asked, with a prior
    around equal weights, by Newton's method.
    """
    cells = []
    for predicted, truth in zip(all_predicted, values, strict=True):
        free = is_observed(truth)
        np.put_along_axis(free, predicted.answers.samples, False, axis=1)
        cells.append((predicted.logits[:, free], truth[free]))
    x = np.concatenate([logits for logits, _ in cells], axis=1).T.astype(np.float64)
    y = np.concatenate([outcomes for _, outcomes in cells]).astype(np.float64)
    if len(y) > CELLS:
        chosen = random.choice(len(y), CELLS, replace=False)
        x, y = x[chosen], y[chosen]
    weights, eye = EQUAL.copy(), np.eye(len(EQUAL))
    ctx.charge(STEPS * (2 * x.size * len(EQUAL) + 5 * x.size))
    for _ in range(STEPS if len(y) else 0):
        p = expit(x @ weights)
        gradient = x.T @ (p - y) / len(y) + TOWARDS_DEFAULT * (weights - EQUAL)
        weights -= np.linalg.solve(
            (x.T * (p * (1 - p))) @ x / len(y) + TOWARDS_DEFAULT * eye, gradient
        )
    return weights
