"""Measures imports at scale: a csv file with a row for each cell, and a bare .npy matrix.

  python -m benchmarks.import_scale --out=DIR [--only=csv|npy]

Each import runs in a process of its own; CPU seconds are user and system time, memory is the
largest resident set of that process.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

from nevis_stream.experiments.scripts import make_parser
from nevis_stream.launch import entry

CELLS, MODELS, COLUMNS = 10_000_000, 1_000, 1_000_000
_RUN = """
import json, resource, sys
from pathlib import Path
from nevis_stream.evaluation_cache.exchange import import_file
from nevis_stream.evaluation_cache.matrix_files import import_matrix
path, cache = Path(sys.argv[1]), Path(sys.argv[2])
import_matrix(cache, path) if path.suffix == ".npy" else import_file(cache, path)
used = resource.getrusage(resource.RUSAGE_SELF)
status = Path("/proc/self/status").read_text()  # ru_maxrss is at least that of the parent
peak = int(status.partition("VmHWM:")[2].split()[0])
print(json.dumps([used.ru_utime + used.ru_stime, peak / 1024]))
"""


def main() -> None:
    """Prints a Markdown table with a row for each import."""
    parser = make_parser(__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", choices=("csv", "npy"))
    options = parser.parse_args()
    from nevis_stream.experiments.scripts import describe

    print(f"{describe()}; n = 1\n")
    print("| file | MB | CPU s | MiB |\n|---|---:|---:|---:|")
    options.out.mkdir(parents=True, exist_ok=True)
    for name, make, content in (
        ("csv", write_csv, f"a row for each of {MODELS:,} × {CELLS // MODELS:,} cells"),
        ("npy", write_npy, f"a matrix of {MODELS:,} × {COLUMNS:,} outcomes"),
    ):
        if options.only not in (None, name):
            continue
        path = options.out / f"large.{name}"
        make(path)
        measure(f"{name}: {content}", path, options.out / f"cache_{name}")
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


def measure(name: str, path: Path, cache: Path) -> None:
    """Imports a file into a new cache in another process, and prints its row of the table."""
    shutil.rmtree(cache, ignore_errors=True)
    command = [sys.executable, "-c", _RUN, str(path), str(cache)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    seconds, mebibytes = json.loads(done.stdout.splitlines()[-1])
    size = path.stat().st_size / 1e6
    print(f"| {name} | {size:,.0f} | {seconds:.1f} | {mebibytes:,.0f} |")
    shutil.rmtree(cache)


if __name__ == "__main__":
    entry.guard(main)
