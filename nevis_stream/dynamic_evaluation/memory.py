"""Whether a method's fit has room in memory; said before it begins."""

from pathlib import Path

import numpy as np

from nevis_stream.dynamic_evaluation.known import Known
from nevis_stream.errors import BadInput

BYTES_EACH, PROGRAMS = 30, 5e8  # for a known model's sample, and for compiled programs: `recommended` as measured
MOST_MODELS = 512  # of which such methods learn at a time; of the others the cells alone are held
PAGES = Path("/proc/meminfo")


def fitting(method, known: Known, new: int) -> "np.ndarray | Known":
    """Returns what a method is fitted to: known models that stay in the cache, or their matrix where it reads all of it.

    Args:
      method: a `method.Method`.
      known: the known models.
      new: how many new ones there will be.

    Raises:
      BadInput: the method would need more memory than there is.
    """
    if getattr(method, "out_of_core", False):
        return known
    models, samples = known.shape
    wanted = PROGRAMS + samples * (2 * models + BYTES_EACH * min(models, MOST_MODELS) + 100 * new)
    if (have := available()) is not None and wanted > have:
        raise BadInput(
            f"{method.name} learns from {models:,} × {samples:,} outcomes in memory: about {wanted / 1e9:.1f} GB, and "
            f"{have / 1e9:.1f} GB are free. Give --method=sort_and_search or stratified_mean, which leave them in the cache."
        )
    return known.matrix()


def available() -> int | None:
    """Returns the bytes of memory that a process can still get; None where the system does not say."""
    if not PAGES.exists():
        return None
    lines = dict(line.split(":", 1) for line in PAGES.read_text().splitlines())
    return int(lines["MemAvailable"].split()[0]) * 1024 if "MemAvailable" in lines else None
