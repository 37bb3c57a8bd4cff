"""Whom a mean is of: these samples, or the population that they are drawn from.

An interval of the mean over these samples shrinks to nothing when all of them are answered. As an
estimate of the mean over the population, such as all questions of this kind, the samples' own
choice at random is a second, independent source of error: its variance is that of the mean of all
samples, σ² Σ w² (σ²/n with equal weights), and the two intervals are put together on each side as
the root of the sum of squares (Zou and Donner 2008, Statistics in Medicine 27). Samples that came
in clusters, such as the questions on one text, were not drawn one by one: the variance is then that
of the clusters' totals, with Student's t of one degree less than there are clusters (Cochran,
Sampling Techniques, section 9A.5; Miller 2024, arXiv 2411.00640).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import stdtrit

from nevis_stream.array_types import Float, Int
from nevis_stream.dynamic_evaluation.known_models import KnownModels
from nevis_stream.errors import BadInput, unknown
from nevis_stream.evaluation_cache import EvaluationCache
from nevis_stream.evaluation_cache.entries import of_each
from nevis_stream.queries.matrix import is_observed, numbers
from nevis_stream.vocabulary import POPULATIONS, SAMPLES, SUPERPOPULATION

_ROWS = 256  # known models that are read together
PerSample = Float[np.ndarray, " samples"]

ClustersGiven = str | Sequence[Any] | np.ndarray | None
"""A column of the samples' facts, or the cluster of each sample in their order."""


@dataclass(frozen=True)
class Population:
    """What samples are drawn from, if their mean is not what is asked for.

    Attributes:
      cluster: int64[n], the cluster of each sample, from 0; None: each was drawn on its own.
      name: of the clusters, for people.
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
    cache: EvaluationCache, population: str = SAMPLES, clusters: ClustersGiven = None
) -> Population | None:
    """Returns the population that a user named; None: the mean over these samples is asked for.

    Args:
      cache: has the samples.
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
        image = cache.facts().image
        return Population() if image is None else Population(image, "images")
    name = clusters if isinstance(clusters, str) else "as given"
    values = _column(cache, clusters) if isinstance(clusters, str) else list(clusters)
    samples = cache.samples()
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


def _column(cache: EvaluationCache, name: str) -> list[Any]:
    """Returns a fact about each sample, None where it is not known."""
    facts: list[Mapping[str, Any]] = of_each(cache.sample_provenance())
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


def widen(
    means: Sequence[float],
    population: Population,
    values: PerSample,
    expected: PerSample,
    known: KnownModels,
    columns: np.ndarray,
) -> list[float]:
    """Returns value, low and high of the mean over a population, given those of the mean over these
    samples, from 0 to 1 (or of any range, where a metric has no bounds).

    Args:
      means: value, low and high; NaN ends stay.
      population: of the samples of a cache.
      values: [n], of the model, unknown where it was not asked.
      expected: float[n], of each sample.
      known: the known models; those on the samples of each cluster say how much clusters differ
        beyond what is expected of this model.
      columns: int64[n], of these samples in the cache.
    """
    value, low, high = means
    if np.isnan(low):
        return list(means)
    weights, unbounded = known.facts.weights, any(part.unbounded for part in known.facts.parts)
    cluster, freedom = None, len(values) - 1
    if population.cluster is not None:
        cluster = np.unique(population.cluster[columns], return_inverse=True)[1]
        freedom = int(cluster.max())
        if not freedom:
            return [value, np.nan, np.nan]
    spread = spread_of(value, values, unbounded)
    variance = spread * alone(weights)
    if cluster is not None:
        mask = is_observed(values)
        complete = np.where(mask, numbers(values), expected).astype(np.float64)
        variance = max(
            _between(complete, mask, weights, cluster, spread),
            0.0 if mask.all() else variance * design_effect(known, cluster),
        )
    reach = stdtrit(max(freedom, 1), 0.975) * np.sqrt(variance)
    low, high = value - np.hypot(value - low, reach), value + np.hypot(high - value, reach)
    return [value, low, high] if unbounded else [value, max(low, 0.0), min(high, 1.0)]


def spread_of(value: float, values: PerSample, unbounded: bool = False) -> float:
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
    answers = numbers(values)[is_observed(values)].astype(np.float64)
    count = len(answers)
    own = float(((answers - value) ** 2).mean()) * (count / (count - 1) if count > 1 else np.inf)
    return own if unbounded else min(own, max(value * (1 - value), 0.0) * n / (n - 1))


def alone(weights: PerSample) -> float:
    """Returns Σ w², by which σ² is multiplied if samples were drawn one by one."""
    return float((weights**2).sum())


def _between(
    complete: PerSample,
    mask: np.ndarray,
    weights: PerSample,
    cluster: Int[np.ndarray, " samples"],
    spread: float,
) -> float:
    """Returns the variance of the clusters' totals of a model's answers and expected values; what
    these lack of the spread of one value is that of the samples without an answer.
    """
    away = complete - weights @ complete
    totals = np.bincount(cluster, weights * away)
    noise = max(spread - float(weights @ away**2), 0.0) * alone(weights[~mask])
    lacking = float(weights[~mask].sum())
    noise = noise / lacking if lacking else 0.0
    count = len(totals)
    return count / (count - 1) * (float((totals**2).sum()) + noise)


def design_effect(known: KnownModels, cluster: Int[np.ndarray, " samples"]) -> float:
    """Returns the variance of the known models' means if clusters are drawn, divided by that if
    samples are, each summed over the models.

    Args:
      known: the models, which may have unknown values.
      cluster: int64[n], from 0.
    """
    drawn, single, weights = 0.0, 0.0, known.facts.weights
    for start in range(0, known.shape[0], _ROWS):
        rows = known.matrix(np.arange(start, min(start + _ROWS, known.shape[0])))
        for row in rows:
            mask = is_observed(row)
            total = float(weights[mask].sum())
            if mask.sum() < 2 or not total:
                continue
            own, places = weights[mask] / total, cluster[mask]
            away = numbers(row)[mask] - own @ numbers(row)[mask]
            totals = np.bincount(places, own * away)
            count = len(np.unique(places))
            if count > 1:
                drawn += count / (count - 1) * float((totals**2).sum())
                single += float((own**2 * away**2).sum()) * len(own) / (len(own) - 1)
    return drawn / single if single else 1.0
