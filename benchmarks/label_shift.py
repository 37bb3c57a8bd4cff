"""Active testing under distribution shift: MNIST, a model trained without 7s, a pool with 7s.

    python -m benchmarks.label_shift run --out=build/label_shift --seconds=3600
    python -m benchmarks.label_shift table --out=build/label_shift

`run` adds repetitions until the time is over, each kept in a file, and continues where it was
stopped. A repetition has its own pool, training pictures and networks. Needs `mnist.npz` in the
folder that NEVIS_STREAM_SHARED names.
"""

import functools
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from absl import app, flags

from benchmarks.active_tests import (
    examples,
    kept_path,
    load,
    path_file,
    ratio_rows,
    train_networks,
)
from benchmarks.machine import describe
from experiments.labelling.features import PatchFeatures
from nevis_stream.active_testing.material import Material
from nevis_stream.seeds import generator, seed_for
from nevis_stream.storage.npz import read_npz

OUT = flags.DEFINE_string("out", "build/label_shift", "Directory of the repetitions.")
SECONDS = flags.DEFINE_float("seconds", 3600, "Wall-clock time after which nothing is begun.")
WORKERS = flags.DEFINE_integer("workers", 3, "Threads.")
MOST = flags.DEFINE_integer("repetitions", 100, "Repetitions.")

TRAINING, CALIBRATION, POOL, BUDGET, MISSING = 2000, 500, 6000, 1000, 7
SHOWN = (50, 100, 200, 500, 1000)
MAIN = ("xwed!", "bald!", "expected_loss!", "xwed", "bald", "expected_loss", "uniform")
OTHERS = ("xwed!", "expected_loss", "uniform")
# surrogate, loss, acquisitions, repetitions
PLAN = (
    ("heads", "cross_entropy", MAIN, 100),
    ("heads", "zero_one", OTHERS, 100),
    ("tested_model", "cross_entropy", OTHERS, 30),
    ("forest", "cross_entropy", OTHERS, 30),
)
# row of the plan and repetitions up to which it is continued: what is stopped has all rows
ORDER = ((0, 12), (1, 12), (2, 12), (3, 2), (0, 100), (1, 100), (2, 30), (3, 30))


def repetition(images, labels, features, number):
    """Returns the material and the pool's labels of one repetition."""
    random = generator(number, "shift")
    order = random.permutation(len(labels))
    known = order[labels[order] != MISSING][: TRAINING + CALIBRATION]
    pool = random.permutation(np.setdiff1d(order, known))[:POOL]
    train, rest = known[:TRAINING], known[TRAINING:]
    seed = seed_for(number, "tested")
    (predictions,) = train_networks(images, labels, train, rest, pool, seed)
    given = (examples(images, labels, rows, features) for rows in (train, rest))
    material = Material(predictions, features[pool], images[pool], None, None, *given)
    return material, labels[pool]


def run() -> None:
    """Adds repetitions."""
    end = time.monotonic() + SECONDS.value
    images, labels = load("mnist")
    begun = time.monotonic()
    features = PatchFeatures.fit(images)(images)
    print(f"features of {len(labels)} pictures: {time.monotonic() - begun:.0f} s", flush=True)

    out = Path(OUT.value)

    def one(surrogate, loss, names, number):
        missing = [
            name for name in names if not path_file(out, number, surrogate, loss, name).exists()
        ]
        if not missing or time.monotonic() > end:
            return
        begun = time.monotonic()
        material, truth = repetition(images, labels, features, number)
        for name in missing:
            file = path_file(out, number, surrogate, loss, name)
            kept_path(file, material, truth, surrogate, loss, name, BUDGET, number)
        print(f"{surrogate} {loss} {number}: {time.monotonic() - begun:.0f} s", flush=True)

    with ThreadPoolExecutor(WORKERS.value) as executor:
        for row, limit in ORDER:
            surrogate, loss, names, most = PLAN[row]
            do = functools.partial(one, surrogate, loss, names)
            list(executor.map(do, range(min(most, limit, MOST.value))))


def table() -> None:
    """Prints the table of ratios, in Markdown."""
    print(f"{describe()}\n")
    print(
        "| surrogate | loss | acquisition | estimator | n | "
        + " | ".join(f"M = {asked}" for asked in SHOWN)
        + " |\n|---|---|---|---|---:|"
        + "---:|" * len(SHOWN)
    )
    for surrogate, loss, names, most in PLAN:
        for name in names:
            files = [
                path_file(Path(OUT.value), number, surrogate, loss, name) for number in range(most)
            ]
            if paths := [read_npz(file) for file in files if file.exists()]:
                _print(surrogate, loss, name, paths)


def _print(surrogate, loss, name, paths) -> None:
    rows = ratio_rows(paths, SHOWN)
    rows["share of 7s"] = [
        f"{np.mean([(path['labels'][:asked] == MISSING).mean() for path in paths]):.0%}"
        for asked in SHOWN
    ]
    for estimator, cells in rows.items():
        words = " | ".join((surrogate, loss, name, estimator, str(len(paths)), *cells))
        print(f"| {words} |")


def main(words) -> None:
    """Runs one of the two commands."""
    commands = {"run": run, "table": table}
    if len(words) != 2 or words[1] not in commands:
        sys.exit(f"usage: python -m benchmarks.label_shift {'|'.join(commands)} [flags]")
    commands[words[1]]()


if __name__ == "__main__":
    app.run(main)
