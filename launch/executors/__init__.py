"""Executors, which run the trials of a task; docs/executors.md explains how to choose one."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from nevis_stream.errors import BadInput, look_up, unknown
from nevis_stream.executor import Executor, Inline
from nevis_stream.launch.executors.ray_tasks import RayTasks
from nevis_stream.launch.executors.threads import Threads

EXECUTORS: Mapping[str, type] = {"inline": Inline, "ray": RayTasks, "threads": Threads}
"""By name, dataclasses whose fields are the options."""


def names() -> list[str]:
    """Returns the names of all executors."""
    return sorted(EXECUTORS)


def options(name: str) -> list[str]:
    """Returns the names of an executor's options.

    Raises:
      BadInput: no such executor; the message lists the valid names.
    """
    return [field.name for field in dataclasses.fields(look_up(EXECUTORS, "executor", name))]


def build(name: str, values: Mapping[str, Any] | None = None) -> Executor:
    """Returns the executor of this name, with these values of its options.

    Raises:
      BadInput: no such executor, or it has no such option; the message lists the valid ones.
    """
    valid = options(name)
    for option in values or {}:
        if option not in valid:
            raise BadInput(f"executor {name!r}: {unknown('option', option, valid)}")
    return EXECUTORS[name](**(values or {}))
