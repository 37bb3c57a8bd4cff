"""A method's estimates of new models: every cell, each model's mean with its interval, and means by
data set and by group of samples; of values of which lower ones are better; and of the population
that the samples are drawn from.

*Lower values.* Methods see 1 minus each value. In a few places they take a large value for a good
one (a grid on the order of the samples, ties), so the errors and the accuracies of the same models
would give different estimates. Turned round, both give the same.

*Population.* An interval of the mean over these samples shrinks to nothing when all of them are
answered. As an estimate of the mean over the population, such as all questions of this kind, the
samples' own choice at random is a second, independent source of error: its variance is that of the
mean of all samples, σ² Σ w² (σ²/n with equal weights), and the two intervals are put together on
each side as the root of the sum of squares (Zou and Donner 2008, Statistics in Medicine 27).
Samples that came in clusters, such as the questions on one text, were not drawn one by one: the
variance is then that of the clusters' totals, with Student's t of one degree less than there are
clusters (Cochran, Sampling Techniques, section 9A.5; Miller 2024, arXiv 2411.00640).
"""

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import stdtrit

from nevis_stream.array_types import Bool, Float, Int, UInt8
from nevis_stream.errors import BadInput, unknown
from nevis_stream.estimation import intervals
from nevis_stream.queries.board import Board
from nevis_stream.queries.matrix import Matrix, TurnedMatrix, turn
from nevis_stream.queries.oracle import (
    NOBODY,
    NOT_STATED,
    Cost,
    Estimate,
    Oracle,
    Query,
    Responses,
)
from nevis_stream.queries.oracle import SAMPLES as THESE_SAMPLES
from nevis_stream.queries.samples import (
    Part,
    SampleFacts,
    bound_means,
    fill_unknown,
    is_observed,
    make_unknown_cells,
)
from nevis_stream.vocabulary import POPULATIONS, SAMPLES, SUPERPOPULATION


@dataclass(frozen=True)
class Estimates:
    """A method's estimates of m new models on n samples.

    Attributes:
      values: float32[m, n], the expected value of each cell: P(right), or the score; for an asked
        cell, the answer.
      answers: the asked cells, their values and their cost.
      accuracy: float64[m], the (weighted) mean over all n samples; may differ from that of
        `values`.
      low, high: float64[m], 95% interval of the accuracy; NaN if there is none.
      reason: why there is no interval; empty if there is one.
      cost: of asking and of computing all this, including a fit that was made for it.
      holds_for: for whom each interval holds, m texts (see `oracle.Estimate`).
      notes: for people, on each estimate, m texts.
      others: float64[3, m], value, low and high of the estimates that hold for other new models
        (see `oracle.Estimate`), NaN where there is none; or None.
    """

    values: np.ndarray
    answers: Responses
    accuracy: np.ndarray
    low: np.ndarray
    high: np.ndarray
    reason: str = ""
    cost: Cost = Cost()
    holds_for: Sequence[str] = ()
    notes: Sequence[str] = ()
    others: np.ndarray | None = None

    @property
    def outcomes(self) -> np.ndarray:
        """uint8[m, n], predicted outcomes: 1 for an expected value of at least 0.5."""
        return (self.values >= 0.5).astype(np.uint8)

    @property
    def observed(self) -> np.ndarray:
        """bool[m, n], which cells were asked."""
        asked = np.zeros(self.values.shape, bool)
        np.put_along_axis(asked, self.answers.samples, True, axis=1)
        return asked

    def __len__(self) -> int:
        """Number of models."""
        return len(self.accuracy)

    def __iter__(self) -> Iterator[Estimate]:
        """Yields the estimate of each model."""
        return (self[model] for model in range(len(self)))

    def __getitem__(self, model: int) -> Estimate:
        """Returns the estimate of one model's mean; its cost is that of all models together."""
        asked = self.answers.samples.shape[1]
        value, low, high = (float(each[model]) for each in (self.accuracy, self.low, self.high))
        holds_for = self.holds_for[model] if self.holds_for else NOT_STATED
        note = self.notes[model] if self.notes else ""
        reason = self.reason if np.isnan(low) else ""
        others = np.full(3, np.nan) if self.others is None else self.others[:, model]
        other = None if np.isnan(others[0]) else tuple(others.tolist())
        return Estimate(
            value, low, high, reason, asked, self.cost, holds_for=holds_for, note=note, other=other
        )


@dataclass(frozen=True)
class SampleGroup:
    """A data set, or a group of samples in it.

    Attributes:
      dataset: name of the data set; "" if it is unknown.
      group: name of the group; "" for all samples of the data set.
      samples: number of samples.
      low, high: the range of their scores.
      lower: whether lower values are better.
      means: float64[m], each model's mean over the known samples, in that range; NaN if no sample
        is known.
    """

    dataset: str
    group: str
    samples: int
    low: float
    high: float
    lower: bool
    means: np.ndarray

    @property
    def mean(self) -> float:
        """The mean over models; NaN if no sample is known."""
        return float(np.nanmean(self.means)) if np.isfinite(self.means).any() else float("nan")


def compute_group_means(facts: SampleFacts, values: np.ndarray) -> list[SampleGroup]:
    """Returns the means of each data set, each followed by those of its groups; [] if the samples
    have neither.

    Args:
      facts: about n samples.
      values: [m, n] of outcomes or of scores in [0, 1], which may be unknown.
    """
    if facts.dataset is None and facts.group is None:
        return []
    unnamed = np.full(facts.n, "")
    datasets, groups = (
        unnamed if names is None else names for names in (facts.dataset, facts.group)
    )
    values = np.where(is_observed(values), values, np.nan)
    means = []
    for dataset in dict.fromkeys(datasets.tolist()):
        members = datasets == dataset
        means.append(_summarise_group(facts, values, members, dataset, ""))
        for group in dict.fromkeys(groups[members].tolist()):
            if group:
                means.append(
                    _summarise_group(facts, values, members & (groups == group), dataset, group)
                )
    return means


def _summarise_group(
    facts: SampleFacts,
    values: Float[np.ndarray, "models samples"],
    members: Bool[np.ndarray, " samples"],
    dataset: str,
    group: str,
) -> SampleGroup:
    low, high = (
        np.full(facts.n, default) if ends is None else ends
        for ends, default in ((facts.low, 0.0), (facts.high, 1.0))
    )
    ranges = set(zip(low[members].tolist(), high[members].tolist(), strict=True))
    first, last = ranges.pop() if len(ranges) == 1 else (0.0, 1.0)  # mixed ranges stay scaled
    part = values[:, members].astype(np.float64)
    known = ~np.isnan(part)
    means = np.divide(
        np.where(known, part, 0).sum(axis=1),
        known.sum(axis=1),
        out=np.full(len(part), np.nan),
        where=known.any(axis=1),
    )
    lower = facts.lower is not None and bool(facts.lower[members].all())
    means = first + means * (last - first)
    return SampleGroup(dataset, group, int(members.sum()), first, last, lower, means)


def is_lower(known: Matrix) -> bool:
    """Returns whether lower values of all samples are better."""
    lower = known.facts.lower
    return lower is not None and bool(lower.all())


def turn_upright(known: Matrix) -> Matrix:
    """Returns known models of whose values higher ones are better."""
    return TurnedMatrix(known) if is_lower(known) else known


def turn_oracle(oracle: Oracle) -> Oracle:
    """Returns an `Oracle` that answers 1 minus each value."""

    def answer_turned(query: Query) -> Responses:
        answers = oracle(query)
        return dataclasses.replace(answers, values=turn(np.asarray(answers.values)))

    return answer_turned


def turn_estimates(estimates: Estimates) -> Estimates:
    """Returns the estimates of values from those of 1 minus each."""
    answers = estimates.answers
    return dataclasses.replace(
        estimates,
        values=1 - estimates.values,
        answers=dataclasses.replace(answers, values=turn(answers.values)),
        accuracy=1 - estimates.accuracy,
        low=1 - estimates.high,
        high=1 - estimates.low,
        others=None if estimates.others is None else 1 - estimates.others[[0, 2, 1]],
    )


_ROWS = 256  # known models that are read together
PerSample = Float[np.ndarray, " samples"]
SampleValues = UInt8[np.ndarray, " samples"] | PerSample

ClustersGiven = str | Sequence[Any] | np.ndarray | None
"""A column of the samples' facts, or the cluster of each sample in their order."""


@dataclass(frozen=True)
class Population:
    """What samples are drawn from, if their mean is not what is asked for.

    Attributes:
      cluster: int64[n], the cluster of each sample, from 0; None: each was drawn on its own.
      name: of the clusters, for people; "" without clusters.
    """

    cluster: np.ndarray | None = None
    name: str = ""

    def __str__(self) -> str:
        """Returns whom the mean is of, in words."""
        if self.cluster is None:
            return "the population of these samples"
        count = len(np.unique(self.cluster))
        return f"the population of these samples, drawn as {count:,} clusters ({self.name})"


def read_population(
    board: Board, population: str = SAMPLES, clusters: ClustersGiven = None
) -> Population | None:
    """Returns the population that a user named; None: the mean over these samples is asked for.

    Args:
      board: has the samples.
      population: one of `POPULATIONS`.
      clusters: of the samples; the labels of one image are one without it.

    Raises:
      BadInput: there is no such population or column, a sample has no cluster, or all have one.
    """
    if population not in POPULATIONS:
        raise BadInput(unknown("population", population, POPULATIONS))
    if population == SAMPLES:
        if clusters is not None:
            raise BadInput(
                "clusters: the interval of the mean over these samples does not depend on how they"
                f" were drawn; give population={SUPERPOPULATION} (--population) as well."
            )
        return None
    if clusters is None:
        image = board.facts.image
        return Population() if image is None else Population(image, "images")
    name = clusters if isinstance(clusters, str) else "as given"
    values = _read_column(board, clusters) if isinstance(clusters, str) else list(clusters)
    samples = board.ids
    if len(values) != len(samples):
        raise BadInput(f"clusters: {len(values):,} values for {len(samples):,} samples.")
    if lacking := [s for s, value in zip(samples, values, strict=True) if value in (None, "")]:
        raise BadInput(f"clusters: {len(lacking):,} samples have none, for example {lacking[0]!r}.")
    cluster = np.unique(np.array([str(each) for each in values]), return_inverse=True)[1]
    if not cluster.max(initial=0):
        raise BadInput(
            f"clusters: all samples are in one cluster ({name}), so nothing tells how clusters"
            " differ; at least two are needed."
        )
    return Population(cluster, name)


def _read_column(board: Board, name: str) -> list[Any]:
    """Returns a fact about each sample, None where it is not known."""
    facts = board.describe_samples()
    if not any(name in each for each in facts):
        columns = sorted({key for each in facts for key in each})
        what = f"clusters: {unknown('column of the samples', name, columns)}"
        raise BadInput(
            what
            if columns
            else f"clusters: there is no column {name!r}; the samples of this board have none. A"
            " table with one row per cell may have a column `cluster`."
        )
    return [each.get(name) for each in facts]


class Widening:
    """Turns intervals of the mean over some samples into those of the mean over their population.

    Args:
      population: of the samples of a cache.
      known: the known models; their values in each cluster say how much clusters differ.
      columns: int64[n], of these samples in the cache.
    """

    def __init__(self, population: Population, known: Matrix, columns: np.ndarray):
        self._known, self._cluster, self._freedom = known, None, len(columns) - 1
        if population.cluster is not None:
            self._cluster = np.unique(population.cluster[columns], return_inverse=True)[1]
            self._freedom = int(self._cluster.max())

    @functools.cached_property
    def _design_effect(self) -> float:
        assert self._cluster is not None
        return compute_design_effect(self._known, self._cluster)

    def widen(
        self, means: Sequence[float], values: SampleValues, expected: PerSample
    ) -> list[float]:
        """Returns value, low and high of the mean over the population, given those of the mean over
        these samples, from 0 to 1 (or of any range, where a metric has no bounds).

        Args:
          means: value, low and high; NaN ends stay.
          values: [n], of a model, unknown where it was not asked.
          expected: float[n], the expected value of each sample.
        """
        value, low, high = means
        if np.isnan(low):
            return list(means)
        if not self._freedom and self._cluster is not None:
            return [value, np.nan, np.nan]
        facts = self._known.facts
        weights, unbounded = facts.weights, any(part.unbounded for part in facts.parts)
        variance_each = estimate_variance(value, values, unbounded)
        variance = variance_each * sum_squared_weights(weights)
        if self._cluster is not None:
            mask = is_observed(values)
            complete = np.where(mask, fill_unknown(values), expected).astype(np.float64)
            variance = max(
                _estimate_cluster_variance(complete, mask, weights, self._cluster, variance_each),
                0.0 if mask.all() else variance * self._design_effect,
            )
        reach = stdtrit(max(self._freedom, 1), 0.975) * np.sqrt(variance)
        low, high = value - np.hypot(value - low, reach), value + np.hypot(high - value, reach)
        return [value, low, high] if unbounded else [value, max(low, 0.0), min(high, 1.0)]


def estimate_variance(value: float, values: SampleValues, unbounded: bool = False) -> float:
    """Returns the variance σ² of one sample's value about its mean.

    Of outcomes it follows from the mean, of which two of each kind are added as one may yet come
    (Agresti and Coull 1998). Of scores it is that of the answers about the estimate, at most that
    of outcomes with this mean.

    Args:
      value: the estimated mean.
      values: [n], unknown where there is no answer.
      unbounded: whether the metric has no bounds.
    """
    n = len(values)
    if values.dtype.kind != "f":
        p = (n * value + 2) / (n + 4)
        return p * (1 - p)
    answers = fill_unknown(values)[is_observed(values)].astype(np.float64)
    count = len(answers)
    own = float(((answers - value) ** 2).mean()) * (count / (count - 1) if count > 1 else np.inf)
    return own if unbounded else min(own, max(value * (1 - value), 0.0) * n / (n - 1))


def sum_squared_weights(weights: PerSample) -> float:
    """Returns Σ w², by which σ² is multiplied if samples were drawn one by one."""
    return float((weights**2).sum())


def _estimate_cluster_variance(
    complete: PerSample,
    mask: np.ndarray,
    weights: PerSample,
    cluster: Int[np.ndarray, " samples"],
    variance_each: float,
) -> float:
    """Returns the variance of the clusters' totals of a model's answers and expected values; what
    these lack of the variance of one value is that of the samples without an answer.
    """
    away = complete - weights @ complete
    totals = np.bincount(cluster, weights * away)
    noise = max(variance_each - float(weights @ away**2), 0.0) * sum_squared_weights(weights[~mask])
    lacking = float(weights[~mask].sum())
    noise = noise / lacking if lacking else 0.0
    count = len(totals)
    return count / (count - 1) * (float((totals**2).sum()) + noise)


def compute_design_effect(known: Matrix, cluster: Int[np.ndarray, " samples"]) -> float:
    """Returns the variance of the known models' means if clusters are drawn, divided by that if
    samples are, each summed over the models.

    Args:
      known: the models, which may have unknown values.
      cluster: int64[n], from 0.
    """
    by_cluster, by_sample, weights = 0.0, 0.0, known.facts.weights
    for start in range(0, known.shape[0], _ROWS):
        rows = known.matrix(np.arange(start, min(start + _ROWS, known.shape[0])))
        for row in rows:
            mask = is_observed(row)
            total = float(weights[mask].sum())
            if mask.sum() < 2 or not total:
                continue
            own, places = weights[mask] / total, cluster[mask]
            away = fill_unknown(row)[mask] - own @ fill_unknown(row)[mask]
            totals = np.bincount(places, own * away)
            count = len(np.unique(places))
            if count > 1:
                by_cluster += count / (count - 1) * float((totals**2).sum())
                by_sample += float((own**2 * away**2).sum()) * len(own) / (len(own) - 1)
    return by_cluster / by_sample if by_sample else 1.0


def finish_estimate(
    estimate: Estimate,
    known: Matrix,
    part: Part,
    values: np.ndarray,
    expected: np.ndarray,
    missing: float,
    population: Population | None = None,
) -> tuple[Estimate, Estimate]:
    """Returns an estimate of the mean over these samples as it stands after all answers: widened
    for samples without an answer, and inside what the answers leave; and the same of the mean that
    was asked for, that over a population where there is one. Both are from 0 to 1.

    Args:
      estimate: a method's.
      known: the known models, with facts about the samples.
      part: the samples.
      values: [n], the answers, unknown where there is none.
      expected: float[n], the expected value of each sample.
      missing: fraction of the samples without an answer.
      population: that the samples are drawn from, if the mean is over it.
    """
    means, reason = [estimate.value, estimate.low, estimate.high], estimate.reason
    if missing and not np.isnan(estimate.low):
        (low,), (high,) = intervals.allow_for_missing(
            *(np.array([end]) for end in (estimate.low, estimate.high, missing))
        )
        means = [estimate.value, low, high]
        if part.unbounded or np.isnan(low):
            means, reason = [estimate.value, np.nan, np.nan], intervals.explain_missing(missing)
    if not part.unbounded:
        means = bound_means(values, means, known.facts).tolist()

    def make(means: Sequence[float], other: Any, over: str) -> Estimate:
        value, low, high = means
        holds_for = NOBODY if np.isnan(low) else estimate.holds_for
        return dataclasses.replace(
            estimate,
            value=value,
            low=low,
            high=high,
            reason=reason,
            holds_for=holds_for,
            other=other,
            mean_over=over,
        )

    of_samples = make(means, estimate.other, THESE_SAMPLES)
    if population is None:
        return of_samples, of_samples
    widening, cells = Widening(population, known, part.columns), (values, expected)
    other = estimate.other and tuple(widening.widen(estimate.other, *cells))
    return of_samples, make(widening.widen(means, *cells), other, str(population))


def drop_observed(estimates: Estimates, values: np.ndarray) -> np.ndarray:
    """Returns the predicted outcomes, uint8[m, n], or scores, float32[m, n]; unknown where a value,
    [m, n], is observed.
    """
    scores = values.dtype.kind == "f"
    predicted = estimates.values if scores else estimates.outcomes
    return np.where(is_observed(values), make_unknown_cells((), scores), predicted)
