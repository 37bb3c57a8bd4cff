"""Outcomes of one predictor on each sample of a split: checked, scored, and saved as arrays."""

import io
import math
from pathlib import Path
from typing import Any

import numpy as np

from nevis_stream import metrics
from nevis_stream.datasets.dataset import SINGLE_LABEL, Samples
from nevis_stream.storage import write_file


def complaint(probabilities: Any, n: int, kind: str, classes: int) -> str | None:
    """Returns what is wrong with a learner's answer, or None.

    Args:
      probabilities: what `predict` returned; valid is float[n, classes], finite, in [0, 1], and in
        single-label tasks each row adds up to 1 within 1e-3.
      n: number of samples.
      kind: "single_label" or "multi_label".
      classes: number of classes or labels.
    """
    try:
        array = np.asarray(probabilities, np.float32)
    except (TypeError, ValueError) as error:
        return f"returned {type(probabilities).__name__}, not an array ({error})"
    if array.shape != (n, classes):
        return (
            f"returned shape {array.shape}; {n} samples of {classes} classes need ({n}, {classes})"
        )
    infinite = np.flatnonzero(~np.isfinite(array).all(axis=1))
    if len(infinite):
        return (
            f"returned a probability that is not finite for sample {infinite[0]}"
            f" ({len(infinite)} such samples)"
        )
    low, high = array.min(), array.max()
    if low < 0 or high > 1 + 1e-5:
        return f"returned values from {low:g} to {high:g}; probabilities are in [0, 1]"
    sums = array.sum(axis=1, dtype=np.float64)
    off = np.flatnonzero(abs(sums - 1) > 1e-3)
    if kind == SINGLE_LABEL and len(off):
        return f"returned probabilities of sample {off[0]} that add up to {sums[off[0]]:g}, not 1"
    return None


def write(path: Path, samples: Samples, kind: str, probabilities: np.ndarray) -> dict[str, Any]:
    """Writes outcomes; returns metric, value, error (and reason) for the ledger."""
    metric = metrics.for_kind(kind)
    with io.BytesIO() as buffer:
        np.savez_compressed(
            buffer,
            sample_id=np.asarray(samples.ids),
            target=samples.labels,
            correct=metric.per_sample(samples.labels, probabilities),
            confidence=metric.confidence(samples.labels, probabilities),
        )
        write_file(path, buffer.getvalue())
    value = float(metric.aggregate(samples.labels, probabilities))
    if math.isnan(value):
        reason = f"{metric.name} is undefined here"
        return {"metric": metric.name, "value": None, "error": None, "reason": reason}
    return {"metric": metric.name, "value": value, "error": float(metric.to_error(value))}
