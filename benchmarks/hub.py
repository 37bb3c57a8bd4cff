"""A hub of natural images on `local26` and `local25_hub`: does FT-d beat FT-prev once it precedes?

  python -m launch.data prepare --stream=local26
  python -m benchmarks.hub --out=runs/hub [--learners=closed_form,frontier] [--streams=local25_hub]
  python -m benchmarks.hub --print_only

The published FT-d owes its lead over FT-prev to tasks that follow ImageNet and Caltech256. `local25`
has no such hub. In `local25_hub`, tiny_imagenet stands in for ImageNet at 2011; in `local26` it is at
its own place, 2019. There are 36 runs: six learners, two streams and three seeds. The networks get one
trial of 2,400 steps a task, with the hyper-parameters of "Trained longer" in RESULTS.md; `closed_form`
and `frontier` have the budget `medium`.

Every complete run is added to benchmarks/hub.csv and is not repeated; an interrupted run continues
in its run directory. The tables are printed from the file alone.
"""  # noqa: E501

import csv
import subprocess
import sys
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
from absl import app, flags

from benchmarks.machine import describe
from nevis_stream.analysis.bootstrap import over_tasks
from nevis_stream.analysis.points import phase_flops
from nevis_stream.run_directory.ledger import Ledger
from nevis_stream.run_directory.records import PredictRecord
from nevis_stream.streams.rows import stream_rows
from nevis_stream.vocabulary import PHASES

STREAMS = ("local25_hub", "local26")
_CLOSED = ("--config.budget=medium",)
_NETWORKS = (
    "--config.budget=small",
    "--config.search.trials=1",
    "--config.search.learning_rate=(0.1,0.1)",
    "--config.search.label_smoothing=(0.1,0.1)",
    "--config.train.steps=2400",
    "--config.train.validate_every=600",
    "--config.select.train_cap=10000",
    "--config.select.dev_cap=5000",
)
LEARNERS = {
    "closed_form": _CLOSED,
    "frontier": _CLOSED,
    "ft_prev": _NETWORKS,
    "ft_dynamic": _NETWORKS,
    "indep": _NETWORKS,
    "mt": _NETWORKS,
}
NATURAL = ("caltech101", "cifar10", "cifar100", "office_caltech", "pacs", "scenes15")
HUBS = ("imagenet_stand_in", "tiny_imagenet")
FILE = Path(__file__).with_name("hub.csv")
COLUMNS = ("stream", "learner", "seed", "task_id", "error", *PHASES)

OUT = flags.DEFINE_string("out", "runs/hub", "folder of the run directories")
NAMES = flags.DEFINE_list("learners", list(LEARNERS), "learners that are run")
RUN_STREAMS = flags.DEFINE_list("streams", list(STREAMS), "streams that are run")
SEEDS = flags.DEFINE_list("seeds", ["0", "1", "2"], "seeds that are run")
PRINT_ONLY = flags.DEFINE_bool("print_only", False, "print the tables, run nothing")

Run = tuple[str, str, int]  # stream, learner, seed
Tasks = Mapping[str, Mapping[str, float]]  # task → error and FLOPs of each phase


def read_runs() -> dict[Run, Tasks]:
    """Returns the recorded runs: for every task its error and the FLOPs of its phases."""
    runs: dict[Run, dict[str, Mapping[str, float]]] = {}
    if FILE.is_file():
        with open(FILE, newline="") as file:
            for row in csv.DictReader(file):
                run = row["stream"], row["learner"], int(row["seed"])
                values = {name: float(row[name]) for name in ("error", *PHASES)}
                runs.setdefault(run, {})[row["task_id"]] = values
    return runs


def measure(run: Run, folder: Path) -> None:
    """Runs a learner, or continues an interrupted run, and adds the result to the file."""
    stream, learner, seed = run
    run_dir = folder / stream / learner / f"seed-{seed}"
    command = [sys.executable, "-m", "launch.run", f"--config={learner}", *LEARNERS[learner]]
    command += [f"--config.stream={stream}", f"--config.seed={seed}", f"--run_dir={run_dir}"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    add(run, Ledger(run_dir))


def add(run: Run, ledger: Ledger) -> None:
    """Adds a complete run to the file, all its rows at once; costs are those of the whole run."""
    costs = phase_flops(ledger)
    new = not FILE.is_file()
    with open(FILE, "a", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if new:
            writer.writerow(COLUMNS)
        writer.writerows(
            (*run, record.task_id, f"{record.error:.6f}", *(f"{costs[p]:.6g}" for p in PHASES))
            for record in ledger.of_kind(PredictRecord)
        )


def table(runs: Mapping[Run, Tasks], stream: str, learner: str, tasks: Sequence[str]) -> np.ndarray:
    """Returns float[tasks, seeds]: the errors of a learner on a stream."""
    seeds = [run for run in sorted(runs) if run[:2] == (stream, learner)]
    return np.asarray([[runs[run][task]["error"] for run in seeds] for task in tasks])


def mean_and_range(errors: np.ndarray) -> str:
    """Returns the mean over seeds of the mean over tasks, with the lowest and the highest."""
    values = errors.mean(axis=0)
    return f"{values.mean():.4f} ({values.min():.4f}–{values.max():.4f})"


def groups(stream: str) -> dict[str, list[str]]:
    """Returns the task ids of a stream in groups, by the name of the group."""
    rows = stream_rows(stream)[1]
    tasks = [row["task_id"] for row in rows]
    place = next(i for i, task in enumerate(tasks) if task in HUBS)
    return {
        "all tasks": tasks,
        "meta-test": [row["task_id"] for row in rows if row["meta_split"] == "test"],
        "after the hub": tasks[place + 1 :],
        "natural images after the hub": [
            row["task_id"] for row in rows[place + 1 :] if row["dataset_id"] in NATURAL
        ],
    }


def print_stream(runs: Mapping[Run, Tasks], stream: str) -> None:
    """Prints the points of a stream, and the differences of every pair of learners."""
    names = [name for name in LEARNERS if any(run[:2] == (stream, name) for run in runs)]
    parts = {group: tasks for group, tasks in groups(stream).items() if tasks}
    hub = next(task for task in parts["all tasks"] if task in HUBS)
    heads = (*(f"error, {group}" for group in parts), f"error, {hub}", "FLOPs of all phases")
    print(f"\n| `{stream}` | seeds | {' | '.join(heads)} |\n|---|---:|{'---:|' * len(heads)}")
    for name in names:
        tables = [table(runs, stream, name, tasks) for tasks in (*parts.values(), [hub])]
        first = next(tasks for run, tasks in runs.items() if run[:2] == (stream, name))
        cost = sum(next(iter(first.values()))[phase] for phase in PHASES)
        cells = [mean_and_range(errors) for errors in tables]
        print(f"| {name} | {tables[0].shape[1]} | {' | '.join(cells)} | {cost:.3g} |")
    pairs = list(combinations(names, 2))
    if pairs:
        print(
            "\n| difference in error | tasks | mean | 95% interval, paired over tasks and seeds |"
            " tasks better / worse |\n|---|---|---:|---|---:|"
        )
    for first_name, second_name in pairs:
        for group, tasks in parts.items():
            a, b = (table(runs, stream, name, tasks) for name in (second_name, first_name))
            found, mean = over_tasks(a, b), a.mean(axis=1) - b.mean(axis=1)
            interval = "too few tasks" if found.reason else f"{found.low:+.4f} to {found.high:+.4f}"
            print(
                f"| {second_name} − {first_name} | {group}, {len(tasks)} |"
                f" {found.estimate:+.4f} | {interval} |"
                f" {int((mean < 0).sum())} / {int((mean > 0).sum())} |"
            )


def main(_) -> None:
    """Runs what is missing, one seed after another, and prints the tables."""
    wanted = [
        (stream, learner, int(seed))
        for seed in SEEDS.value
        for learner in NAMES.value
        for stream in RUN_STREAMS.value
    ]
    for run in wanted:
        if not PRINT_ONLY.value and run not in read_runs():
            measure(run, Path(OUT.value))
    runs = read_runs()
    if not runs:
        sys.exit(f"{FILE}: no complete run is recorded yet; run this without --print_only")
    print(describe())
    for stream in STREAMS:
        if any(run[0] == stream for run in runs):
            print_stream(runs, stream)


if __name__ == "__main__":
    app.run(main)
