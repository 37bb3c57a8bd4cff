"""A logistic factor model of models and samples in NumPy, and what it expects of a new model.

logit E[value of model i on sample j] = u_i · v_j: a sample has `FACTORS` factors, a one and its
easiness; a model its factors, its ability and a one (Reckase 2009, Multidimensional Item Response
Theory). Values are outcomes or scores in [0, 1]; a score enters like the outcome of a fraction
(Papke and Wooldridge 1996). Known models are fitted by penalised likelihood; the vector of a new
one has a normal prior with their mean and covariance, widened in ability, as a new model need not
be like them. Its posterior mode is found by Newton's method.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import expit

from nevis_stream.array_types import Float, Int
from nevis_stream.queries.matrix import Matrix
from nevis_stream.queries.samples import fill_unknown, is_observed
from nevis_stream.storage.checkpoint import Tree

FACTORS = 4
STEPS, RATE, FIRST_DECAY, SECOND_DECAY = 400, 0.05, 0.9, 0.999  # of Adam (Kingma and Ba 2015)
EASINESS_PENALTY = 0.04
START = 0.02  # the start of an easiness is that of the sample's mean, drawn towards a half
# the vectors of models are fitted on at most so many samples; then each other sample by itself
COLUMNS = 2048
BLOCK = 2048  # samples that are fitted together
NEWTON_OF_SAMPLES, NEWTON_OF_MODELS, NEWTON_WITHOUT = 12, 60, 4  # steps, at most
WIDER, MORE_ABILITY, MORE_EASINESS = 1.5, 0.2, 0.05
LONGEST = 0.5  # of a coordinate, for the steps that leave an answer out

Models = Float[np.ndarray, "models size"]
Vectors = Float[np.ndarray, "samples size"]
Vector = Float[np.ndarray, " size"]
Cells = Float[np.ndarray, "models samples"]
PerSample = Float[np.ndarray, " samples"]
PerAnswer = Float[np.ndarray, " answers"]


@dataclass(frozen=True)
class FactorModel:
    """A factor model that was fitted to known models.

    Attributes:
      vectors: float64[n, q], v of each sample: its factors, 1 and its easiness.
      prior: float64[q], the mean of u of a new model.
      precision: float64[q, q], the inverse of its covariance.
    """

    vectors: np.ndarray
    prior: np.ndarray
    precision: np.ndarray

    @classmethod
    def blank(cls, samples: int) -> "FactorModel":
        """Returns a model that knows nothing, with which FLOPs are counted."""
        size = FACTORS + 2
        return cls(np.zeros((samples, size)), np.zeros(size), np.eye(size))

    @property
    def n(self) -> int:
        """Number of samples."""
        return len(self.vectors)

    def make_tree(self) -> Tree:
        """Returns the model as a tree that can be saved; `FactorModel(**tree)` gives it back."""
        return {"vectors": self.vectors, "prior": self.prior, "precision": self.precision}

    def infer(self, samples: np.ndarray, values: np.ndarray, weights: np.ndarray) -> "Posterior":
        """Returns what is expected of a new model.

        Args:
          samples: int64[k], those that it has answered.
          values: float64[k] in [0, 1], its answers.
          weights: float64[n], of the samples in the mean.
        """
        values = values.astype(np.float64)
        v, u = self.vectors[samples], self.prior.copy()

        def compute_loss(u: Vector) -> float:
            logits, away = v @ u, u - self.prior
            return float(
                np.logaddexp(0, logits).sum() - values @ logits + away @ self.precision @ away / 2
            )

        loss = compute_loss(u)
        for _ in range(NEWTON_OF_MODELS):
            p = expit(v @ u)
            slope = v.T @ (values - p) - self.precision @ (u - self.prior)
            step = np.linalg.solve(_sum_squares(v, p * (1 - p) + 1e-9) + self.precision, slope)
            while (new := compute_loss(u + step)) > loss + 1e-10 and np.abs(step).max() > 1e-7:
                step = step / 2
            u, loss = u + step, new
            if np.abs(step).max() < 1e-7:
                break
        return Posterior(self, samples, values, weights, u)


def _sum_squares(v: Vectors, weights: PerAnswer) -> Float[np.ndarray, "size size"]:
    """Returns Σ w v vᵀ."""
    return (v * weights[:, None]).T @ v


@dataclass(frozen=True, eq=False)
class Posterior:
    """What is expected of a new model, given its answers.

    Attributes:
      model: that was fitted to the known models.
      samples, values, weights: as of `FactorModel.infer`.
      mode: float64[q], the most likely u of the new model.
    """

    model: FactorModel
    samples: np.ndarray
    values: np.ndarray
    weights: np.ndarray
    mode: np.ndarray

    @cached_property
    def expected(self) -> PerSample:
        """float64[n], the expected value of each sample, as if it were not answered."""
        return expit(self.model.vectors @ self.mode)

    @cached_property
    def _left(self) -> np.ndarray:
        left = np.ones(self.model.n, bool)
        left[self.samples] = False
        return left

    @property
    def mean(self) -> float:
        """The mean: of the answers, and of what is expected of all other samples."""
        left = self._left
        answered = self.weights[self.samples] @ self.values
        return float(answered + self.weights[left] @ self.expected[left])

    @cached_property
    def _hessian(self) -> Float[np.ndarray, "size size"]:
        p = self.expected[self.samples]
        return _sum_squares(self.model.vectors[self.samples], p * (1 - p)) + self.model.precision

    @cached_property
    def _noise(self) -> PerSample:
        return self.expected * (1 - self.expected)

    def _find_slope(self) -> Vector:
        """Returns the gradient of the mean of the samples that are left, by u."""
        left = self._left
        return self.model.vectors[left].T @ (self.weights * self._noise)[left]

    @property
    def deviation(self) -> float:
        """The standard deviation of `mean`, as the model claims it."""
        left, slope = self._left, self._find_slope()
        of_outcomes = float(self.weights[left] ** 2 @ self._noise[left])
        return float(np.sqrt(slope @ np.linalg.solve(self._hessian, slope) + of_outcomes))

    def find_information(self) -> PerSample:
        """Returns the square root of the fall of the mean's variance if a sample were answered,
        float64[n]: (vᵀ Σ q)² w / (1 + w vᵀ Σ v) with w = p (1 - p), Σ the covariance of u and q the
        gradient of the mean.
        """
        moved = self.model.vectors @ np.linalg.inv(self._hessian)
        own = np.einsum("ij,ij->i", moved, self.model.vectors)
        towards = moved @ self._find_slope()
        return np.abs(towards) * np.sqrt(self._noise / (1 + self._noise * own))

    def predict_without_each(self, start: int, stratum: np.ndarray) -> PerSample:
        """Returns what is expected of each sample without the answer that was drawn in its stratum,
        float64[n]; NaN where the sample is in none.

        Args:
          start: the first answer of the draws; the one from stratum h is `start + h`.
          stratum: int64[n], -1 for a sample of no stratum.
        """
        modes = self._find_modes_without(np.arange(start, len(self.samples)))
        inside = stratum >= 0
        logits = np.einsum("ij,ij->i", self.model.vectors[inside], modes[stratum[inside]])
        expected = np.full(self.model.n, np.nan)
        expected[inside] = expit(logits)
        return expected

    def _find_modes_without(
        self, answers: Int[np.ndarray, " left_out"]
    ) -> Float[np.ndarray, "left_out size"]:
        """Returns the mode without each of some answers: Newton's method from a step that takes the
        answer's part out of gradient and curvature.
        """
        v, each = self.model.vectors[self.samples], np.arange(len(answers))
        p, prior = self.expected[self.samples], self.model.prior
        outer = (p * (1 - p))[answers, None, None] * v[answers, :, None] * v[answers, None, :]
        slopes = v[answers] * (self.values - p)[answers, None]
        modes = self.mode - _solve(self._hessian - outer, slopes)
        for _ in range(NEWTON_WITHOUT):
            p = expit(modes @ v.T)
            noise, away = p * (1 - p), self.values - p
            noise[each, answers] = away[each, answers] = 0
            curvature = np.einsum("ik,ka,kb->iab", noise, v, v, optimize=True)
            slopes = away @ v - (modes - prior) @ self.model.precision
            step = _solve(curvature + self.model.precision, slopes)
            modes = modes + np.clip(step, -LONGEST, LONGEST)
        return modes


def _solve(
    matrices: Float[np.ndarray, "rows size size"], vectors: Float[np.ndarray, "rows size"]
) -> Float[np.ndarray, "rows size"]:
    return np.linalg.solve(matrices, vectors[:, :, None])[:, :, 0]


def count_fit_flops(models: int, samples: int) -> int:
    """Returns the FLOPs of `fit`: of the steps on at most `COLUMNS` samples, and of those that fit
    each sample by itself where there are more.
    """
    flops = STEPS * models * min(samples, COLUMNS) * (6 * FACTORS + 12)
    if samples > COLUMNS:
        flops += NEWTON_OF_SAMPLES * models * samples * (2 * (FACTORS + 1) ** 2 + 12)
    return flops


def fit(known: Matrix, random: np.random.Generator) -> FactorModel:
    """Fits a factor model to known models; holes do not count.

    Of many samples, the vectors of the models are fitted on `COLUMNS` of them, drawn at random, and
    then each sample by itself, so that no more than a block of the matrix is in memory.

    Args:
      known: outcomes, or scores in [0, 1].
      random: draws the start, and the samples.
    """
    (m, n), chosen = known.shape, None
    if n > COLUMNS:
        chosen = np.sort(random.choice(n, COLUMNS, replace=False))
    values, mask = _read(known, chosen)
    models, vectors = _descend(values, mask, random)
    if chosen is not None:
        vectors = np.empty((n, models.shape[1]))
        for columns, values, mask in _read_blocks(known):
            vectors[columns] = _fit_samples(values, mask, models)
    spread = np.cov(models.T) if m > 1 else np.zeros((models.shape[1],) * 2)
    spread += 1e-4 * np.eye(len(spread))
    spread[-2, -2] = WIDER * spread[-2, -2] + MORE_ABILITY
    spread[-1, -1] += MORE_EASINESS
    return FactorModel(vectors, models.mean(axis=0), np.linalg.inv(spread))


def _read(known: Matrix, columns: np.ndarray | None) -> tuple[Cells, Cells]:
    """Returns values with 0 where they are unknown, and 1 where they are known, float32[m, k]."""
    values = known.matrix(None, columns)
    return fill_unknown(values).astype(np.float32), is_observed(values).astype(np.float32)


def _read_blocks(known: Matrix) -> Iterator[tuple[slice, Cells, Cells]]:
    n = known.shape[1]
    for start in range(0, n, BLOCK):
        columns = slice(start, min(start + BLOCK, n))
        yield columns, *_read(known, np.arange(columns.start, columns.stop))


def _find_easiness(values: Cells, mask: Cells) -> PerSample:
    """Returns the logit of each sample's mean, drawn towards a half; of a sample that no model has
    answered, of the mean of all.
    """
    count = mask.sum(axis=0)
    overall = values.sum() / max(mask.sum(), 1)
    mean = np.where(count > 0, values.sum(axis=0) / np.maximum(count, 1), overall)
    return np.log((mean + START) / (1 + START - mean))


def _descend(values: Cells, mask: Cells, random: np.random.Generator) -> tuple[Models, Vectors]:
    """Returns the vectors of models, float64[m, q], and of samples, float64[n, q], by Adam on the
    penalised likelihood.
    """
    m, n = values.shape
    start = [
        0.1 * random.standard_normal((m, FACTORS)),
        0.1 * random.standard_normal((n, FACTORS)),
        _find_easiness(values, mask),
        np.zeros(m),
    ]
    parts = [part.astype(np.float32) for part in start]
    firsts, seconds = ([np.zeros_like(part) for part in parts] for _ in range(2))
    complete = bool(mask.all())
    for step in range(1, STEPS + 1):
        u, v, easiness, ability = parts
        away = u @ v.T
        away += easiness
        away += ability[:, None]
        away = expit(away, out=away)
        away -= values
        if not complete:
            away *= mask
        slopes = (
            *(away @ v + u, away.T @ u + v),
            *(away.sum(axis=0) + EASINESS_PENALTY * easiness, away.sum(axis=1)),
        )
        for part, first, second, slope in zip(parts, firsts, seconds, slopes, strict=True):
            first += (1 - FIRST_DECAY) * (slope - first)
            second += (1 - SECOND_DECAY) * (slope * slope - second)
            unbiased = np.sqrt(second / np.float32(1 - SECOND_DECAY**step)) + np.float32(1e-8)
            part -= RATE * (first / np.float32(1 - FIRST_DECAY**step)) / unbiased
    u, v, easiness, ability = (part.astype(np.float64) for part in parts)
    models = np.column_stack([u, ability, np.ones(m)])
    return models, np.column_stack([v, np.ones(n), easiness])


def _fit_samples(values: Cells, mask: Cells, models: Models) -> Vectors:
    """Returns the vectors of samples, float64[k, q], given those of the models: each by itself, by
    Newton's method on the same penalised likelihood.
    """
    x = np.delete(models, -2, axis=1).astype(np.float32)  # factors, and a one for the easiness
    ability, size = models[:, -2, None].astype(np.float32), x.shape[1]
    penalty = np.diag([1.0] * FACTORS + [EASINESS_PENALTY])
    found = np.zeros((values.shape[1], size))
    found[:, -1] = _find_easiness(values, mask)
    products = (x[:, :, None] * x[:, None, :]).reshape(len(x), -1)
    for _ in range(NEWTON_OF_SAMPLES):
        p = expit(x @ found.T.astype(np.float32) + ability)
        slope = ((values - p) * mask).T @ x - found @ penalty
        curvature = ((p * (1 - p)) * mask).T @ products
        step = _solve(curvature.reshape(-1, size, size).astype(np.float64) + penalty, slope)
        found += np.clip(step, -2, 2)
        if np.abs(step).max() < 1e-3:
            break
    return np.column_stack([found[:, :-1], np.ones(len(found)), found[:, -1]])
