"""What each part of `closed_form` and `frontier` contributes.

  python -m experiments.learner_studies.closed_form_parts runs/parts

Prints a table of the complete runs below a folder (NAME/seed-N), by rising cost: errors, FLOPs of
each phase, CPU seconds of the events; then paired bootstrap intervals over tasks and seeds, between
neighbours of one learner and between learners of one budget; and the errors of every task.

The contribution is measured on the dev_test splits of the meta-train tasks, with names that
begin with the name of what they change:

  run="python -m launch.run --config=closed_form --config.stream=local25 --config.protocol=meta_train --seeds=3"
  $run --config.budget=medium --run_dir=runs/parts/medium
  $run --config.budget=medium '--config.mirrored=(False,)' --run_dir=runs/parts/medium_not_mirrored
  $run --config.budget=medium '--config.mirrored=(True,)' --run_dir=runs/parts/medium_always_mirrored
  $run --config.budget=medium --config.pixels=0 --run_dir=runs/parts/medium_without_pixels
  $run --config.budget=medium '--config.gradients=(32,64)' --run_dir=runs/parts/medium_two_scales
  $run --config.budget=medium '--config.gradients=(32,)' --run_dir=runs/parts/medium_one_scale
  $run --config.budget=large --run_dir=runs/parts/large
  $run --config.budget=large '--config.gradients=(32,64)' --run_dir=runs/parts/large_two_scales
  $run --config.budget=large --config.patches=0 --run_dir=runs/parts/large_without_patches
  $run --config.budget=large --config.patches_above=0.0 --run_dir=runs/parts/large_patches_everywhere

That of the networks of `giant` likewise:

  run="python -m launch.run --config=frontier --config.stream=local25 --config.protocol=meta_train --config.budget=giant --seeds=3"
  $run --run_dir=runs/parts/giant
  $run --config.network_steps=0 --run_dir=runs/parts/giant_without_networks
  $run --config.chained=False --run_dir=runs/parts/giant_from_random
"""  # noqa: E501

from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np

from nevis_stream.analysis.points import phase_flops
from nevis_stream.experiments.learner_studies.local25 import check_tasks, errors
from nevis_stream.experiments.learner_studies.recorded_runs import DIFFERENCES, difference
from nevis_stream.experiments.machine import describe
from nevis_stream.run_directory.ledger import Ledger
from nevis_stream.run_directory.records import TrainRecord
from nevis_stream.run_directory.timing import read_timing
from nevis_stream.vocabulary import PHASES

Runs = Mapping[str, Sequence[Ledger]]


def complete_runs(root: Path) -> Runs:
    """Returns the complete runs below a folder by name, those of the lowest cost first."""
    runs: dict[str, list[Ledger]] = {}
    for path in sorted(root.glob("*/*/ledger.jsonl")):
        ledger = Ledger(path.parent)
        if ledger.complete:
            runs.setdefault(path.parts[-3], []).append(ledger)
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


def pairs(runs: Runs) -> list[tuple[str, str]]:
    """Returns pairs of names to compare, each the plainer or cheaper first.

    They are the budgets of one learner, by rising cost; then two learners at one budget; then NAME
    and NAME_CHANGE at one budget.
    """
    headers = {name: ledgers[0].header for name, ledgers in runs.items()}
    budgets: dict[str, dict[str, str]] = {}
    for name in sorted(runs, key=len):
        budgets.setdefault(headers[name].learner, {}).setdefault(headers[name].budget, name)
    by_cost = [sorted(names.values(), key=list(runs).index) for names in budgets.values()]
    same = [
        (first, second)
        for first, second in combinations(sorted(runs), 2)
        if headers[first].budget == headers[second].budget
        and (headers[first].learner != headers[second].learner or second.startswith(first))
    ]
    return [pair for names in by_cost for pair in pairwise(names)] + same


def print_differences(runs: Runs) -> None:
    """Prints the paired interval of each of `pairs`."""
    print(DIFFERENCES)
    for first, second in pairs(runs):
        tables = [[errors(ledger) for ledger in runs[name]] for name in (second, first)]
        a, b = (
            np.asarray([[table[task] for table in side] for task in tables[0][0]])
            for side in tables
        )
        print(difference(f"{second} − {first}", "all tasks", a, b))


def print_tasks(runs: Runs) -> None:
    """Prints the mean error of every task."""
    tables = {name: [errors(ledger) for ledger in ledgers] for name, ledgers in runs.items()}
    print(f"\n| task | {' | '.join(tables)} |\n|---|{'---:|' * len(tables)}")
    for task in next(iter(tables.values()))[0]:
        cells = [f"{np.mean([table[task] for table in side]):.3f}" for side in tables.values()]
        print(f"| {task} | {' | '.join(cells)} |")


def main(folder: Path) -> None:
    """Prints the tables."""
    runs = complete_runs(folder)
    check_tasks(folder, (ledger for ledgers in runs.values() for ledger in ledgers))
    print(describe() + "\n")
    print_points(runs)
    print_differences(runs)
    print_tasks(runs)


if __name__ == "__main__":
    from nevis_stream.launch import entry

    entry.start(
        lambda words: main(Path(entry.only(words, "the folder of the runs"))), words="FOLDER"
    )
