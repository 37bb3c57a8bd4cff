"""Errors and CPU seconds of a run in float32 and in bfloat16, on the embedded stream.

  python -m benchmarks.precision [--seeds=3]

`indep` with the budget tiny, one run after the other, the precisions in turn; each was compiled
before by a run of two steps a trial. The difference is paired by seed; its 95% interval is
Student's.
"""

import tempfile
from pathlib import Path

import numpy as np
from scipy import stats

from nevis_stream.configs import run_config
from nevis_stream.errors import BadInput
from nevis_stream.experiments import engine
from nevis_stream.experiments.scripts import describe
from nevis_stream.run_directory.records import PredictRecord
from nevis_stream.run_directory.scalars import read_timing
from nevis_stream.runner import run
from nevis_stream.streams.named_streams import load_stream

PRECISIONS = ("float32", "bfloat16")


def measure(precision: str, seed: int, steps: int | None = None) -> tuple[float, float]:
    """Returns the mean error over tasks and the CPU seconds of a run.

    Args:
      precision: of the backbone.
      seed: of the run.
      steps: of each trial; None: those of the budget.
    """
    config = run_config.make_default("indep")
    config.budget, config.network.precision = "tiny", precision
    if steps is not None:
        config.train.update(steps=steps, validate_every=steps)
    with tempfile.TemporaryDirectory() as folder:
        learner = run_config.resolve(config).build()
        ledger = run(learner, load_stream("pico"), folder, seed=seed)
        seconds = sum(record.cpu_seconds for record in read_timing(Path(folder)))
    return float(np.mean([each.error for each in ledger.of_kind(PredictRecord)])), seconds


def main(seeds: int = 3) -> None:
    """Prints the table.

    Args:
      seeds: runs of each precision
    """
    if seeds < 2:
        raise BadInput(f"--seeds={seeds}: an interval needs 2 or more.")
    for precision in PRECISIONS:
        measure(precision, 0, steps=2)
    print(f"{describe()}; pico, indep, budget tiny, n = {seeds} seeds\n", flush=True)
    rows = np.array(
        [[measure(each, seed) for each in PRECISIONS] for seed in range(seeds)]
    )  # [seeds, precisions, error and seconds]
    engine.print_table("precision | mean error over tasks, each seed | mean: | CPU seconds", ())
    for place, precision in enumerate(PRECISIONS):
        errors, seconds = rows[:, place].T
        cells = ", ".join(f"{each:.4f}" for each in errors), f"{errors.mean():.4f}"
        engine.print_row([precision, *cells, ", ".join(f"{s:.0f}" for s in seconds)])
    gains = rows[:, 1, 0] - rows[:, 0, 0]
    half = stats.t.ppf(0.975, len(gains) - 1) * stats.sem(gains)
    print(
        f"\nbfloat16 − float32: {gains.mean():+.4f} ({gains.mean() - half:+.4f} to"
        f" {gains.mean() + half:+.4f})"
    )


if __name__ == "__main__":
    engine.start(main)
