"""Matrices of models × samples: the values of models, facts about the samples, and positions of a
ranked list of them to ask.

Values are outcomes or scores, with holes. Outcomes are uint8: 1 = the model is right on the sample,
0 = it is wrong, 255 = unknown. Scores are floats in [0, 1], NaN = unknown.

In multi-label data sets one forward pass answers for all labels of an image, so a sampled image
gives all its values (Sort & Search, Appendix A).

Positions are int64, ascending, 0-based. All schemes cover the whole list, also if the number of
positions does not divide its length.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from nevis_stream.errors import BadInput, unknown
from nevis_stream.queries.prices import Prices
from nevis_stream.user_calls import ReadOnly

UNKNOWN = 255


def is_observed(matrix: np.ndarray) -> np.ndarray:
    """Returns which cells of uint8 outcomes or float scores are known, bool of the same shape."""
    return ~np.isnan(matrix) if matrix.dtype.kind == "f" else matrix != UNKNOWN


def fill_unknown(matrix: np.ndarray) -> np.ndarray:
    """Returns outcomes or scores as float32 of the same shape, 0 where unknown."""
    return np.where(is_observed(matrix), matrix, 0).astype(np.float32)


def make_unknown_cells(shape: tuple[int, ...], scores: bool) -> np.ndarray:
    """Returns a matrix of unknown cells, of outcomes or of scores."""
    return np.full(shape, np.nan, np.float32) if scores else np.full(shape, UNKNOWN, np.uint8)


def check_outcomes(matrix: np.ndarray) -> np.ndarray:
    """Returns the matrix unchanged if it is one of outcomes.

    Raises:
      BadInput: it is not uint8[m, n] of 0, 1 and 255, or it is empty.
    """
    matrix = np.asarray(matrix)
    if matrix.ndim != 2 or matrix.dtype != np.uint8 or not matrix.size:
        raise BadInput(
            "a matrix of outcomes is uint8[models, samples], not empty; this is"
            f" {matrix.dtype}{list(matrix.shape)}."
        )
    counts = [np.count_nonzero(matrix == value) for value in (0, 1, UNKNOWN)]
    if sum(counts) != matrix.size:
        others = sorted({*np.unique(matrix).tolist()} - {0, 1, UNKNOWN})
        raise BadInput(
            f"outcomes are 0 (wrong), 1 (right) or {UNKNOWN} (unknown); this matrix also has"
            f" {others[:5]}."
        )
    return matrix


def check_matrix(matrix: np.ndarray) -> np.ndarray:
    """Returns the matrix unchanged if it is one of outcomes or of scores.

    Raises:
      BadInput: it is neither uint8[m, n] of 0, 1 and 255 nor float[m, n] in [0, 1] with NaN, or it
        is empty.
    """
    matrix = np.asarray(matrix)
    if matrix.dtype.kind != "f" or matrix.ndim != 2 or not matrix.size:
        return check_outcomes(matrix)
    outside = (matrix < 0) | (matrix > 1)
    if outside.any():
        row, column = np.argwhere(outside)[0]
        raise BadInput(
            f"a score is between 0 and 1, or NaN if unknown; model {row}, sample {column} has"
            f" {matrix[row, column]:g}. Scale scores by their range first."
        )
    return matrix


def sum_columns(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the sum over known cells of each column of outcomes, uint8[m, n], float64[n], and
    their number, int64[n].
    """
    rows = check_outcomes(rows)
    return (rows == 1).sum(axis=0).astype(np.float64), (rows != UNKNOWN).sum(axis=0)


@dataclass(frozen=True)
class SampleFacts(ReadOnly):
    """Facts about n samples; None for an unknown fact.

    Attributes:
      n: number of samples.
      features: float32[n, d], from a backbone or a file.
      dataset: str[n], the data set that each sample belongs to.
      group: str[n], a group in a data set, for example a class or a subject.
      image: int64[n], the image of each column, from 0, in a multi-label data set, where one
        forward pass answers for all columns of an image; all images have equally many.
      low, high: float32[n], the range of each sample's score; None: 0 and 1.
      lower: bool[n], whether lower values are better; None: higher ones are.
      unbounded: bool[n], whether the metric has no bounds, so that the range is only a scale; None:
        all have bounds.
      dataset_weights: the weight of each data set, by name, in the overall mean; None: each sample
        has the same weight.
      prices: of the samples, where the budget is in their unit.
      metric: str[n], of each column, where one prompt has columns of several metrics.
      prompt: int64[n], the prompt of each of these columns: one query answers all of them.
    """

    n: int
    features: np.ndarray | None = None
    dataset: np.ndarray | None = None
    group: np.ndarray | None = None
    low: np.ndarray | None = None
    high: np.ndarray | None = None
    lower: np.ndarray | None = None
    unbounded: np.ndarray | None = None
    dataset_weights: Mapping[str, float] | None = None
    image: np.ndarray | None = None
    prices: Prices | None = None
    metric: np.ndarray | None = None
    prompt: np.ndarray | None = None

    @property
    def points(self) -> int:
        """The number of samples that can be asked, each at the cost of a forward pass: the images
        of a multi-label data set, the prompts of several metrics, else the columns."""
        several = self.image if self.prompt is None else self.prompt
        return self.n if several is None else int(several.max()) + 1

    @property
    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """The lower and the upper end of each sample's range, float64[n] twice."""
        low = np.zeros(self.n) if self.low is None else self.low.astype(np.float64)
        high = np.ones(self.n) if self.high is None else self.high.astype(np.float64)
        return low, high

    @cached_property
    def weights(self) -> np.ndarray:
        """float64[n], each sample's weight in the overall mean; they add up to 1.

        With `dataset_weights`, the means of the data sets are averaged with these weights.
        """
        if self.dataset is None or self.dataset_weights is None:
            return np.full(self.n, 1 / self.n)
        names, place, sizes = np.unique(self.dataset, return_inverse=True, return_counts=True)
        fractions = np.array([self.dataset_weights[name] for name in names.tolist()], np.float64)
        return (fractions / fractions.sum() / sizes)[place]

    def mean(self, values: np.ndarray) -> np.ndarray:
        """Returns the weighted mean over all samples, float64[m], of values [m, n]."""
        if self.dataset is None or self.dataset_weights is None:
            return values.mean(axis=1, dtype=np.float64)
        return values.astype(np.float64) @ self.weights

    def take(self, columns: np.ndarray) -> "SampleFacts":
        """Returns the facts of some samples, int64 columns."""

        def choose(values: np.ndarray | None) -> np.ndarray | None:
            return None if values is None else values[columns]

        image = choose(self.image)
        if image is not None:
            image, counts = np.unique(image, return_inverse=True, return_counts=True)[1:]
            image = image if len(set(counts.tolist())) == 1 else None
        return SampleFacts(
            len(columns),
            choose(self.features),
            choose(self.dataset),
            choose(self.group),
            choose(self.low),
            choose(self.high),
            choose(self.lower),
            choose(self.unbounded),
            self.dataset_weights,
            image,
            None if self.prices is None else self.prices.take(columns),
        )

    @cached_property
    def parts(self) -> "list[Part]":
        """The parts of the samples that have a common mean: all samples if they agree in direction
        and range, else each data set; and each metric, where prompts have several.
        """
        ends = [
            np.full(self.n, default) if each is None else each.astype(np.float64)
            for each, default in (
                (self.low, 0.0),
                (self.high, 1.0),
                (self.lower, 0.0),
                (self.unbounded, 0.0),
            )
        ]
        if self.metric is not None and self.prompt is not None:
            return _divide_by_metrics(self.metric, self.prompt, np.stack(ends))
        kinds, kind = np.unique(np.stack(ends), axis=1, return_inverse=True)
        kind = kind.ravel()
        if kinds.shape[1] <= 1:
            low, high, lower, unbounded = kinds[:, 0].tolist() if self.n else (0.0, 1.0, 0, 0)
            return [Part("", np.arange(self.n), bool(lower), bool(unbounded), low, high)]
        datasets = np.full(self.n, "") if self.dataset is None else self.dataset
        parts = []
        for name, number in dict.fromkeys(zip(datasets.tolist(), kind.tolist(), strict=True)):
            low, high, lower, unbounded = kinds[:, number].tolist()
            alone = len(set(kind[datasets == name].tolist())) == 1
            about = f"{low:g} to {high:g}, {'lower' if lower else 'higher'} is better"
            title = name if name and alone else f"{name} ({about})".strip()
            columns = np.flatnonzero((datasets == name) & (kind == number))
            parts.append(Part(title, columns, bool(lower), bool(unbounded), low, high))
        return parts


@dataclass(frozen=True)
class Part:
    """Samples that agree in direction and range.

    Attributes:
      name: "" for all samples; else of the data set.
      columns: int64[k], of the samples.
      lower: whether lower values are better.
      unbounded: whether the metric has no bounds.
      low, high: the range of the scores.
      asked_with: the number of the part whose queries answer this one too, as its columns are
        another metric of the same prompts, in the same order; None: it is asked itself.
    """

    name: str
    columns: np.ndarray
    lower: bool
    unbounded: bool
    low: float
    high: float
    asked_with: int | None = None

    def unscale(self, value: float) -> float:
        """Returns a mean on the scale 0 to 1 in the range of the scores."""
        return self.low + value * (self.high - self.low)


def _divide_by_metrics(metric: np.ndarray, prompt: np.ndarray, ends: np.ndarray) -> list[Part]:
    """Divides prompts by which metrics they have, of which range and direction, and returns a part
    for each metric of such prompts: first that of the metric that comes first in the cache, which
    is asked, then the parts that are answered with it.

    Args:
      metric, prompt: as of `SampleFacts`.
      ends: float64[4, n], low, high, lower and unbounded of each column.
    """
    first = {name: place for place, name in reversed(list(enumerate(metric.tolist())))}
    columns_of: dict[int, list[int]] = {}
    for column in sorted(range(len(metric)), key=lambda column: (first[metric[column]], column)):
        columns_of.setdefault(int(prompt[column]), []).append(column)
    by_metrics: dict[tuple, list[list[int]]] = {}
    for columns in columns_of.values():
        kinds = tuple((metric[each], *ends[:, each].tolist()) for each in columns)
        by_metrics.setdefault(kinds, []).append(columns)
    parts: list[Part] = []
    for kinds, rows in by_metrics.items():
        asked = len(parts)
        for place, (name, low, high, lower, unbounded) in enumerate(kinds):
            title, own = str(name), np.array(sorted(rows))[:, place]
            if any(part.name == title for part in parts):  # of other prompts
                title += f" ({', '.join(each for each, *_ in kinds)}; {len(parts) + 1})"
            asked_with = asked if place else None
            parts.append(Part(title, own, bool(lower), bool(unbounded), low, high, asked_with))
    return parts


def check_one_mean(facts: SampleFacts) -> None:
    """Refuses weights of data sets that have no common mean.

    Raises:
      BadInput: the samples differ in direction or range.
    """
    if len(parts := [part for part in facts.parts if part.asked_with is None]) > 1:
        raise BadInput(
            f"dataset_weights: {', '.join(part.name or 'samples' for part in parts[:3])} differ in"
            " direction or range, so they have no common mean that could be weighted. Leave"
            " --dataset_weights out, or import them into caches of their own."
        )


def check_weights(
    weights: Mapping[str, float] | str, datasets: Mapping[str, int]
) -> dict[str, float]:
    """Returns a weight for each data set; "equal" gives all the same weight.

    Args:
      weights: by data set, or "equal".
      datasets: the number of samples in each data set, by its name.

    Raises:
      BadInput: a data set has no weight, is unknown, or has one sample; or a weight is not above 0.
    """
    for name, samples in datasets.items():
        if samples == 1:  # often a column of ids that was taken for one of data sets
            raise BadInput(
                f"dataset_weights: data set {name!r} has one sample, whose value would count as"
                " much as the mean of a whole data set. Put it into another data set, or leave it"
                " out."
            )
    if isinstance(weights, str):
        if weights != "equal":
            raise BadInput(f"dataset_weights: {weights!r} is neither weights nor 'equal'.")
        return dict.fromkeys(sorted(datasets), 1.0)
    for name, weight in weights.items():
        if name not in datasets:
            raise BadInput(f"dataset_weights: {unknown('data set', name, datasets)}")
        if not (np.isfinite(weight) and weight > 0):
            raise BadInput(f"dataset_weights: {name} has weight {weight}; it must be above 0.")
    if missing := sorted(set(datasets) - set(weights)):
        raise BadInput(f"dataset_weights: no weight for {', '.join(missing)}.")
    return dict(weights)


def number_images(samples: Sequence[str]) -> np.ndarray | None:
    """Returns the image of each column, int64[n] from 0 in order of appearance; None unless all
    images have the same number of columns.

    Args:
      samples: ids of n columns, IMAGE#LABEL.
    """
    names = np.array([sample.rpartition("#")[0] for sample in samples], str)
    _, first, image, counts = np.unique(
        names, return_index=True, return_inverse=True, return_counts=True
    )
    return np.argsort(np.argsort(first))[image] if len(set(counts.tolist())) == 1 else None


def with_all_labels(columns: np.ndarray, image: np.ndarray) -> np.ndarray:
    """Returns all columns of the images of some columns, int64[b'], ascending.

    >>> with_all_labels(np.array([3]), np.array([0, 0, 1, 1])).tolist()
    [2, 3]
    """
    return np.flatnonzero(np.isin(image, image[columns]))


def complete_images(samples: np.ndarray, image: np.ndarray) -> np.ndarray:
    """Returns the columns that complete b images of each model, int64[m, b (labels - 1)].

    They are the other columns of the images of b asked columns. Where these have fewer than b
    images, further images are taken at equal distances among those that were not asked. If all
    columns were asked, nothing is left: int64[m, 0].

    Args:
      samples: int64[m, b], the asked columns.
      image: int64[n], as of `SampleFacts`.

    >>> complete_images(np.array([[0, 3], [0, 1]]), np.array([0, 0, 1, 1, 2, 2])).tolist()
    [[1, 2], [4, 5]]
    """
    models, budget = samples.shape
    if budget == len(image):
        return np.empty((models, 0), np.int64)
    columns_of = np.argsort(image, kind="stable").reshape(image.max() + 1, -1)
    rest = np.empty((models, budget * (columns_of.shape[1] - 1)), np.int64)
    for row, asked in zip(rest, samples, strict=True):
        chosen = np.unique(image[asked])
        spare = np.setdiff1d(np.arange(len(columns_of)), chosen)
        more = spare[place_centres(len(spare), budget - len(chosen))]
        whole = columns_of[np.concatenate([chosen, more])].reshape(-1)
        row[:] = whole[~np.isin(whole, asked)]
    return rest


def make_numpy_generator(key: Any) -> np.random.Generator:
    """Returns NumPy's generator for a JAX key: the same key gives the same numbers on every
    machine.
    """
    import jax

    if key is None:
        raise BadInput("samples are drawn at random: give a key, for example jax.random.key(0).")
    return np.random.default_rng(np.asarray(jax.random.key_data(key)).ravel())


def bound_strata(n: int, budget: int) -> np.ndarray:
    """Returns the bounds of `budget` strata of n positions, int64[budget + 1]; their sizes differ
    by at most one.
    """
    return np.arange(budget + 1, dtype=np.int64) * n // budget


def place_centres(n: int, budget: int) -> np.ndarray:
    """Returns the uniform grid: the centres (j + 1/2) n / budget of equal strata, int64[budget].

    The published listing drops its first point if n is a multiple of the budget, and the published
    script leaves out the remainder of the division at the easy end (reference: sort_and_search.csv,
    erratum `uniform_sampling_count`).
    """
    return (2 * np.arange(budget, dtype=np.int64) + 1) * n // (2 * budget)


def draw_in_strata(sizes: np.ndarray, models: int, random: np.random.Generator) -> np.ndarray:
    """Returns one random position from each of k strata of these sizes, int64[k], that follow each
    other, drawn for each model: int64[models, k].
    """
    return np.cumsum(sizes) - sizes + random.integers(sizes, size=(models, len(sizes)))


def at_random(n: int, budget: int, models: int, random: np.random.Generator) -> np.ndarray:
    """Returns `budget` of n positions without replacement, drawn for each model, ascending:
    int64[models, budget].
    """
    drawn = [random.choice(n, budget, replace=False, shuffle=False) for _ in range(models)]
    return np.sort(np.asarray(drawn, np.int64).reshape(models, budget), axis=1)


def bound_means(values: np.ndarray, means: Sequence[float], facts: SampleFacts) -> np.ndarray:
    """Returns estimates of a model's mean, [k], clipped to the range that the observed values leave
    for it; if all values are observed, this is the mean itself.

    Args:
      values: uint8[n] or float32[n] of the model; 255 or NaN where unknown.
      means: k estimates.
      facts: about the samples.
    """
    low, high = fill_unknown(values), np.where(is_observed(values), values, 1)
    least, most = facts.mean(np.stack([low, high]))
    return np.clip(means, least, most) if least < most else np.full(len(means), least)
