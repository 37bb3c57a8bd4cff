"""How long a report takes, how large its page is and how much memory it needs.

  python -m benchmarks.report_speed
  python -m benchmarks.report_speed --profile

20 synthetic runs (10 learners, 2 seeds) of 106 tasks with 16 trials each, 50 points per learning
curve, and a thumbnail and worst mistakes per task; six of the learners start tasks from earlier
ones, so that each has a fine-tuning graph. Each round in a fresh process, figures not exported.
Their errors are random numbers: only the shape is that of a real stream.
"""

import cProfile
import pstats
import resource
import sys
import tempfile
import time
from pathlib import Path

from nevis_stream.experiments import engine

RUNS, SEEDS, ROUNDS = 20, 2, 3


def write_runs(root: Path) -> list[Path]:
    """Writes the synthetic run directories."""
    from tests.report.synthetic import SyntheticRun

    large = SyntheticRun(tasks=106, meta_test=27, trials=16, curve_points=50, mistakes=True)
    learners = ["indep", *(f"learner_{i}" for i in range(1, RUNS // SEEDS))]
    starts = ("random", "previous", "related")
    methods = [
        large.but(learner=name, flops=10**15 + i, start=starts[i % 3])
        for i, name in enumerate(learners)
    ]
    runs = [method.but(seed=seed) for method in methods for seed in range(SEEDS)]
    return [run.write(root / f"run{i}") for i, run in enumerate(runs)]


def measure(root: Path, profile: bool) -> dict:
    """Makes the report once, in this process, imports included."""
    profiler = cProfile.Profile()
    wall = time.perf_counter()
    if profile:
        profiler.enable()
    from nevis_stream.report.build import write_report

    page = write_report(sorted(root.glob("run*")), root / "out")
    if profile:
        profiler.disable()
        pstats.Stats(profiler, stream=sys.stderr).sort_stats("cumulative").print_stats(45)
    return {
        "cpu": time.process_time(),
        "wall": time.perf_counter() - wall,
        "page": page.stat().st_size,
        "tables": (
            sum(file.stat().st_size for file in page.parent.rglob("*") if file.is_file())
            - page.stat().st_size
        ),
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def main(profile: bool = False) -> None:
    """Prints the table.

    Args:
      profile: one round, with the 45 costliest functions
    """
    with tempfile.TemporaryDirectory() as directory:
        write_runs(Path(directory))
        rounds = [
            engine.call_apart(measure, Path(directory), profile)
            for _ in range(1 if profile else ROUNDS)
        ]
    from nevis_stream.experiments.scripts import describe  # loads JAX, which a report does without

    cpu, wall, memory = ([each[name] for each in rounds] for name in ("cpu", "wall", "memory"))
    print(f"{describe()}\n")
    engine.print_table(
        " | :",
        [
            [f"CPU seconds, imports included, best of n = {len(rounds)}", f"{min(cpu):.1f}"],
            ["CPU seconds, worst of them", f"{max(cpu):.1f}"],
            ["wall seconds, best", f"{min(wall):.1f}"],
            ["report.html, MB", f"{rounds[0]['page'] / 1e6:.2f}"],
            ["its tables, MB", f"{rounds[0]['tables'] / 1e6:.2f}"],
            ["peak memory, MB", f"{max(memory) / 1e6:.0f}"],
        ],
    )


if __name__ == "__main__":
    engine.start(main, keep_programs=False)
