"""Finds caches by their directories, reads --budget, and shows means of groups of samples."""

import math
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from nevis_stream.dynamic_evaluation.estimates import SampleGroup
from nevis_stream.errors import BadInput
from nevis_stream.evaluation_cache import CELLS, INDEX, EvaluationCache
from nevis_stream.launch.terminal import console
from nevis_stream.queries.prices import parse_budget

_MOST_GROUPS = 40  # rows of a table


def directories_of_caches(directory: Path) -> list[Path]:
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


def caches_in(directory: Path) -> list[EvaluationCache]:
    """Returns the cache in a directory, or all caches in a folder of caches.

    Raises:
      BadInput: there is no cache, or one cannot be opened.
    """
    return [EvaluationCache(path) for path in directories_of_caches(directory)]


def one_cache(directory: Path, dataset_id: str = "") -> EvaluationCache:
    """Returns the cache in a directory; in a folder of several caches, the one of a data set.

    Raises:
      BadInput: there is no cache, or it is unclear which one is meant.
    """
    caches = caches_in(directory)
    candidates = [cache for cache in caches if cache.directory.name == dataset_id] or caches
    if len(candidates) > 1:
        names = ", ".join(str(cache.directory) for cache in caches)
        raise BadInput(f"--cache={directory} holds {len(caches)} caches; name one: {names}.")
    return candidates[0]


def budget(
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


def samples_or_amount(
    text: str, size: int | None = None, unit: str = "", cache: EvaluationCache | None = None
) -> int | str:
    """Returns the number of samples that --budget specifies, see `budget`; or the text, where it is
    an amount with a unit of price. Arguments as of `budget`.
    """
    if len(text.split()) > 1:
        parse_budget(text)
        return text
    return budget(text, size, unit, cache)


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
    console().print(table)
    if len(groups) > _MOST_GROUPS:
        print(f"and {len(groups) - _MOST_GROUPS} more groups")
