"""Progress of a run in a terminal: bars where there is a terminal, else a line for each result."""

import sys

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


class TerminalProgress:
    """Shows events, trials and steps with the time left; use it as a context manager.

    Args:
      title: what is running.
    """

    def __init__(self, title: str):
        self._title = title
        self._console = Console(file=sys.stderr)
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._events = self._bars.add_task(f"{title}: events", total=None)
        self._trials = self._bars.add_task("trials", total=None, visible=False)
        self._steps = self._bars.add_task("steps", total=None, visible=False)

    def __enter__(self) -> "TerminalProgress":
        self._bars.start()
        return self

    def __exit__(self, *exception) -> None:
        self._bars.stop()

    def event(self, index: int, events: int | None, description: str) -> None:
        """An event begins."""
        self._bars.update(
            self._events,
            completed=max(index, 0),
            total=events,
            description=f"{self._title}: {description}",
        )
        self._bars.update(self._trials, visible=False)
        self._bars.update(self._steps, visible=False)

    def trial(self, trial: int, trials: int) -> None:
        """`trial` trials are done; the next begins, or several run."""
        self._bars.update(self._trials, completed=trial, total=trials, visible=True)
        self._bars.reset(self._steps, visible=False)

    def step(self, step: int, steps: int) -> None:
        """`step` steps are done, of the trial or of all trials that run."""
        self._bars.update(self._steps, completed=step, total=steps, visible=True)

    def result(self, text: str) -> None:
        """A task has been judged."""
        self._console.print(f"{self._title}: {text}", highlight=False)
