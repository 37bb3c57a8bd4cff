"""Test accuracies on six real data sets at a budget of minutes per task, with their lower bounds.

  python -m launch.run --config=ft_dynamic --config.stream=experiments/learner_studies/six_tasks.csv \\
      --config.budget=small --config.search.trials=2 --config.train.steps=4000 --config.train.validate_every=1000 \\
      --config.augmentation.flip=false --config.network.name=resnet '--config.network.stage_sizes=(1,1,1)' \\
      --config.network.width=32 --config.network.stem=strided --config.select.margin=2.0 --run_dir=runs/six
  python -m experiments.learner_studies.six_tasks runs/six

Prints a markdown table with CPU minutes and FLOPs of each task.
"""  # noqa: E501

from collections import Counter
from pathlib import Path

from nevis_stream.cost.meter import total
from nevis_stream.experiments import engine
from nevis_stream.experiments.scripts import describe
from nevis_stream.run_directory.ledger import Ledger
from nevis_stream.run_directory.records import PredictRecord
from nevis_stream.run_directory.scalars import read_timing

TARGETS = {
    "mnist": 99.0,
    "fashion_mnist": 88.0,
    "usps": 95.0,
    "semeion": 95.0,
    "coil20": 99.0,
    "silhouettes": 65.0,
}


def main(*words: Path) -> None:
    """Prints the tables of run directories."""
    for folder in words:
        print_run(folder)


def print_run(folder: Path) -> None:
    """Prints the table of one run directory."""
    ledger, rows = Ledger(folder), []
    seconds: Counter[str] = Counter()
    for event in read_timing(folder):
        seconds[event.task_id] += event.cpu_seconds
    print(f"{describe()}; {ledger.header.learner}, seed {ledger.header.seed}, n = 1.\n")
    for record in ledger.of_kind(PredictRecord):
        task, trained = record.task_id, ledger.training_of(record)
        start = trained.trials[0].info.get("initialised_from", "-")
        spent = f"{total(trained.flops) + total(record.flops):.3g}"
        row = [task, f"{100 * (1 - record.error):.2f}", TARGETS.get(task, "-"), record.n, start]
        rows.append([*row, f"{seconds[task] / 60:.1f}", spent])
    engine.print_table(
        "task | test accuracy, %: | target: | test images: | started from | CPU minutes: | FLOPs:",
        rows,
    )


if __name__ == "__main__":
    engine.start(main, keep_programs=False)
