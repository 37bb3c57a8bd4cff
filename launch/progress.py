"""Progress of a run in a terminal: bars where there is a terminal, one line an event where there is
none.
"""

import sys
from collections.abc import Iterator, Sequence
from typing import TypeVar

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from nevis_stream.terminal import Console

T = TypeVar("T")


def track(what: str, items: Sequence[T]) -> Iterator[T]:
    """Yields the items; a bar shows how many are done, in a terminal.

    Args:
      what: the step of work that they are of.
      items: what is gone through.
    """
    console = Console(file=sys.stderr)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bars:
        yield from bars.track(items, description=f"{what:<14}")


class TerminalProgress:
    """Shows events, trials and steps with the time that is left; use it as a context manager.

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

    def event(self, index: int, events: int, description: str) -> None:
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
        """So many trials are done; one more begins, or several run."""
        self._bars.update(self._trials, completed=trial, total=trials, visible=True)
        self._bars.reset(self._steps, visible=False)

    def step(self, step: int, steps: int) -> None:
        """So many steps of the trial are done, or of all trials that run."""
        self._bars.update(self._steps, completed=step, total=steps, visible=True)

    def result(self, text: str) -> None:
        """A task has been judged."""
        self._console.print(f"{self._title}: {text}", highlight=False)
