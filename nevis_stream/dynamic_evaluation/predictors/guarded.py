"""A predictor whose estimate, for a model that the known ones say little about, is one that holds
for any model.

A fit to the known models is wrong for models unlike them: samples that every known model fails tell
nothing about who solves them, so the mean of a stronger model is pulled towards the known ones. Two
things are checked (`GuardedPosterior.find_unlike`): whether the model may lie beyond the best, or
the worst, known model, and how improbable the answers are under the fit. A few answers do not find
all such models. So the interval of the others contains what the answers leave possible if the model
may be unlike the known ones in these two ways (`GuardedPosterior.quantiles`).
"""

import functools
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import logsumexp, ndtri, softmax

from nevis_stream.array_types import Float
from nevis_stream.cost.compute import Compute
from nevis_stream.dynamic_evaluation import response
from nevis_stream.dynamic_evaluation.known_models import KnownModels
from nevis_stream.dynamic_evaluation.method import Evaluator, Method, Prediction, ScorePredictor
from nevis_stream.dynamic_evaluation.policies.staged_strata import PartFirst, ScreeningPosterior
from nevis_stream.dynamic_evaluation.policy import Key, Policy
from nevis_stream.dynamic_evaluation.predictors import model_assisted
from nevis_stream.dynamic_evaluation.predictors.item_response import ItemResponsePosterior
from nevis_stream.dynamic_evaluation.predictors.model_assisted import ModelAssisted
from nevis_stream.dynamic_evaluation.response import Items, PaddedAnswers, ResponsePosterior
from nevis_stream.queries.oracle import ANY_MODEL, LIKE_KNOWN, Responses
from nevis_stream.queries.samples import fill_unknown, is_observed
from nevis_stream.storage.checkpoint import Tree

SURROGATE = ModelAssisted()
# Claimed standard deviations from the mean within which no end of the range of the known models may
# lie. They are few, as the fit is pulled into the range: of models beyond it most are within them,
# of others one in ten (docs/evidence/any-model.md).
REACH = 0.7
MAY_REACH = 1.96 * 1.5  # the same, of models that may lie beyond it in spite of that
BEYOND = 1.5  # factor of the interval of these, if the values are scores
MISFIT = 0.75  # log Bayes factor against the fit above which answers are improbable under it
# What a misfit may be: P(right) = guess + (1 - guess - slip) P(right under the fit), the upper and
# the lower asymptote of item response models (Barton and Lord 1981): answers that are lost at
# random, guesses among four or two, and a part of both.
MISFITS = ((0.0, 0.4), (0.0, 0.55), (0.0, 0.25), (0.15, 0.6), (0.25, 0.75), (0.5, 0.5))
# of which answers under the fit are the first, as probable as all misfits together
HYPOTHESES = np.array(((0.0, 0.0), *MISFITS), np.float32)
LOG_PRIOR = np.log([0.5, *[0.5 / len(MISFITS)] * len(MISFITS)])
ABILITIES, WIDE = 2048, 1.5  # number and standard deviation of the abilities of a new model
PART = 1024  # samples that are predicted for all abilities together
# of the mean, from which intervals are taken: the outer two of models that may lie beyond the known
# ones, the inner two of others, whose calibrated interval is a 95% one already
QUANTILES = np.array([0.025, 0.1, 0.5, 0.9, 0.975])


class GuardedPosterior(ScreeningPosterior):
    """The guarded predictor's posterior, and what tells whether a model is like the known ones.

    Args:
      base: of the guarded predictor.
      surrogate: of the item response model that assists the estimate for any model.
      ends: the least and the greatest mean of a known model.
    """

    def __init__(
        self,
        base: ResponsePosterior,
        surrogate: ItemResponsePosterior,
        ends: tuple[float, float],
    ):
        super().__init__(base.n, base.rank, base.items)
        self.base, self.surrogate, self.ends = base, surrogate, ends

    def moments(self, answers: Responses) -> tuple[np.ndarray, np.ndarray]:
        """Returns those of the surrogate."""
        return self.surrogate.moments(answers)

    def find_unlike(self, answers: Responses, ctx: Compute) -> np.ndarray:
        """Returns which models the known ones say little about, bool[m]."""
        screening = self.screen(answers, ctx)
        return screening.lies_beyond() | (screening.misfit > MISFIT)

    def screen(self, answers: Responses, ctx: Compute) -> "Screening":
        """Returns what the answers so far say about m models."""
        padded_answers = response.PaddedAnswers.of(answers, answers.samples.shape[1])
        weights = self.surrogate.weights
        p, deviation = (
            np.asarray(each, np.float64)
            for each in ctx.jit(_predict)(self.surrogate.items, padded_answers, weights)
        )
        np.put_along_axis(p, answers.samples, answers.values, axis=1)
        mean = p @ weights.astype(np.float64)
        noise = np.sqrt((p * (1 - p)) @ weights.astype(np.float64) ** 2)
        misfit = np.zeros(len(mean))  # scores have no probability under the fit
        if answers.values.dtype == np.uint8:
            logs, _ = self._likelihoods(padded_answers, ctx)
            evidence = logsumexp(logs, axis=2)
            misfit = logsumexp(evidence[:, 1:], axis=1) - np.log(len(MISFITS)) - evidence[:, 0]
        return Screening(mean, deviation, misfit, noise, self.ends)

    def quantiles(self, answers: Responses, screening: "Screening", ctx: Compute) -> np.ndarray:
        """Returns the `QUANTILES` of the posterior of each model's mean, float64[5, m], if its
        ability may lie far from those of the known models, and its answers may be a misfit.

        Args:
          answers: outcomes of m models.
          screening: of these answers.
          ctx: compiles, and counts FLOPs.
        """
        padded_answers = response.PaddedAnswers.of(answers, answers.samples.shape[1])
        logs, asked = self._likelihoods(padded_answers, ctx)
        surrogate, weights = self.surrogate, self.surrogate.weights.astype(np.float64)
        total = np.asarray(ctx.jit(_means)(surrogate.items, surrogate.weights, _abilities()))
        guess, slip = HYPOTHESES.T[:, :, None]
        found = []
        for model, samples in enumerate(answers.samples):
            seen = weights[samples]
            rest = guess * (1 - seen.sum()) + (1 - guess - slip) * (total - asked[model])
            means = (seen @ answers.values[model] + rest).ravel()
            order, chances = np.argsort(means), softmax(logs[model] + LOG_PRIOR[:, None]).ravel()
            found.append(np.interp(QUANTILES, np.cumsum(chances[order]), means[order]))
        ends = np.array(found).T
        normal = ndtri(QUANTILES)[:, None]  # the outcomes differ from what is expected of them
        away = np.sign(normal) * np.hypot(ends - ends[2], normal * screening.noise)
        return np.clip(ends[2] + away, 0, 1)

    def _likelihoods(
        self, padded_answers: PaddedAnswers, ctx: Compute
    ) -> tuple[np.ndarray, np.ndarray]:
        weights = self.surrogate.weights
        found = ctx.jit(_likelihoods)(self.surrogate.items, padded_answers, weights, _abilities())
        logs, asked = (np.asarray(each, np.float64) for each in found)
        return logs, asked


@dataclass(frozen=True)
class Screening:
    """What the answers of m models say.

    Attributes:
      mean, deviation: float64[m], of the models' means under the fit.
      misfit: float64[m], the log of the Bayes factor of `MISFITS`, each as probable as the others,
        against the fit.
      noise: float64[m], the standard deviation of the means if the abilities were known.
      ends: see `GuardedPosterior`.
    """

    mean: np.ndarray
    deviation: np.ndarray
    misfit: np.ndarray
    noise: np.ndarray
    ends: tuple[float, float]

    def lies_beyond(self, reach: float | None = None) -> np.ndarray:
        """Returns which models lie, or may lie, beyond the known ones, bool[m]: an end of their
        range is within so many claimed standard deviations of the mean, or passed; None: `REACH`.
        """
        return self._above(reach) | self._below(reach)

    def _above(self, reach: float | None = None) -> np.ndarray:
        return self.mean + (REACH if reach is None else reach) * self.deviation > self.ends[1]

    def _below(self, reach: float | None = None) -> np.ndarray:
        return self.mean - (REACH if reach is None else reach) * self.deviation < self.ends[0]

    def explain(self, model: int) -> str:
        """Returns in words why a model's estimate is for any model, or not."""
        for beyond, word in ((self._above, "best"), (self._below, "worst")):
            if beyond()[model]:
                return f"it may lie beyond the {word} known model, where the fit need not hold"
        if self.misfit[model] > MISFIT:
            return "its answers are improbable under the fit to the known models"
        return "it lies within the range of the known models"


class GuardedPredictor(ScorePredictor):
    """Another predictor; of models unlike the known ones, an item response model whose mean is
    corrected by draws of known probabilities.

    Args:
      base: the other predictor.
      policy: its policy.
    """

    takes_all = False

    def __init__(self, base: ScorePredictor, policy: PartFirst):
        self.base, self.policy = base, policy
        self.about = f"{base.about}; for models unlike the known ones, {SURROGATE.about}"
        self.takes_scores, self.gives = base.takes_scores, base.gives

    def is_calibrated(self, policy: Policy) -> bool:
        """Returns what the other predictor says."""
        return self.base.is_calibrated(self.policy)

    def fit(self, known: KnownModels, key: Key, ctx: Compute) -> Tree:
        """Fits the other predictor and an item response model."""
        surrogate, means = SURROGATE.fit(known, key, ctx), _known_means(known)
        return {
            "base": self.base.fit(known, key, ctx),
            "surrogate": surrogate,
            "ends": [float(np.nanmin(means)), float(np.nanmax(means))],
        }

    def fit_budget(
        self, tree: Tree, known: KnownModels, policy: Policy, budget: int, key: Key, ctx: Compute
    ) -> Tree:
        """Fits the other predictor."""
        base = self.base.fit_budget(tree["base"], known, self.policy, budget, key, ctx)
        calibration = {name: base[name] for name in ("errors", "unit") if name in base}
        if not calibration and not self.base.is_calibrated(self.policy):
            errors, unit = self._base_errors(tree, base, known, budget, key, ctx)
            calibration = {"errors": errors, "unit": unit}
        return {"base": base, "budget": budget} | calibration

    def _base_errors(
        self, tree: Tree, budget_fit: Tree, known: KnownModels, budget: int, key: Key, ctx: Compute
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns the other predictor's cross-validation errors, float64[k], and their unit."""
        arguments = tree["base"], known, self.policy, budget, key, ctx
        if (errors := self.base.compute_errors(*arguments)) is not None:
            return errors, np.ones(len(errors))
        method = Method("", self.policy, self.base, cross_validated=True)
        inner = {"predictor": tree["base"], "policy": {}, "folds": tree.setdefault("folds", [])}
        return Evaluator(method, known, inner, key, ctx).cross_validate(budget_fit, budget)

    def make_posterior(self, tree: Tree, known: KnownModels, ctx: Compute) -> GuardedPosterior:
        """Returns the posterior."""
        base = self.base.make_posterior(tree["base"], known, ctx)
        surrogate = SURROGATE.make_posterior(tree["surrogate"], known, ctx)
        least, greatest = tree["ends"]
        return GuardedPosterior(base, surrogate, (least, greatest))

    def predict(
        self, tree: Tree, budget_fit: Tree, known: KnownModels, answers: Responses, ctx: Compute
    ) -> Prediction:
        """Predicts as the other predictor; of models whose last samples were drawn, the mean that
        holds for any model.
        """
        base = self.base.predict(tree["base"], budget_fit["base"], known, answers, ctx)
        values = np.array(base.values, np.float64)
        if base.keeps_answers:
            np.put_along_axis(values, answers.samples, answers.values, axis=1)
        mean = np.array(known.facts.mean(values) if base.mean is None else base.mean, np.float64)
        low, high = (np.full(len(mean), np.nan) for _ in range(2))
        if base.interval is not None and self.base.is_calibrated(self.policy):
            low, high = (np.array(end, np.float64) for end in base.interval)
        posterior, weights = self.make_posterior(tree, known, ctx), known.facts.weights
        budget, count = budget_fit["budget"], answers.samples.shape[1]
        first = self.policy.count_first(budget)
        if count < budget:  # asked step by step: which estimate it will be is open
            return Prediction(values, mean, None, base.deviation, base.keeps_answers)
        fractions = answers.query.fractions
        drawn = np.zeros((len(mean), 0), bool) if fractions is None else fractions[:, first:] > 0
        switched = drawn.any(axis=1)
        screening, notes = posterior.screen(answers, ctx), []
        others = np.full((3, len(mean)), np.nan)
        for model in range(len(mean)):
            row, stages, seen = answers.of(np.array([model])), [(0, first)], screening
            if switched[model]:
                start = first + int(drawn[model].argmax())
                stages.append((start, budget))
                seen = posterior.screen(row.first(start), ctx)
            other = model_assisted.estimate(posterior.surrogate, weights, row, stages, ctx)[:, 0]
            own = mean[model], low[model], high[model]
            if switched[model]:
                mean[model], low[model], high[model] = other
            if not other[1] <= own[0] <= other[2]:
                others[:, model] = own if switched[model] else other
            note = seen.explain(0 if switched[model] else model)
            if screening.misfit[model] > MISFIT:
                note += (
                    "; misfit: its answers are improbable under the fit; answers lost or guessed at"
                    f" random explain them {np.exp(min(screening.misfit[model], 20)):,.0f} times"
                    " better"
                )
            notes.append(note)
        # beyond the known models the calibration on them is not enough
        outside, wider = screening.lies_beyond(MAY_REACH) & ~switched, np.ones(len(mean))
        within = None
        if answers.values.dtype == np.uint8:
            ends = np.where(switched, np.nan, posterior.quantiles(answers, screening, ctx))
            moved = np.where(outside, (ends[2] - mean) / 2, 0.0)
            mean, low, high = mean + moved, low + moved, high + moved
            within = np.where(outside, ends[[0, 4]], ends[[1, 3]])
        else:
            wider = np.where(outside, BEYOND, 1.0)
            low, high = mean - wider * (mean - low), mean + wider * (high - mean)
        holds_for = [ANY_MODEL if each else LIKE_KNOWN for each in switched]
        return Prediction(
            *(values, mean, (low, high), wider * base.unit, base.keeps_answers),
            holds_for=holds_for,
            notes=notes,
            others=others,
            within=within,
        )


def _known_means(known: KnownModels) -> np.ndarray:
    """Returns the weighted mean of each known model's observed samples, float64[m]."""
    matrix, weights = known.matrix(), known.facts.weights
    mask = is_observed(matrix)
    return (fill_unknown(matrix) @ weights) / np.where(mask.any(axis=1), mask @ weights, np.nan)


def _predict(
    items: Items, padded_answers: PaddedAnswers, weights: Float[jax.Array, " samples"]
) -> tuple[Float[jax.Array, "models samples"], Float[jax.Array, " models"]]:
    logits, deviation = response.predict(items, padded_answers, weights)
    return jax.nn.sigmoid(logits), deviation


@functools.cache
def _abilities() -> np.ndarray:
    """Returns abilities that stand for their prior distribution, made wider, as a new model may be
    unlike the known ones, float32[s, k].
    """
    columns = []
    # a Halton sequence; importing scipy.stats takes a second
    for base in (2, 3, 5, 7)[: model_assisted.FACTORS]:
        left, scale, column = np.arange(1, ABILITIES + 1), 1.0, np.zeros(ABILITIES)
        while left.any():
            scale /= base
            column += left % base * scale
            left //= base
        columns.append(column)
    return (WIDE * ndtri(np.stack(columns, axis=1))).astype(np.float32)


def _outcomes(
    items: Items, abilities: Float[jax.Array, "draws factors"]
) -> Float[jax.Array, "draws samples"]:
    """Returns P(right) of each sample for each ability."""
    extended = jnp.concatenate([jnp.ones((len(abilities), 1)), abilities], axis=1)
    second = (extended[:, :, None] * extended[:, None, :]).reshape(len(abilities), -1)
    variance = second @ items.covariance.reshape(len(items.mean), -1).T
    return jax.nn.sigmoid(response.moderate(extended @ items.mean.T, variance))


def _likelihoods(
    items: Items,
    padded_answers: PaddedAnswers,
    weights: Float[jax.Array, " samples"],
    abilities: Float[jax.Array, "draws factors"],
) -> tuple[Float[jax.Array, "models hypotheses draws"], Float[jax.Array, "models draws"]]:
    """Returns the log likelihood of each model's answers under each of `HYPOTHESES` and abilities,
    and what the fit expects of the asked samples: their weighted sum.
    """

    def of_one(one: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
        samples, values, mask = one
        p = _outcomes(Items(items.mean[samples], items.covariance[samples]), abilities)

        def log_likelihood(hypothesis: jax.Array) -> jax.Array:
            guess, slip = hypothesis
            q = jnp.clip(guess + (1 - guess - slip) * p, 1e-3, 1 - 1e-3)
            return (values * jnp.log(q) + (1 - values) * jnp.log(1 - q)) @ mask

        logs = jnp.stack([log_likelihood(each) for each in jnp.asarray(HYPOTHESES)])
        return logs, p @ (weights[samples] * mask)

    return jax.lax.map(of_one, (padded_answers.samples, padded_answers.values, padded_answers.mask))


def _means(
    items: Items,
    weights: Float[jax.Array, " samples"],
    abilities: Float[jax.Array, "draws factors"],
) -> Float[jax.Array, " draws"]:
    """Returns the weighted mean of all samples that is expected for each ability."""

    def of_part(part: tuple[jax.Array, ...]) -> jax.Array:
        return _outcomes(Items(*part[:2]), abilities) @ part[2]

    filled = -len(weights) % PART
    padded = (
        jnp.pad(each, [(0, filled)] + [(0, 0)] * (each.ndim - 1)).reshape(-1, PART, *each.shape[1:])
        for each in (items.mean, items.covariance, weights)
    )
    return jax.lax.map(of_part, tuple(padded)).sum(axis=0)
