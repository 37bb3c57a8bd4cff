"""What rollouts show: the vote's risk by round and by label, and the early statistic z_T."""

import itertools
import math
from dataclasses import dataclass

import numpy as np

from nevis_stream.experiments.rollouts.training import UNKNOWN
from nevis_stream.experiments.theory.designs import Design, Outcome, Place, Scripted, run_design
from nevis_stream.experiments.theory.populations import Population, compute_risk, vote_by_majority


@dataclass(frozen=True)
class RiskCurve:
    """One rollout, after each of its T classifiers.

    Attributes:
      risks: float64[T], of the vote of the finished members of the design, which are classifiers
        in a path and votes in a hierarchy; NaN where no further member was finished.
      weighted: float64[T], the same where the classifiers' votes weigh log((1 - r) / r), r being
        their risk on what they were trained on; a path only, else NaN.
      members: int64[T], the number of finished members.
      labels: int64[T], samples collected so far: the errors that annotators found.
    """

    risks: np.ndarray
    weighted: np.ndarray
    members: np.ndarray
    labels: np.ndarray


def compute_curve(errors: np.ndarray, design: Design) -> RiskCurve:
    """Returns the curve of a rollout.

    Args:
      errors: bool[T, n], where each classifier errs, in the order of training; uniform samples.
      design: of depth 1 or more.
    """
    rounds, n = errors.shape
    places = list(itertools.product(range(design.width), repeat=design.depth))
    script = Scripted(dict(zip(places, errors, strict=True)))
    outcome = run_design(Population.uniform(n), script, design)
    each = design.width ** (design.depth - 1)  # classifiers of a member
    members = np.arange(1, rounds + 1) // each
    risks, weighted = np.full((2, rounds), math.nan)
    labels = np.zeros(rounds, np.int64)
    weights = np.log(1 / _fit_risks(outcome, places, n) - 1)
    for number in range(each - 1, rounds, each):
        votes = [outcome.errors[(member,)] for member in range(members[number])]
        risks[number] = vote_by_majority(votes).mean()
        if design.depth == 1:
            weighted[number] = vote_by_majority(votes, weights[: number + 1]).mean()
    for number, place in enumerate(places[:-1]):
        # after the last classifier of a vote, what is collected are the errors of the vote
        while place[-1] == design.width - 1:
            place = place[:-1]
        labels[number + 1] = labels[number] + outcome.errors[place].sum()
    return RiskCurve(risks, weighted, members, labels)


def _fit_risks(outcome: Outcome, places: list[Place], n: int) -> np.ndarray:
    """Returns each classifier's risk on what it was trained on, float64[T] between 0 and 1/2."""
    fit = [compute_risk(outcome.errors[place], outcome.trained_on[place]) for place in places]
    return np.clip(fit, 0.5 / n, 0.5 - 1e-9)


def vote_by_plurality(predicted: np.ndarray) -> np.ndarray:
    """Returns the class that most members predict, int[n]; of classes with equally many votes that
    of the earliest member. UNKNOWN where a member's is.

    Args:
      predicted: int[k, n].

    >>> vote_by_plurality(np.array([[2, 0], [1, 1], [1, 2]])).tolist()
    [1, 0]
    """
    votes = (predicted[:, None] == predicted).sum(axis=1)
    chosen = np.take_along_axis(predicted, votes.argmax(axis=0)[None], axis=0)[0]
    return np.where((predicted == UNKNOWN).any(axis=0), UNKNOWN, chosen)


def compute_plurality_risks(
    predicted: np.ndarray, labels: np.ndarray, design: Design
) -> np.ndarray:
    """Returns the risk of a vote on classes after each classifier, float64[T]: as
    `RiskCurve.risks`, but a vote predicts the class of `vote_by_plurality`. NaN where a class is
    UNKNOWN.

    Args:
      predicted: int[T, n], of a rollout, in the order of training.
      labels: int[n].
      design: of depth 1 or more.
    """
    members, risks = predicted, np.full(len(predicted), math.nan)
    for _ in range(design.depth - 1):
        blocks = members.reshape(-1, design.width, members.shape[-1])
        members = np.stack([vote_by_plurality(block) for block in blocks])
    each = len(predicted) // len(members)  # classifiers of a member
    for number in range(1, len(members) + 1):
        vote = vote_by_plurality(members[:number])
        if UNKNOWN not in vote:
            risks[number * each - 1] = (vote != labels).mean()
    return risks


def compute_z(errors: np.ndarray, first: int) -> float:
    """Returns z_T of the first T classifiers: of the samples on which two of them err, the fraction
    on which the vote of all T errs too, averaged over ordered pairs; pairs without a common error
    are left out, and NaN if there is no other.

    The text does not say of which round the vote is; "measured early" suggests the vote of the T.
    Here the vote errs if more than half of them do: with ties as errors z_4 would always be 1. The
    paper's vote is on classes: `compute_plurality_z`.

    Args:
      errors: bool[T', n], T' of at least `first`.
      first: T.

    Source: Appendix B.2.
    """
    return _fraction_of_common_errors(errors[:first], errors[:first].sum(axis=0) > first / 2)


def compute_plurality_z(predicted: np.ndarray, labels: np.ndarray, first: int) -> float:
    """Returns z_T as `compute_z`, where the vote predicts the class of `vote_by_plurality`: four
    members err together also if two agree on a wrong class and the others do not agree. NaN where a
    class is UNKNOWN.

    Args:
      predicted: int[T', n], T' of at least `first`.
      labels: int[n].
      first: T.
    """
    vote = vote_by_plurality(predicted[:first])
    if UNKNOWN in vote:
        return math.nan
    return _fraction_of_common_errors(predicted[:first] != labels, vote != labels)


def _fraction_of_common_errors(errors: np.ndarray, vote: np.ndarray) -> float:
    members = errors.astype(float)
    common = members @ members.T
    shared = (members * vote) @ members.T
    apart = ~np.eye(len(members), dtype=bool) & (common > 0)
    return float((shared[apart] / common[apart]).mean()) if apart.any() else math.nan


def find_risk(curve: RiskCurve, labels: int) -> float:
    """Returns the risk of the last vote that a number of labels allowed; NaN without one.

    Only votes of an odd number of members count: ties are errors, so the others are worse than the
    votes before and after them.
    """
    votes = np.isfinite(curve.risks) & (curve.members % 2 == 1)
    affordable = np.flatnonzero(votes & (curve.labels <= labels))
    return float(curve.risks[affordable[-1]]) if len(affordable) else math.nan


@dataclass(frozen=True)
class Correlation:
    """Pearson's r with its 95% interval (Fisher's z) and two-sided p; NaN for n < 4."""

    r: float
    low: float
    high: float
    p: float
    n: int


def correlate(x: np.ndarray, y: np.ndarray) -> Correlation:
    """Returns the correlation of two samples; pairs with a NaN are left out.

    >>> correlate(np.arange(5.0), np.arange(5.0) ** 2).n
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


def average_known(values: np.ndarray) -> MeanInterval:
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
