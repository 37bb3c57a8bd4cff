"""Checks that work on a cache fits into memory, before it begins."""

from pathlib import Path

import numpy as np

from nevis_stream.dynamic_evaluation.known_models import InMemory, KnownModels
from nevis_stream.dynamic_evaluation.method import Method
from nevis_stream.errors import BadInput

# bytes for each cell of a known model, and for compiled programs, as measured for `recommended`
BYTES_EACH, PROGRAMS = 30, 5e8
MOST_MODELS = 512  # that such methods learn from; of further models only the values are in memory
MEMORY_INFO = Path("/proc/meminfo")


def readable(method: Method, known: KnownModels, new: int) -> KnownModels:
    """Returns the known models in the form that a method reads: in the cache, or as a matrix in
    memory if the method needs the whole matrix.

    Args:
      method: the method.
      known: the known models.
      new: number of new models.

    Raises:
      BadInput: the method would need more memory than is free.
    """
    method = method.for_known(known)
    if method.out_of_core:
        return known
    models, samples = known.shape
    _check(
        _fit(models, samples, new),
        f"{method.name} learns from {models:,} × {samples:,} values in memory",
        "Give --method=sort_and_search or stratified_mean, which leave them in the cache.",
    )
    return InMemory(known.matrix(), known.groups, known.facts)


def transpose(method: Method, known: KnownModels, new: int) -> np.ndarray:
    """Returns the known models' values, [m, n], for a method that adds new samples: it learns from
    their transpose.

    Args:
      method: the method.
      known: the known models.
      new: number of new samples.

    Raises:
      BadInput: this needs more memory than is free.
    """
    models, samples = known.shape
    # the values, which of them are known, those that are learned from, and their transpose
    needed = models * (4 * samples + 8 * new)
    hint = "A machine with more memory is needed"
    if not method.out_of_core:
        needed += _fit(samples, models, new)
        hint += ", or a method that needs less: --method=sort_and_search"
    work = f"{method.name} adds {new:,} samples from {models:,} × {samples:,} values in memory"
    _check(needed, work, f"{hint}.")
    return known.matrix()


def _fit(rows: int, columns: int, new: int) -> float:
    """Returns the bytes that a fit to a matrix takes."""
    return PROGRAMS + columns * (2 * rows + BYTES_EACH * min(rows, MOST_MODELS) + 100 * new)


def _check(needed: float, work: str, hint: str) -> None:
    free = available()
    if free is not None and needed > free:
        raise BadInput(
            f"{work}: about {needed / 1e9:.1f} GB, but only {free / 1e9:.1f} GB are free. {hint}"
        )


def available() -> int | None:
    """Returns the bytes of memory that a process can still get; None if the system does not
    report it.
    """
    if not MEMORY_INFO.exists():
        return None
    lines = dict(line.split(":", 1) for line in MEMORY_INFO.read_text().splitlines())
    return int(lines["MemAvailable"].split()[0]) * 1024 if "MemAvailable" in lines else None
