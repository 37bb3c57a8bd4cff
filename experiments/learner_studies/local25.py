"""Learners on the 30 real tasks of `local25`: errors, FLOPs by phase, and pairwise differences.

  python -m launch.data prepare --stream=local25
  for learner in indep ft_prev ft_dynamic; do python -m launch.run --config=$learner \\
      --config.stream=local25 --config.budget=small --config.search.trials=2 --config.train.steps=480 \\
      --config.train.validate_every=120 --seeds=3 --run_dir=runs/local25/$learner; done
  python -m experiments.learner_studies.local25 runs/local25

Prints a table of the complete runs in a folder (LEARNER/seed-N), and for each pair of learners the
difference in error with its paired bootstrap interval over tasks and the seeds that both have.
"""  # noqa: E501

from collections.abc import Iterable
from itertools import combinations
from pathlib import Path

import numpy as np

from nevis_stream.analysis.bootstrap import over_tasks
from nevis_stream.analysis.points import phase_flops
from nevis_stream.analysis.published_comparison import published_comparisons
from nevis_stream.analysis.runs import read_runs
from nevis_stream.analysis.seeds import by_seed
from nevis_stream.catalogue.published import LEARNERS
from nevis_stream.errors import BadInput
from nevis_stream.experiments.machine import describe
from nevis_stream.run_directory.ledger import Ledger
from nevis_stream.run_directory.records import PredictRecord, TrainRecord
from nevis_stream.vocabulary import PHASES


def errors(ledger: Ledger) -> dict[str, float]:
    """Returns the test error of every task."""
    return {record.task_id: record.error for record in ledger.of_kind(PredictRecord)}


def check_tasks(folder: Path, ledgers: Iterable[Ledger]) -> None:
    """Checks that runs are comparable.

    Raises:
      BadInput: there is no run, or two have different tasks.
    """
    first = None
    for ledger in ledgers:
        first = first or ledger
        if set(errors(ledger)) != set(errors(first)):
            raise BadInput(
                f"{folder}: {first.run_dir} and {ledger.run_dir} have different tasks. Give a"
                " folder with runs of one stream and protocol."
            )
    if first is None:
        raise BadInput(f"{folder}: no complete run below it; --help has the commands.")


def main(folder: Path) -> None:
    """Prints the tables."""
    runs: dict[str, dict[str, Ledger]] = {}
    for path in sorted(folder.glob("*/*/ledger.jsonl")):
        ledger = Ledger(path.parent)
        if ledger.complete:
            runs.setdefault(path.parts[-3], {})[path.parts[-2]] = ledger
    check_tasks(folder, (ledger for seeds in runs.values() for ledger in seeds.values()))
    ledger = next(iter(next(iter(runs.values())).values()))
    judged = {
        record.task_id for record in ledger.of_kind(TrainRecord) if record.meta_split == "test"
    }
    print(describe() + "\n")
    columns = (
        "learner",
        "seeds",
        f"error, {len(judged)} meta-test tasks",
        f"error, all {len(errors(ledger))} tasks",
        *(f"FLOPs {p}" for p in PHASES),
    )
    print(f"| {' | '.join(columns)} |")
    print("|---|---:|---:|---:|" + "---:|" * len(PHASES))
    for learner, ledgers in runs.items():
        tables = [errors(ledger) for ledger in ledgers.values()]
        meta = [np.mean([table[task] for task in judged]) for table in tables] if judged else []
        all_tasks = [np.mean(list(table.values())) for table in tables]
        flops = phase_flops(next(iter(ledgers.values())))
        cells = [
            f"{np.mean(v):.4f} ({min(v):.4f}–{max(v):.4f})" if v else "-" for v in (meta, all_tasks)
        ]
        print(
            f"| {learner} | {len(tables)} | {' | '.join(cells)} |"
            f" {' | '.join(f'{flops[p]:.3g}' for p in PHASES)} |"
        )
    print(
        "\n| difference in error over all tasks | mean | 95% interval, paired over tasks and seeds"
        " | tasks better / worse |"
    )
    print("|---|---:|---|---:|")
    for first, second in combinations(runs, 2):
        seeds = sorted(set(runs[first]) & set(runs[second]))
        pairs = [(errors(runs[first][seed]), errors(runs[second][seed])) for seed in seeds]
        a, b = (
            np.asarray([[pair[side][task] for pair in pairs] for task in pairs[0][0]])
            for side in (0, 1)
        )
        interval, mean = over_tasks(a, b), (a - b).mean(axis=1)
        print(
            f"| {first} − {second} ({len(seeds)} seed{'s' * (len(seeds) > 1)}) |"
            f" {interval.estimate:+.4f} | {interval.low:+.4f} to {interval.high:+.4f} |"
            f" {int((mean < 0).sum())} / {int((mean > 0).sum())} |"
        )
    per_task([ledger.run_dir for ledgers in runs.values() for ledger in ledgers.values()])


def per_task(run_dirs: list[Path]) -> None:
    """Prints each task's mean errors, its published errors, and how its data differ."""
    rows = published_comparisons(by_seed(read_runs(run_dirs)[0]))
    if not rows:
        return
    heads = [own.label for own in rows[0].own] + [f"published: {learner}" for learner in LEARNERS]
    print(f"\n| task | {' | '.join(heads)} | other data |")
    print("|---|" + "---:|" * len(heads) + "---|")
    for row in rows:
        cells = [f"{own.error.mean:.3f}" for own in row.own] + [
            f"{row.published[learner]:.3f}" for learner in LEARNERS
        ]
        print(f"| {row.task_id} | {' | '.join(cells)} | {row.other_data} |")


if __name__ == "__main__":
    from nevis_stream.launch import entry

    entry.start(
        lambda words: main(Path(entry.only(words, "the folder of the runs"))), words="FOLDER"
    )
