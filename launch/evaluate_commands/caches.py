"""`launch.evaluate stats` and `verify`: what a cache contains, and whether it is intact; finding
caches by their directories, and reading --budget.
"""

import contextlib
import math
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from absl.flags import FlagValues
from rich.table import Table

from nevis_stream.dynamic_evaluation.estimates import SampleGroup, means_by_group
from nevis_stream.errors import BadInput, DamagedCache, NevisStreamError
from nevis_stream.evaluation_cache import CELLS, INDEX, EvaluationCache
from nevis_stream.evaluation_cache.integrity import advice, list_unchecked
from nevis_stream.evaluation_cache.records import Imported
from nevis_stream.launch.command_line import make_console
from nevis_stream.launch.entry import INCOMPLETE
from nevis_stream.queries.prices import parse_budget
from nevis_stream.storage.reading import describe_fault

_MOST_GROUPS = 40  # rows of a table


def find_cache_directories(directory: Path) -> list[Path]:
    """Returns the directory if it is a cache, else the caches in it.

    Raises:
      BadInput: there is no cache.
    """
    if directory.is_file():
        raise BadInput(f"--cache={directory}: is a file; the directory of a cache is expected.")
    # a damaged cache may have lost one of the two files
    is_cache = any((directory / name).is_file() for name in (INDEX, CELLS))
    paths = sorted(path.parent for path in directory.glob(f"*/{INDEX}"))
    if not is_cache and not paths:
        raise BadInput(
            f"{directory}: there is no evaluation cache here. To create one:"
            " python -m launch.evaluate import"
            f" FILE --cache={directory}"
        )
    return [directory] if is_cache else paths


def open_caches(directory: Path) -> list[EvaluationCache]:
    """Returns the cache in a directory, or all caches in a folder of caches.

    Raises:
      BadInput: there is no cache, or one cannot be opened.
    """
    return [EvaluationCache(path) for path in find_cache_directories(directory)]


def open_one_cache(directory: Path, dataset_id: str = "") -> EvaluationCache:
    """Returns the cache in a directory; in a folder of several caches, the one of a data set.

    Raises:
      BadInput: there is no cache, or it is unclear which one is meant.
    """
    caches = open_caches(directory)
    candidates = [cache for cache in caches if cache.directory.name == dataset_id] or caches
    if len(candidates) > 1:
        names = ", ".join(str(cache.directory) for cache in caches)
        raise BadInput(f"--cache={directory} holds {len(caches)} caches; name one: {names}.")
    return candidates[0]


def parse_sample_count(
    text: str, size: int | None = None, unit: str = "", cache: EvaluationCache | None = None
) -> int:
    """Returns the number of samples (or models) that --budget specifies.

    Args:
      text: a number, "64", or a percentage of `size`, "5%", which is rounded to at least 1.
      size: number of samples (or models) in total; None: only the form of the text is checked.
      unit: what is counted, for messages.
      cache: which has them, for messages.

    Raises:
      BadInput: the text is neither, or the number is larger than `size`.
    """
    is_fraction = text.endswith("%")
    try:
        value = float(text[:-1]) if is_fraction else int(text)
    except ValueError:
        value = math.nan
    if not (0 < value <= 100 if is_fraction else value >= 1):
        raise BadInput(
            f"--budget={text}: a whole number from 1 up, or a fraction above 0% and up to 100%, is"
            " expected."
        )
    if is_fraction:
        return max(1, round((size or 0) * value / 100))
    if size is not None and value > size:
        where = f"{cache.directory} has" if cache else "there are"
        raise BadInput(f"--budget={text}: {where} only {size:,} {unit}.")
    return int(value)


def parse_count_or_price(
    text: str, size: int | None = None, unit: str = "", cache: EvaluationCache | None = None
) -> int | str:
    """Returns the number of samples that --budget specifies, see `parse_sample_count`; or the text,
    where it is an amount with a unit of price. Arguments as of `parse_sample_count`.
    """
    if len(text.split()) > 1:
        parse_budget(text)
        return text
    return parse_sample_count(text, size, unit, cache)


def print_import(source: str, record: Imported) -> None:
    """Prints what was understood of a file and what was left out."""
    for line in record.lines():
        print(f"{source}: {line}")


def print_groups(title: str, groups: Sequence[SampleGroup]) -> None:
    """Prints the mean value of each group, over its models; nothing if there is a single group."""
    if len(groups) < 2:
        return
    table = Table(title=title)
    directions = ["better"] if any(group.lower for group in groups) else []
    for column in ("data set", "group", "samples", "range", *directions, "mean"):
        table.add_column(column, justify="right" if column in ("samples", "mean") else "left")
    for group in groups[:_MOST_GROUPS]:
        ends = f"{group.low:g} to {group.high:g}"
        mean = "unknown" if math.isnan(group.mean) else f"{group.mean:.4f}"
        better = ["lower" if group.lower else "higher"] if directions else []
        cells = group.dataset or "–", group.group or "all", f"{group.samples:,}", ends
        table.add_row(*cells, *better, mean)
    make_console().print(table)
    if len(groups) > _MOST_GROUPS:
        print(f"and {len(groups) - _MOST_GROUPS} more groups")


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
            groups = means_by_group(facts, (total / known)[None])
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
            print(f"  {line}")
    if wrong:
        sys.exit(INCOMPLETE)


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
        hint = advice(cache, lines) if lines else ""
    except DamagedCache as error:
        return [str(error)], []
    if lines:
        return lines, [hint] if hint else []
    return [], list_unchecked(cache)


def _text(value: float) -> str:
    if isinstance(value, float):
        return "unknown" if math.isnan(value) else f"{value:.4f}"
    return f"{value:,}"
