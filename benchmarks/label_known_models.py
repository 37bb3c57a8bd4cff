"""Known models' outcomes as the surrogate of difficulty: MNIST, twelve known networks, a new one.

    python -m benchmarks.label_known_models run --out=build/label_known --seconds=1200
    python -m benchmarks.label_known_models table --out=build/label_known

The known networks were trained on 150 to 2,500 pictures, six of them without one class, never 7.
The new one was trained on 2,000 pictures without 7s. "shared": two known ones lack 7s too. `run`
continues where it was stopped.
"""

import sys
import time
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

OUT = flags.DEFINE_string("out", "build/label_known", "Directory of the repetitions.")
SECONDS = flags.DEFINE_float("seconds", 1200, "Wall-clock time after which nothing is begun.")
MOST = flags.DEFINE_integer("repetitions", 30, "Repetitions.")

POOL, MISSING, KNOWN, BUDGET = 2500, 7, 12, 200
STEPS = (0, 10, 20, 30, 40, 50, 70, 100, 150, 200)
SHOWN = (50, 100, 200)
CASES = ("shared", "not shared")
SURROGATES = ("known_models", "known_models_heads", "heads")
RULES = ("xwed!", "expected_loss")
LOSSES = ("cross_entropy", "zero_one")


def repetition(images, labels, extractor, number, case):
    """Returns the material and the pool's labels."""
    random = generator(number, "known models")
    order = random.permutation(len(labels))
    pool, rest = order[:POOL], order[POOL:]
    others = [label for label in range(10) if label != MISSING]
    lacking = [int(random.choice(others)) if model % 2 else None for model in range(KNOWN)]
    if case == "shared":
        lacking[4] = lacking[9] = MISSING

    def trained(size, lacks, *name):
        rows = generator(number, *name).permutation(rest)
        rows = rows[labels[rows] != (-1 if lacks is None else lacks)][: size + 500]
        seed = seed_for(number, *name)
        (answer,) = train_networks(images, labels, rows[:size], rows[size:], pool, seed)
        return answer, rows[:size], rows[size:]

    outcomes = [
        trained(size, lacks, "known", model)[0].argmax(axis=1) == labels[pool]
        for model, (size, lacks) in enumerate(
            zip(np.geomspace(150, 2500, KNOWN).astype(int), lacking, strict=True)
        )
    ]
    predictions, train, calibration = trained(2000, MISSING, "new")
    features = np.zeros((len(labels), extractor.tree["projection"].shape[1]), np.float32)
    used = np.concatenate([pool, train, calibration])
    features[used] = extractor(images[used])
    given = (examples(images, labels, rows, features) for rows in (train, calibration))
    known = np.array(outcomes, float)
    return Material(predictions, features[pool], None, None, known, *given), labels[pool]


def run() -> None:
    """Adds repetitions."""
    end = time.monotonic() + SECONDS.value
    images, labels = load("mnist")
    extractor = PatchFeatures.fit(images)
    out = Path(OUT.value)
    for number in range(MOST.value):
        for case in CASES:
            plan = [(s, loss, rule) for s in SURROGATES for loss in LOSSES for rule in RULES]
            files = {words: path_file(out, number, case, *words) for words in plan}
            if time.monotonic() > end:
                return
            if all(file.exists() for file in files.values()):
                continue
            material, truth = repetition(images, labels, extractor, number, case)
            for words, file in files.items():
                kept_path(file, material, truth, *words, BUDGET, number, STEPS)
            print(f"repetition {number}, {case}: {end - time.monotonic():.0f} s left", flush=True)


def table() -> None:
    """Prints the ratios, in Markdown."""
    print(f"{describe()}\n")
    heads = " | ".join(f"M = {asked}" for asked in SHOWN)
    print(f"| case | loss | surrogate | acquisition | estimator | n | {heads} |")
    print("|---|---|---|---|---|---:|" + "---:|" * len(SHOWN))
    for case in CASES:
        for loss in LOSSES:
            for surrogate in SURROGATES:
                for rule in RULES:
                    files = [
                        path_file(Path(OUT.value), number, case, surrogate, loss, rule)
                        for number in range(MOST.value)
                    ]
                    paths = [read_npz(file) for file in files if file.exists()]
                    for estimator, cells in (ratio_rows(paths, SHOWN) if paths else {}).items():
                        words = (case, loss, surrogate, rule, estimator, str(len(paths)), *cells)
                        print(f"| {' | '.join(words)} |")


def main(words) -> None:
    """Runs one of the two commands."""
    commands = {"run": run, "table": table}
    if len(words) != 2 or words[1] not in commands:
        sys.exit(f"usage: python -m benchmarks.label_known_models {'|'.join(commands)} [flags]")
    commands[words[1]]()


if __name__ == "__main__":
    app.run(main)
