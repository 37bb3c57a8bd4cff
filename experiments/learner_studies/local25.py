"""Learners on the 30 real tasks of `local25`: errors, FLOPs by phase, and pairwise differences.

  python -m launch.data prepare --stream=local25
  for learner in indep ft_prev ft_dynamic; do python -m launch.run --config=$learner \\
      --config.stream=local25 --config.budget=small --config.search.trials=2 --config.train.steps=480 \\
      --config.train.validate_every=120 --seeds=3 --run_dir=runs/local25/$learner; done
  python -m experiments.learner_studies.local25 runs/local25

Prints a table of the complete runs in a folder (LEARNER/seed-N), and for each pair of learners the
difference in error with its paired bootstrap interval over tasks and the seeds that both have.
"""  # noqa: E501

from itertools import combinations
from pathlib import Path

from nevis_stream.analysis.published_comparison import published_comparisons
from nevis_stream.analysis.runs import read_runs
from nevis_stream.analysis.seeds import by_seed
from nevis_stream.catalogue.published import LEARNERS
from nevis_stream.experiments.learner_studies.run_tables import (
    complete_runs,
    print_differences,
    print_points,
)
from nevis_stream.experiments.machine import describe


def main(folder: Path) -> None:
    """Prints the tables."""
    runs = complete_runs(folder)
    print(describe() + "\n")
    print_points(runs)
    print_differences(runs, combinations(runs, 2))
    per_task([ledger.run_dir for ledgers in runs.values() for ledger in ledgers])


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
        print(f"| {row.task_id} | {' | '.join(cells)} | {row.data_difference} |")


if __name__ == "__main__":
    from nevis_stream.launch import entry

    entry.start(
        lambda words: main(Path(entry.take_only_word(words, "the folder of the runs"))),
        words="FOLDER",
    )
