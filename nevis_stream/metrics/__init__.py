"""Metrics by name."""

from collections.abc import Mapping

from nevis_stream.errors import look_up
from nevis_stream.metrics.error_rate import ERROR_RATE
from nevis_stream.metrics.mean_average_precision import MEAN_AVERAGE_PRECISION
from nevis_stream.metrics.metric import Metric

__all__ = ["METRICS", "Metric", "for_kind", "get"]

METRICS: Mapping[str, Metric] = {
    metric.name: metric for metric in (ERROR_RATE, MEAN_AVERAGE_PRECISION)
}


def get(name: str) -> Metric:
    """Returns the metric of this name.

    Raises:
      BadInput: no such metric; the message lists the valid names.
    """
    return look_up(METRICS, "metric", name)


def for_kind(kind: str) -> Metric:
    """Returns the metric by which tasks of a kind ("single_label", "multi_label") are judged.

    Raises:
      BadInput: no such kind; the message lists the valid ones.
    """
    headlines = {metric.kind: metric for metric in METRICS.values() if metric.headline}
    return look_up(headlines, "kind of task", kind)
