"""What the commands share: finding a cache by its directory, and numbers as people read them."""

from pathlib import Path

from nevis_stream.dynamic_evaluation.cache import INDEX, EvaluationCache
from nevis_stream.errors import BadInput
from nevis_stream.report.notation import engineering


def caches_in(directory: Path) -> list[EvaluationCache]:
    """Returns the cache that a directory is, or those that it holds.

    Raises:
      BadInput: there is none.
    """
    paths = [directory] if (directory / INDEX).is_file() else sorted(path.parent for path in directory.glob(f"*/{INDEX}"))
    if not paths:
        raise BadInput(f"{directory}: no evaluation cache there. Make one: python -m launch.evaluate import FILE --cache=DIR")
    return [EvaluationCache(path) for path in paths]


def one_cache(directory: Path, dataset_id: str = "") -> EvaluationCache:
    """Returns the cache that a directory is; of those that it holds the only one, or that of a data set.

    Raises:
      BadInput: there is none, or it is not said which.
    """
    found = caches_in(directory)
    wanted = [cache for cache in found if cache.directory.name == dataset_id] or found
    if len(wanted) > 1:
        names = ", ".join(str(cache.directory) for cache in found)
        raise BadInput(f"--cache={directory} holds {len(found)} caches; name one: {names}.")
    return wanted[0]


def flops(value: float | None) -> str:
    """Returns FLOPs in engineering notation, or "unknown"."""
    return "unknown" if value is None else f"{engineering(value)} FLOPs"
