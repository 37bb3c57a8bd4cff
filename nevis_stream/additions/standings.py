"""A leaderboard of the models in a cache: scores with intervals, and which of them are tied.

A score is the mean over the samples that a model was observed on, in the range of the samples; its
95% interval treats them as drawn at random from samples of their kind: Wilson's for outcomes,
Student's t for scores and for weighted data sets. For a model that was added on a few chosen
samples, both are those of its addition's record.

Two models are tied if the 95% interval of their difference contains 0. It is of the paired
differences on the samples that both were observed on, with one more half sample of each outcome
(Agresti and Min 2005, Simple improved confidence intervals for comparing matched proportions);
with fewer than 10 such samples they are tied. Chosen samples do not stand for all: models with a
record are tied with all whose intervals overlap theirs. Each pair is compared on its own, at 95%.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.special import ndtri, stdtrit

from nevis_stream.array_types import Bool, Float, Int
from nevis_stream.estimation.intervals import compute_wilson
from nevis_stream.evaluation_cache import EvaluationCache, records
from nevis_stream.evaluation_cache.additions import Addition, digest_errata, read_additions
from nevis_stream.queries.oracle import NOT_STATED
from nevis_stream.queries.samples import Part, SampleFacts, is_observed

Values = Float[np.ndarray, "models samples"]
PerModel = Float[np.ndarray, " models"]

LEVEL = 0.95
FEWEST_SHARED = 10
_ROWS, _COLUMNS = 256, 8192  # models and samples of a block, in comparisons of pairs


@dataclass(frozen=True)
class Standing:
    """A model's place on a leaderboard.

    Attributes:
      model: its id.
      score, low, high: the mean and its interval, in the range of the samples; NaN if unknown.
      rank, last: the first and the last place that it may have: 1 + the number of models that are
        better beyond a tie, and the number of models with a score less those that are worse beyond
        a tie; 0 without a score.
      observed: number of observed samples; of images with several labels, of labels.
      method: of the addition that estimated the score; "" if it is the mean of observed values.
      holds_for: for whom the interval of that estimate holds (see `oracle.Estimate`); "" if it is
        the mean of observed values.
      outdated: whether cells were removed or amended, or samples came, since that addition.
      means: by data set: mean, low, high and number of observed samples.
    """

    model: str
    score: float
    low: float
    high: float
    rank: int
    last: int
    observed: int
    method: str = ""
    outdated: bool = False
    holds_for: str = ""
    means: dict[str, tuple[float, float, float, int]] = field(default_factory=dict)

    @property
    def tied(self) -> bool:
        """Whether another model is tied with it."""
        return self.last > self.rank


@dataclass(frozen=True)
class Leaderboard:
    """The standings on samples that agree in direction and range, the best first.

    Attributes:
      part: the samples.
      standings: of each model; those without a score at the end.
      datasets: their data sets, in the order of the samples; [] if they have none.
    """

    part: Part
    standings: list[Standing]
    datasets: list[str]


def rank_models(cache: EvaluationCache) -> list[Leaderboard]:
    """Returns a leaderboard of a cache's models; of a cache whose data sets differ in direction or
    range, one for each of them.
    """
    facts, models = cache.facts(), list(cache.models())
    with cache.index.reading() as db:
        gone, _ = records.find_removed(db)
    if gone:
        models = [model for model in models if model not in gone]
    added, errata = read_additions(cache.directory), digest_errata(cache.directory)
    parts = facts.parts if facts.n else ()
    return [_rank_part(cache, facts, part, models, added, errata) for part in parts]


def _rank_part(
    cache: EvaluationCache,
    facts: SampleFacts,
    part: Part,
    models: list[str],
    added: list[Addition],
    errata: str | None,
) -> Leaderboard:
    matrix, of_part = cache.matrix(models, part.columns), facts.take(part.columns)
    mask = is_observed(matrix)
    counts = mask.sum(axis=1)
    values = np.where(mask, matrix, 0).astype(np.float32)
    outcomes = (part.low, part.high) == (0, 1) and bool(((values == 0) | (values == 1)).all())
    if of_part.image is not None:  # the labels of an image are one sample
        values, mask, outcomes = *_average_labels(values, mask, of_part.image), False
        of_part = SampleFacts(values.shape[1])
    names = [] if of_part.dataset is None else list(dict.fromkeys(of_part.dataset.tolist()))
    places = {name: np.flatnonzero(of_part.dataset == name) for name in names}
    strata = [(1.0, np.arange(of_part.n))]
    if of_part.dataset_weights and names:
        total = sum(of_part.dataset_weights[name] for name in names)
        strata = [(of_part.dataset_weights[name] / total, places[name]) for name in names]
    score, low, high = _compute_intervals(values, mask, strata, outcomes, part)
    addition_of = _insert_estimates(models, added, part, counts, (score, low, high))
    sign = -1.0 if part.lower else 1.0
    better = _compare_models(values, mask, strata, sign)
    ends = (low, high) if sign > 0 else (-high, -low)
    better = _compare_chosen(better, np.array([each is not None for each in addition_of]), *ends)
    scored = np.isfinite(score)
    better &= scored[:, None] & scored[None]
    dataset_intervals = {
        name: _compute_intervals(
            values[:, at], mask[:, at], [(1.0, np.arange(len(at)))], outcomes, part
        )
        for name, at in places.items()
    }
    dataset_counts = {name: mask[:, at].sum(axis=1) for name, at in places.items()}
    order = np.lexsort((np.arange(len(models)), np.where(scored, -sign * score, np.inf)))
    standings, size = [], len(part.columns)
    for i in order.tolist():
        means = {
            name: (
                *(part.unscale(float(each[i])) for each in interval),
                int(dataset_counts[name][i]),
            )
            for name, interval in dataset_intervals.items()
        }
        rank, last = 1 + int(better[:, i].sum()), int(scored.sum() - better[i].sum())
        value, least, most = (part.unscale(float(each[i])) for each in (score, low, high))
        rank, last = (rank, last) if scored[i] else (0, 0)
        addition = addition_of[i]
        row = Standing(
            model=models[i],
            score=value,
            low=least,
            high=most,
            rank=rank,
            last=last,
            observed=int(counts[i]),
            method=addition.method if addition else "",
            holds_for="" if addition is None else addition.holds_for or NOT_STATED,
            outdated=addition is not None and (addition.errata, addition.samples) != (errata, size),
            means=means,
        )
        standings.append(row)
    return Leaderboard(part, standings, names)


def _average_labels(
    values: Values, mask: Bool[np.ndarray, "models samples"], image: Int[np.ndarray, " samples"]
) -> tuple[Float[np.ndarray, "models images"], Bool[np.ndarray, "models images"]]:
    """Returns means over the known labels of each image, float32[m, images], and where there are
    any, bool[m, images].
    """
    order = np.argsort(image, kind="stable")
    starts = np.flatnonzero(np.diff(image[order], prepend=-1))
    total, count = (np.add.reduceat(each[:, order], starts, axis=1) for each in (values, mask * 1))
    return (total / np.maximum(count, 1)).astype(np.float32), count > 0


def _compute_intervals(
    values: Values,
    mask: Bool[np.ndarray, "models samples"],
    strata: Sequence[tuple[float, np.ndarray]],
    outcomes: bool,
    part: Part,
) -> tuple[PerModel, PerModel, PerModel]:
    """Returns means and the ends of their intervals, float64[m] each on the scale 0 to 1; NaN for a
    model without a value in a stratum, and for the ends if there are too few.

    Args:
      values: float32[m, n], 0 where unknown.
      mask: bool[m, n], what is known.
      strata: the weight and the columns of each.
      outcomes: whether all values are 0 or 1.
      part: the samples; says whether their metric has bounds.
    """
    mean, variance = np.zeros((2, len(values)))
    fewest = np.full(len(values), np.inf)
    with np.errstate(invalid="ignore", divide="ignore"):
        for weight, columns in strata:
            everything = len(columns) == values.shape[1]
            own_values = values if everything else values[:, columns]
            count = mask[:, columns].sum(axis=1)
            total = own_values.sum(axis=1, dtype=np.float64)
            squares = _sum_squares(own_values)
            own = total / count
            mean += weight * own
            spread = np.maximum(squares / count - own**2, 0) / (count - 1)
            variance += weight**2 * np.where(count > 1, spread, np.nan)
            fewest = np.minimum(fewest, count)
        if outcomes and len(strata) == 1:
            low, high = compute_wilson(mean, fewest)
            return mean, np.where(fewest > 0, low, np.nan), np.where(fewest > 0, high, np.nan)
        half = stdtrit(np.maximum(fewest - 1, 1), (1 + LEVEL) / 2) * np.sqrt(variance)
    low, high = mean - half, mean + half
    if part.unbounded:
        return mean, low, high
    return mean, np.clip(low, 0, 1), np.clip(high, 0, 1)


def _sum_squares(values: np.ndarray) -> np.ndarray:
    """Returns the sum of squares of each row, float64[m]."""
    return np.einsum("ij,ij->i", values, values, dtype=np.float64)


def _insert_estimates(
    models: list[str],
    added: list[Addition],
    part: Part,
    counts: np.ndarray,
    ends: Sequence[np.ndarray],
) -> list[Addition | None]:
    """Puts the estimates of additions in the place of means over chosen samples; returns the
    addition of each model, None where the mean of observed values stays.

    Args:
      models: m ids.
      added: all additions.
      part: the samples.
      counts: int64[m], observed samples of each model.
      ends: mean, low and high, float64[m] each, which are changed.
    """
    size = len(part.columns)
    latest = {
        each.name: each
        for each in added
        if each.kind == "model"
        and each.accuracy is not None
        and ((each.dataset or "") == part.name or (not each.dataset and each.samples == size))
    }
    found = [
        latest.get(model) if count < size else None
        for model, count in zip(models, counts, strict=True)
    ]
    for i, addition in enumerate(found):
        if addition is not None:
            own = addition.accuracy, addition.low, addition.high
            for values, value in zip(ends, own, strict=True):
                values[i] = np.nan if value is None else value
    return found


def _compare_models(
    values: Values,
    mask: Bool[np.ndarray, "models samples"],
    strata: Sequence[tuple[float, np.ndarray]],
    sign: float,
) -> Bool[np.ndarray, "models models"]:
    """Returns bool[m, m]: whether the first model is better than the second beyond a tie, by paired
    differences. Products of matrices are added up by blocks of samples.
    """
    m = len(values)
    better = np.zeros((m, m), bool)
    for start in range(0, m, _ROWS):
        rows = slice(start, start + _ROWS)
        shape = len(values[rows]), m
        difference, variance, fewest = np.zeros(shape), np.zeros(shape), np.full(shape, np.inf)
        for weight, columns in strata:
            count, sums, squares = np.zeros((3, *shape))
            for first in range(0, len(columns), _COLUMNS):
                at = columns[first : first + _COLUMNS]
                known, all_known = (
                    mask[which][:, at].astype(np.float32) for which in (rows, slice(None))
                )
                own, others = values[rows][:, at], values[:, at]
                squares -= 2 * (own @ others.T)
                if all_known.all():  # the other products are sums of rows
                    ours, theirs = (each.sum(axis=1, dtype=np.float64) for each in (own, others))
                    count += len(at)
                    sums += ours[:, None] - theirs
                    squares += _sum_squares(own)[:, None] + _sum_squares(others)
                    continue
                count += known @ all_known.T
                sums += own @ all_known.T - known @ others.T
                squares += np.square(own) @ all_known.T + known @ np.square(others).T
            smooth = count + 2
            mean = sums / smooth
            difference += weight * mean
            variance += weight**2 * np.maximum((squares + 1) / smooth - mean**2, 0) / smooth
            fewest = np.minimum(fewest, count)
        half = ndtri((1 + LEVEL) / 2) * np.sqrt(variance)
        better[rows] = (sign * difference > half) & (fewest >= FEWEST_SHARED)
    return better


def _compare_chosen(
    better: Bool[np.ndarray, "models models"],
    chosen: Bool[np.ndarray, " models"],
    low: PerModel,
    high: PerModel,
) -> Bool[np.ndarray, "models models"]:
    """Compares models that were observed on chosen samples by their intervals instead; the ends are
    those of goodness, higher is better.
    """
    with np.errstate(invalid="ignore"):
        apart = low[:, None] > high[None]
    return np.where(chosen[:, None] | chosen[None], apart, better)
