"""Mean average precision: the macro mean over labels of average precision (NEVIS'22, equation 1).

Average precision is the step-wise area under the precision-recall curve, AP = Σ (R_k - R_{k-1}) P_k
over the distinct probabilities as thresholds, as scikit-learn's `average_precision_score`. A label
without a positive sample has none and is left out; if that is true of all labels, mAP is NaN.
"""

import numpy as np

from nevis_stream.datasets.dataset import MULTI_LABEL
from nevis_stream.metrics.metric import Metric, check


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


def _per_sample(labels: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    check(labels, probabilities, MULTI_LABEL)
    return ((probabilities > 0.5) == (labels > 0)).astype(np.uint8)


def _confidence(labels: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    check(labels, probabilities, MULTI_LABEL)
    return np.where(labels > 0, probabilities, 1 - probabilities).astype(np.float32)


def _aggregate(labels: np.ndarray, probabilities: np.ndarray) -> float:
    precisions = average_precisions(labels, probabilities)
    defined = precisions[~np.isnan(precisions)]
    return float(defined.mean()) if len(defined) else float("nan")


MEAN_AVERAGE_PRECISION = Metric(
    name="mean_average_precision",
    kind=MULTI_LABEL,
    direction="higher",
    headline=True,
    per_sample=_per_sample,
    confidence=_confidence,
    aggregate=_aggregate,
    to_error=lambda value: 1 - value,
)
