"""Whether work on a cache fits into memory, checked before it begins."""

from pathlib import Path

import numpy as np

from nevis_stream.dynamic_evaluation.known import InMemory, Known
from nevis_stream.dynamic_evaluation.method import Method
from nevis_stream.errors import BadInput

# for a known model's sample, and for compiled programs: `recommended` as measured
BYTES_EACH, PROGRAMS = 30, 5e8
MOST_MODELS = 512  # that such methods learn from at a time; of others only the cells are held
PAGES = Path("/proc/meminfo")


def fitting(method: Method, known: Known, new: int) -> Known:
    """Returns what a method is fitted to: known models that stay in the cache, or their matrix
    where it reads all of it.

    Args:
      method: the method.
      known: the known models.
      new: how many new ones there will be.

    Raises:
      BadInput: the method would need more memory than there is.
    """
    method = method.fitting(known)
    if method.out_of_core:
        return known
    models, samples = known.shape
    _check(
        _fit(models, samples, new),
        f"{method.name} learns from {models:,} × {samples:,} outcomes in memory",
        "Give --method=sort_and_search or stratified_mean, which leave them in the cache.",
    )
    return InMemory(known.matrix(), known.groups, known.facts)


def transposed(method: Method, known: Known, new: int) -> np.ndarray:
    """Returns the known models' outcomes, uint8[m, n], from which a method learns samples by
    models.

    Args:
      method: the method.
      known: the known models.
      new: how many new samples there will be.

    Raises:
      BadInput: that needs more memory than there is.
    """
    models, samples = known.shape
    # cells, which of them are known, those learned from, their transpose
    wanted = models * (4 * samples + 8 * new)
    light = method.out_of_core
    hint = "A machine with more memory is needed" + (
        "." if light else ", or less: give --method=sort_and_search."
    )
    wanted += 0 if light else _fit(samples, models, new)
    _check(
        wanted,
        f"{method.name} adds {new:,} samples from {models:,} × {samples:,} outcomes in memory",
        hint,
    )
    return known.matrix()


def _fit(rows: int, columns: int, new: int) -> float:
    """Bytes that a fit to a matrix takes."""
    return PROGRAMS + columns * (2 * rows + BYTES_EACH * min(rows, MOST_MODELS) + 100 * new)


def _check(wanted: float, what: str, hint: str) -> None:
    if (have := available()) is not None and wanted > have:
        raise BadInput(
            f"{what}: about {wanted / 1e9:.1f} GB, and {have / 1e9:.1f} GB are free. {hint}"
        )


def available() -> int | None:
    """Returns the bytes of memory that a process can still get; None where the system does
    not say.
    """
    if not PAGES.exists():
        return None
    lines = dict(line.split(":", 1) for line in PAGES.read_text().splitlines())
    return int(lines["MemAvailable"].split()[0]) * 1024 if "MemAvailable" in lines else None
