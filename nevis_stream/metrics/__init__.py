"""Metrics: each module of this package that defines `METRIC` is one."""

import functools
import importlib
import pkgutil
from collections.abc import Mapping

from nevis_stream.errors import BadInput, unknown
from nevis_stream.metrics.metric import Metric

__all__ = ["Metric", "for_kind", "get", "registry"]


@functools.cache
def registry() -> Mapping[str, Metric]:
    """Returns all metrics by name."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    metrics = [module.METRIC for module in modules if hasattr(module, "METRIC")]
    return {metric.name: metric for metric in metrics}


def get(name: str) -> Metric:
    """Returns the metric of this name.

    Raises:
      BadInput: no such metric; the message lists the valid names.
    """
    if name not in registry():
        raise BadInput(unknown("metric", name, registry()))
    return registry()[name]


def for_kind(kind: str) -> Metric:
    """Returns the metric by which tasks of a kind ("single_label", "multi_label") are judged.

    Raises:
      BadInput: no such kind; the message lists the valid ones.
    """
    headlines = {metric.kind: metric for metric in registry().values() if metric.headline}
    if kind not in headlines:
        raise BadInput(unknown("kind of task", kind, headlines))
    return headlines[kind]
