"""`launch.evaluate stats` and `verify`: what a cache holds, and whether it is sound."""

import math
import sys
from pathlib import Path

from rich.table import Table

from launch.data_commands.terminal import INCOMPLETE, console
from launch.evaluate_commands.terminal import caches_in, directories_of_caches
from nevis_stream.dynamic_evaluation.cache import EvaluationCache
from nevis_stream.dynamic_evaluation.cache.integrity import advice
from nevis_stream.errors import BadInput, NevisStreamError

_SHOWN = (
    "models",
    "samples",
    "observed",
    "predicted",
    "known",
    "accuracy",
    "with confidence",
    "with probabilities",
    "bytes",
)


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
    for path in directories_of_caches(directory):
        found, told = _verified(path)
        damaged += len(found)
        print(f"{path}: " + ("sound" if not found else f"{len(found)} damaged"))
        for line in [*found, *told]:
            print(f"  {line}")
    if damaged:
        sys.exit(INCOMPLETE)


def damage(directory: Path) -> str:
    """Returns what is damaged in the first cache that is; "" where none is, or none exists yet."""
    try:
        paths = directories_of_caches(directory)
    except BadInput:
        return ""
    for path in paths:
        found, told = _verified(path)
        if found:
            return "\n  ".join([f"{path}: is damaged, so this cannot be done", *found, *told])
    return ""


def _verified(path: Path) -> tuple[list[str], list[str]]:
    """Returns what is damaged, and what can be done; one cache that cannot be opened does not hide
    the others.
    """
    try:
        cache = EvaluationCache(path)
        found = cache.verify()
        told = advice(cache, found) if found else ""
    except NevisStreamError as error:
        return [str(error)], []
    return found, [told] if told else []


def _told(value: float) -> str:
    if isinstance(value, float):
        return "none" if math.isnan(value) else f"{value:.4f}"
    return f"{value:,}"
