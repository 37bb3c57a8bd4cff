"""Executors, which run the trials of a task; docs/executors.md explains how to choose one."""

from collections.abc import Mapping

from nevis_stream.executor import Inline
from nevis_stream.launch.executors.ray_tasks import RayTasks
from nevis_stream.launch.executors.threads import Threads

EXECUTORS: Mapping[str, type] = {"inline": Inline, "ray": RayTasks, "threads": Threads}
"""By name, dataclasses whose fields are the options."""
