"""Executors run the trials of a `ctx.map`: here one after the other; in parallel in
launch/executors.

An executor gets trials and returns their results in order. A trial contains all that it needs and
can be sent to another process; what it computes depends on nothing else, so every executor gives
the same events and the same FLOPs.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from nevis_stream.cost.meter import Counts
from nevis_stream.progress import Progress
from nevis_stream.storage.checkpoint import EventWorkspace, Tree, to_host

Result = tuple[Tree, Counts]
"""The tree that a trial returned, and its FLOPs by phase and trial."""


@dataclass(frozen=True)
class Trial:
    """One call of `function(ctx, item)` with a context of its own.

    Attributes:
      function: what is run; None in a trial on its way to another process.
      item: its second argument, after the context.
      number: of the trial in its task, from 0.
      begin: `begin(progress=…)` returns the context; `workspace=…` gives it another one.
      workspace: where positions and the result are kept, or None (see storage.checkpoint).
    """

    function: Callable[[Any, Any], Tree] | None
    item: Any
    number: int
    begin: Callable[..., Any]
    workspace: EventWorkspace | None = None

    def finished(self) -> Result | None:
        """Returns the result if the trial was finished before a kill, else None."""
        return self.workspace.load_finished(self.number) if self.workspace else None

    def finish(self, result: Result) -> Result:
        """Keeps a result and returns it."""
        if self.workspace:
            self.workspace.finish(self.number, *result)
        return result

    def run(self, progress: Progress | None = None) -> Result:
        """Runs the trial from its last saved position; the result of a finished one is read."""
        result = self.finished()
        if result is None:
            assert self.function is not None, "the receiver of a trial puts its function back"
            ctx = self.begin(progress=progress)
            tree = to_host(self.function(ctx, self.item), copy=True)
            result = self.finish((tree, ctx.meter.counts()))
        return result

    def to_send(self) -> "Trial":
        """Returns the trial for another process: with what its workspace shares, and without its
        function, which may be large and is sent once for all trials.
        """
        workspace = self.workspace.share() if self.workspace else None
        return replace(
            self,
            function=None,
            begin=functools.partial(self.begin, workspace=workspace),
            workspace=workspace,
        )


class Executor(Protocol):
    """Runs trials. The table of them is in launch/executors."""

    def run(self, trials: Sequence[Trial], progress: Progress) -> list[Result]:
        """Returns the trials' results in their order; reports the number done to `progress`."""
        ...


@dataclass(frozen=True)
class Inline:
    """Runs trials one after the other in this process."""

    def run(self, trials: Sequence[Trial], progress: Progress) -> list[Result]:
        """Returns the trials' results in their order."""
        results = []
        for trial in trials:
            progress.trial(trial.number, trials[-1].number + 1)
            results.append(trial.run(progress))
        return results
