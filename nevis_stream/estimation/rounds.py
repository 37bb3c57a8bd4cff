"""Unbiased means from rounds of draws with known probabilities, corrected by predictions, and an
interval that trusts only the draws.

A round cuts the samples that are left into strata: neighbours in the order of their expected values
that have the same total size. One sample is drawn in each, with a probability π in proportion to
its size. With predictions f of a stratum's values that do not depend on what was drawn in it,

  Σ_j w_j f_j + w_i (z_i - f_i) / π_i   (j: the samples of the stratum, i: the one that was drawn)

has the expectation Σ_j w_j z_j, whatever the values are and however wrong the predictions
(leave-one-out potential outcomes, Wu and Gagnon-Bartsch 2018). Together with the answers from
before the round this is an exactly unbiased estimate of the mean, given all before; the rounds are
weighted by their numbers of draws, which are fixed beforehand, and this mean U stays unbiased.

The variance is Σ (1 - π) (w (z - f) / π)² about zero. Where few draws hold an answer of the rarer
kind it is too small; two further residuals, one of a right and one of a wrong answer at the mean,
mend that. Student's t quantile allows for what the predictions have used of the answers.

A model mean B of the same answers may be wrong for a model unlike the known ones, so it is clipped
to U ± `CLIP` standard errors: then its worst mean error is 1.24 times that of U, whatever B does
(limited translation: Efron and Morris 1971; Green and Strawderman 1991). The interval stays U's.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from nevis_stream.array_types import Float, Int
from nevis_stream.estimation.difference import fill_gaps

CLIP = 0.7
PSEUDO = 2  # residuals that are added
FITTED = 3  # degrees of freedom that the predictions take from the answers
LEVEL = 0.975

PerSample = Float[np.ndarray, " samples"]
PerDraw = Float[np.ndarray, " draws"]


@dataclass(frozen=True)
class Strata:
    """The samples that are left, cut into strata.

    Attributes:
      stratum: int64[n], that of each sample, -1 for one that was answered before.
      chances: float64[n], the probability with which a sample is drawn in its stratum; 0 for one
        that was answered before.
    """

    stratum: np.ndarray
    chances: np.ndarray

    def draw(
        self, random: np.random.Generator
    ) -> tuple[Int[np.ndarray, " draws"], Float[np.ndarray, " draws"]]:
        """Returns the sample that is drawn in each stratum, and its probability."""
        left = np.flatnonzero(self.stratum >= 0)
        order = left[np.argsort(self.stratum[left], kind="stable")]
        ends = np.cumsum(np.bincount(self.stratum[left]))
        numbers, samples = random.random(len(ends)), np.empty(len(ends), np.int64)
        for h, (start, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
            total = np.cumsum(self.chances[order[start:end]])
            place = np.searchsorted(total, numbers[h] * total[-1], side="right")
            samples[h] = order[start + min(int(place), len(total) - 1)]
        return samples, self.chances[samples]


def cut(
    expected: PerSample,
    sizes: PerSample,
    left: np.ndarray,
    count: int,
    ties: Int[np.ndarray, " samples"],
) -> Strata:
    """Returns strata of neighbours in the order of the expected values, of equal total size.

    Args:
      expected: float64[n].
      sizes: float64[n], above 0; one that is larger than a stratum is cut to it.
      left: bool[n], the samples without an answer.
      count: number of strata, at most that of the samples that are left.
      ties: int64[n], the order of samples of which the same is expected.
    """
    columns = np.flatnonzero(left)
    order = columns[np.lexsort((ties[columns], expected[columns]))]
    size = limit_sizes(sizes[order], count)
    middle = np.cumsum(size) - size / 2
    label = np.minimum((middle * (count / size.sum())).astype(np.int64), count - 1)
    label = fill_gaps(label, count)
    stratum, chances = np.full(len(left), -1), np.zeros(len(left))
    stratum[order] = label
    chances[order] = size / np.bincount(label, size)[label]
    return Strata(stratum, chances)


def limit_sizes(sizes: PerSample, count: int) -> PerSample:
    """Returns sizes of which none exceeds a fraction 1 / count of their sum, the others unchanged;
    there are at least `count`.
    """
    ordered = -np.sort(-sizes)
    rest = np.cumsum(ordered[::-1])[::-1][:count]  # the sum of all but the i largest
    limits = rest / (count - np.arange(count))
    return np.minimum(sizes, limits[np.argmax(ordered[:count] <= limits * (1 + 1e-12))])


@dataclass(frozen=True)
class Round:
    """What one round of draws says of the mean.

    Attributes:
      draws: their number.
      mean: the unbiased estimate.
      variance: of the draws' residuals about zero.
    """

    draws: int
    mean: float
    variance: float


def estimate_round(
    strata: Strata,
    drawn: Int[np.ndarray, " draws"],
    predicted: PerSample,
    values: PerSample,
    weights: PerSample,
) -> Round:
    """Returns the unbiased estimate of Σ w z from one round.

    Args:
      strata: of the round.
      drawn: int64, the sample of each stratum.
      predicted: float64[n], f of each sample that is in a stratum, without the draw of its stratum.
      values: float64[n], z of the samples that were answered before or drawn; others are not used.
      weights: float64[n], w, adding up to 1.
    """
    inside, chances = strata.stratum >= 0, strata.chances[drawn]
    residuals = weights[drawn] * (values[drawn] - predicted[drawn]) / chances
    before = weights[~inside] @ values[~inside]
    mean = before + weights[inside] @ predicted[inside] + residuals.sum()
    return Round(len(drawn), float(mean), float(((1 - chances) * residuals**2).sum()))


@dataclass(frozen=True)
class RoundsMean:
    """A mean and its 95% interval.

    Attributes:
      value: the mean that is stated: the model mean, clipped to the unbiased one.
      low, high: the interval of the unbiased one.
      unbiased, deviation: the unbiased mean and its standard error.
    """

    value: float
    low: float
    high: float
    unbiased: float
    deviation: float


def estimate(
    rounds: Sequence[Round], model_mean: float, values: PerSample, weights: PerSample
) -> RoundsMean:
    """Returns the mean of all rounds, moved towards a model mean, with its interval.

    Args:
      rounds: at least one, in their order.
      model_mean: B, from the same answers.
      values: float64[n] in [0, 1], z; NaN where there is no answer.
      weights: float64[n], w, adding up to 1.
    """
    known = ~np.isnan(values)
    least = float(weights[known] @ values[known])
    rest = float(weights[~known].sum())
    if known.all():
        return RoundsMean(least, least, least, least, 0.0)
    counts = np.array([each.draws for each in rounds], np.float64)
    draws = counts.sum()
    unbiased = float(counts @ [each.mean for each in rounds] / draws)
    variance = float(counts**2 @ [each.variance for each in rounds] / draws**2)
    p = min(max(unbiased, 0.0), 1.0)
    pseudo = rest * ((1 - p) ** 2 + p**2) / draws**2
    half = float(stdtrit(max(draws - FITTED, FITTED), LEVEL)) * np.sqrt(
        (variance + pseudo) * draws / (draws + PSEUDO)
    )
    most, deviation = least + rest, float(np.sqrt(variance))
    clipped = np.clip(model_mean, unbiased - CLIP * deviation, unbiased + CLIP * deviation)
    value = float(np.clip(clipped, least, most))
    low, high = np.clip([unbiased - half, unbiased + half], least, most).tolist()
    return RoundsMean(value, min(low, value), max(high, value), unbiased, deviation)
