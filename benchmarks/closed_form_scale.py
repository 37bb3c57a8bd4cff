"""Cost, memory and error of `closed_form` on larger data sets, and of networks at equal FLOPs.

  python -m launch.data prepare --stream=local25
  python -m launch.data import tiny_imagenet.zip --task=tiny_imagenet
  python -m launch.data import cifar10_12k.npz --task=cifar10_12k --year=2015 --domain=object
  python -m benchmarks.closed_form_scale runs/scale mnist=12000,24000,48000 \\
      cifar10_12k=2125,4250,8500 tiny_imagenet=5500,11000,22100 \\
      mnist:indep=1400,5600,22400 cifar10_12k:indep=1100,4400,17600,70400 \\
      tiny_imagenet:indep=4800,19200,76800
  python -m benchmarks.affine_copies mnist_affine.npz
  python -m launch.data import mnist_affine.npz --task=mnist_affine --year=2004 --domain=ocr --store=raw
  python -m benchmarks.closed_form_scale runs/scale mnist_affine=42500,85000,170000

Each run is a stream of one task in a process of its own, judged on the dev_test split: DATASET=IMAGES
is `closed_form` at the budget `huge`, DATASET:indep=STEPS a network of the budget `small`, trained once
on all images for that number of steps. Complete runs are not repeated, and keep the memory that they
were measured with.
"""  # noqa: E501

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

from nevis_stream.analysis.points import phase_flops
from nevis_stream.experiments.commands import make_parser
from nevis_stream.experiments.machine import describe
from nevis_stream.launch import entry
from nevis_stream.run_directory.ledger import Ledger
from nevis_stream.run_directory.records import PredictRecord, TrainRecord
from nevis_stream.run_directory.scalars import read_timing

# one trial with the hyper-parameters of "FT-d against FT-prev" in docs/evidence
_NETWORK = (
    "--config.budget=small",
    "--config.search.trials=1",
    "--config.search.learning_rate=(0.1,0.1)",
    "--config.search.label_smoothing=(0.1,0.1)",
)
_HEADER = "order,year,task_id,dataset_id,meta_split,source\n"


def measure(folder: Path, dataset: str, learner: str, size: str) -> Path:
    """Runs a learner on one data set; returns the run's directory.

    Args:
      folder: of the runs.
      dataset: the data set.
      learner: "closed_form", or one that trains a network.
      size: the number of images that `closed_form` learns from, or of steps of a network.
    """
    run_dir = folder / f"{dataset}-{learner}-{size}"
    memory = run_dir / "peak_memory.json"
    if memory.exists():
        return run_dir
    folder.mkdir(parents=True, exist_ok=True)
    rows = folder / f"{dataset}.csv"
    rows.write_text(f"{_HEADER}1,2000,{dataset},{dataset},train,local:{dataset}\n")
    command = [sys.executable, "-m", "launch.run", f"--config={learner}"]
    if learner == "closed_form":
        command += ["--config.budget=huge", f"--config.pictures={size}"]
    else:
        command += [*_NETWORK, f"--config.train.steps={size}"]
        command += [f"--config.train.validate_every={max(1, int(size) // 4)}"]
    command += [f"--config.stream={rows}", "--config.protocol=meta_train", f"--run_dir={run_dir}"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"failed: {' '.join(command)}")
    memory.write_text(json.dumps({"kilobytes": usage.ru_maxrss}))
    return run_dir


def _item(word: str) -> str:
    if not re.fullmatch(r"[a-z0-9_]+(:indep)?=\d+(,\d+)*", word):
        raise argparse.ArgumentTypeError(f"{word!r} is not DATASET[:indep]=NUMBER,NUMBER,…")
    return word


def main() -> None:
    """Prints the table."""
    parser = make_parser(__doc__)
    parser.add_argument("folder", type=Path, help="of the runs")
    parser.add_argument("items", nargs="+", type=_item, help="DATASET[:indep]=NUMBER,NUMBER,…")
    words = parser.parse_args()
    print(f"{describe()}\n")
    columns = (
        "data set",
        "classes",
        "learner",
        "images or steps",
        "error, dev_test",
        "FLOPs",
        "to fit",
        "to predict",
    )
    print(f"| {' | '.join(columns)} | CPU-s | peak memory, MB |\n|---|---:|---|{'---:|' * 7}")
    for item in words.items:
        name, _, sizes = item.partition("=")
        dataset, _, learner = name.partition(":")
        learner = learner or "closed_form"
        for size in sizes.split(","):
            run_dir = measure(words.folder, dataset, learner, size)
            ledger = Ledger(run_dir)
            (answered,), (trained,) = ledger.of_kind(PredictRecord), ledger.of_kind(TrainRecord)
            cost = phase_flops(ledger)
            seconds = sum(event.cpu_seconds for event in read_timing(run_dir))
            memory = json.loads((run_dir / "peak_memory.json").read_text())["kilobytes"] / 1000
            total, predict = sum(cost.values()), cost["predict"]
            print(
                f"| {dataset} | {trained.num_classes} | {learner} | {size} |"
                f" {answered.error:.4f} | {total:.3g} | {total - predict:.3g} |"
                f" {predict:.3g} | {seconds:.0f} | {memory:.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    entry.guard(main)
