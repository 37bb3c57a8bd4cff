"""The interface of a metric: functions from arrays to arrays and floats."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nevis_stream.datasets.dataset import SINGLE_LABEL
from nevis_stream.errors import BadInput


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
