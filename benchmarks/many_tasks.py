"""Does a task cost more, the more tasks came before? A stream of 106 synthetic tasks of equal size.

  python -m benchmarks.many_tasks [--repeats=3]

Every task has 5 classes of striped images at 32×32, 200 for training and 100 for testing, and
shares no image with another. Prints, for `closed_form` and `frontier` at the budget `tiny`, the
FLOPs and the CPU seconds of tasks 2 to 11 and of the last ten. The first task compiles the
programs, so it is left out; of several runs the lowest seconds of each task count.
"""

import tempfile
from pathlib import Path

import numpy as np

from nevis_stream.configs import run_config
from nevis_stream.cost.meter import total
from nevis_stream.datasets.dataset import SINGLE_LABEL, DataSet, make_dataset
from nevis_stream.datasets.images import ArrayImages
from nevis_stream.experiments import engine
from nevis_stream.experiments.scripts import describe
from nevis_stream.run_directory.records import PredictRecord, TrainRecord
from nevis_stream.run_directory.scalars import read_timing
from nevis_stream.runner import run
from nevis_stream.streams.stream import Stream

TASKS, CLASSES, SIDE, TEN = 106, 5, 32, 10
SIZES = {"train": 200, "test": 100}


def make_stripes(number: int) -> DataSet:
    """Returns a data set: stripes whose direction is their class, from a task's own first one."""
    draw = np.random.RandomState(number)
    y, x = np.mgrid[:SIDE, :SIDE]
    parts = {}
    for part, size in SIZES.items():
        labels = np.arange(size) % CLASSES
        angle = np.pi * (labels / CLASSES + number / TASKS)[:, None, None]
        waves = np.sin((np.cos(angle) * x + np.sin(angle) * y) / 2)
        images = 128 + 40 * waves + draw.normal(0, 150, size=(size, SIDE, SIDE))
        parts[part] = ArrayImages(images.clip(0, 255).astype(np.uint8)), labels
    return make_dataset(f"stripes_{number}", SINGLE_LABEL, parts, CLASSES)


def measure(learner: str, stream: Stream, folder: Path) -> tuple[np.ndarray, np.ndarray, float]:
    """Runs a learner; returns the FLOPs and the CPU seconds of each task, and the mean error."""
    config = run_config.make_default(learner)
    config.budget = "tiny"
    ledger = run(run_config.resolve(config).build(), stream, folder, keep="all")
    records = ledger.of_kind(TrainRecord), ledger.of_kind(PredictRecord)
    costs = [sum(total(record.flops) for record in pair) for pair in zip(*records, strict=True)]
    seconds = {record.task_id: 0.0 for record in records[0]}
    for event in read_timing(folder):
        if event.task_id in seconds:
            seconds[event.task_id] += event.cpu_seconds
    error = float(np.mean([record.error for record in records[1]]))
    return np.asarray(costs), np.asarray(list(seconds.values())), error


def main(repeats: int = 3) -> None:
    """Prints the table.

    Args:
      repeats: runs of each learner
    """
    print(f"{describe()}; n = {repeats}\n")
    stream = Stream.from_datasets(
        "many_tasks",
        [make_stripes(n) for n in range(TASKS)],
        range(1900, 1900 + TASKS),
        meta_test=TEN,
    )
    engine.print_table(
        "learner | error: | FLOPs, tasks 2–11: | last ten: | ratio: | CPU-s, tasks 2–11:"
        " | last ten: | ratio:",
        (),
    )
    for learner in ("closed_form", "frontier"):
        lowest = np.full(TASKS, np.inf)
        for _ in range(repeats):
            with tempfile.TemporaryDirectory() as folder:
                costs, seconds, error = measure(learner, stream, Path(folder))
            lowest = np.minimum(lowest, seconds)
        cells = []
        for values, form in ((costs, ".3g"), (lowest, ".3f")):
            first, last = values[1 : TEN + 1].mean(), values[-TEN:].mean()
            cells += [f"{first:{form}}", f"{last:{form}}", f"{last / first:.3f}"]
        engine.print_row([learner, f"{error:.4f}", *cells])


if __name__ == "__main__":
    engine.start(main, keep_programs=False)
