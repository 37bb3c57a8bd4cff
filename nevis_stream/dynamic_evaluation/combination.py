"""A weighted mean of predictors' logits whose weights, correction and intervals come from
cross-validation on known models.

Each known model is once treated as new: predictors are fitted to the models outside its fold (whole
groups stay together), asked for the same budget, and compared with what is known of it. What is
fitted there is little, and drawn towards a default, so that few known models do no harm.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from nevis_stream.dynamic_evaluation import intervals
from nevis_stream.dynamic_evaluation.learners import NAMES, Learners, Views
from nevis_stream.dynamic_evaluation.method import UNKNOWN, Estimates, MatrixOracle, generator

FOLDS = 5
HELD_OUT = 250  # known models that are treated as new, at most
COLUMNS = 4096  # samples of the cross-validation, at most
CELLS = 100_000  # cells to which the weights are fitted, at most
# strength of the pull towards equal weights, in units of the mean loss of a cell
TOWARDS_DEFAULT = 0.02
# how many models without any bias are taken for seen: each one's own grid says little
UNBIASED_MODELS = 30.0
PRIOR_MODELS = 4.0  # how many models the model's own deviation counts for


@dataclass(frozen=True)
class Calibration:
    """What cross-validation found for one budget.

    Args:
      weights: float64[6], of the predictors' logits.
      correction: 0 ... 1, share of the mean residual on the grid that is added to the accuracy.
      widening: half-width of the 95% interval in posterior standard deviations.
    """

    weights: np.ndarray
    correction: float
    widening: float


DEFAULT = Calibration(np.full(len(NAMES), 1 / len(NAMES)), 0.0, 3.0)
"""Used if there is a single known model or group, so that nothing can be left out."""


def probabilities(views: Views, weights: np.ndarray) -> np.ndarray:
    """Returns the combined P(correct), float32[m, n], as if nothing had been observed exactly."""
    return expit(np.tensordot(weights.astype(np.float32), views.logits, axes=1))


def accuracies(p: np.ndarray, views: Views) -> tuple[np.ndarray, np.ndarray]:
    """Returns the models' accuracy with observed outcomes kept, float64[m], and the correction of
    the rest that the grid suggests, float64[m].

    The grid reaches over the whole order, so the mean of y - p on it estimates that on the samples
    that were not asked.
    """
    samples, outcomes = views.asked.samples, views.asked.outcomes
    guessed = np.take_along_axis(p, samples, axis=1)
    n, grid = p.shape[1], views.asked.grid
    accuracy = (
        p.sum(axis=1, dtype=np.float64) + (outcomes - guessed).sum(axis=1, dtype=np.float64)
    ) / n
    residual = (outcomes - guessed)[:, :grid].mean(axis=1, dtype=np.float64)
    return accuracy, residual * (1 - samples.shape[1] / n)


def estimates(views: Views, calibration: Calibration) -> Estimates:
    """Returns the combined estimates of m models."""
    p = probabilities(views, calibration.weights)
    accuracy, residual = accuracies(p, views)
    accuracy = np.clip(accuracy + calibration.correction * residual, 0, 1)
    half = calibration.widening * views.deviation
    samples, outcomes = views.asked.samples, views.asked.outcomes[:, : views.asked.grid]
    share = (outcomes.sum(axis=1) + 1) / (views.asked.grid + 2)
    error = np.sqrt(share * (1 - share) / views.asked.grid) * (1 - samples.shape[1] / p.shape[1])
    unbiased = accuracy + (1 - calibration.correction) * residual
    interval = intervals.extended(accuracy - half, accuracy + half, unbiased, error)
    return Estimates.of(p, views.asked.samples, views.asked.outcomes, accuracy, interval)


def folds(
    models: int, groups: Sequence[str] | None, random: np.random.Generator
) -> list[np.ndarray]:
    """Returns at most five sets of models to leave out, int64 each, that keep groups together; none
    if there is one group only.

    All hold as many groups, so that one compiled program serves all: some groups may be left out
    twice. Of very many models not all are left out.
    """
    _, group = np.unique(
        np.arange(models) if groups is None else np.asarray(groups), return_inverse=True
    )
    count = int(group.max()) + 1
    if count < 2:
        return []
    size = min(-(-count // FOLDS), max(HELD_OUT * count // (FOLDS * models), 1))
    drawn = random.permutation(count)
    parts = [
        drawn[np.arange(start, start + size) % count]
        for start in range(0, min(FOLDS * size, count), size)
    ]
    return [np.flatnonzero(np.isin(group, part)) for part in parts]


class CrossValidation:
    """Predictors fitted without each fold of the known models; calibrates any budget.

    Args:
      known: uint8[m0, n] of 0, 1 and 255; of more than 4,096 samples as many are drawn.
      groups: the known models' groups or None.
      key: a JAX key.
    """

    def __init__(self, known: np.ndarray, groups: Sequence[str] | None, key):
        random = generator(key)
        if known.shape[1] > COLUMNS:
            known = known[:, np.sort(random.choice(known.shape[1], COLUMNS, replace=False))]
        self.known, self.key = known, key
        # siblings of one group err alike
        self.groups = len(known if groups is None else set(groups))
        parts = folds(len(known), groups, random)
        self.parts = [part for part in parts if (np.delete(known, part, axis=0) != UNKNOWN).any()]
        self.fitted = [Learners.fit(np.delete(known, part, axis=0), key) for part in self.parts]

    def calibrate(self, budget: int) -> Calibration:
        """Returns the calibration for a budget."""
        if not self.parts:
            return DEFAULT
        random = generator(self.key)
        truths = [_filled(self.known[part], random) for part in self.parts]
        budget = min(budget, self.known.shape[1])
        views = [
            learners.look(MatrixOracle(truth), len(truth), budget)
            for learners, truth in zip(self.fitted, truths, strict=True)
        ]
        weights = _weights(views, [self.known[part] for part in self.parts], random)
        parts = [accuracies(probabilities(view, weights), view) for view in views]
        accuracy, residual = (np.concatenate(values) for values in zip(*parts, strict=True))
        missing = np.concatenate(truths).mean(axis=1) - accuracy
        squares = (residual**2).sum() + UNBIASED_MODELS * (residual**2).mean()
        correction = float(np.clip(residual @ missing / squares, 0, 1)) if squares else 0.0
        deviation = np.concatenate([view.deviation for view in views])
        widening = intervals.half_width(
            missing - correction * residual, deviation, self.groups, PRIOR_MODELS
        )
        return Calibration(weights, correction, widening)


def _filled(outcomes: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Fills the holes of models that are asked for the sake of cross-validation: draws by the mean
    of the sample's model.
    """
    there = outcomes != UNKNOWN
    share = ((outcomes == 1).sum(axis=1) + 1) / (there.sum(axis=1) + 2)
    drawn = random.random(outcomes.shape) < share[:, None]
    return np.where(there, outcomes, drawn).astype(np.uint8)


def _weights(
    views: list[Views], truths: list[np.ndarray], random: np.random.Generator
) -> np.ndarray:
    """Weights by logistic regression on the cells that were not asked, pulled towards equal ones
    (Newton's method).
    """
    cells = []
    for view, truth in zip(views, truths, strict=True):
        free = truth != UNKNOWN
        np.put_along_axis(free, view.asked.samples, False, axis=1)
        cells.append((view.logits[:, free], truth[free]))
    x = np.concatenate([logits for logits, _ in cells], axis=1).T.astype(np.float64)
    y = np.concatenate([outcomes for _, outcomes in cells]).astype(np.float64)
    if len(y) > CELLS:
        chosen = random.choice(len(y), CELLS, replace=False)
        x, y = x[chosen], y[chosen]
    weights, eye = DEFAULT.weights.copy(), np.eye(len(DEFAULT.weights))
    for _ in range(8 if len(y) else 0):
        p = expit(x @ weights)
        slope = x.T @ (p - y) / len(y) + TOWARDS_DEFAULT * (weights - DEFAULT.weights)
        weights -= np.linalg.solve(
            (x.T * (p * (1 - p))) @ x / len(y) + TOWARDS_DEFAULT * eye, slope
        )
    return weights
