"""Test accuracies on six real data sets at a budget of minutes per task, with their lower bounds.

  python -m launch.run --config=ft_dynamic --config.stream=experiments/learner_studies/six_tasks.csv \\
      --config.budget=small --config.search.trials=2 --config.train.steps=4000 --config.train.validate_every=1000 \\
      --config.augmentation.flip=false --config.network.name=resnet '--config.network.stage_sizes=(1,1,1)' \\
      --config.network.width=32 --config.network.stem=strided --config.select.margin=2.0 --run_dir=runs/six
  python -m experiments.learner_studies.six_tasks runs/six

Prints a markdown table with CPU minutes and FLOPs of each task.
"""  # noqa: E501

from pathlib import Path

from nevis_stream.cost.meter import total
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


def main(folder: Path) -> None:
    """Prints the table of one run directory."""
    ledger = Ledger(folder)
    seconds = {}
    for event in read_timing(folder):
        seconds[event.task_id] = seconds.get(event.task_id, 0) + event.cpu_seconds
    print(f"{describe()}; {ledger.header.learner}, seed {ledger.header.seed}, n = 1.\n")
    columns = (
        "task",
        "test accuracy, %",
        "target",
        "test images",
        "started from",
        "CPU minutes",
        "FLOPs",
    )
    print(f"| {' | '.join(columns)} |\n|---|---:|---:|---:|---|---:|---:|")
    for record in ledger.of_kind(PredictRecord):
        task, trained = record.task_id, ledger.training_of(record)
        start = trained.trials[0].info.get("initialised_from", "-")
        spent = total(trained.flops) + total(record.flops)
        print(
            f"| {task} | {100 * (1 - record.error):.2f} | {TARGETS.get(task, '-')} |"
            f" {record.n} | {start} | {seconds[task] / 60:.1f} | {spent:.3g} |"
        )


if __name__ == "__main__":
    from nevis_stream.launch import entry

    entry.start(
        lambda words: main(Path(entry.take_only_word(words, "one run directory"))), words="RUN_DIR"
    )
