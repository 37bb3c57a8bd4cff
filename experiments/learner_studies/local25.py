"""Learners on the 30 real tasks of `local25`: errors, FLOPs by phase, and pairwise differences.

  python -m launch.data prepare --stream=local25
  for learner in indep ft_prev ft_dynamic; do python -m launch.run --config=$learner \\
      --config.stream=local25 --config.budget=small --config.search.trials=2 --config.train.steps=480 \\
      --config.train.validate_every=120 --seeds=3 --run_dir=runs/local25/$learner; done
  python -m experiments.learner_studies.local25 runs/local25

Prints a table of the complete runs in a folder (LEARNER/seed-N), and for each pair of learners the
difference in error with its paired bootstrap interval over tasks and the seeds that both have.
"""  # noqa: E501

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

from nevis_stream.analysis.points import sum_phase_flops
from nevis_stream.analysis.published_comparison import compare_with_published
from nevis_stream.analysis.runs import read_runs
from nevis_stream.analysis.seeds import group_by_seed
from nevis_stream.catalogue.published import LEARNERS
from nevis_stream.errors import BadInput
from nevis_stream.experiments import engine
from nevis_stream.experiments.learner_studies.recorded_runs import print_differences
from nevis_stream.experiments.scripts import describe
from nevis_stream.run_directory.ledger import Ledger
from nevis_stream.run_directory.records import PredictRecord, TrainRecord
from nevis_stream.run_directory.scalars import read_timing
from nevis_stream.vocabulary import PHASES

Runs = Mapping[str, Sequence[Ledger]]


def read_errors(ledger: Ledger) -> dict[str, float]:
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
        if set(read_errors(ledger)) != set(read_errors(first)):
            raise BadInput(
                f"{root}: {first.run_dir} and {ledger.run_dir} have different tasks. Give a"
                " folder with runs of one stream and protocol."
            )
        runs.setdefault(path.parts[-3], []).append(ledger)
    if not runs:
        raise BadInput(f"{root}: no complete run below it; --help has the commands.")
    return dict(sorted(runs.items(), key=lambda item: read_flops(item[1][0])))


def read_flops(ledger: Ledger) -> float:
    """Returns the FLOPs of all phases."""
    return sum(sum_phase_flops(ledger).values())


def spread(values: Sequence[float]) -> str:
    """Returns the mean with the lowest and the highest value."""
    return f"{np.mean(values):.4f} ({min(values):.4f}–{max(values):.4f})"


def print_points(runs: Runs) -> None:
    """Prints a row for each name: means over seeds, with the lowest and the highest."""
    rows = []
    for name, ledgers in runs.items():
        judged = {r.task_id for r in ledgers[0].of_kind(TrainRecord) if r.meta_split == "test"}
        tables = [read_errors(ledger) for ledger in ledgers]
        whole, meta = (
            spread([float(np.mean([table[task] for task in tasks])) for table in tables])
            if set(tasks) <= set(tables[0]) and tasks
            else "-"
            for tasks in (tables[0], judged)
        )
        costs = [sum_phase_flops(ledger) for ledger in ledgers]
        phases = {phase: float(np.mean([c[phase] for c in costs])) for phase in PHASES}
        seconds = [sum(t.cpu_seconds for t in read_timing(ledger.run_dir)) for ledger in ledgers]
        flops = [f"{each:.3g}" for each in (sum(phases.values()), *phases.values())]
        shown = ", ".join(f"{value:.0f}" for value in seconds)
        rows.append([name, len(ledgers), whole, meta, *flops, shown])
    parts = " | ".join(f"of it {phase}:" for phase in PHASES)
    engine.print_table(
        "runs | seeds: | error, all tasks: | error, meta-test: | FLOPs:"
        f" | {parts} | CPU-s, each seed:",
        rows,
    )


def list_differences(runs: Runs, pairs: Iterable[tuple[str, str]]) -> Iterator[tuple]:
    """Yields the errors of each pair of names, on the seeds that both have."""
    for first, second in pairs:
        sides = [
            {ledger.header.seed: read_errors(ledger) for ledger in runs[name]}
            for name in (second, first)
        ]
        seeds = sorted(sides[0].keys() & sides[1].keys())
        tasks = list(read_errors(runs[first][0]))
        a, b = (
            np.asarray([[side[seed][task] for seed in seeds] for task in tasks]) for side in sides
        )
        yield f"{second} − {first}", "all tasks", a, b


def main(*words: Path) -> None:
    """Prints the tables of the runs in each folder."""
    for folder in words:
        print_folder(complete_runs(folder))


def print_folder(runs: Runs) -> None:
    """Prints the tables of runs."""
    print(describe() + "\n")
    print_points(runs)
    print_differences(list_differences(runs, combinations(runs, 2)))
    print_tasks([ledger.run_dir for ledgers in runs.values() for ledger in ledgers])


def print_tasks(run_dirs: list[Path]) -> None:
    """Prints each task's mean errors, its published errors, and how its data differ."""
    rows = compare_with_published(group_by_seed(read_runs(run_dirs)[0]))
    if not rows:
        return
    heads = [own.label for own in rows[0].own] + [f"published: {learner}" for learner in LEARNERS]
    print()
    engine.print_table(
        f"task | {': | '.join(heads)}: | other data",
        (
            [
                row.task_id,
                *(f"{own.error.mean:.3f}" for own in row.own),
                *(f"{row.published[learner]:.3f}" for learner in LEARNERS),
                row.data_difference,
            ]
            for row in rows
        ),
    )


if __name__ == "__main__":
    engine.start(main, keep_programs=False)
