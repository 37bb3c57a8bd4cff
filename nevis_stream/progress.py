"""Progress: what works for long tells it to an object, which may show it."""

from collections.abc import Iterator, Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")


class Progress(Protocol):
    """Receives the state of a work; the methods here do nothing.

    A run reports its events, trials, steps and results, all else its stages.
    """

    def event(self, index: int, events: int | None, description: str) -> None:
        """Event `index` of `events` (None: unknown) begins; -1 is what comes before the first."""
        return

    def trial(self, trial: int, trials: int) -> None:
        """Of the event's `trials`, `trial` are done."""
        return

    def step(self, step: int, steps: int) -> None:
        """Of `steps` steps, `step` are done: of the running trial, or of all that run now."""
        return

    def result(self, text: str) -> None:
        """A task has a result, described by `text`."""
        return

    def stage(self, name: str, done: int = 0, total: int | None = None) -> None:
        """A stage begins, or goes on: of `total` parts (None: unknown), `done` are done."""
        return


class Silent(Progress):
    """A `Progress` that shows nothing."""


SILENT = Silent()


class Within(Silent):
    """Reports stages of a part of a work: `prefix` comes before their names."""

    def __init__(self, progress: Progress, prefix: str):
        self._progress, self._prefix = progress, prefix

    def stage(self, name: str, done: int = 0, total: int | None = None) -> None:
        """As `Progress.stage`."""
        self._progress.stage(f"{self._prefix}: {name}", done, total)


def follow(progress: Progress, name: str, items: Sequence[T]) -> Iterator[T]:
    """Yields the items of a stage, and reports how many are done."""
    for done, item in enumerate(items):
        progress.stage(name, done, len(items))
        yield item
