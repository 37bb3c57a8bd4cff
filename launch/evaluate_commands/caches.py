"""`launch.evaluate stats` and `verify`: what a cache contains, and whether it is intact."""

import contextlib
import math
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from absl.flags import FlagValues
from rich.table import Table

from nevis_stream.dynamic_evaluation.estimates import compute_group_means
from nevis_stream.errors import DamagedCache, NevisStreamError
from nevis_stream.evaluation_cache import EvaluationCache
from nevis_stream.evaluation_cache.integrity import advise, list_credentials, list_unchecked
from nevis_stream.launch import entry
from nevis_stream.launch.command_line import make_console, print_groups
from nevis_stream.launch.evaluate_commands.flags import find_cache_directories, open_caches
from nevis_stream.storage.reading import describe_fault

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


def print_stats(_: Sequence[str], values: FlagValues) -> None:
    """Prints a row for each cache, and the means of its data sets and of their groups of samples,
    if the samples say to which they belong.
    """
    table = Table()
    table.add_column("cache")
    for column in _COLUMNS:
        table.add_column(column, justify="right")
    caches = open_caches(Path(values.cache))
    for cache in caches:
        counts = cache.stats()
        table.add_row(str(cache.directory), *(_text(counts[column]) for column in _COLUMNS))
    make_console().print(table)
    for cache in caches:
        for erratum in cache.errata():
            print(f"{cache.directory}: {erratum.line()}")
        facts = cache.facts()
        total, known = (sums[: facts.n] for sums in cache.column_sums())
        with np.errstate(invalid="ignore", divide="ignore"):
            groups = compute_group_means(facts, (total / known)[None])
        title = f"{cache.directory}: means of the observed values by sample, in their own ranges"
        print_groups(title, groups)


def verify(_: Sequence[str], values: FlagValues) -> None:
    """Checks every byte of the caches, prints what is damaged and exits with 1 if anything is, or
    if a cache cannot be checked.
    """
    wrong = 0
    for path in find_cache_directories(Path(values.cache)):
        try:
            lines, hints = _verify(path)
        except (NevisStreamError, OSError) as error:  # the other caches are still checked
            wrong += 1
            reason = describe_fault(error) if isinstance(error, OSError) else error
            print(f"{path}: not checked\n  {reason}")
            continue
        wrong += len(lines)
        print(f"{path}: " + (f"{len(lines)} damaged" if lines else "intact"))
        for line in [*lines, *hints]:
            print(f"  {entry.as_typed(line)}")
    if wrong:
        sys.exit(entry.INCOMPLETE)


def find_damage(directory: Path) -> str:
    """Returns what is damaged in the first damaged cache of a directory; "" if there is none."""
    with contextlib.suppress(NevisStreamError, OSError):
        for path in find_cache_directories(directory):
            lines, hints = _verify(path)
            if lines:
                what = f"{path}: is damaged, so the command was not run"
                return "\n  ".join([what, *lines, *hints])
    return ""


def _verify(path: Path) -> tuple[list[str], list[str]]:
    """Returns what is damaged and what can be done about it."""
    try:
        cache = EvaluationCache(path)
        lines = cache.verify()
        hint = advise(cache, lines) if lines else ""
    except DamagedCache as error:
        return [str(error)], []
    if lines:
        return lines, [hint] if hint else []
    return [], [*list_credentials(cache), *list_unchecked(cache)]


def _text(value: float) -> str:
    if isinstance(value, float):
        return "unknown" if math.isnan(value) else f"{value:.4f}"
    return f"{value:,}"
