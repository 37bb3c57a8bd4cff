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
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import jax
import numpy as np

from nevis_stream.analysis.points import point
from nevis_stream.experiments import engine
from nevis_stream.experiments.learner_studies.recorded_runs import require_prepared
from nevis_stream.experiments.scripts import call, describe, measure_peak
from nevis_stream.learners.closed_form import maps
from nevis_stream.learners.closed_form.config import CELL_SIDE
from nevis_stream.run_directory.ledger import Ledger
from nevis_stream.run_directory.scalars import read_timing

REFERENCE = 182e9  # FLOPs a CPU second
TARGET = 60  # CPU seconds
_COMMAND = (sys.executable, "-m", "launch.run", "--config=closed_form", "--config.budget=large")


def measure(run_dir: Path, cache: Path) -> tuple[float, float, float]:
    """Runs the stream; returns CPU seconds of the process and of the events, and the peak."""
    before = engine.call_apart(measure_peak)
    command = [*_COMMAND, "--config.stream=local25", f"--run_dir={run_dir}"]
    environment = os.environ | {"NEVIS_STREAM_CACHE": str(cache)}
    spent, _ = call(command, env=environment)
    events = sum(event.cpu_seconds for event in read_timing(run_dir))
    return spent, events, max(before, engine.call_apart(measure_peak))


def list_gradients(repeats: int) -> Iterator[list[str]]:
    """Yields rows: the CPU time of the canonical and of the faster form, 256 images at once."""
    for side in (32, 64):
        images = np.random.RandomState(0).uniform(size=(256, side, side, 3)).astype(np.float32)
        cell = side // CELL_SIDE

        def canonical(x, cell=cell):
            sums = maps._add(maps._by_orientation(*maps._steepest(x)), cell // 2)
            return maps._normalise(maps._windows(sums, cell))

        def faster(x, cell=cell):
            return maps.compute_oriented_gradients(x, (cell,))

        slow, fast = (
            # the first call compiles
            min(engine.time_calls(lambda: jax.block_until_ready(form(images)), repeats + 1)[1:])  # noqa: B023
            / len(images)
            for form in map(jax.jit, (canonical, faster))
        )
        micro = (f"{each * 1e6:.0f}" for each in (slow, fast))
        yield [f"{side}×{side}", *micro, f"{slow / fast:.1f}"]


def main(repeats: int = 5, gradients: bool = False) -> None:
    """Prints the table.

    Args:
      repeats: runs with a filled compilation cache
      gradients: measure the two forms of oriented gradients
    """
    print(f"{describe()}\n")
    if gradients:
        heads = "image | canonical, µs per image: | faster: | ratio:"
        engine.print_table(heads, list_gradients(repeats))
        return
    require_prepared("local25")
    engine.print_table(
        "compilation cache | CPU-s: | of the events: | peak, GFLOP/CPU-s: | CPU-s at"
        f" {REFERENCE / 1e9:.0f}: | error, FLOPs",
        (),
    )
    warm = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(repeats + 1):
            run_dir = Path(folder) / f"run-{number}"
            seconds, events, machine = measure(run_dir, Path(folder) / "cache")
            scaled, result = seconds * machine / REFERENCE, point(Ledger(run_dir))
            warm += [scaled] * bool(number)
            numbers = (f"{each:.0f}" for each in (seconds, events, machine / 1e9, scaled))
            last = f"{result.error:.4f}, {result.full_total:.4g}"
            engine.print_row(["filled" if number else "empty", *numbers, last])
    print(f"\nBest of {len(warm)} with a filled cache: {min(warm):.0f} CPU-s; target {TARGET}.")


if __name__ == "__main__":
    engine.start(main, keep_programs=False)
