"""A progress bar over the items of a step of work."""

import sys
from collections.abc import Iterator, Sequence
from typing import TypeVar

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
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
