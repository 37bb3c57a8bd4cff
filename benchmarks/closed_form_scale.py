"""Cost, memory and error of `closed_form` on larger data sets, by the number of images.

  python -m launch.data prepare --stream=local25
  python -m launch.data import tiny_imagenet.zip --task=tiny_imagenet
  python -m launch.data import cifar10_12k.npz --task=cifar10_12k --year=2015 --domain=object
  python -m benchmarks.closed_form_scale runs/scale mnist=12000,24000,48000 \\
      cifar10_12k=2125,4250,8500 tiny_imagenet=5500,11000,22100

Each run is a stream of one task at the budget `huge`, in a process of its own, judged on the
dev_test split; runs that are complete are not repeated, and keep the memory that they were measured
with.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.machine import describe
from nevis_stream.analysis.points import phase_flops
from nevis_stream.run_directory.ledger import Ledger
from nevis_stream.run_directory.records import PredictRecord, TrainRecord
from nevis_stream.run_directory.timing import read_timing

_HEADER = "order,year,task_id,dataset_id,meta_split,source\n"


def measure(folder: Path, dataset: str, images: int) -> Path:
    """Runs `closed_form` on this number of images of a data set; returns the run's directory."""
    run_dir = folder / f"{dataset}-{images}"
    memory = run_dir / "peak_memory.json"
    if memory.exists():
        return run_dir
    folder.mkdir(parents=True, exist_ok=True)
    rows = folder / f"{dataset}.csv"
    rows.write_text(f"{_HEADER}1,2000,{dataset},{dataset},train,local:{dataset}\n")
    command = [sys.executable, "-m", "launch.run", "--config=closed_form", "--config.budget=huge"]
    command += [f"--config.stream={rows}", f"--config.pictures={images}"]
    command += ["--config.protocol=meta_train", f"--run_dir={run_dir}"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"failed: {' '.join(command)}")
    memory.write_text(json.dumps({"kilobytes": usage.ru_maxrss}))
    return run_dir


def main() -> None:
    """Prints the table."""
    folder, *items = sys.argv[1:]
    print(f"{describe()}\n")
    columns = (
        "data set",
        "classes",
        "images",
        "error, dev_test",
        "FLOPs",
        "to fit",
        "to predict",
    )
    print(f"| {' | '.join(columns)} | CPU-s | peak memory, MB |\n|---|{'---:|' * 8}")
    for item in items:
        dataset, _, sizes = item.partition("=")
        for images in map(int, sizes.split(",")):
            run_dir = measure(Path(folder), dataset, images)
            ledger = Ledger(run_dir)
            (answered,), (trained,) = (ledger.of_kind(k) for k in (PredictRecord, TrainRecord))
            cost = phase_flops(ledger)
            seconds = sum(event.cpu_seconds for event in read_timing(run_dir))
            memory = json.loads((run_dir / "peak_memory.json").read_text())["kilobytes"] / 1000
            total, predict = sum(cost.values()), cost["predict"]
            print(
                f"| {dataset} | {trained.num_classes} | {images} | {answered.error:.4f} |"
                f" {total:.3g} | {total - predict:.3g} | {predict:.3g} | {seconds:.0f} |"
                f" {memory:.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
