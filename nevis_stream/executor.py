"""Who runs the trials of one `ctx.map`: one after the other here; side by side in launch/executors.

An executor gets trials and returns their results in order. A trial carries all that it needs and
can travel to another process; what it computes depends on nothing but itself, so that every
executor gives the same events and the same FLOPs.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from nevis_stream.run_directory.checkpoint import Tree, to_host
from nevis_stream.run_directory.workspace import EventWorkspace

Result = tuple[Tree, dict]
"""What a trial returned, and its FLOPs by phase and trial."""


class Progress(Protocol):
    """Receives the state of a run; every method may do nothing, as those here.

    `trial` gets the number of an event's trials that are done, `step` the number of steps of the
    running trial (of all of them, where several run).
    """

    def event(self, index: int, events: int | None, description: str) -> None:
        return

    def trial(self, trial: int, trials: int) -> None:
        return

    def step(self, step: int, steps: int) -> None:
        return

    def result(self, text: str) -> None:
        return


class Silent(Progress):
    """A `Progress` that shows nothing."""


@dataclass(frozen=True)
class Trial:
    """One call of `function(ctx, item)` with a context of its own.

    Attributes:
      function: what is run.
      item: its second argument, after the context.
      number: of the trial in its task, from 0.
      begin: `begin(progress=…)` returns the context; `workspace=…` gives it another one.
      workspace: where positions and the result are kept, or None (see run_directory.workspace).
    """

    function: Callable[[Any, Any], Tree]
    item: Any
    number: int
    begin: Callable[..., Any]
    workspace: EventWorkspace | None = None

    def finished(self) -> Result | None:
        """Returns the result of a trial that was finished before a kill, or None."""
        return self.workspace.finished(self.number) if self.workspace else None

    def finish(self, result: Result) -> Result:
        """Keeps a result and returns it."""
        if self.workspace:
            self.workspace.finish(self.number, *result)
        return result

    def run(self, progress: Progress | None = None) -> Result:
        """Runs the trial, from its last saved position; a finished one is read back with
        its cost.
        """
        done = self.finished()
        if done is None:
            ctx = self.begin(progress=progress)
            done = self.finish((to_host(self.function(ctx, self.item)), ctx.meter.counts()))
        return done

    def without_function(self) -> "Trial":
        """Returns the trial without its function, which may be large: to send that once."""
        return replace(self, function=None)

    def to_send(self) -> "Trial":
        """Returns the trial as another process may run it: without its function, and with what its
        workspace shares.
        """
        workspace = self.workspace.shared() if self.workspace else None
        return replace(
            self.without_function(),
            begin=functools.partial(self.begin, workspace=workspace),
            workspace=workspace,
        )


class Executor(Protocol):
    """Runs trials; new ones are a file in launch/executors."""

    def run(self, trials: Sequence[Trial], progress: Progress) -> list[Result]:
        """Returns the trials' results in their order; `progress` gets the number that is done."""
        ...


@dataclass(frozen=True)
class Inline:
    """Runs trials one after the other in this process."""

    def run(self, trials: Sequence[Trial], progress: Progress) -> list[Result]:
        """Runs them in order."""
        results = []
        for trial in trials:
            progress.trial(trial.number, trials[-1].number + 1)
            results.append(trial.run(progress))
        return results
