"""Comparisons of models by their values on the same samples.

On shared samples what is hard for both models cancels: the differences vary less than two means do.
What is known of all samples, such as how many known models are right, explains a part of the rest:
the mean of the differences is corrected by a regression on it (Cochran, Sampling Techniques,
chapter 7), which is unbiased but for a term of the order 1 / k.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, stdtrit

from nevis_stream.estimation.betting import compute_capital, compute_confidence_sequence

LEVEL = 0.95
FEWEST = 10  # shared samples, below which Student's interval of a difference is not computed
ENOUGH = 25  # shared samples for each covariate; with fewer a regression costs more than it gains
RIDGE = 2.0  # penalty of the slopes: as if they were 0 on so many further samples
GOALS = ("best", "order")


@dataclass(frozen=True)
class Difference:
    """How much better one model is than another, on average over all samples.

    Attributes:
      value: the difference of the means, from -1 to 1; NaN without a shared sample.
      low, high: its 95% interval.
      probability: that the first model is the better one, by the normal approximation; NaN without
        a shared sample.
      shared: number of samples with values of both.
    """

    value: float
    low: float
    high: float
    probability: float
    shared: int


def compare_pair(
    first: np.ndarray,
    second: np.ndarray,
    n: int,
    *,
    weights: np.ndarray | None = None,
    greatest_weight: float = 0.0,
    anytime: bool = False,
    covariates: np.ndarray | None = None,
) -> Difference:
    """Returns the difference of two models' means over n samples.

    Args:
      first, second: float64[k] in [0, 1], higher values better, on the same k samples, which were
        drawn one by one with equal probabilities and without replacement.
      n: number of samples.
      weights: float64[k], of these in the mean; all n add up to 1. None: 1 / n.
      greatest_weight: of all n; not used without weights.
      anytime: whether the interval is to hold at every number of samples at once, by betting;
        otherwise it is Student's t of the differences, with one more half sample of each outcome
        (Agresti and Min 2005) and the finite-population correction, for a k fixed beforehand.
      covariates: float64[k, q], the rows of `make_covariates` for these samples. The first k // 25
        columns are used; with `anytime` none.
    """
    differences, k = np.asarray(first, np.float64) - second, len(first)
    scale = np.ones(k) if weights is None else n * weights
    if not scale.any():
        return Difference(np.nan, -1.0, 1.0, np.nan, k)
    design = np.ones((k, 1))
    # with unequal weights, the number of equally weighted samples that tell as much (Kish 1965)
    number = float(scale.sum() ** 2 / (scale**2).sum())
    if covariates is not None and not anytime:
        design = np.column_stack([design, covariates[:, : int(number // ENOUGH)]])
    slopes = design.shape[1] - 1
    inverse = np.linalg.inv((design.T * scale) @ design + np.diag([0.0] + [RIDGE] * slopes))
    fitted = inverse @ (design.T @ (scale * differences))
    value = float(np.clip(fitted[0], -1, 1))
    # the two half samples keep the variance above 0 where no difference was seen
    terms = number * scale * (design @ inverse[0]) * (differences - design @ fitted)
    fpc = max(1 - k / n, 0)
    variance = fpc * float((terms**2).sum() + 1) / (number + 1 - slopes) / (number + 2)
    error = float(np.sqrt(variance))
    probability = float(ndtr(value / error)) if error else float(np.sign(value) / 2 + 0.5)
    if anytime:
        left = n - np.arange(k)
        residuals = None if weights is None else (np.zeros(k), left * greatest_weight)
        ends = compute_confidence_sequence(
            (differences + 1) / 2, n, weights=weights, residuals=residuals
        )
        low, high = (float(2 * end[-1] - 1) for end in ends)
        value = min(max(value, low), high)
    elif number < FEWEST and k < n:
        low, high = -1.0, 1.0
    else:
        half = float(stdtrit(max(number - 1 - slopes, 1), (1 + LEVEL) / 2)) * error
        low, high = max(value - half, -1.0), min(value + half, 1.0)
    return Difference(value, low, high, probability, k)


def make_covariates(
    means: np.ndarray, weights: np.ndarray, known: np.ndarray | None = None
) -> np.ndarray:
    """Returns what is known of n samples, float64[n, q], q from 0 to 3, those first that say most
    of a difference. Each column has the mean 0, with the weights, and the standard deviation 1.

    Args:
      means: float64[n] in [0, 1], of the known models' values of each sample.
      weights: float64[n], of the samples in the mean, adding up to 1.
      known: float64[n], the values of the known model that another one is compared with; None: it
        is new too.
    """
    given = [*([] if known is None else [known]), means, means * (1 - means)]
    away = np.stack(given) - np.stack(given) @ weights[:, None]
    deviations = np.sqrt(away**2 @ weights)
    varies = deviations > 1e-9
    return (away[varies] / deviations[varies, None]).T


@dataclass(frozen=True)
class Decisions:
    """What is decided about m models.

    Attributes:
      better: bool[m, m], whether the first model is better than the second.
      settled: bool[m], the models of which no more values are needed: for the best, those that
        another one beats, and the last one left; for the order, those that are better or worse
        than every other one.
    """

    better: np.ndarray
    settled: np.ndarray


def decide(
    values: np.ndarray,
    counts: np.ndarray,
    n: int,
    goal: str = "best",
    *,
    weights: np.ndarray | None = None,
    greatest_weight: float = 0.0,
    error: float = 1 - LEVEL,
) -> Decisions:
    """Decides which of m models is the best, or their order. That the best one is lost, or for the
    order that any pair is decided wrongly, has a probability of at most `error`, over all times.

    The best model is only lost if one of m - 1 others seems better than it, so each pair has the
    error `error` / (m - 1); for the order there are m (m - 1) / 2 pairs (Bonferroni). Each pair is
    decided by betting on the differences on the samples that both have answered.

    Args:
      values: float64[m, k] in [0, 1], higher values better, of the samples in the order in which
        they were drawn, the same for all models. NaN: without an answer; then any is possible.
      counts: int64[m], of how many of the first samples each model's values are known.
      n, weights, greatest_weight: as of `compare_pair`.
      goal: "best" or "order".
      error: the probability.
    """
    models = len(values)
    pairs = models - 1 if goal == "best" else models * (models - 1) // 2
    least, greatest = (np.where(np.isnan(values), end, values) for end in (0.0, 1.0))
    better = np.zeros((models, models), bool)
    for a in range(models):
        for b in np.delete(np.arange(models), a):
            if k := int(min(counts[a], counts[b])):
                differences = (least[a, :k] - greatest[b, :k] + 1) / 2
                own = None if weights is None else weights[:k]
                capital = compute_capital(
                    differences, n, 0.5, weights=own, greatest_weight=greatest_weight
                )
                better[a, b] = capital[-1] >= pairs / error
    if goal == "best":
        settled = better.any(axis=0)
        if (~settled).sum() <= 1:
            settled[:] = True
    else:
        settled = (better | better.T | np.eye(models, dtype=bool)).all(axis=1)
    return Decisions(better, settled)


def share_answers(answers: int, given: np.ndarray, settled: np.ndarray) -> int:
    """Returns how many answers each model that is not settled may give, if all models together may
    give `answers`: those that settled ones do not need are left to the others.

    Args:
      answers: of all models.
      given: int64[m], by each until now.
      settled: bool[m].
    """
    return (answers - int(given[settled].sum())) // max(int((~settled).sum()), 1)
