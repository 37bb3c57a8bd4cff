"""Speed-up of the executors with four trials per task, budget tiny, on the embedded stream.

  python -m benchmarks.executors [--repeats=2] [--executors=inline,threads,ray]

Runs of the executors alternate in one process, after programs were compiled and workers started.
The speed-up is the time of all train events with `inline` over that with the executor, for each
repeat; the last column has its range over single tasks.
"""

import tempfile
from pathlib import Path

from nevis_stream.configs import run_config
from nevis_stream.errors import look_up
from nevis_stream.experiments import engine
from nevis_stream.experiments.scripts import describe
from nevis_stream.launch.executors import EXECUTORS
from nevis_stream.run_directory.scalars import read_timing
from nevis_stream.runner import run
from nevis_stream.streams.named_streams import load_stream

TRIALS = 4


def make_learner(steps: int | None = None):
    """Returns indep at the budget tiny with four trials."""
    config = run_config.make_default("indep")
    config.budget, config.search.trials = "tiny", TRIALS
    if steps is not None:
        config.train.update(steps=steps, validate_every=steps)
    return run_config.resolve(config).build()


def seconds(run_dir: str) -> list[float]:
    """Returns the wall-clock seconds of each train event."""
    return [record.seconds for record in read_timing(Path(run_dir)) if record.kind == "train"]


def main(repeats: int = 2, executors: str = "inline,threads") -> None:
    """Prints the table."""
    stream, names = load_stream("pico"), executors.split(",")
    built = {name: look_up(EXECUTORS, "executor", name)() for name in names}
    times: dict[str, list[list[float]]] = {name: [] for name in names}
    ledgers = set()
    with tempfile.TemporaryDirectory() as directory:
        for name in names:
            run(make_learner(steps=2), stream, f"{directory}/warm-{name}", executor=built[name])
        for repeat in range(repeats):
            for name in names:
                ledger = run(
                    make_learner(), stream, f"{directory}/{name}-{repeat}", executor=built[name]
                )
                ledgers.add(ledger.path.read_bytes())
                times[name].append(seconds(f"{directory}/{name}-{repeat}"))
    print(
        f"{describe()}; pico, {len(stream.tasks)} tasks, {TRIALS} trials per task, budget tiny, n ="
        f" {repeats}; ledgers"
        f" {'equal byte for byte' if len(ledgers) == 1 else 'NOT equal'}.\n"
    )
    rows = []
    for name in names:
        totals = [sum(seconds_by_task) for seconds_by_task in times[name]]
        ratios = [sum(a) / sum(b) for a, b in zip(times["inline"], times[name], strict=True)]
        tasks = [
            x / y
            for a, b in zip(times["inline"], times[name], strict=True)
            for x, y in zip(a, b, strict=True)
        ]
        shown = ", ".join(f"{total:.1f}" for total in totals)
        faster = ", ".join(f"{ratio:.2f}" for ratio in ratios)
        rows.append([name, shown, faster, f"{min(tasks):.2f}–{max(tasks):.2f}"])
    heads = "executor | seconds of training | speed-up over inline | range over tasks"
    engine.print_table(heads, rows)


if __name__ == "__main__":
    engine.start(main)
