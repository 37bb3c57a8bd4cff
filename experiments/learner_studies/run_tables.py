"""Tables of the complete runs below a folder, NAME/seed-N."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from nevis_stream.analysis.points import phase_flops
from nevis_stream.errors import BadInput
from nevis_stream.experiments.learner_studies.recorded_runs import DIFFERENCES, difference
from nevis_stream.run_directory.ledger import Ledger
from nevis_stream.run_directory.records import PredictRecord, TrainRecord
from nevis_stream.run_directory.scalars import read_timing
from nevis_stream.vocabulary import PHASES

Runs = Mapping[str, Sequence[Ledger]]


def errors(ledger: Ledger) -> dict[str, float]:
    """Returns the test error of every task."""
    return {record.task_id: record.error for record in ledger.of_kind(PredictRecord)}


def complete_runs(root: Path) -> Runs:
    """Returns the complete runs below a folder by name, those of the lowest cost first.

    Raises:
      BadInput: there is no run, or two have different tasks.
    """
    runs: dict[str, list[Ledger]] = {}
    first = None
    for path in sorted(root.glob("*/*/ledger.jsonl")):
        ledger = Ledger(path.parent)
        if not ledger.complete:
            continue
        first = first or ledger
        if set(errors(ledger)) != set(errors(first)):
            raise BadInput(
                f"{root}: {first.run_dir} and {ledger.run_dir} have different tasks. Give a"
                " folder with runs of one stream and protocol."
            )
        runs.setdefault(path.parts[-3], []).append(ledger)
    if not runs:
        raise BadInput(f"{root}: no complete run below it; --help has the commands.")
    return dict(sorted(runs.items(), key=lambda item: flops(item[1][0])))


def flops(ledger: Ledger) -> float:
    """Returns the FLOPs of all phases."""
    return sum(phase_flops(ledger).values())


def spread(values: Sequence[float]) -> str:
    """Returns the mean with the lowest and the highest value."""
    return f"{np.mean(values):.4f} ({min(values):.4f}–{max(values):.4f})"


def print_points(runs: Runs) -> None:
    """Prints a row for each name: means over seeds, with the lowest and the highest."""
    columns = (
        "runs",
        "seeds",
        "error, all tasks",
        "error, meta-test",
        "FLOPs",
        *(f"of it {phase}" for phase in PHASES),
        "CPU-s, each seed",
    )
    print(f"| {' | '.join(columns)} |\n|---|---:|---:|---:|---:|{'---:|' * len(PHASES)}---:|")
    for name, ledgers in runs.items():
        judged = {r.task_id for r in ledgers[0].of_kind(TrainRecord) if r.meta_split == "test"}
        tables = [errors(ledger) for ledger in ledgers]
        whole, meta = (
            spread([float(np.mean([table[task] for task in tasks])) for table in tables])
            if set(tasks) <= set(tables[0]) and tasks
            else "-"
            for tasks in (tables[0], judged)
        )
        costs = [phase_flops(ledger) for ledger in ledgers]
        phases = {phase: float(np.mean([c[phase] for c in costs])) for phase in PHASES}
        seconds = [sum(t.cpu_seconds for t in read_timing(ledger.run_dir)) for ledger in ledgers]
        print(
            f"| {name} | {len(ledgers)} | {whole} | {meta} | {sum(phases.values()):.3g} |"
            f" {' | '.join(f'{phases[phase]:.3g}' for phase in PHASES)} |"
            f" {', '.join(f'{value:.0f}' for value in seconds)} |"
        )


def print_differences(runs: Runs, pairs: Iterable[tuple[str, str]]) -> None:
    """Prints the interval of each pair of names, paired over tasks and the seeds that both have."""
    print(DIFFERENCES)
    for first, second in pairs:
        sides = [
            {ledger.header.seed: errors(ledger) for ledger in runs[name]}
            for name in (second, first)
        ]
        seeds = sorted(sides[0].keys() & sides[1].keys())
        tasks = list(errors(runs[first][0]))
        a, b = (
            np.asarray([[side[seed][task] for seed in seeds] for task in tasks]) for side in sides
        )
        print(difference(f"{second} − {first}", "all tasks", a, b))


def print_tasks(runs: Runs) -> None:
    """Prints the mean error of every task."""
    tables = {name: [errors(ledger) for ledger in ledgers] for name, ledgers in runs.items()}
    print(f"\n| task | {' | '.join(tables)} |\n|---|{'---:|' * len(tables)}")
    for task in next(iter(tables.values()))[0]:
        cells = [f"{np.mean([table[task] for table in side]):.3f}" for side in tables.values()]
        print(f"| {task} | {' | '.join(cells)} |")
