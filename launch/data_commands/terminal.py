"""What the commands share: tables as wide as the terminal, a bar for one data set, counts in a
line.
"""

import sys
from collections.abc import Callable
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from nevis_stream import catalogue
from nevis_stream.terminal import Console

INCOMPLETE = 1  # exit status where something is left to do


def dataset_of(task: str) -> str:
    """Returns the data set of a task's canonical id (`mnist_2`: `mnist`); any other word as
    it is.
    """
    tasks = {row["canonical_id"]: row["dataset_id"] for row in catalogue.table("nevis22_tasks")}
    return tasks.get(task, task)


def console() -> Console:
    """Returns a console as wide as the terminal, or wide enough for every column where there is
    none.
    """
    return Console(width=None if Console().is_terminal else 180)


def progress_bars() -> Progress:
    """Returns bars on standard error, which show nothing where there is no terminal."""
    terminal = Console(file=sys.stderr)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=terminal, transient=True, disable=not terminal.is_terminal)


def bar(title: str):
    """Returns a context manager that shows a bar and gives a function that moves it: stage, done,
    total.
    """
    bars = progress_bars()

    class Bar:
        def __enter__(self) -> Callable[[str, int, int], None]:
            bars.start()
            task = bars.add_task(title, total=None)
            return lambda stage, done, total: bars.update(
                task, description=f"{title}: {stage}", completed=done, total=total
            )

        def __exit__(self, *exception) -> None:
            bars.stop()

    return Bar()


def counts(sizes: dict[str, int]) -> str:
    """Returns the sizes of parts or splits as words."""
    return ", ".join(f"{name} {count:,}" for name, count in sizes.items())


def print_duplicates(about: dict[str, Any]) -> None:
    """Prints what was removed or left out, and how much looks alike."""
    removed, near = about["exact_duplicates_removed"], about["near_duplicates_of_train"]
    print(
        f"exact duplicates removed: {removed['within_parts']} within a part,"
        f" {removed['across_parts']} across parts ({removed['other_label']} of them with another"
        " label); near duplicates of train pictures (perceptual hash): "
        + ", ".join(f"{count} in {split}" for split, count in near.items())
    )
    if about["unreadable"]:
        print(f"left out because unreadable: {', '.join(about['unreadable'])}")
