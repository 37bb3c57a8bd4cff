"""`launch.evaluate stats` and `verify`: what a cache holds, and whether it is sound."""

import math
import sys
from pathlib import Path

from rich.table import Table

from launch.data_commands.terminal import INCOMPLETE, console
from launch.evaluate_commands.terminal import caches_in
from nevis_stream.dynamic_evaluation.cache.integrity import advice

_SHOWN = ("models", "samples", "observed", "predicted", "known", "accuracy", "with confidence", "with probabilities", "bytes")


def stats(directory: Path) -> None:
    """Prints one row a cache."""
    table = Table()
    table.add_column("cache")
    for column in _SHOWN:
        table.add_column(column, justify="right")
    for cache in caches_in(directory):
        found = cache.stats()
        table.add_row(str(cache.directory), *(_told(found[column]) for column in _SHOWN))
    console().print(table)


def verify(directory: Path) -> None:
    """Checks every byte; prints what is damaged and exits with 1 where something is."""
    damaged = 0
    for cache in caches_in(directory):
        found = cache.verify()
        damaged += len(found)
        print(f"{cache.directory}: " + ("sound" if not found else f"{len(found)} damaged"))
        for line in found:
            print(f"  {line}")
        if found and (told := advice(cache, found)):
            print(f"  {told}")
    if damaged:
        sys.exit(INCOMPLETE)


def _told(value: float) -> str:
    if isinstance(value, float):
        return "none" if math.isnan(value) else f"{value:.4f}"
    return f"{value:,}"
