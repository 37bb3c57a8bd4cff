"""What TensorBoard's scalars cost: runs with and without them in turn, and one point by itself.

All in one process.

  python -m benchmarks.scalars [--repeats=5] [--points=2000]

The runs are of Indep at the budget tiny on the embedded stream, programs compiled before; a ratio
is the CPU seconds of a run with scalars over those of the run without of the same repeat. Orders
alternate.
"""

import statistics
import tempfile
import time
from pathlib import Path

from benchmarks.executors import learner
from nevis_stream.experiments.commands import make_parser, positive
from nevis_stream.experiments.machine import describe
from nevis_stream.launch import entry
from nevis_stream.run_directory.scalars import Scalars
from nevis_stream.runner import run
from nevis_stream.streams.named_streams import load_stream


def cpu_seconds(directory: Path, stream, tensorboard: bool) -> tuple[float, bytes]:
    """Returns the CPU seconds of one run and its ledger."""
    begun = time.process_time()
    ledger = run(learner(), stream, directory, tensorboard=tensorboard)
    return time.process_time() - begun, ledger.path.read_bytes()


def microseconds_a_point(directory: Path, points: int) -> tuple[float, float]:
    """Returns CPU and wall-clock microseconds of one call, as `fit` makes it at each look.

    The call has three values.
    """
    scalars, begun = Scalars(directory, "trial"), (time.process_time(), time.perf_counter())
    for step in range(points):
        scalars.write(
            step, {"trial/train_loss": 1.0, "trial/dev_error": 0.5, "trial/learning_rate": 0.1}
        )
    ended = time.process_time(), time.perf_counter()
    return tuple(1e6 * (now - then) / points for now, then in zip(ended, begun, strict=True))


def main() -> None:
    """Prints the table."""
    parser = make_parser(__doc__)
    parser.add_argument("--repeats", type=positive, default=5)
    parser.add_argument("--points", type=positive, default=2000)
    arguments = parser.parse_args()
    entry.use_compilation_cache()
    stream = load_stream("pico")
    with tempfile.TemporaryDirectory() as name:
        directory, times, ledgers = Path(name), {True: [], False: []}, set()
        run(learner(steps=2), stream, directory / "warm")
        for repeat in range(arguments.repeats):
            for on in (True, False) if repeat % 2 else (False, True):
                seconds, ledger = cpu_seconds(directory / f"{on}-{repeat}", stream, on)
                times[on].append(seconds)
                ledgers.add(ledger)
        cpu, wall = microseconds_a_point(directory, arguments.points)
    ratios = sorted(a / b for a, b in zip(times[True], times[False], strict=True))
    print(
        f"{describe()}; pico, {len(stream.tasks)} tasks, 4 trials per task, 5 looks per trial,"
        " budget"
        f" tiny, n = {arguments.repeats}; ledgers"
        f" {'equal byte for byte' if len(ledgers) == 1 else 'NOT equal'}.\n"
    )
    print("| | |\n|---|---|")
    for on, words in ((True, "with"), (False, "without")):
        print(
            f"| CPU seconds of a run {words} scalars |"
            f" {', '.join(f'{seconds:.1f}' for seconds in times[on])} |"
        )
    print(
        f"| ratio, median (all) | {statistics.median(ratios):.3f}"
        f" ({', '.join(f'{ratio:.3f}' for ratio in ratios)}) |"
    )
    print(
        f"| one point of three values, n = {arguments.points} | {cpu:.0f} µs of CPU, {wall:.0f}"
        " µs |"
    )


if __name__ == "__main__":
    entry.guard(main)
