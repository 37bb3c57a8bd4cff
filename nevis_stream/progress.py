"""Progress in a terminal: bars of commands and of runs. Without a terminal there are no bars, and a
run prints a line for each result.
"""

import sys

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from nevis_stream.terminal import Console


def progress_bars() -> Progress:
    """Returns progress bars on standard error; without a terminal they show nothing."""
    console = Console(file=sys.stderr)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


class TerminalProgress:
    """Shows the events, trials and steps of a run; use it as a context manager.

    Args:
      title: of the run.
    """

    def __init__(self, title: str):
        self._title = title
        self._bars = progress_bars()
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
        """`trial` trials are done."""
        self._bars.update(self._trials, completed=trial, total=trials, visible=True)
        self._bars.reset(self._steps, visible=False)

    def step(self, step: int, steps: int) -> None:
        """`step` steps are done, of the trial or of all running trials."""
        self._bars.update(self._steps, completed=step, total=steps, visible=True)

    def result(self, text: str) -> None:
        """A task has a result."""
        self._bars.console.print(f"{self._title}: {text}", highlight=False)
