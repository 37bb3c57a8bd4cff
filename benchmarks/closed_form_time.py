"""CPU seconds of the front's point at 1e12 FLOPs: `closed_form`, budget `large`, all of `local25`.

  python -m launch.data prepare --stream=local25
  python -m benchmarks.closed_form_time [--repeats=5]
  python -m benchmarks.closed_form_time --gradients      # of the oriented gradients alone

The first run has an empty compilation cache, the others find it filled. Seconds are those of the
whole process, start included. Each is also given as it would be on a core with the matrix-product
peak of the machine for which the target of 60 seconds was set: multiplied by the peak around the run,
over `REFERENCE`. The prepared data must have been read once before (resized images are kept).
"""  # noqa: E501

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np
from absl import flags

from nevis_stream.analysis.points import point
from nevis_stream.experiments.learner_studies.recorded_runs import require_prepared
from nevis_stream.experiments.scripts import describe
from nevis_stream.launch import entry
from nevis_stream.learners.closed_form import maps
from nevis_stream.learners.closed_form.config import CELL_SIDE
from nevis_stream.run_directory.ledger import Ledger
from nevis_stream.run_directory.scalars import read_timing

REFERENCE = 182e9  # FLOPs a CPU second
TARGET = 60  # CPU seconds
_PEAK = "from nevis_stream.experiments.scripts import measure_peak; print(measure_peak())"
_COMMAND = (sys.executable, "-m", "launch.run", "--config=closed_form", "--config.budget=large")

REPEATS = flags.DEFINE_integer("repeats", 5, "runs with a filled compilation cache", lower_bound=1)

GRADIENTS = flags.DEFINE_bool("gradients", False, "measure the two forms of oriented gradients")


def measure_peak() -> float:
    """Returns the matrix-product peak in FLOPs a CPU second, measured in a process of its own."""
    return float(subprocess.check_output([sys.executable, "-c", _PEAK]))


def measure(run_dir: Path, cache: Path) -> tuple[float, float, float]:
    """Runs the stream; returns CPU seconds of the process and of the events, and the peak."""
    before = measure_peak()
    command = [*_COMMAND, "--config.stream=local25", f"--run_dir={run_dir}"]
    environment = os.environ | {"NEVIS_STREAM_CACHE": str(cache)}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"failed: {' '.join(command)}")
    events = sum(event.cpu_seconds for event in read_timing(run_dir))
    return usage.ru_utime + usage.ru_stime, events, max(before, measure_peak())


def print_gradients() -> None:
    """Prints the CPU time of the canonical and of the faster form, 256 images at once."""
    print("| image | canonical, µs per image | faster | ratio |\n|---|---:|---:|---:|")
    for side in (32, 64):
        images = np.random.RandomState(0).uniform(size=(256, side, side, 3)).astype(np.float32)
        cell = side // CELL_SIDE

        def canonical(x, cell=cell):
            sums = maps._add(maps._by_orientation(*maps._steepest(x)), cell // 2)
            return maps._normalise(maps._windows(sums, cell))

        def faster(x, cell=cell):
            return maps.compute_oriented_gradients(x, (cell,))

        slow, fast = (seconds(jax.jit(form), images) / len(images) for form in (canonical, faster))
        print(f"| {side}×{side} | {slow * 1e6:.0f} | {fast * 1e6:.0f} | {slow / fast:.1f} |")


def seconds(program: Callable, images: np.ndarray) -> float:
    """Returns the CPU seconds of a call, best of `REPEATS`, after one that compiles."""
    jax.block_until_ready(program(images))
    best = float("inf")
    for _ in range(REPEATS.value):
        begun = time.process_time()
        jax.block_until_ready(program(images))
        best = min(best, time.process_time() - begun)
    return best


def main(_) -> None:
    """Prints the table."""
    print(f"{describe()}\n")
    if GRADIENTS.value:
        print_gradients()
        return
    require_prepared("local25")
    print(
        "| compilation cache | CPU-s | of the events | peak, GFLOP/CPU-s | CPU-s at"
        f" {REFERENCE / 1e9:.0f} | error, FLOPs |\n|---|---:|---:|---:|---:|---|"
    )
    warm = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(REPEATS.value + 1):
            run_dir = Path(folder) / f"run-{number}"
            seconds, events, machine = measure(run_dir, Path(folder) / "cache")
            scaled, result = seconds * machine / REFERENCE, point(Ledger(run_dir))
            warm += [scaled] * bool(number)
            print(
                f"| {'filled' if number else 'empty'} | {seconds:.0f} | {events:.0f} |"
                f" {machine / 1e9:.0f} | {scaled:.0f} | {result.error:.4f},"
                f" {result.full_total:.4g} |",
                flush=True,
            )
    print(f"\nBest of {len(warm)} with a filled cache: {min(warm):.0f} CPU-s; target {TARGET}.")


if __name__ == "__main__":
    entry.start(main)
