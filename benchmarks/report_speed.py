"""How long a report takes, how large its page is and how much memory it needs.

  python -m benchmarks.report_speed
  python -m benchmarks.report_speed --profile

20 synthetic runs (10 learners, 2 seeds) of 106 tasks with 16 trials each, 50 points per learning
curve, and a thumbnail and worst mistakes per task; six of the learners start tasks from earlier
ones, so that each has a fine-tuning graph. Each round in a fresh process, figures not exported.
Their errors are random numbers: only the shape is that of a real stream.
"""

import argparse
import cProfile
import json
import pstats
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from nevis_stream.experiments.scripts import make_parser
from nevis_stream.launch import entry

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


def main() -> None:
    """Prints the table."""
    parser = make_parser(__doc__)
    parser.add_argument(
        "--profile", action="store_true", help="one round, with the 45 costliest functions"
    )
    parser.add_argument("--of", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.of:
        print(json.dumps(measure(arguments.of, arguments.profile)))
        return
    with tempfile.TemporaryDirectory() as directory:
        write_runs(Path(directory))
        command = [
            sys.executable,
            "-m",
            "benchmarks.report_speed",
            f"--of={directory}",
            *["--profile"] * arguments.profile,
        ]
        rounds = [
            json.loads(
                subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            )
            for _ in range(1 if arguments.profile else ROUNDS)
        ]
    from nevis_stream.experiments.scripts import describe  # loads JAX, which a report does without

    print(describe())
    print("\n| | |\n|---|---:|")
    print(
        f"| CPU seconds, imports included, best of n = {len(rounds)} |"
        f" {min(result['cpu'] for result in rounds):.1f} |"
    )
    print(f"| CPU seconds, worst of them | {max(result['cpu'] for result in rounds):.1f} |")
    print(f"| wall seconds, best | {min(result['wall'] for result in rounds):.1f} |")
    print(f"| report.html, MB | {rounds[0]['page'] / 1e6:.2f} |")
    print(f"| its tables, MB | {rounds[0]['tables'] / 1e6:.2f} |")
    print(f"| peak memory, MB | {max(result['memory'] for result in rounds) / 1e6:.0f} |")


if __name__ == "__main__":
    entry.guard(main)
