"""The difference estimator: unbiased means from predictions, corrected by stratified draws.

The samples that are left are cut into strata, and one sample of each is drawn at random. With
predictions f_{-h} of the values in stratum h that do not depend on what was drawn in h,

  T_h = Σ_{j in h} w_j f_{-h}(j) + w_i (z_i - f_{-h}(i)) / q_i

has the expectation Σ_{j in h} w_j z_j, whatever the values are and however wrong the predictions
(leave-one-out potential outcomes, Wu and Gagnon-Bartsch 2018). The predictions may be fitted to the
answers of all other strata. It is not enough to leave the answer out of its own prediction only:
then the other samples of the stratum are predicted with it, and the estimate is biased.

Stages follow each other: what was drawn is known to later stages, which may order and cut the
samples that are left by all answers, also by answers that were not drawn at random.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from nevis_stream.array_types import Float

PerSample = Float[np.ndarray, " samples"]

FITTED = 5  # degrees of freedom that the predictions take from the answers
PRIOR = 3.0  # answers: weight of the variance that the predictions claim, beside the observed one


@dataclass(frozen=True)
class Stage:
    """One sample from each of k strata.

    Attributes:
      stratum: int64[n], the stratum of each sample, -1 for those that were answered before.
      drawn: int64[k], the sample that was drawn in each stratum.
      probabilities: float64[k], the probability with which it was drawn in its stratum.
      predicted: float64[n], the prediction f_{-h}(j) of each sample's value; not used where
        `stratum` is -1.
    """

    stratum: np.ndarray
    drawn: np.ndarray
    probabilities: np.ndarray
    predicted: np.ndarray

    @property
    def left(self) -> int:
        """Number of samples without an answer before the draws."""
        return int((self.stratum >= 0).sum())

    @property
    def sizes(self) -> np.ndarray:
        """int64[k], the number of samples in each stratum."""
        return np.bincount(self.stratum[self.stratum >= 0], minlength=len(self.drawn))


def estimate_mean(stage: Stage, values: PerSample, weights: PerSample) -> float:
    """Returns the unbiased estimate of Σ w z from one stage.

    Args:
      stage: the draws.
      values: float64[n], z of the samples that were answered before or drawn; others are not used.
      weights: float64[n], w.
    """
    left = stage.stratum >= 0
    before = float(weights[~left] @ values[~left])
    return before + float(
        weights[left] @ stage.predicted[left] + _compute_errors(stage, values, weights).sum()
    )


def _compute_errors(
    stage: Stage, values: PerSample, weights: PerSample
) -> Float[np.ndarray, " strata"]:
    """Returns w (z - f) / q of the drawn samples, float64[k]."""
    drawn = stage.drawn
    return weights[drawn] * (values[drawn] - stage.predicted[drawn]) / stage.probabilities


def weight_stages(stages: Sequence[Stage]) -> np.ndarray:
    """Returns the weights of the stages' estimates, float64[stages], which add up to 1: by the
    inverse of the variance of a mean of k of the samples that are left.
    """
    left = np.array([stage.left for stage in stages], np.float64)
    drawn = np.array([len(stage.drawn) for stage in stages], np.float64)
    if (left == drawn).any():  # nothing is left to be estimated
        return (left == drawn) / (left == drawn).sum()
    weights = drawn / (left * (left - drawn))
    return weights / weights.sum()


def estimate(
    stages: Sequence[Stage],
    values: np.ndarray,
    weights: np.ndarray,
    *,
    outcomes: bool = False,
) -> tuple[float, float, float]:
    """Returns the estimate of Σ w z from all stages, and its 95% interval: value, low, high.

    Each stage's estimate is unbiased given the stages before it, so any fixed weights of them
    leave the sum unbiased, and their errors are uncorrelated. The variance is that of collapsed
    strata (Cochran, Sampling Techniques, section 5A.12), which is on average too large rather than
    too small; with outcomes it is drawn towards the one that the predictions claim, so that a few
    equal answers do not make it 0. Student's t allows for the answers that the fit has used: below
    20 answers the interval is wide. It never contains a mean that the answers exclude.

    A model that is right (or wrong) on all observed samples has an interval that contains the
    greatest (or least) mean that is possible.

    Args:
      stages: in their order; all answers given before the first one are known.
      values: float64[n] in [0, 1], z; NaN where there is no answer.
      weights: float64[n], w, adding up to 1.
      outcomes: whether all values are 0 or 1.
    """
    known = ~np.isnan(values)
    least = float(weights[known] @ values[known])
    most = least + float(weights[~known].sum())
    fractions = weight_stages(stages)
    means = [estimate_mean(stage, values, weights) for stage in stages]
    value = float(fractions @ means)
    if known.all():
        return least, least, least
    draws = sum(len(stage.drawn) for stage in stages)
    observed, claimed = 0.0, 0.0
    for fraction, stage in zip(fractions, stages, strict=True):
        seen, predicted = _compute_variances(stage, values, weights)
        observed, claimed = observed + fraction**2 * seen, claimed + fraction**2 * predicted
    prior = PRIOR if outcomes else 0.0
    variance = (draws * observed + prior * claimed) / (draws + prior)
    half = float(stdtrit(max(draws - FITTED, 1), 0.975) * np.sqrt(variance))
    low, high = np.clip([value - half, value + half], least, most).tolist()
    answers = values[known]
    if (answers == 1).all():
        low, high = min(low, _bound_mean(draws, least, most)), most
    elif (answers == 0).all():
        low, high = least, max(high, least + most - _bound_mean(draws, least, most))
    return value, min(low, value), max(high, value)


def _compute_variances(
    stage: Stage, values: np.ndarray, weights: np.ndarray
) -> tuple[float, float]:
    """Returns the variance of a stage's estimate as observed and, for outcomes, as the predictions
    claim it.
    """
    left, k = stage.stratum >= 0, len(stage.drawn)
    stratum, sizes = stage.stratum[left], stage.sizes
    total = np.bincount(stratum, weights[left], minlength=k)
    errors = _compute_errors(stage, values, weights)
    shift = errors.sum() / max(total.sum(), 1e-300)
    away, finite = errors - total * shift, 1 - 1 / np.maximum(sizes, 1)
    p = stage.predicted[left]
    noise = np.bincount(stratum, weights[left] * p * (1 - p), minlength=k)
    observed = k / max(k - 1, 1) * float(finite @ away**2)
    return observed, float(finite @ (total * noise))


def _bound_mean(draws: int, least: float, most: float) -> float:
    """Returns the smallest mean that is not refuted at 2.5% by `draws` answers that are all 1,
    as if they were drawn with replacement.
    """
    rate = 1 - 0.025 ** (1 / max(draws, 1))
    return most - rate * (most - least)


def cut(
    predicted: np.ndarray, weights: np.ndarray, strata: int, *, by_uncertainty: bool = False
) -> np.ndarray:
    """Returns the stratum of each of n samples, int64[n], from 0 to k - 1: neighbours in the order
    of the predictions, each stratum of about the same weight.

    Args:
      predicted: float64[n], expected values.
      weights: float64[n], of the samples in the mean.
      strata: k, at most n.
      by_uncertainty: whether strata are smaller where outcomes are uncertain: half of them are
        allotted by weight and half by weight times √(p (1 - p)) (Neyman's allotment).
    """
    n = len(predicted)
    order = np.argsort(predicted, kind="stable")
    density = weights / weights.sum()
    if by_uncertainty:
        spread = weights * np.sqrt(np.clip(predicted * (1 - predicted), 0, None))
        if spread.sum() > 0:
            density = (density + spread / spread.sum()) / 2
    middle = np.cumsum(density[order]) - density[order] / 2
    stratum = np.minimum((middle * strata).astype(np.int64), strata - 1)
    # none is empty: sample j has at least stratum k - (n - j), and strata follow without a gap
    stratum = fill_gaps(stratum, strata)
    result = np.empty(n, np.int64)
    result[order] = stratum
    return result


def fill_gaps(stratum: np.ndarray, strata: int) -> np.ndarray:
    """Returns an ascending sequence that takes every number from 0 to k - 1, near to this one."""
    n = len(stratum)
    # the first sample of each stratum: not before those of the strata below have one each
    first = np.searchsorted(stratum, np.arange(strata))
    first = np.maximum.accumulate(np.maximum(first - np.arange(strata), 0)) + np.arange(strata)
    first = np.minimum(first, n - strata + np.arange(strata))
    first[0] = 0
    return np.searchsorted(first, np.arange(n), side="right") - 1


def draw(
    stratum: np.ndarray, weights: np.ndarray, strata: int, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Returns one sample of each stratum, drawn in proportion to the weights, int64[k], and the
    probability of each, float64[k].

    Args:
      stratum: int64[n], -1 for samples that cannot be drawn.
      weights: float64[n].
      strata: k.
      random: draws.
    """
    drawn, chances = np.empty(strata, np.int64), np.empty(strata)
    numbers = random.random(strata)
    order = np.argsort(stratum, kind="stable")
    bounds = np.searchsorted(stratum[order], np.arange(strata + 1))
    for h in range(strata):
        members = order[bounds[h] : bounds[h + 1]]
        chance = weights[members] / weights[members].sum()
        place = min(
            int(np.searchsorted(np.cumsum(chance), numbers[h], side="right")), len(members) - 1
        )
        drawn[h], chances[h] = members[place], chance[place]
    return drawn, chances
