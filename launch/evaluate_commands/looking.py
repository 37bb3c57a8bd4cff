"""`launch.evaluate stats` and `verify`: what a cache holds, and whether it is sound."""

import math
import sys
from pathlib import Path

import numpy as np
from rich.table import Table

from launch.entry import INCOMPLETE
from launch.evaluate_commands.caches import caches_in, directories_of_caches
from launch.terminal import console
from nevis_stream.dynamic_evaluation.cache import EvaluationCache
from nevis_stream.dynamic_evaluation.cache.integrity import advice
from nevis_stream.dynamic_evaluation.sample_groups import means_by_group
from nevis_stream.errors import BadInput, NevisStreamError

_SHOWN = (
    "models",
    "samples",
    "observed",
    "predicted",
    "known",
    "mean",
    "with confidence",
    "with probabilities",
    "bytes",
)
_MOST_GROUPS = 40  # rows of the table of data sets and groups


def stats(directory: Path) -> None:
    """Prints one row per cache; and one per data set or group of samples, where there are some."""
    table = Table()
    table.add_column("cache")
    for column in _SHOWN:
        table.add_column(column, justify="right")
    caches = caches_in(directory)
    for cache in caches:
        found = cache.stats()
        table.add_row(str(cache.directory), *(_text(found[column]) for column in _SHOWN))
    console().print(table)
    for cache in caches:
        _print_groups(cache)


def _print_groups(cache: EvaluationCache) -> None:
    """Prints the mean of the observed values by data set and group."""
    facts = cache.facts()
    total, known = cache.column_sums()
    n = facts.n
    with np.errstate(invalid="ignore", divide="ignore"):
        rows = means_by_group(facts, (total[:n] / known[:n])[None])
    if len(rows) < 2:
        return
    title = f"{cache.directory}: means of the observed values by sample, in their own ranges"
    table = Table(title=title)
    for column in ("data set", "group", "samples", "range", "mean"):
        table.add_column(column, justify="right" if column in ("samples", "mean") else "left")
    for row in rows[:_MOST_GROUPS]:
        ends = f"{row.low:g} to {row.high:g}"
        mean = _text(float(row.means[0]))
        table.add_row(row.dataset or "–", row.group or "all", f"{row.samples:,}", ends, mean)
    console().print(table)
    if len(rows) > _MOST_GROUPS:
        print(f"and {len(rows) - _MOST_GROUPS} more")


def verify(directory: Path) -> None:
    """Checks every byte; prints what is damaged and exits with 1 where something is."""
    damaged = 0
    for path in directories_of_caches(directory):
        found, hints = _verified(path)
        damaged += len(found)
        print(f"{path}: " + ("sound" if not found else f"{len(found)} damaged"))
        for line in [*found, *hints]:
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
        found, hints = _verified(path)
        if found:
            return "\n  ".join([f"{path}: is damaged, so this cannot be done", *found, *hints])
    return ""


def _verified(path: Path) -> tuple[list[str], list[str]]:
    """Returns what is damaged, and what can be done; a cache that cannot be opened does not hide
    the others.
    """
    try:
        cache = EvaluationCache(path)
        found = cache.verify()
        hint = advice(cache, found) if found else ""
    except NevisStreamError as error:
        return [str(error)], []
    return found, [hint] if hint else []


def _text(value: float) -> str:
    if isinstance(value, float):
        return "unknown" if math.isnan(value) else f"{value:.4f}"
    return f"{value:,}"
