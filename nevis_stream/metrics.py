"""Metrics: functions from arrays to arrays and floats, in a table by name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from nevis_stream.datasets.dataset import MULTI_LABEL, SINGLE_LABEL
from nevis_stream.errors import BadInput, look_up


@dataclass(frozen=True)
class Metric:
    """Judges the answers to one kind of task, for each sample and for all together.

    All functions take `labels` (int32[n] class ids, or uint8[n, labels] with 0 or 1) and
    `probabilities` (float[n, classes], finite), and raise `BadInput` for arrays of other shapes.

    Attributes:
      name: as in ledgers and reports.
      kind: "single_label" or "multi_label".
      direction: "lower" or "higher": which values are better.
      headline: whether tasks of this kind are judged by it (one metric for each kind).
      per_sample: uint8[n], or uint8[n, labels] at probability 0.5: 1 where the answer is right.
      confidence: float32, shaped as `per_sample`: the probability given to the true answer.
      aggregate: float: the value over all samples; NaN where it is undefined.
      to_error: the value as an error in [0, 1], lower is better.
    """

    name: str
    kind: str
    direction: str
    headline: bool
    per_sample: Callable[[np.ndarray, np.ndarray], np.ndarray]
    confidence: Callable[[np.ndarray, np.ndarray], np.ndarray]
    aggregate: Callable[[np.ndarray, np.ndarray], float]
    to_error: Callable[[float], float]


def check(labels: np.ndarray, probabilities: np.ndarray, kind: str) -> None:
    """Raises `BadInput` unless the arrays fit each other and the kind, with at least one sample."""
    rank = 1 if kind == SINGLE_LABEL else 2
    fits = probabilities.ndim == 2 and labels.shape == probabilities.shape[:rank]
    if not fits or not len(labels):
        expected = "[n]" if rank == 1 else "[n, classes]"
        raise BadInput(
            f"labels of shape {labels.shape} and probabilities of shape {probabilities.shape} "
            f"cannot be judged as {kind}; valid: {expected} and [n, classes], with n at least 1."
        )
    if not np.isfinite(probabilities).all():
        raise BadInput("probabilities to be judged must be finite.")


def _correct(labels: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    check(labels, probabilities, SINGLE_LABEL)
    return (probabilities.argmax(axis=1) == labels).astype(np.uint8)


def _confidence_correct(labels: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    check(labels, probabilities, SINGLE_LABEL)
    return probabilities[np.arange(len(labels)), labels].astype(np.float32)


def _error_rate(labels: np.ndarray, probabilities: np.ndarray) -> float:
    wrong = len(labels) - int(_correct(labels, probabilities).sum(dtype=np.int64))
    return wrong / len(labels)


ERROR_RATE = Metric(
    name="error_rate",
    kind=SINGLE_LABEL,
    direction="lower",
    headline=True,
    per_sample=_correct,
    confidence=_confidence_correct,
    aggregate=_error_rate,
    to_error=lambda value: value,
)
"""The fraction of samples whose most probable class is not theirs (NEVIS'22, equation 1).

If several classes are equally probable, the answer is the lowest id, as in `numpy.argmax`.
"""


def average_precisions(labels: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """Returns float64[labels]: the average precision of each label, NaN where it has no positive.

    Args:
      labels: uint8[n, labels], 0 or 1.
      probabilities: float[n, labels].

    Raises:
      BadInput: other shapes, no sample, or probabilities that are not finite.
    """
    check(labels, probabilities, MULTI_LABEL)
    order = np.argsort(-probabilities, axis=0, kind="stable")
    ranked = np.take_along_axis(probabilities, order, axis=0)
    hits = np.take_along_axis(labels, order, axis=0).astype(np.float64)
    n = len(labels)
    # A positive counts at the last rank with its probability, since no threshold separates ties.
    last = np.full(ranked.shape, n - 1)
    last[:-1] = np.where(ranked[:-1] != ranked[1:], np.arange(n - 1)[:, None], n - 1)
    last = np.minimum.accumulate(last[::-1], axis=0)[::-1]
    precision = np.take_along_axis(hits.cumsum(axis=0), last, axis=0) / (last + 1)
    positives = hits.sum(axis=0)
    total = (hits * precision).sum(axis=0)
    return np.divide(total, positives, out=np.full(len(total), np.nan), where=positives > 0)


def _correct_labels(labels: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    check(labels, probabilities, MULTI_LABEL)
    return ((probabilities > 0.5) == (labels > 0)).astype(np.uint8)


def _confidence_of_labels(labels: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    check(labels, probabilities, MULTI_LABEL)
    return np.where(labels > 0, probabilities, 1 - probabilities).astype(np.float32)


def _mean_average_precision(labels: np.ndarray, probabilities: np.ndarray) -> float:
    precisions = average_precisions(labels, probabilities)
    defined = precisions[~np.isnan(precisions)]
    return float(defined.mean()) if len(defined) else float("nan")


MEAN_AVERAGE_PRECISION = Metric(
    name="mean_average_precision",
    kind=MULTI_LABEL,
    direction="higher",
    headline=True,
    per_sample=_correct_labels,
    confidence=_confidence_of_labels,
    aggregate=_mean_average_precision,
    to_error=lambda value: 1 - value,
)
"""The macro mean over labels of average precision (NEVIS'22, equation 1).

Average precision is the step-wise area under the precision-recall curve, AP = Σ (R_k - R_{k-1}) P_k
over the distinct probabilities as thresholds, as scikit-learn's `average_precision_score`. A label
without a positive sample has none and is left out; if that is true of all labels, mAP is NaN.
"""

METRICS: Mapping[str, Metric] = {
    metric.name: metric for metric in (ERROR_RATE, MEAN_AVERAGE_PRECISION)
}


def get(name: str) -> Metric:
    """Returns the metric of this name.

    Raises:
      BadInput: no such metric; the message lists the valid names.
    """
    return look_up(METRICS, "metric", name)


def find_metric(kind: str) -> Metric:
    """Returns the metric by which tasks of a kind ("single_label", "multi_label") are judged.

    Raises:
      BadInput: no such kind; the message lists the valid ones.
    """
    headlines = {metric.kind: metric for metric in METRICS.values() if metric.headline}
    return look_up(headlines, "kind of task", kind)


for_kind = find_metric  # its former name
