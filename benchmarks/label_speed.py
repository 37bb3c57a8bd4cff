"""Time and memory of one step of label-efficient testing on large pools.

    python -m benchmarks.label_speed

A pool of 60,000 samples with 10 classes and 10 members: acquisition and estimate, and retraining
the heads. A pool of a million samples whose members are in a file. Each measurement has a process
of its own; memory is the largest resident size beyond the one before (Linux).
"""

import tempfile
import time
from pathlib import Path

import numpy as np

from nevis_stream.active_testing.acquisition_functions import ProportionalSampling
from nevis_stream.active_testing.estimators import ESTIMATORS
from nevis_stream.active_testing.pool import Pool
from nevis_stream.active_testing.surrogate import LabelledSamples, SurrogateData
from nevis_stream.active_testing.surrogates import build_surrogate
from nevis_stream.active_testing.testing import (
    EnsemblePredictions,
    KnownLabels,
    choose_samples,
    expect_losses,
    run_active_test,
)
from nevis_stream.experiments import engine
from nevis_stream.experiments.scripts import describe
from nevis_stream.queries.oracle import Query, Responses

CLASSES, MEMBERS, REPEATS = 10, 10, 5


def _softmax(x):
    powers = np.exp(x)
    return powers / powers.sum(axis=-1, keepdims=True)


def _probabilities(n, *shape):
    random = np.random.default_rng(0)
    return _softmax(random.normal(0, 2, (*shape, n, CLASSES)).astype(np.float32))


def _status(name: str) -> float:
    """Returns a size of this process in MiB, as Linux reports it."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) / 1024
    return np.nan


def _begin() -> float:
    """Forgets the largest resident size so far, and returns the present one in MiB."""
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _measure(action) -> list[str]:
    """Returns the median seconds of an action, and the MiB that it needs at most."""
    before = _begin()
    seconds = engine.time_calls(action, REPEATS, time.perf_counter)
    memory = f"{_status('VmHWM') - before:.0f} MiB"
    return [f"{np.median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f})", memory]


def step(n: int, members) -> list[str]:
    """Returns seconds and MiB of an acquisition with the expected losses, and of the estimates."""
    pool = Pool.of(_probabilities(n))
    random, left = np.random.default_rng(0), np.ones(n, bool)
    labels = random.integers(CLASSES, size=n)

    def acquire():
        choose_samples([pool], members, left, 20, random, "xwed", ProportionalSampling())
        expect_losses(pool, members)

    acquired = _measure(acquire)
    predictions = EnsemblePredictions(members)
    *_, draws = run_active_test(
        pool, lambda answers: predictions, KnownLabels(labels), 1000, random, batch=1000
    )
    work = lambda: [estimator(draws) for estimator in ESTIMATORS.values()]  # noqa: E731
    (spent,) = engine.time_calls(work, 1, time.perf_counter)
    return [*acquired, f"{spent:.3f} s"]


def measure_small_pool() -> list[str]:
    """Returns the figures of a pool of 60,000 in memory."""
    return step(60_000, _probabilities(60_000, MEMBERS))


def measure_large_pool() -> list[str]:
    """Returns those of a million samples, whose members are in a file of 400 MB."""
    n = 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "members.npy"
        members = np.lib.format.open_memmap(file, "w+", np.float32, (MEMBERS, n, CLASSES))
        for member in range(MEMBERS):
            members[member] = _probabilities(n)
        members.flush()
        del members
        return step(n, np.load(file, mmap_mode="r"))


def measure_heads() -> list[str]:
    """Returns those of eight heads retrained on 2,000 examples and 1,000 labels, predictions of
    60,000 included.
    """
    n, random = 60_000, np.random.default_rng(0)
    labels = random.integers(CLASSES, size=n + 2500)
    features = random.normal(0, 1, (n + 2500, 256)).astype(np.float32)
    features[np.arange(len(labels)), labels] += 3
    data = SurrogateData(
        _probabilities(n),
        features[2500:],
        training=LabelledSamples(labels[:2000], features[:2000]),
        calibration=LabelledSamples(labels[2000:2500], features[2000:2500]),
    )
    samples = np.arange(1000)[None]
    answers = Responses(Query(samples), labels[2500:][samples].astype(np.int32))
    surrogate = build_surrogate("heads", data)
    surrogate(answers)  # compiles
    return [*_measure(lambda: surrogate(answers)), "–"]


PIECES = {
    "acquisition and expected losses, 60,000 samples": measure_small_pool,
    "the same, 1,000,000 samples, members in a file": measure_large_pool,
    "eight heads retrained on 3,000 labels, 60,000 samples": measure_heads,
}


def main() -> None:
    """Prints the table."""
    print(f"{describe()}; medians of {REPEATS} (least to largest)\n")
    engine.print_table(
        "step | time: | memory: | six estimators:",
        ([name, *engine.call_apart(measure)] for name, measure in PIECES.items()),
    )


if __name__ == "__main__":
    engine.start(main, keep_programs=False)
