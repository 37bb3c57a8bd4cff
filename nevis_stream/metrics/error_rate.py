"""Error rate: the share of samples whose most probable class is not theirs (NEVIS'22, equation 1).

If several classes are equally probable, the answer is the lowest id, as in `numpy.argmax`.
"""

import numpy as np

from nevis_stream.datasets.dataset import SINGLE_LABEL
from nevis_stream.metrics.metric import Metric, check


def _per_sample(labels: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    check(labels, probabilities, SINGLE_LABEL)
    return (probabilities.argmax(axis=1) == labels).astype(np.uint8)


def _confidence(labels: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    check(labels, probabilities, SINGLE_LABEL)
    return probabilities[np.arange(len(labels)), labels].astype(np.float32)


def _aggregate(labels: np.ndarray, probabilities: np.ndarray) -> float:
    wrong = len(labels) - int(_per_sample(labels, probabilities).sum(dtype=np.int64))
    return wrong / len(labels)


ERROR_RATE = Metric(
    name="error_rate",
    kind=SINGLE_LABEL,
    direction="lower",
    headline=True,
    per_sample=_per_sample,
    confidence=_confidence,
    aggregate=_aggregate,
    to_error=lambda value: value,
)
