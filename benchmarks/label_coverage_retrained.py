"""Coverage of the intervals under a shift, with a surrogate that is retrained: heads.

    python -m benchmarks.label_coverage_retrained run --losses=cross_entropy --seconds=600
    python -m benchmarks.label_coverage_retrained table

MNIST as in `label_shift`, pools of 2,500 pictures with 7s, a model and heads trained without them.
Each repetition has its own pool, networks and draws. `run` adds to a CSV file beside this one and
continues where it was stopped; two of them must not work on the same loss.
"""

import csv
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
from absl import flags

from benchmarks.active_tests import load
from benchmarks.machine import describe
from benchmarks.shifted_pool import repetition
from benchmarks.two_commands import start
from experiments.labelling.features import PatchFeatures
from nevis_stream.active_testing.building import build_surrogate
from nevis_stream.active_testing.pool import Pool
from nevis_stream.active_testing.registries import ESTIMATORS
from nevis_stream.active_testing.simulation import Acquisition, simulate
from nevis_stream.seeds import seed_for
from nevis_stream.storage import append_line

LOSSES = flags.DEFINE_list("losses", ["cross_entropy", "zero_one"], "Losses that are run.")
SECONDS = flags.DEFINE_float("seconds", 600, "Wall-clock time after which nothing is begun.")

FILE = Path(__file__).with_suffix(".csv")
POOL, REPETITIONS = 2500, 500
STEPS, SHOWN = (0, 20, 50, 100, 150, 200), (50, 100, 150, 200)
RULES = ("expected_loss", "xwed", "uniform")
PRINTED = ("lure", "difference", "tuned_difference", "monte_carlo")
FIRST_SEED = 10_000  # pools that no other study has used
COLUMNS = ("loss", "repetition", "rule", "estimator", "labels", "low", "high", "risk", "width")


def run() -> None:
    """Adds repetitions."""
    end = time.monotonic() + SECONDS.value
    images, labels = load("mnist")
    features = PatchFeatures.fit(images)(images)
    done = {(row["loss"], row["repetition"]) for row in _rows()}
    for number in range(REPETITIONS):
        for loss in LOSSES.value:
            if (loss, str(number)) in done:
                continue
            if time.monotonic() > end:
                return
            _measure(loss, number, *repetition(images, labels, features, FIRST_SEED + number, POOL))


def _rows() -> list[dict[str, str]]:
    if not FILE.is_file():
        return []
    with open(FILE, newline="") as file:
        return list(csv.DictReader(file))


def _measure(loss, number, material, truth) -> None:
    pool, lines = Pool.of(material.predictions, loss), []
    variance = pool.losses[np.arange(pool.n), truth].var(ddof=1)
    for rule in RULES:
        path = simulate(
            pool,
            truth,
            build_surrogate("heads", material, seed_for(number, "heads")),
            Acquisition.named(rule),
            max(STEPS),
            seed_for(number, "coverage", rule, loss),
            steps=STEPS,
        )
        for place, estimator in enumerate(ESTIMATORS):
            for column, asked in enumerate(path.steps.tolist()):
                _, low, high = path.estimates[place, column]
                if estimator in PRINTED and asked in SHOWN and np.isfinite(low):
                    plain = 3.92 * np.sqrt(variance * (1 / asked - 1 / pool.n))
                    numbers = (low, high, pool.risk(truth), (high - low) / plain)
                    cells = ",".join(f"{value:.6g}" for value in numbers)
                    lines.append(f"{loss},{number},{rule},{estimator},{asked},{cells}")
    if not FILE.is_file():
        append_line(FILE, ",".join(COLUMNS))
    append_line(FILE, "\n".join(lines))  # a repetition is there whole or not at all


def table() -> None:
    """Prints coverage and mean width over Monte Carlo's, in Markdown."""
    print(f"{describe()}\n")
    groups = defaultdict(lambda: defaultdict(list))
    for row in _rows():
        low, high, risk, width = (float(row[name]) for name in ("low", "high", "risk", "width"))
        cell = groups[row["loss"], row["rule"], row["estimator"]][int(row["labels"])]
        cell.append((low <= risk <= high, width))
    heads = " | ".join(f"{asked} labels" for asked in SHOWN)
    print(f"| loss | rule | estimator | n | {heads} |")
    print("|---|---|---|---:|" + "---:|" * len(SHOWN))
    for words, cells in sorted(groups.items()):
        shown = [np.mean(cells[asked], axis=0) for asked in SHOWN]
        texts = [f"{covered:.0%}, {width:.2f}" for covered, width in shown]
        print(f"| {' | '.join([*words, str(len(cells[SHOWN[0]])), *texts])} |")


if __name__ == "__main__":
    start(run, table)
