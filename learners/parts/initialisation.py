"""Where a model starts: a task's initial parameters, chosen before the trials begin."""

from dataclasses import dataclass
from typing import Protocol

from nevis_stream.learner import Context
from nevis_stream.task import TaskView


class Initialisation(Protocol):
    """Chooses the earlier task whose backbone a new task starts from."""

    def choose(self, task: TaskView, ctx: Context) -> str | None:
        """Returns the id of an earlier task, or None for random parameters; costs go to the phase `select`."""
        ...


@dataclass(frozen=True)
class FromRandom:
    """Random parameters, drawn anew for each trial."""

    def choose(self, task: TaskView, ctx: Context) -> str | None:
        """Returns None."""
        return None


@dataclass(frozen=True)
class FromPrevious:
    """The predictor chosen for the task just before; random parameters for the first task."""

    def choose(self, task: TaskView, ctx: Context) -> str | None:
        """Returns the id of the last task met."""
        return ctx.past_tasks[-1] if ctx.past_tasks else None
