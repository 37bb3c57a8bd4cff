"""nevis_stream: learners learn a stream of vision tasks, in the order in which research met them,
and are judged by error against cumulative FLOPs.

from nevis_stream import Ledger, run

run(learner, "pico", "runs/mine")
Ledger("runs/mine").to_pandas()
"""

import importlib
from typing import Any

_HOMES = {
    "Context": "learner",
    "DataSet": "datasets.dataset",
    "Event": "streams.task",
    "Learner": "learner",
    "Ledger": "run_directory.ledger",
    "NevisStreamError": "errors",
    "Predictor": "learner",
    "Progress": "learner",
    "Silent": "learner",
    "Stream": "streams.stream",
    "Task": "streams.task",
    "TaskView": "streams.task",
    "load_stream": "streams.stream",
    "make_dataset": "datasets.dataset",
    "read_dataset": "datasets.readers",
    "run": "runner",
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    """Imports a name when it is first used, so that importing the package is quick."""
    if name not in _HOMES:
        raise AttributeError(
            f"module {__name__!r} has no attribute {name!r}; it offers: {', '.join(_HOMES)}"
        )
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    """Names the lazy attributes too."""
    return sorted([*globals(), *_HOMES])
