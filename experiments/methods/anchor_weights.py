"""Linear weights of anchors: values on a few samples predict those on all others.

A model's values are y_j = μ_j + Σ_a (y_a - μ_a) W_aj, a ridge regression over the known models. Its
penalty is the one with the smallest leave-one-out error of the benchmark's mean on these models.

Weights for the mean, learned for a given set of anchors, are what SparseEval (Zhang et al. 2026)
optimises by gradient descent with a small network; here they are linear, so that their optimum is
found in closed form.
"""

from typing import NamedTuple

import numpy as np

from nevis_stream.array_types import Float
from nevis_stream.cost.compute import Compute
from nevis_stream.dynamic_evaluation.known_models import draw_models
from nevis_stream.dynamic_evaluation.method import Prediction, ScorePredictor
from nevis_stream.dynamic_evaluation.policy import Key
from nevis_stream.queries.matrix import Matrix
from nevis_stream.queries.oracle import Responses
from nevis_stream.queries.samples import fill_unknown, is_observed
from nevis_stream.storage.checkpoint import Tree

MODELS = 2048  # known models that weights are fitted to, drawn at random if there are more
PENALTIES = np.geomspace(1e-3, 1e3, 13)  # in units of an anchor's mean sum of squares


def sample_means(matrix: np.ndarray) -> np.ndarray:
    """Returns the mean of each sample's known values, float64[n]; a sample that no model has met
    gets the mean of all known values.
    """
    total, count = (
        fill_unknown(matrix).sum(axis=0, dtype=np.float64),
        is_observed(matrix).sum(axis=0),
    )
    return np.where(count, total / np.maximum(count, 1), total.sum() / max(count.sum(), 1))


class Weights(NamedTuple):
    """Weights of k anchors.

    Attributes:
      values: float64[k, d], of each of d targets.
      left_out: float64[m0], each known model's error of the mean when the others are fitted.
    """

    values: np.ndarray
    left_out: np.ndarray


def centre(known: Matrix, key: Key, ctx: Compute) -> Tree:
    """Returns `mean`, float32[n], of the known models' values on each sample, and `rows`,
    float32[m0, n], the values minus this mean; 0 where a value is unknown.
    """
    values = known.matrix(draw_models(known, MODELS, key))
    mask = is_observed(values)
    mean = sample_means(values)
    ctx.charge(3 * values.size)
    away = np.where(mask, fill_unknown(values) - mean, 0)
    return {"mean": mean.astype(np.float32), "rows": away.astype(np.float32)}


def fit_weights(
    anchors: Float[np.ndarray, "models anchors"],
    benchmark: Float[np.ndarray, " models"],
    targets: Float[np.ndarray, "models targets"],
    ctx: Compute,
) -> Weights:
    """Fits the weights of k anchors for d targets by ridge regression.

    Args:
      anchors: float[m0, k], centred values of the known models.
      benchmark: float[m0], their centred means, by which the penalty is chosen.
      targets: float[m0, d], what the weights are for.
      ctx: charged 2 m0 k min(m0, k) FLOPs for the singular values, and the products.
    """
    anchors = anchors.astype(np.float64)
    models, count = anchors.shape
    left, singular_values, right = np.linalg.svd(anchors, full_matrices=False)
    scale = max((singular_values**2).sum() / count, 1e-12)
    towards = left.T @ benchmark
    best: tuple[float, np.ndarray, np.ndarray] | None = None
    for penalty in PENALTIES * scale:
        shrunk = singular_values**2 / (singular_values**2 + penalty)
        # the mean is fitted too, so that a model also has the leverage 1 / m0
        leverage = (left**2) @ shrunk + 1 / models
        error = (benchmark - left @ (shrunk * towards)) / np.maximum(1 - leverage, 1e-6)
        loss = float((error**2).sum())
        if best is None or loss < best[0]:
            best = loss, singular_values / (singular_values**2 + penalty), error
    assert best is not None
    _, gains, error = best
    smaller, penalties = min(models, count), len(PENALTIES)
    ctx.charge(4 * models * count * smaller + penalties * 6 * models * smaller)
    ctx.charge(2 * models * smaller * targets.shape[1] + 2 * count * smaller * targets.shape[1])
    return Weights((right.T * gains) @ (left.T @ targets), error)


class AnchorWeights(ScorePredictor):
    """Predicts by ridge regression on the asked samples."""

    about = "linear weights of the asked samples, fitted to the known models"
    takes_scores = True

    def fit(self, known: Matrix, key: Key, ctx: Compute) -> Tree:
        """Centres the known models' values."""
        return centre(known, key, ctx)

    def predict(
        self, tree: Tree, budget_fit: Tree, known: Matrix, answers: Responses, ctx: Compute
    ) -> Prediction:
        """Fits weights for each different set of samples."""
        samples, inverse = np.unique(answers.samples, axis=0, return_inverse=True)
        mean, rows = tree["mean"], tree["rows"]
        benchmark = rows @ known.facts.weights
        values = np.empty((len(answers.values), len(mean)), np.float32)
        for number, asked in enumerate(samples):
            models = np.flatnonzero(inverse.ravel() == number)
            fitted = fit_weights(rows[:, asked], benchmark, rows, ctx).values
            away = answers.values[models] - mean[asked]
            values[models] = mean + away @ fitted
            ctx.charge(2 * len(models) * fitted.size)
        return Prediction(np.clip(values, 0, 1))
