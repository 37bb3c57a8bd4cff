"""Tables, progress bars and numbers, printed in the same way by every command."""

import contextlib
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from nevis_stream.cost.meter import engineering
from nevis_stream.queries.oracle import Estimate
from nevis_stream.terminal import Console, progress_bars

T = TypeVar("T")
_WITHOUT_TERMINAL = 180  # columns; enough for every table


def console() -> Console:
    """Returns a console on standard output; if that is no terminal, wide enough for every table."""
    return Console(width=None if Console().is_terminal else _WITHOUT_TERMINAL)


@contextlib.contextmanager
def bar(title: str, lines: bool = False) -> Iterator[Callable[[str, int, int | None], None]]:
    """Shows a progress bar; yields the function `move(stage, done, total)` that updates it.

    Args:
      title: what is being done.
      lines: whether to print a line for each new stage if there is no terminal.
    """
    printed = ""
    with progress_bars() as bars:
        task = bars.add_task(title, total=None)

        def move(stage: str, done: int, total: int | None) -> None:
            nonlocal printed
            bars.update(task, description=f"{title}: {stage}", completed=done, total=total)
            if lines and not bars.console.is_terminal and stage != printed:
                printed = stage
                print(f"{title}: {stage}", file=sys.stderr)

        yield move


def track(title: str, items: Sequence[T]) -> Iterator[T]:
    """Yields the items; a progress bar shows the number done."""
    with progress_bars() as bars:
        yield from bars.track(items, description=f"{title:<14}")


def estimate_cells(estimate: Estimate) -> tuple[str, str]:
    """Returns the cells of a table for an estimate, and for its interval or why there is none."""
    value = "–" if math.isnan(estimate.value) else f"{estimate.value:z.4f}"
    if math.isnan(estimate.low):
        return value, f"no interval: {estimate.reason}"
    return value, f"{estimate.low:z.4f} to {estimate.high:z.4f}"


def flops(value: float | None) -> str:
    """Returns FLOPs in engineering notation, or "unknown"."""
    return "unknown" if value is None else f"{engineering(value)} FLOPs"
