"""95% intervals of weighted sums of unbiased estimates: normal ones, and what is said where too few
labels or too few mistakes support those.
"""

import numpy as np
from scipy.special import stdtrit
from scipy.stats import beta

from nevis_stream.active_testing.evidence import Evidence
from nevis_stream.dynamic_evaluation.asking import Estimate

FEWEST = 40  # labels; with 20, rare large losses are often not among them yet: 75% were covered
FEWEST_MISTAKES = 10  # with fewer, those that have not been drawn yet decide
NO_SPREAD = "all labels so far say the same, so the spread is unknown"
_WIDENING = 8.0  # labels; see `widened`
_ROUNDING = 1e-12  # relative error of sums of losses


def with_interval(evidence: Evidence, weights: np.ndarray, steps: np.ndarray) -> Estimate:
    """Returns Σ a_m θ_m with its 95% interval, see `of_few_mistakes` where mistakes are rare.

    If the weights are worth fewer than `FEWEST` equal ones, the interval contains every risk that
    the labels so far leave possible. Otherwise the variance is M / (M - 1) Σ a_m² (θ_m - θ)², which
    estimates the sum of the conditional variances (martingale central limit theorem; Zrnic and
    Candès 2024, section 5). The quantile is Student's, with the degrees of freedom that the spread
    of the summands supports (Satterthwaite): 2 / (Σ s² / (Σ s)² - 1/M) for summands s, which is M
    for normal errors and small if few draws carry the variance. The interval is `widened`.

    Args:
      evidence: labels that were drawn at random.
      weights, steps: a_m and θ_m, float64[M].
    """
    value, count = float(weights @ steps), evidence.asked
    cost = evidence.cost
    if count < FEWEST:
        reason = f"an interval needs at least {FEWEST} labels; there are {count}"
        return Estimate(value, reason=reason, asked=count, cost=cost)
    if mistakes(evidence) < FEWEST_MISTAKES:
        return of_few_mistakes(evidence, value)
    effective = 1 / (weights**2).sum()  # of M equal weights: M
    if round(effective) < FEWEST:  # a small pool, nearly all labelled: a few draws carry the weight
        return bounded(evidence, value, -np.inf, np.inf)
    squares = (weights * (steps - value)) ** 2
    total = squares.sum()
    if total <= 1e-24 * max(value**2, 1e-12):
        return Estimate(value, reason=NO_SPREAD, asked=count, cost=cost)
    kurtosis = (squares**2).sum() / total**2 - 1 / count
    freedom = float(np.clip(2 / max(kurtosis, 1e-12), 1, count - 1))
    half = widened(stdtrit(freedom, 0.975) * np.sqrt(total * count / (count - 1)), effective)
    return bounded(evidence, value, value - half, value + half)


def mistakes(evidence: Evidence) -> float:
    """Returns on how many labelled samples the model was wrong: its loss is not the least that it
    could have there. Of an error rate, the right answers count if those are fewer. Of the
    difference of two models: how many differences of equal size the observed ones are worth,
    (Σ |L|)² / Σ L². For error rates that is the number of samples on which one alone is right.
    """
    losses, possible = evidence.losses, evidence.pool.losses[evidence.samples]
    if possible.min() < 0:
        return float(abs(losses).sum() ** 2 / max((losses**2).sum(), 1e-300))
    wrong = int((losses > possible.min(axis=1)).sum())
    return min(wrong, evidence.asked - wrong) if evidence.pool.binary else wrong


def of_few_mistakes(evidence: Evidence, value: float) -> Estimate:
    """Returns an estimate from labels with too few mistakes for a normal interval: neither their
    spread nor the surrogate's says anything about mistakes that are not expected and not drawn yet.

    The interval of an error rate is then conservative. If every sample is drawn with at least u
    times a uniform draw's probability, k errors among M labels leave the rate below Clopper and
    Pearson's bound over u; u is the least of the draws so far. That of another loss contains every
    risk that the labels leave possible.
    """
    if not evidence.pool.binary:
        return bounded(evidence, value, -np.inf, np.inf)
    few, count = mistakes(evidence), evidence.asked
    least = float((evidence.probabilities * evidence.left).min())
    most = float(beta.ppf(0.975, few + 1, count - few)) / least
    if evidence.losses.mean() <= 0.5:
        return bounded(evidence, value, -np.inf, max(most, value))
    return bounded(evidence, value, min(1 - most, value), np.inf)


def widened(half: float, asked: float) -> float:
    """Returns a half width times 1 + 8 / M, for M equally weighted labels.

    Samples with rare, large losses are less often among the first labels than the central limit
    theorem assumes: nearly all intervals that miss the risk are below it. The factor was chosen on
    repetitions that the reported coverage does not contain (benchmarks.label_coverage). Corrections
    by the skewness of the summands (Johnson 1978, Hall 1992) were not better.
    """
    return half * (1 + _WIDENING / asked)


def bounded(evidence: Evidence, value: float, low: float, high: float) -> Estimate:
    """Returns an estimate whose interval contains no risk that the pool and the labels so far make
    impossible. The value stays as it is: clipping it would bias it.
    """
    pool = evidence.pool
    unknown = np.ones(pool.n, bool)
    unknown[evidence.samples] = False
    known, losses = evidence.losses.sum(), pool.losses[unknown]
    least, most = (
        (known + each.sum()) / pool.n for each in (losses.min(axis=1), losses.max(axis=1))
    )
    slack = _ROUNDING * max(abs(least), abs(most))  # the risk itself may be one of the two
    least, most = least - slack, most + slack
    return Estimate(
        value,
        float(np.clip(low, least, most)),
        float(np.clip(high, least, most)),
        asked=evidence.asked,
        cost=evidence.cost,
    )
