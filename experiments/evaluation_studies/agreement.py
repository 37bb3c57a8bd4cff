"""Measures how well predicted values agree with the truth. Errors are from 0 to 1."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nevis_stream.dynamic_evaluation.sorting import fit_thresholds
from nevis_stream.errors import BadInput
from nevis_stream.queries.samples import fill_unknown, is_observed


def compute_mean_absolute_error(predicted: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Returns the mean absolute error over the samples with a known truth, float64[m]; for outcomes
    this is the fraction predicted wrongly. NaN for a model without known truth.

    Args:
      predicted: uint8[m, n] of 0 and 1, or float[m, n] of scores.
      truth: uint8[m, n] of 0, 1 and 255, or float[m, n] of scores with NaN.

    Source: Sort & Search, E(a, y).
    """
    is_known = is_observed(truth)
    distance = np.abs(fill_unknown(truth).astype(np.float64) - predicted)
    known = is_known.sum(axis=1)
    total = np.where(is_known, distance, 0).sum(axis=1)
    return np.divide(total, known, out=np.full(len(known), np.nan), where=known > 0)


def correlate_ranks(estimated: np.ndarray, true: np.ndarray) -> tuple[float, float]:
    """Returns Spearman's and Kendall's (tau-b) correlation of two rankings of models; NaN if one
    of them is constant or m < 2.

    Args:
      estimated, true: float[m], accuracies.
    """
    from scipy.stats import kendalltau, spearmanr

    if len(true) < 2 or np.ptp(true) == 0 or np.ptp(estimated) == 0:
        return float("nan"), float("nan")
    return float(spearmanr(estimated, true).statistic), float(kendalltau(estimated, true).statistic)


@dataclass(frozen=True)
class ErrorParts:
    """Error of a thresholded prediction, float64[m] each: total ≤ aleatoric + epistemic.

    Attributes:
      total: distance of truth and prediction.
      aleatoric: distance of the truth from the best threshold on this order, which no budget can
        reduce.
      epistemic: distance of the prediction from that best threshold, which more samples reduce.
    """

    total: np.ndarray
    aleatoric: np.ndarray
    epistemic: np.ndarray


def decompose(truth: np.ndarray, order: np.ndarray, predicted: np.ndarray) -> ErrorParts:
    """Splits the error of thresholded predictions on one order of the samples.

    Args:
      truth: uint8[m, n] of 0 and 1.
      order: int64[n], from easy to hard.
      predicted: bool[m, n] or uint8[m, n] of 0 and 1, as
        `predictors.sort_and_search.predict_by_threshold` predicts: ones, then zeros. With the
        observed outcomes put back it is no such prediction: its distance from the best threshold
        grows with the budget, to the aleatoric part.

    Source: Sort & Search, section 3 and equation 4, E_al and E_ep; the sum is an upper bound
      (triangle inequality), not an equality.
    """
    truth, predicted = truth[:, order], predicted[:, order]
    best = np.arange(truth.shape[1]) < fit_thresholds(truth)[:, None]
    return ErrorParts(
        (truth != predicted).mean(axis=1),
        (truth != best).mean(axis=1),
        (best != predicted).mean(axis=1),
    )


def correlate_models(values: np.ndarray) -> np.ndarray:
    """Returns Pearson's correlation of every two models' values, float64[m, m]; NaN for a model
    whose values are all equal.

    For outcomes this is also Spearman's. Models with holes are compared on the samples that both
    have.

    Args:
      values: uint8[m, n] of 0, 1 and 255, or float[m, n] of scores with NaN.

    Source: Sort & Search, Appendix D.
    """
    mask = is_observed(values).astype(np.float64)
    value = fill_unknown(values).astype(np.float64)
    both = mask @ mask.T
    sums = value @ mask.T  # of the row's model where the column's model is known
    squares = value**2 @ mask.T
    with np.errstate(divide="ignore", invalid="ignore"):
        covariance = value @ value.T / both - sums * sums.T / both**2
        variance = squares / both - (sums / both) ** 2
        correlation = covariance / np.sqrt(variance * variance.T)
    varied = (variance > 0) & (variance.T > 0)
    return np.where(varied, np.clip(correlation, -1, 1), np.nan)


@dataclass(frozen=True)
class Decay:
    """The fitted error E(b) = a exp(-rate · b) + plateau of a budget of b samples."""

    a: float
    rate: float
    plateau: float

    def __call__(self, budget: np.ndarray | Sequence[int] | int) -> np.ndarray:
        """Returns the fitted error of budgets."""
        return self.a * np.exp(-self.rate * np.asarray(budget, np.float64)) + self.plateau


def fit_decay(budgets: np.ndarray, errors: np.ndarray) -> Decay:
    """Fits the exponential decay of error with budget by least squares, with a, rate and plateau ≥
    0.

    For a given rate the other parameters are a linear problem, so only the rate is searched: on a
    grid of 400 rates, then between the neighbours of the best.

    Args:
      budgets: int[k], k ≥ 3 different ones.
      errors: float[k].

    Raises:
      BadInput: there are fewer than three budgets, or an error is not finite.

    Source: Sort & Search, section 4.2.
    """
    from scipy.optimize import minimize_scalar, nnls

    budgets, errors = np.asarray(budgets, np.float64), np.asarray(errors, np.float64)
    if len(np.unique(budgets)) < 3 or not np.isfinite(errors).all():
        raise BadInput(
            "the decay of error needs at least three different budgets, each with a finite error."
        )

    def fit(log_rate: float) -> tuple[np.ndarray, float]:
        design = np.stack([np.exp(-np.exp(log_rate) * budgets), np.ones(len(budgets))], axis=1)
        return nnls(design, errors)

    grid = np.linspace(np.log(0.01 / budgets.max()), np.log(10 / budgets.min()), 400)
    best = int(np.argmin([fit(rate)[1] for rate in grid]))
    around = (grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)])
    log_rate = minimize_scalar(lambda rate: fit(rate)[1], bounds=around, method="bounded").x
    (a, plateau), _ = fit(log_rate)
    return Decay(float(a), float(np.exp(log_rate)), float(plateau))
