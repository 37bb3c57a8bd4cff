"""Label-efficient testing without a shift: how many labels give the accuracy of a random tenth?

    python -m benchmarks.label_ordinary run --out=build/label_ordinary --seconds=1200
    python -m benchmarks.label_ordinary table --out=build/label_ordinary

Fashion-MNIST (trained on 4,000 pictures, the 10,000 of the test part are the pool), cifar10_12k
(trained on 4,000, the other 8,000 are the pool) and MNIST (a network of 2,000 pictures, 10,000 are
the pool). The tested model is a small network; the fixed ensemble are five others with the same
data. Twenty repetitions of the draws have the same model. `run` continues where it was stopped.
"""

import sys
import time
from pathlib import Path

import numpy as np
from absl import app, flags

from benchmarks.active_tests import examples, kept_path, load, path_file, train_networks
from benchmarks.machine import describe
from experiments.labelling.features import PatchFeatures
from nevis_stream.active_testing.material import Material
from nevis_stream.active_testing.registries import ESTIMATORS
from nevis_stream.seeds import generator, seed_for
from nevis_stream.storage.npz import read_npz

OUT = flags.DEFINE_string("out", "build/label_ordinary", "Directory of the repetitions.")
SECONDS = flags.DEFINE_float("seconds", 1200, "Wall-clock time after which nothing is begun.")
MOST = flags.DEFINE_integer("repetitions", 20, "Repetitions.")

# data set: pictures for training, of the pool
DATA = {"fashion_mnist": (4000, 10_000), "cifar10_12k": (4000, 8000), "mnist": (2000, 10_000)}
CALIBRATION, MEMBERS = 500, 5
DRAWS = 20  # repetitions of the draws for each tested model
PLAN = [
    (surrogate, loss, rule)
    for surrogate, rules in {"ensemble": ("expected_loss", "xwed"), "heads": ("xwed",)}.items()
    for loss in ("cross_entropy", "zero_one")
    for rule in rules
]
_STEPS = (0, 50, 100, 200, 300, 400, 500, 650, 800, 1000)


def _steps(budget):
    return tuple(step for step in _STEPS if step <= budget)


def repetition(name, images, labels, features, number):
    """Returns the material and the pool's labels of one repetition.

    The last pictures are the pool, so the training pictures are drawn from the others; in
    cifar10_12k, which is not larger, calibration pictures come from those for training.
    """
    training, size = DATA[name]
    pool = np.arange(len(labels) - size, len(labels))
    known = generator(number, name).permutation(len(labels) - size)[:training]
    train, calibration = known[CALIBRATION:], known[:CALIBRATION]
    seed = seed_for(number, name)
    answers = train_networks(
        images, labels, train, calibration, np.concatenate([pool, calibration]), seed, MEMBERS + 1
    )
    predictions, ensemble = answers[0, :size], answers[1:, :size]
    held_out = examples(images, labels, calibration, features)
    held_out = type(held_out)(
        held_out.labels, held_out.features, None, answers[0, size:], answers[1:, size:]
    )
    given = examples(images, labels, train, features), held_out
    return Material(predictions, features[pool], None, ensemble, None, *given), labels[pool]


def run() -> None:
    """Adds repetitions."""
    end = time.monotonic() + SECONDS.value
    out, kept = Path(OUT.value), {}
    for surrogate in ("ensemble", "heads"):
        for name, (_, size) in DATA.items():
            for number in range(MOST.value):
                words_of_paths = [words for words in PLAN if words[0] == surrogate]
                files = {words: path_file(out, number, name, *words) for words in words_of_paths}
                if all(file.exists() for file in files.values()):
                    continue
                if time.monotonic() > end:
                    return
                model = number // DRAWS
                if (name, model) not in kept:
                    images, labels = load(name)
                    images, labels = images[-16000:], labels[-16000:]
                    features = PatchFeatures.fit(images)(images)
                    kept[name, model] = repetition(name, images, labels, features, model)
                material, truth = kept[name, model]
                budget = size // 10
                for words, file in files.items():
                    kept_path(file, material, truth, *words, budget, number, _steps(budget))
            print(f"{surrogate}, {name}: {end - time.monotonic():.0f} s left", flush=True)


def table() -> None:
    """Prints how many labels reach the median error of a random tenth, in Markdown."""
    print(f"{describe()}\n")
    print(
        "| data | surrogate | loss | acquisition | estimator | n | labels needed | ratio at half |"
    )
    print("|---|---|---|---|---|---:|---:|---:|")
    for name, (_, size) in DATA.items():
        for surrogate, loss, rule in PLAN:
            files = [
                path_file(Path(OUT.value), number, name, surrogate, loss, rule)
                for number in range(MOST.value)
            ]
            paths = [read_npz(file) for file in files if file.exists()]
            for estimator, needed in _needed(paths, size).items() if paths else ():
                cells = (name, surrogate, loss, rule, estimator, str(len(paths)), needed)
                print(f"| {' | '.join(cells)} |")


def _needed(paths, size) -> dict[str, str]:
    """Returns two cells for each estimator: the least number of labels from which on the median
    squared error is at most Monte Carlo's at a tenth of the pool; and the median and the mean
    squared error with half as many labels over Monte Carlo's at a tenth.
    """
    risks, variances = (np.array([float(p[key]) for p in paths]) for key in ("risk", "variance"))
    steps, tenth = paths[0]["steps"], size // 10
    goal = 0.455 * variances.mean() * (1 / tenth - 1 / size)
    result = {}
    for place, estimator in enumerate(ESTIMATORS):
        values = np.stack([path["estimates"][place, :, 0] for path in paths])
        if np.isfinite(values).all():
            squares = (values - risks[:, None]) ** 2
            failed = np.flatnonzero(np.median(squares, axis=0) > goal)
            first = failed[-1] + 1 if len(failed) else 0
            needed = f"{steps[first]} of" if first < len(steps) else "more than"
            half = squares[:, steps.tolist().index(tenth // 2)]
            ratios = f"{np.median(half) / goal:.2f}, {half.mean() / goal * 0.455:.2f}"
            result[estimator] = f"{needed} {tenth} | {ratios}"
    return result


def main(words) -> None:
    """Runs one of the two commands."""
    commands = {"run": run, "table": table}
    if len(words) != 2 or words[1] not in commands:
        sys.exit(f"usage: python -m benchmarks.label_ordinary {'|'.join(commands)} [flags]")
    commands[words[1]]()


if __name__ == "__main__":
    app.run(main)
