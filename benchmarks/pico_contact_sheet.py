"""The stream pico at a glance: writes docs/pico.png and prints the table of docs/pico.md.

About 3 seconds on one core.

python -m benchmarks.pico_contact_sheet
"""

import time
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from nevis_stream import catalogue, metrics
from nevis_stream.datasets import sources
from nevis_stream.datasets.dataset import SINGLE_LABEL, DataSet
from nevis_stream.datasets.embedded import packaged
from nevis_stream.datasets.splits import divide
from nevis_stream.launch import entry

PICTURE = Path(__file__).parent.parent / "docs" / "pico.png"
COLUMNS = 12  # samples of a task
SIDE, GAP, MARGIN = 60, 4, 116  # pixels: of a sample, between samples, of the names
HEADER = (
    "| data set | classes | source parts | train / dev / dev_test / test | sides "
    "| nearest | constant |"
)
NEIGHBOURS = {"single_label": 1, "multi_label": 15}
VIEW = 16  # side of the images that are compared


def list_dataset_ids() -> list[str]:
    """Returns the data sets of the stream pico in the order in which they first occur."""
    return list(
        dict.fromkeys(
            r["dataset_id"] for r in catalogue.read_csv(catalogue.find_stream_path("pico"))
        )
    )


def measure_baselines(dataset: DataSet) -> tuple[float, float]:
    """Returns test accuracy (single label) or mAP of nearest neighbours and of a constant answer.

    Neighbours (1, or 15 for multi label) are of the train split, by Euclidean distance of 16x16
    pixels; the constant answer is the class frequencies of the train split.
    """
    splits = divide(dataset)
    train, test = splits["train"], splits["test"]
    known, asked = (
        s.images.resized(VIEW).reshape(len(s), -1).astype(np.float64) for s in (train, test)
    )
    distance = (known**2).sum(1) - 2 * asked @ known.T
    nearest = np.argsort(distance, axis=1, kind="stable")[:, : NEIGHBOURS[dataset.kind]]
    is_single = train.labels.ndim == 1
    targets = np.eye(dataset.num_classes)[train.labels] if is_single else train.labels.astype(float)
    constant = np.tile(targets.mean(0), (len(test), 1))
    metric = metrics.find_metric(dataset.kind)
    return tuple(
        1 - metric.to_error(metric.aggregate(test.labels, answer))
        for answer in (targets[nearest].mean(1), constant)
    )


def format_row(dataset: DataSet) -> str:
    """Returns the data set's row of the table, see `HEADER`."""
    sides = np.concatenate([part.images.sizes for part in dataset.parts.values()])
    low, high = sides.min(), sides.max()
    parts = ", ".join(f"{name} {len(part)}" for name, part in dataset.parts.items())
    splits = " / ".join(str(len(split)) for split in divide(dataset).values())
    nearest, constant = measure_baselines(dataset)
    size = f"{low}" if low == high else f"{low} to {high}"
    return (
        f"| {dataset.dataset_id} | {dataset.num_classes} | {parts} | {splits} | {size} "
        f"| {nearest:.3f} | {constant:.3f} |"
    )


def _choose(dataset: DataSet) -> list[np.ndarray]:
    """Samples of the first part: one of each class in turn, or spread over the part."""
    part = next(iter(dataset.parts.values()))
    if dataset.kind == SINGLE_LABEL:
        rounds = -(-COLUMNS // dataset.num_classes)
        of_class = [np.flatnonzero(part.labels == label) for label in range(dataset.num_classes)]
        places = [
            members[k * len(members) // rounds] for k in range(rounds) for members in of_class
        ]
    else:
        places = np.linspace(0, len(part) - 1, COLUMNS).astype(int)
    return [part.images[i] for i in places[:COLUMNS]]


def draw_sheet(datasets: list[DataSet]) -> Image.Image:
    """Returns the contact sheet: a row of samples of each data set, enlarged by whole factors."""
    step = SIDE + GAP
    canvas = Image.new(
        "RGB", (MARGIN + COLUMNS * step, len(datasets) * step + GAP), (255, 255, 255)
    )
    font = ImageFont.truetype(
        packaged.find("matplotlib", f"{packaged.FONT_FOLDER}/DejaVuSans.ttf"), 13
    )
    for i, dataset in enumerate(datasets):
        top = i * step + GAP
        ImageDraw.Draw(canvas).text(
            (6, top + SIDE // 2 - 8), dataset.dataset_id, fill=(0, 0, 0), font=font
        )
        for j, pixels in enumerate(_choose(dataset)):
            height, width = pixels.shape[:2]
            factor = max(1, SIDE // max(height, width))
            enlarged = Image.fromarray(pixels).resize(
                (width * factor, height * factor), Image.Resampling.NEAREST
            )
            enlarged.thumbnail((SIDE, SIDE))
            left = MARGIN + j * step + (SIDE - enlarged.width) // 2
            canvas.paste(enlarged, (left, top + (SIDE - enlarged.height) // 2))
    return canvas


def main(_) -> None:
    """Writes the image and prints the table and the time to build."""
    start = time.perf_counter()
    datasets = [sources.build_embedded(name) for name in list_dataset_ids()]
    seconds = time.perf_counter() - start
    draw_sheet(datasets).save(PICTURE, optimize=True)
    print(HEADER)
    print("|---|---|---|---|---|---|---|")
    for dataset in datasets:
        print(format_row(dataset))
    print(f"built in {seconds:.1f} s; {PICTURE} {PICTURE.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    entry.start(main)
