"""What rollouts show: the vote's risk by round and by label, and the early statistic z_T."""

import math
from dataclasses import dataclass

import numpy as np

from nevis_stream.dynamic_benchmarks.designs import Design, run_design
from nevis_stream.dynamic_benchmarks.minimisers import Scripted
from nevis_stream.dynamic_benchmarks.populations import Population, majority, risk


@dataclass(frozen=True)
class RiskCurve:
    """One rollout, after each of its T classifiers.

    Attributes:
      risks: float64[T], of the design's vote of what is finished; in a hierarchy, of the finished
        inner votes, NaN before the first.
      weighted: float64[T], the same where the classifiers' votes weigh log((1 - r) / r), r being
        their risk on what they were trained on; a path only, else NaN.
      labels: int64[T], samples collected so far: the errors that annotators found.
    """

    risks: np.ndarray
    weighted: np.ndarray
    labels: np.ndarray


def curve(errors: np.ndarray, design: Design) -> RiskCurve:
    """Returns the curve of a rollout.

    Args:
      errors: bool[T, n], where each classifier errs, in the order of training; uniform samples.
      design: of depth 1 or 2.
    """
    rounds, n = errors.shape
    uniform = np.full(n, 1 / n)
    if design.depth == 1:
        votes = [majority(errors[: count + 1]) for count in range(rounds)]
        mistakes = errors.sum(axis=1)
        labels = np.cumsum(mistakes) - mistakes  # what a classifier errs on is collected after it
        return RiskCurve(_risks(votes, uniform), _weighted(errors, design), labels)
    inner = [
        majority(errors[start : start + design.width]) for start in range(0, rounds, design.width)
    ]
    risks, labels, collected = np.full(rounds, math.nan), np.zeros(rounds, np.int64), 0
    for number in range(rounds):
        block, place = divmod(number, design.width)
        labels[number] = collected
        if place < design.width - 1:
            collected += int(errors[number].sum())
        else:
            risks[number] = risk(majority(inner[: block + 1]), uniform)
            collected += int(inner[block].sum())
    return RiskCurve(risks, np.full(rounds, math.nan), labels)


def _risks(votes: list[np.ndarray], distribution: np.ndarray) -> np.ndarray:
    return np.array([risk(vote, distribution) for vote in votes])


def _weighted(errors: np.ndarray, design: Design) -> np.ndarray:
    """Returns the risks of weighted votes: the design is run again to know what was trained on."""
    rounds, n = errors.shape
    script = Scripted({(number,): row for number, row in enumerate(errors)})
    trained_on = run_design(Population.uniform(n), script, design).trained_on
    fit = np.array([risk(errors[number], trained_on[(number,)]) for number in range(rounds)])
    fit = np.clip(fit, 0.5 / n, 0.5 - 1e-9)
    weights = np.log((1 - fit) / fit)
    votes = [majority(errors[: count + 1], weights[: count + 1]) for count in range(rounds)]
    return _risks(votes, np.full(n, 1 / n))


def z_statistic(errors: np.ndarray, first: int) -> float:
    """Returns z_T of the first T classifiers: of the samples on which two of them err, the share
    on which the vote of all T errs too, averaged over ordered pairs; pairs without a common error
    are left out, and NaN if there is no other.

    The text does not say of which round the vote is; "measured early" suggests the vote of the T.
    Here the vote errs if more than half of them do: with ties as errors z_4 would always be 1.

    Args:
      errors: bool[T', n], T' of at least `first`.
      first: T.

    Source: Appendix B.2.
    """
    members = errors[:first].astype(float)
    vote = members.sum(axis=0) > first / 2
    common = members @ members.T
    shared = (members * vote) @ members.T
    apart = ~np.eye(first, dtype=bool) & (common > 0)
    return float((shared[apart] / common[apart]).mean()) if apart.any() else math.nan


def risk_at(curve: RiskCurve, labels: int) -> float:
    """Returns the risk of the last vote that a number of labels allowed; NaN without one."""
    affordable = np.flatnonzero(np.isfinite(curve.risks) & (curve.labels <= labels))
    return float(curve.risks[affordable[-1]]) if len(affordable) else math.nan


@dataclass(frozen=True)
class Correlation:
    """Pearson's r with its 95% interval (Fisher's z) and two-sided p; NaN for n < 4."""

    r: float
    low: float
    high: float
    p: float
    n: int


def correlation(x: np.ndarray, y: np.ndarray) -> Correlation:
    """Returns the correlation of two samples; pairs with a NaN are left out.

    >>> correlation(np.arange(5.0), np.arange(5.0) ** 2).n
    5
    """
    from scipy.stats import pearsonr

    known = np.isfinite(x) & np.isfinite(y)
    x, y = x[known], y[known]
    if len(x) < 4 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return Correlation(math.nan, math.nan, math.nan, math.nan, len(x))
    fit = pearsonr(x, y)
    interval = fit.confidence_interval(0.95)
    return Correlation(
        float(fit.statistic), float(interval.low), float(interval.high), float(fit.pvalue), len(x)
    )


@dataclass(frozen=True)
class MeanInterval:
    """A mean with its 95% interval (Student's t) and sample standard deviation; NaN for n < 2."""

    mean: float
    low: float
    high: float
    std: float
    n: int


def mean(values: np.ndarray) -> MeanInterval:
    """Returns the mean of the values that are not NaN."""
    from scipy.stats import t

    known = np.asarray(values, float)[np.isfinite(values)]
    n = len(known)
    if n < 2:
        return MeanInterval(float(known.mean()) if n else math.nan, math.nan, math.nan, math.nan, n)
    std = float(known.std(ddof=1))
    half = float(t.ppf(0.975, n - 1)) * std / math.sqrt(n)
    middle = float(known.mean())
    return MeanInterval(middle, middle - half, middle + half, std, n)
