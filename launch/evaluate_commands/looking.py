"""`launch.evaluate stats` and `verify`: what a cache contains, and whether it is intact."""

import math
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from absl.flags import FlagValues
from rich.table import Table

from nevis_stream.dynamic_evaluation.sample_groups import means_by_group
from nevis_stream.errors import BadInput, NevisStreamError
from nevis_stream.evaluation_cache import EvaluationCache
from nevis_stream.evaluation_cache.integrity import advice, unchecked
from nevis_stream.launch.entry import INCOMPLETE
from nevis_stream.launch.evaluate_commands.caches import (
    caches_in,
    directories_of_caches,
    print_groups,
)
from nevis_stream.launch.terminal import console

_COLUMNS = (
    "models",
    "samples",
    "observed",
    "predicted",
    "observed share",
    "mean",
    "with confidence",
    "with probabilities",
    "bytes",
)


def stats(_: Sequence[str], values: FlagValues) -> None:
    """Prints a row for each cache, and the means of its data sets and of their groups of samples,
    if the samples say to which they belong.
    """
    table = Table()
    table.add_column("cache")
    for column in _COLUMNS:
        table.add_column(column, justify="right")
    caches = caches_in(Path(values.cache))
    for cache in caches:
        counts = cache.stats()
        table.add_row(str(cache.directory), *(_text(counts[column]) for column in _COLUMNS))
    console().print(table)
    for cache in caches:
        facts = cache.facts()
        total, known = (sums[: facts.n] for sums in cache.column_sums())
        with np.errstate(invalid="ignore", divide="ignore"):
            groups = means_by_group(facts, (total / known)[None])
        title = f"{cache.directory}: means of the observed values by sample, in their own ranges"
        print_groups(title, groups)


def verify(_: Sequence[str], values: FlagValues) -> None:
    """Checks every byte of the caches, prints what is damaged and exits with 1 if anything is."""
    damaged = 0
    for path in directories_of_caches(Path(values.cache)):
        lines, hints = _verified(path)
        damaged += len(lines)
        print(f"{path}: " + (f"{len(lines)} damaged" if lines else "intact"))
        for line in [*lines, *hints]:
            print(f"  {line}")
    if damaged:
        sys.exit(INCOMPLETE)


def damage(directory: Path) -> str:
    """Returns what is damaged in the first damaged cache of a directory; "" if there is none."""
    try:
        paths = directories_of_caches(directory)
    except BadInput:
        return ""
    for path in paths:
        lines, hints = _verified(path)
        if lines:
            return "\n  ".join([f"{path}: is damaged, so the command was not run", *lines, *hints])
    return ""


def _verified(path: Path) -> tuple[list[str], list[str]]:
    """Returns what is damaged and what can be done about it; an error of opening the cache is
    damage, so that the other caches are still checked.
    """
    try:
        cache = EvaluationCache(path)
        lines = cache.verify()
        hint = advice(cache, lines) if lines else ""
    except NevisStreamError as error:
        return [str(error)], []
    if lines:
        return lines, [hint] if hint else []
    return [], unchecked(cache)


def _text(value: float) -> str:
    if isinstance(value, float):
        return "unknown" if math.isnan(value) else f"{value:.4f}"
    return f"{value:,}"
