"""Caches by their directories, and numbers of samples by --budget."""

import math
from pathlib import Path

from nevis_stream.dynamic_evaluation.cache import CELLS, INDEX, EvaluationCache
from nevis_stream.errors import BadInput


def directories_of_caches(directory: Path) -> list[Path]:
    """Returns the directory if it is a cache, else those in it that are.

    Raises:
      BadInput: there is none.
    """
    alone = any((directory / name).is_file() for name in (INDEX, CELLS))  # one of them may be lost
    paths = [directory] if alone else sorted(path.parent for path in directory.glob(f"*/{INDEX}"))
    if not paths:
        raise BadInput(
            f"{directory}: no evaluation cache there. To make one: python -m launch.evaluate import"
            f" FILE --cache={directory}"
        )
    return paths


def caches_in(directory: Path) -> list[EvaluationCache]:
    """Returns the cache in a directory, or all in a folder of caches.

    Raises:
      BadInput: there is none, or one cannot be opened.
    """
    return [EvaluationCache(path) for path in directories_of_caches(directory)]


def one_cache(directory: Path, dataset_id: str = "") -> EvaluationCache:
    """Returns the cache in a directory; of several in a folder, that of a data set.

    Raises:
      BadInput: there is none, or it is unclear which.
    """
    found = caches_in(directory)
    wanted = [cache for cache in found if cache.directory.name == dataset_id] or found
    if len(wanted) > 1:
        names = ", ".join(str(cache.directory) for cache in found)
        raise BadInput(f"--cache={directory} holds {len(found)} caches; name one: {names}.")
    return wanted[0]


def budget(text: str, size: int) -> int:
    """Returns how many of `size` samples (or models) are asked: "64", or "5%" of them, at least
    one.

    Raises:
      BadInput: it is neither.
    """
    share = text.endswith("%")
    try:
        value = float(text[:-1]) if share else int(text)
    except ValueError:
        value = math.nan
    if not (0 < value <= 100 if share else value >= 1):
        raise BadInput(
            f"--budget={text}: a whole number from 1 up, or a share above 0% and up to 100%, is"
            " expected."
        )
    return max(1, round(size * value / 100)) if share else int(value)
