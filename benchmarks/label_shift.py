"""Active testing under distribution shift: MNIST, a model trained without 7s, a pool with 7s.

    python -m benchmarks.label_shift run --out=build/label_shift --seconds=3600
    python -m benchmarks.label_shift table --out=build/label_shift

`run` adds repetitions until the time is over, each kept in a file, and continues where it was
stopped. A repetition has its own pool, training pictures and networks. Needs `mnist.npz` in the
folder that NEVIS_STREAM_SHARED names.
"""

import functools
import io
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from absl import app, flags

from benchmarks.machine import describe
from experiments.labelling.features import PatchFeatures
from nevis_stream.active_testing.building import build_surrogate
from nevis_stream.active_testing.material import Examples, Material
from nevis_stream.active_testing.networks import RetrainedEnsemble
from nevis_stream.active_testing.pool import Pool
from nevis_stream.active_testing.registries import ESTIMATORS
from nevis_stream.active_testing.simulation import (
    Acquisition,
    as_arrays,
    bootstrap_interval,
    simulate,
    squared_error_ratio,
)
from nevis_stream.active_testing.surrogates.networks import ARCHITECTURE
from nevis_stream.datasets.sources import shared_directory
from nevis_stream.dynamic_evaluation.asking import Answers, Cells
from nevis_stream.seeds import generator, seed_for
from nevis_stream.storage import write_file
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


def load() -> tuple[np.ndarray, np.ndarray]:
    """Returns all pictures uint8[70000, 28, 28, 1] and labels int64."""
    arrays = read_npz(shared_directory() / "data" / "mnist.npz")
    images = np.concatenate([arrays["images_train"], arrays["images_test"]])
    labels = np.concatenate([arrays["labels_train"], arrays["labels_test"]])
    return images.reshape(len(images), 28, 28, 1), labels.astype(np.int64)


def repetition(images, labels, features, number):
    """Returns the pool's predictions, labels and material of one repetition."""
    random = generator(number, "shift")
    order = random.permutation(len(labels))
    known = order[labels[order] != MISSING][: TRAINING + CALIBRATION]
    pool = random.permutation(np.setdiff1d(order, known))[:POOL]
    train, calibration = (
        Examples(labels[rows], features[rows], images[rows])
        for rows in (known[:TRAINING], known[TRAINING:])
    )
    blank = Material(
        np.full((POOL, 10), 0.1),
        images=images[pool],
        training=train,
        calibration=calibration,
    )
    nothing = Answers(Cells.none(1), np.empty((1, 0), np.int32))
    tested = RetrainedEnsemble(ARCHITECTURE, "images", blank, seed_for(number, "tested"), 1)
    predictions = np.asarray(tested(nothing).probabilities[0], np.float64)
    material = Material(predictions, features[pool], images[pool], None, None, train, calibration)
    return material, labels[pool]


def _file(number, surrogate, loss, acquisition):
    """Returns the file of one path."""
    return (
        Path(OUT.value) / f"{number:03d}-{surrogate}-{loss}-{acquisition.replace('!', '_max')}.npz"
    )


def run() -> None:
    """Adds repetitions."""
    end = time.monotonic() + SECONDS.value
    images, labels = load()
    begun = time.monotonic()
    features = PatchFeatures.fit(images)(images)
    print(f"features of {len(labels)} pictures: {time.monotonic() - begun:.0f} s", flush=True)

    def one(surrogate, loss, names, number):
        missing = [name for name in names if not _file(number, surrogate, loss, name).exists()]
        if not missing or time.monotonic() > end:
            return
        begun = time.monotonic()
        material, truth = repetition(images, labels, features, number)
        for name in missing:
            pool = Pool.of(material.predictions, loss)
            path = simulate(
                pool,
                truth,
                build_surrogate(surrogate, material, seed_for(number, surrogate)),
                Acquisition.named(name),
                BUDGET,
                seed_for(number, "path", surrogate, loss, name),
            )
            facts = {
                "risk": pool.risk(truth),
                "variance": pool.losses[np.arange(POOL), truth].var(ddof=1),
                "labels": truth[path.samples].astype(np.int8),
            }
            with io.BytesIO() as buffer:
                np.savez_compressed(buffer, **as_arrays(path), **facts)
                write_file(_file(number, surrogate, loss, name), buffer.getvalue())
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
            files = [_file(number, surrogate, loss, name) for number in range(most)]
            paths = [read_npz(file) for file in files if file.exists()]
            if paths:
                _rows(surrogate, loss, name, paths)


def _rows(surrogate, loss, name, paths) -> None:
    steps = paths[0]["steps"].tolist()
    risks, variances = (np.array([p[key] for p in paths]) for key in ("risk", "variance"))
    for row, estimator in enumerate(ESTIMATORS):
        cells = []
        for asked in SHOWN:
            values = np.array([p["estimates"][row, steps.index(asked), 0] for p in paths])
            if not np.isfinite(values).all():
                break

            def ratios(chosen, values=values, asked=asked):
                return squared_error_ratio(
                    values[chosen], risks[chosen], variances[chosen], asked, POOL
                )

            everything = np.arange(len(paths))
            low, high = bootstrap_interval(lambda rows: ratios(rows)[0], len(paths))
            median, mean = ratios(everything)
            cells.append(f"{median:.2f} [{low:.2f}, {high:.2f}], {mean:.2f}")
        if cells:
            words = " | ".join((surrogate, loss, name, estimator, str(len(paths)), *cells))
            print(f"| {words} |")
    seen = [np.mean([(p["labels"][:asked] == MISSING).mean() for p in paths]) for asked in SHOWN]
    shares = " | ".join(f"{share:.0%}" for share in seen)
    print(f"| {surrogate} | {loss} | {name} | share of 7s | {len(paths)} | {shares} |")


def main(words) -> None:
    """Runs one of the two commands."""
    commands = {"run": run, "table": table}
    if len(words) != 2 or words[1] not in commands:
        sys.exit(f"usage: python -m benchmarks.label_shift {'|'.join(commands)} [flags]")
    commands[words[1]]()


if __name__ == "__main__":
    app.run(main)
