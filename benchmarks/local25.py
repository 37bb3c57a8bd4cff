"""Learners on the 30 real tasks of `local25`: errors, FLOPs by phase, and whether one learner beats another.

  python -m launch.data prepare --stream=local25
  for learner in indep ft_prev ft_dynamic; do python -m launch.run --config=experiments/configs/$learner.py \\
      --config.stream=local25 --config.budget=small --config.search.trials=2 --config.train.steps=480 \\
      --config.train.validate_every=120 --seeds=3 --run_dir=runs/local25/$learner; done
  python -m benchmarks.local25 runs/local25

Prints a table of the complete runs below a folder (LEARNER/seed-N), and paired bootstrap intervals over tasks and seeds of the
difference in error between each two learners that have the same seeds.
"""

import sys
from collections import Counter
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.machine import describe
from nevis_stream.datasets.sources import shared_directory
from nevis_stream.ledger import Ledger

SAMPLES = 10_000
PHASES = ("pretrain", "train", "select", "validate", "predict")
PUBLISHED = {"indep": "indep", "ft_prev": "ft_previous", "ft_dynamic": "ft_dynamic_knn", "mt": "mt"}


def errors(ledger: Ledger) -> dict[str, float]:
    """Returns the test error of every task."""
    return {record["task_id"]: record["error"] for record in ledger.of_kind("predict")}


def flops(ledger: Ledger) -> Counter:
    """Returns FLOPs by phase."""
    total: Counter = Counter()
    for record in ledger.records:
        for phase, counts in record.get("flops", {}).items():
            total[phase] += sum(counts.values())
    return total


def interval(differences: np.ndarray) -> tuple[float, float]:
    """Returns the 95% interval of the mean of float[seeds, tasks] when seeds and tasks are drawn anew."""
    random = np.random.RandomState(0)
    seeds, tasks = differences.shape
    drawn_seeds = random.randint(seeds, size=(SAMPLES, seeds, 1))
    drawn_tasks = random.randint(tasks, size=(SAMPLES, 1, tasks))
    means = differences[drawn_seeds, drawn_tasks].mean(axis=(1, 2))
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def main() -> None:
    """Prints the tables."""
    root = Path(sys.argv[1])
    runs: dict[str, dict[str, Ledger]] = {}
    for path in sorted(root.glob("*/*/ledger.jsonl")):
        ledger = Ledger(path.parent)
        if ledger.complete:
            runs.setdefault(path.parts[-3], {})[path.parts[-2]] = ledger
    some = next(iter(next(iter(runs.values())).values()))
    judged = {record["task_id"] for record in some.of_kind("train") if record["meta_split"] == "test"}
    print(describe() + "\n")
    columns = ("learner", "seeds", "error, 5 meta-test tasks", "error, all 30 tasks", *(f"FLOPs {p}" for p in PHASES))
    print(f"| {' | '.join(columns)} |")
    print("|---|---:|---:|---:|" + "---:|" * len(PHASES))
    for learner, ledgers in runs.items():
        tables = [errors(ledger) for ledger in ledgers.values()]
        meta = [np.mean([table[task] for task in judged]) for table in tables]
        whole = [np.mean(list(table.values())) for table in tables]
        spent = flops(next(iter(ledgers.values())))
        cells = [f"{np.mean(v):.4f} ({min(v):.4f}–{max(v):.4f})" for v in (meta, whole)]
        print(f"| {learner} | {len(tables)} | {' | '.join(cells)} | {' | '.join(f'{spent[p]:.3g}' for p in PHASES)} |")
    print("\n| difference in error over all tasks | mean | 95% interval, paired over tasks and seeds | tasks better / worse |")
    print("|---|---:|---|---:|")
    for one, other in combinations(runs, 2):
        seeds = sorted(set(runs[one]) & set(runs[other]))
        tables = [(errors(runs[one][seed]), errors(runs[other][seed])) for seed in seeds]
        differences = np.asarray([[a[task] - b[task] for task in a] for a, b in tables])
        low, high = interval(differences)
        mean = differences.mean(axis=0)
        print(
            f"| {one} − {other} ({len(seeds)} seeds) | {differences.mean():+.4f} | {low:+.4f} to {high:+.4f} | "
            f"{int((mean < 0).sum())} / {int((mean > 0).sum())} |"
        )
    per_task(runs, [record["task_id"] for record in some.of_kind("predict")])


def per_task(runs: dict[str, dict[str, Ledger]], tasks: list[str]) -> None:
    """Prints every task's mean error of each learner, and beside it the paper's where the published values are present."""
    file = shared_directory() / "reference" / "nevis_results.csv"
    published = pd.read_csv(file).set_index("canonical_id") if file.is_file() else pd.DataFrame()
    learners = [name for name in PUBLISHED if name in runs] + sorted(name for name in runs if name not in PUBLISHED)
    means = {name: pd.DataFrame([errors(ledger) for ledger in runs[name].values()]).mean() for name in learners}
    paper = [name for name in learners if name in PUBLISHED and len(published)]
    print(f"\n| task | {' | '.join(learners)} | {' | '.join(f'paper: {name}' for name in paper)} |")
    print("|---|" + "---:|" * (len(learners) + len(paper)))
    for task in tasks:
        cells = [f"{means[name][task]:.3f}" for name in learners]
        known = task in published.index
        cells += [f"{1 - published.loc[task, PUBLISHED[name]] / 100:.3f}" if known else "-" for name in paper]
        print(f"| {task} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
