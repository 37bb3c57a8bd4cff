"""Measures imports at scale: a csv file with a row for each cell, and a bare .npy matrix.

  python -m benchmarks.import_scale --out=DIR [--only=csv|npy]

Each import runs in a process of its own; CPU seconds are user and system time, memory is the
largest resident set of that process.
"""

import resource
import shutil
from pathlib import Path
from typing import Literal

import numpy as np

from nevis_stream.experiments import engine

CELLS, MODELS, COLUMNS = 10_000_000, 1_000, 1_000_000


def main(out: Path, only: Literal["csv", "npy"] | None = None) -> None:
    """Prints a Markdown table with a row for each import."""
    from nevis_stream.experiments.scripts import describe

    print(f"{describe()}; n = 1\n")
    engine.print_table("file | MB: | CPU s: | MiB:", ())
    out.mkdir(parents=True, exist_ok=True)
    for name, make, content in (
        ("csv", write_csv, f"a row for each of {MODELS:,} × {CELLS // MODELS:,} cells"),
        ("npy", write_npy, f"a matrix of {MODELS:,} × {COLUMNS:,} outcomes"),
    ):
        if only in (None, name):
            path, cache = out / f"large.{name}", out / f"cache_{name}"
            make(path)
            shutil.rmtree(cache, ignore_errors=True)
            seconds, mebibytes = engine.call_apart(measure, path, cache)
            size = f"{path.stat().st_size / 1e6:,.0f}"
            engine.print_row([f"{name}: {content}", size, f"{seconds:.1f}", f"{mebibytes:,.0f}"])
            shutil.rmtree(cache)
            path.unlink()


def write_csv(path: Path) -> None:
    """Writes outcomes of 1,000 models on 10,000 samples, a row for each."""
    random = np.random.default_rng(0)
    with open(path, "w") as file:
        file.write("model,sample,outcome\n")
        for model in range(MODELS):
            outcomes = random.integers(0, 2, CELLS // MODELS).tolist()
            file.writelines(f"m-{model},question-{k},{v}\n" for k, v in enumerate(outcomes))


def write_npy(path: Path) -> None:
    """Writes outcomes, uint8[1,000, 1,000,000], a block of rows at a time."""
    random, shape = np.random.default_rng(0), (MODELS, COLUMNS)
    matrix = np.lib.format.open_memmap(path, "w+", np.uint8, shape)
    for row in matrix:
        row[:] = random.integers(0, 2, COLUMNS, np.uint8)
    matrix.flush()


def measure(path: Path, cache: Path) -> tuple[float, float]:
    """Imports a file into a new cache, and returns the CPU seconds and MiB of this process."""
    from nevis_stream.evaluation_cache.exchange import import_file
    from nevis_stream.evaluation_cache.matrix_files import import_matrix

    import_matrix(cache, path) if path.suffix == ".npy" else import_file(cache, path)
    used = resource.getrusage(resource.RUSAGE_SELF)
    status = Path("/proc/self/status").read_text()  # ru_maxrss is at least that of the parent
    peak = int(status.partition("VmHWM:")[2].split()[0])
    return used.ru_utime + used.ru_stime, peak / 1024


if __name__ == "__main__":
    engine.start(main, keep_programs=False)
