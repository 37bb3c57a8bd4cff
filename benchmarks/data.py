"""Speed of data: preparing MNIST from its raw files, and reading shuffled batches.

  python -m benchmarks.data

Needs MNIST in the folder of shared data sets. Seconds are CPU seconds of this process on one core;
every figure is the best of five, with the spread, and what it would be on a machine whose
matrix product reaches 365 GFLOP/s on two cores.
"""

import functools
import gzip
import os
import tempfile
import time
from pathlib import Path

import numpy as np

from nevis_stream import catalogue
from nevis_stream.datasets import prepared
from nevis_stream.datasets.preparation import fetch, prepare
from nevis_stream.experiments import engine, scripts

REPEATS = 5
REFERENCE_GFLOPS = 365 / 2  # of one core of the reference machine
BATCH = 256


def write_raw_mnist(folder: Path) -> int:
    """Writes the four idx files as published (compressed); returns the number of images."""
    with np.load(catalogue.find_shared_directory() / "data" / "mnist.npz") as file:
        arrays = [
            file[f"{kind}_{part}"] for part in ("train", "test") for kind in ("images", "labels")
        ]
    for source, array in zip(fetch.fetch_plan("mnist").sources, arrays, strict=True):
        array = array.reshape(array.shape[:3]).astype(np.uint8)
        header = bytes([0, 0, 8, array.ndim]) + b"".join(n.to_bytes(4, "big") for n in array.shape)
        (folder / source.file).write_bytes(gzip.compress(header + array.tobytes(), 6))
    return len(arrays[0]) + len(arrays[2])


def measure_preparation(folder: Path, images: int, form: str) -> list[float]:
    """Returns images per CPU second of each repeat."""
    work = functools.partial(
        prepare.prepare, "mnist", [folder], form=form, download=False, verified=False, force=True
    )
    return [images / seconds for seconds in engine.time_calls(work, REPEATS)]


def measure_reading() -> tuple[list[float], int]:
    """Returns images per CPU second of each repeat, and their number.

    Reads all training images of MNIST at 64×64 in shuffled batches of 256.
    """
    assert prepared.read_about("mnist", "published")["format"] == prepared.RAW
    stored = prepared.load("mnist", "published").parts["train"].images.resized(64)
    rates = []
    for repeat in range(REPEATS):
        order = np.random.RandomState(repeat).permutation(len(stored))
        total = 0
        begin = time.process_time()
        for start in range(0, len(order) - BATCH + 1, BATCH):
            batch = stored[order[start : start + BATCH]]
            total += int(batch[0, 0, 0, 0])
        rates.append((len(order) // BATCH) * BATCH / (time.process_time() - begin))
    return rates, len(stored)


def main() -> None:
    """Prints the table."""
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[0]})
    with tempfile.TemporaryDirectory() as folder:
        os.environ["NEVIS_STREAM_DATA"] = folder
        files = Path(folder) / "files"
        files.mkdir()
        images = write_raw_mnist(files)
        peak = scripts.measure_peak() / 1e9
        rows = [
            (
                "prepare: hashes, and PNG in array_record",
                images,
                measure_preparation(files, images, "array_record"),
                8_000,
            ),
            (
                "prepare: hashes, and raw arrays",
                images,
                measure_preparation(files, images, "raw"),
                20_000,
            ),
        ]
        rates, count = measure_reading()
        rows.append(
            (f"read 64×64, shuffled, batches of {BATCH}, memory-mapped", count, rates, 300_000)
        )
    print(
        f"{scripts.describe()}; one core; best of {REPEATS}; matrix product {peak:.0f} GFLOP/s on"
        " this core.\n"
    )
    engine.print_table(
        "work | images: | images per CPU second: | spread | scaled to 182 GFLOP/s: | target:",
        (
            [name, f"{count:,}", f"{max(rates):,.0f}", f"{min(rates):,.0f}–{max(rates):,.0f}"]
            + [f"{max(rates) * REFERENCE_GFLOPS / peak:,.0f}", f"{target:,}"]
            for name, count, rates, target in rows
        ),
    )


if __name__ == "__main__":
    engine.start(main, keep_programs=False)
