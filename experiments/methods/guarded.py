"""A predictor whose estimate, for a model that the known ones say little about, is one that holds
for any model.

A fit to the known models is wrong for models unlike them: samples that every known model fails tell
nothing about who solves them, so the mean of a stronger model is pulled towards the known ones. Two
things are checked (`GuardedPosterior.find_unlike`): whether the model may lie beyond the best, or
the worst, known model, and how improbable the answers are under the fit. A few answers do not show
this of all such models. So the interval of a model that passes both checks contains the means that
the answers leave possible if it is unlike the known ones all the same
(`GuardedPosterior.compute_quantiles`).
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
from nevis_stream.dynamic_evaluation.method import Evaluator, Method, Prediction, ScorePredictor
from nevis_stream.dynamic_evaluation.policy import Key, Policy
from nevis_stream.dynamic_evaluation.predictors import model_assisted
from nevis_stream.dynamic_evaluation.predictors.item_response import ItemResponsePosterior
from nevis_stream.dynamic_evaluation.predictors.model_assisted import ModelAssisted
from nevis_stream.dynamic_evaluation.response import Items, PaddedAnswers, ResponsePosterior
from nevis_stream.experiments.methods.part_first import SCREENING, PartFirst, ScreeningPosterior
from nevis_stream.queries.matrix import Matrix
from nevis_stream.queries.oracle import ANY_MODEL, LIKE_KNOWN, Responses
from nevis_stream.queries.samples import fill_unknown, is_observed
from nevis_stream.storage.checkpoint import Tree

SURROGATE = ModelAssisted()
# A model counts as beyond the known ones if an end of their range of means is within this many of
# its claimed standard deviations from its mean, or passed. It is small, as the fit is pulled into
# the range: it finds most models beyond it, and takes one in ten of the others for such
# (docs/evidence/any-model.md).
REACH = 0.7
MAY_REACH = 1.96 * 1.5  # the same for models that may lie beyond, though they were not found
BEYOND = 1.5  # factor of the interval's width of these, if the values are scores
ROUNDING = 1e-6  # of a mean of float32 values
MISFIT = 0.75  # log Bayes factor against the fit above which answers are improbable under it
# What a misfit may be, as (guess, slip), with P(right) = guess + (1 - guess - slip) P(right under
# the fit): guess and 1 - slip are the asymptotes of item response models (Barton and Lord 1981).
# Answers are lost at random, or guessed among four or two, or both.
MISFITS = ((0.0, 0.4), (0.0, 0.55), (0.0, 0.25), (0.15, 0.6), (0.25, 0.75), (0.5, 0.5))
# the first is the fit itself, as probable beforehand as all misfits together
HYPOTHESES = np.array(((0.0, 0.0), *MISFITS), np.float32)
LOG_PRIOR = np.log([0.5, *[0.5 / len(MISFITS)] * len(MISFITS)])
ABILITIES, WIDE = 2048, 1.5  # number and standard deviation of the abilities of a new model
PART = 1024  # samples that are predicted at once for all abilities
# of the mean, which intervals are to contain: the outer two for models that may lie beyond the
# known ones, the inner two for others, whose calibrated interval is a 95% one already
QUANTILES = np.array([0.025, 0.1, 0.5, 0.9, 0.975])


class GuardedPosterior(ScreeningPosterior):
    """The guarded predictor's posterior, and what tells whether a model is like the known ones.

    Args:
      base: of the guarded predictor.
      surrogate: of the item response model behind the estimate for any model (`SURROGATE`).
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
        """Returns the moments of the surrogate."""
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
            logs, _ = self._compute_log_likelihoods(padded_answers, ctx)
            evidence = logsumexp(logs, axis=2)
            misfit = logsumexp(evidence[:, 1:], axis=1) - np.log(len(MISFITS)) - evidence[:, 0]
        return Screening(mean, deviation, misfit, noise, self.ends)

    def compute_quantiles(
        self, answers: Responses, screening: "Screening", ctx: Compute
    ) -> np.ndarray:
        """Returns the `QUANTILES` of the posterior of each model's mean, float64[5, m], under a
        wider prior: abilities may lie far from those of the known models, and answers may be one of
        the `MISFITS`.

        Args:
          answers: outcomes of m models.
          screening: of these answers.
          ctx: compiles, and counts FLOPs.
        """
        padded_answers = response.PaddedAnswers.of(answers, answers.samples.shape[1])
        logs, asked = self._compute_log_likelihoods(padded_answers, ctx)
        surrogate, weights = self.surrogate, self.surrogate.weights.astype(np.float64)
        total = np.asarray(
            ctx.jit(_compute_means)(surrogate.items, surrogate.weights, _make_abilities())
        )
        guess, slip = HYPOTHESES.T[:, :, None]
        found = []
        for model, samples in enumerate(answers.samples):
            weight = weights[samples]
            rest = guess * (1 - weight.sum()) + (1 - guess - slip) * (total - asked[model])
            means = (weight @ answers.values[model] + rest).ravel()
            order, chances = np.argsort(means), softmax(logs[model] + LOG_PRIOR[:, None]).ravel()
            found.append(np.interp(QUANTILES, np.cumsum(chances[order]), means[order]))
        quantiles = np.array(found).T
        median = quantiles[2]
        normal = ndtri(QUANTILES)[:, None]  # the outcomes differ from what is expected of them
        away = np.sign(normal) * np.hypot(quantiles - median, normal * screening.noise)
        return np.clip(median + away, 0, 1)

    def _compute_log_likelihoods(
        self, padded_answers: PaddedAnswers, ctx: Compute
    ) -> tuple[np.ndarray, np.ndarray]:
        weights = self.surrogate.weights
        found = ctx.jit(_compute_log_likelihoods)(
            self.surrogate.items, padded_answers, weights, _make_abilities()
        )
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
        """Returns which models lie, or may lie, beyond the known ones, bool[m]: an end of these'
        range is within `reach` claimed standard deviations of the mean, or passed; None: `REACH`.
        """
        return self._lies_above(reach) | self._lies_below(reach)

    def _lies_above(self, reach: float | None = None) -> np.ndarray:
        return self.mean + (REACH if reach is None else reach) * self.deviation > self.ends[1]

    def _lies_below(self, reach: float | None = None) -> np.ndarray:
        return self.mean - (REACH if reach is None else reach) * self.deviation < self.ends[0]

    def explain(self, model: int) -> str:
        """Returns in words why the estimate of a model, a row, is for any model, or is not."""
        for beyond, word in ((self._lies_above, "best"), (self._lies_below, "worst")):
            if beyond()[model]:
                return f"it may lie beyond the {word} known model, where the fit need not hold"
        if self.misfit[model] > MISFIT:
            return "its answers are improbable under the fit to the known models"
        return "it lies within the range of the known models"


class GuardedPredictor(ScorePredictor):
    """Predicts as another predictor; of models unlike the known ones, by an item response model
    whose mean is corrected by draws of known probabilities.

    Args:
      base: the other predictor.
      policy: the policy that asks for it: some draws first, then what its own policy asks.
    """

    takes_all = False
    needs_several = True

    def __init__(self, base: ScorePredictor, policy: PartFirst):
        self.base, self.policy = base, policy
        self.about = f"{base.about}; for models unlike the known ones, {SURROGATE.about}"
        self.takes_scores, self.gives = base.takes_scores, frozenset({SCREENING})

    def is_calibrated(self, policy: Policy) -> bool:
        """Returns what the other predictor says."""
        return self.base.is_calibrated(self.policy)

    def fit(self, known: Matrix, key: Key, ctx: Compute) -> Tree:
        """Fits the other predictor and an item response model."""
        surrogate, means = SURROGATE.fit(known, key, ctx), _compute_known_means(known)
        return {
            "base": self.base.fit(known, key, ctx),
            "surrogate": surrogate,
            "ends": [float(np.nanmin(means)), float(np.nanmax(means))],
        }

    def fit_budget(
        self, tree: Tree, known: Matrix, policy: Policy, budget: int, key: Key, ctx: Compute
    ) -> Tree:
        """Fits the other predictor."""
        base = self.base.fit_budget(tree["base"], known, self.policy, budget, key, ctx)
        calibration = {name: base[name] for name in ("errors", "unit") if name in base}
        if not calibration and not self.base.is_calibrated(self.policy):
            errors, unit = self._cross_validate_base(tree, base, known, budget, key, ctx)
            calibration = {"errors": errors, "unit": unit}
        return {"base": base, "budget": budget} | calibration

    def _cross_validate_base(
        self, tree: Tree, budget_fit: Tree, known: Matrix, budget: int, key: Key, ctx: Compute
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns the other predictor's cross-validation errors, float64[k], and their unit."""
        arguments = tree["base"], known, self.policy, budget, key, ctx
        if (errors := self.base.compute_errors(*arguments)) is not None:
            return errors, np.ones(len(errors))
        method = Method("", self.policy, self.base, cross_validated=True)
        inner = {"predictor": tree["base"], "policy": {}, "folds": tree.setdefault("folds", [])}
        return Evaluator(method, known, inner, key, ctx).cross_validate(budget_fit, budget)

    def make_posterior(self, tree: Tree, known: Matrix, ctx: Compute) -> GuardedPosterior:
        """Returns the posterior."""
        base = self.base.make_posterior(tree["base"], known, ctx)
        surrogate = SURROGATE.make_posterior(tree["surrogate"], known, ctx)
        least, greatest = tree["ends"]
        return GuardedPosterior(base, surrogate, (least, greatest))

    def predict(
        self, tree: Tree, budget_fit: Tree, known: Matrix, answers: Responses, ctx: Compute
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
            row, stages, decisive = answers.of(np.array([model])), [(0, first)], screening
            if switched[model]:
                start = first + int(drawn[model].argmax())
                stages.append((start, budget))
                decisive = posterior.screen(row.first(start), ctx)
            other = model_assisted.estimate(posterior.surrogate, weights, row, stages, ctx)[:, 0]
            own = mean[model], low[model], high[model]
            if switched[model]:
                mean[model], low[model], high[model] = other
            if not other[1] - ROUNDING <= own[0] <= other[2] + ROUNDING:
                others[:, model] = own if switched[model] else other
            note = decisive.explain(0 if switched[model] else model)
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
            quantiles = posterior.compute_quantiles(answers, screening, ctx)
            quantiles = np.where(switched, np.nan, quantiles)
            moved = np.where(outside, (quantiles[2] - mean) / 2, 0.0)
            mean, low, high = mean + moved, low + moved, high + moved
            within = np.where(outside, quantiles[[0, 4]], quantiles[[1, 3]])
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


def _compute_known_means(known: Matrix) -> np.ndarray:
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
def _make_abilities() -> np.ndarray:
    """Returns draws of abilities, float32[s, k], from their prior made wider, as a new model may be
    unlike the known ones.
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


def _predict_outcomes(
    items: Items, abilities: Float[jax.Array, "draws factors"]
) -> Float[jax.Array, "draws samples"]:
    """Returns P(right) of each sample for each ability."""
    extended = jnp.concatenate([jnp.ones((len(abilities), 1)), abilities], axis=1)
    second = (extended[:, :, None] * extended[:, None, :]).reshape(len(abilities), -1)
    variance = second @ items.covariance.reshape(len(items.mean), -1).T
    return jax.nn.sigmoid(response.moderate(extended @ items.mean.T, variance))


def _compute_log_likelihoods(
    items: Items,
    padded_answers: PaddedAnswers,
    weights: Float[jax.Array, " samples"],
    abilities: Float[jax.Array, "draws factors"],
) -> tuple[Float[jax.Array, "models hypotheses draws"], Float[jax.Array, "models draws"]]:
    """Returns the log likelihood of each model's answers under each of `HYPOTHESES` and each
    ability, and the weighted sum of the asked samples' values that the fit expects at each ability.
    """

    def of_one(one: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
        samples, values, mask = one
        p = _predict_outcomes(Items(items.mean[samples], items.covariance[samples]), abilities)

        def log_likelihood(hypothesis: jax.Array) -> jax.Array:
            guess, slip = hypothesis
            q = jnp.clip(guess + (1 - guess - slip) * p, 1e-3, 1 - 1e-3)
            return (values * jnp.log(q) + (1 - values) * jnp.log(1 - q)) @ mask

        logs = jnp.stack([log_likelihood(each) for each in jnp.asarray(HYPOTHESES)])
        return logs, p @ (weights[samples] * mask)

    return jax.lax.map(of_one, (padded_answers.samples, padded_answers.values, padded_answers.mask))


def _compute_means(
    items: Items,
    weights: Float[jax.Array, " samples"],
    abilities: Float[jax.Array, "draws factors"],
) -> Float[jax.Array, " draws"]:
    """Returns the weighted mean of all samples that is expected for each ability."""

    def of_part(part: tuple[jax.Array, ...]) -> jax.Array:
        return _predict_outcomes(Items(*part[:2]), abilities) @ part[2]

    filled = -len(weights) % PART
    padded = (
        jnp.pad(each, [(0, filled)] + [(0, 0)] * (each.ndim - 1)).reshape(-1, PART, *each.shape[1:])
        for each in (items.mean, items.covariance, weights)
    )
    return jax.lax.map(of_part, tuple(padded)).sum(axis=0)
