"""Coverage of the intervals, at every tenth of the budget and where labelling stops by itself.

    python -m benchmarks.label_coverage run --out=build/label_coverage --seconds=1200
    python -m benchmarks.label_coverage table --out=build/label_coverage

MNIST, pools of 2,500 pictures, a small network trained without 7s; the surrogate is the network
itself, calibrated again after every twenty labels: cheap, and wrong about 7s. Ten pools, each with
a hundred repetitions of the draws. `run` continues where it was stopped.
"""

import io
import time
from pathlib import Path

import numpy as np
from absl import flags

from benchmarks.known_networks import tested_network
from benchmarks.machine import describe
from benchmarks.two_commands import start
from nevis_stream.active_testing.building import build_surrogate
from nevis_stream.active_testing.pool import Pool
from nevis_stream.active_testing.registries import ESTIMATORS
from nevis_stream.active_testing.simulation import Acquisition, simulate
from nevis_stream.seeds import seed_for
from nevis_stream.storage import write_file
from nevis_stream.storage.npz import read_npz

OUT = flags.DEFINE_string("out", "build/label_coverage", "Directory of the repetitions.")
SECONDS = flags.DEFINE_float("seconds", 1200, "Wall-clock time after which nothing is begun.")

POOLS, DRAWS, BUDGET = range(5, 15), 100, 200
STEPS = tuple(range(0, BUDGET + 1, 20))
TENTHS = tuple(range(40, BUDGET + 1, 20))  # there is no interval before
CASES = [
    (loss, rule) for loss in ("cross_entropy", "zero_one") for rule in ("expected_loss", "uniform")
]
LEAST = (40, 100)  # labels before which labelling does not stop
_BATCH = 10  # draws in a file


def _file(pool, loss, rule, first):
    return Path(OUT.value) / f"{pool}-{loss}-{rule}-{first:03d}.npz"


def run() -> None:
    """Adds repetitions."""
    end = time.monotonic() + SECONDS.value
    subjects = {}
    for first in range(0, DRAWS, _BATCH):
        for number in POOLS:
            for loss, rule in CASES:
                file = _file(number, loss, rule, first)
                if file.exists():
                    continue
                if time.monotonic() > end:
                    return
                if number not in subjects:
                    subjects[number] = tested_network(number)
                material, truth = subjects[number]
                pool = Pool.of(material.predictions, loss)
                paths = [
                    simulate(
                        pool,
                        truth,
                        build_surrogate("tested_model", material, draw),
                        Acquisition.named(rule),
                        BUDGET,
                        seed_for(draw, "coverage", number, loss, rule),
                        steps=STEPS,
                    )
                    for draw in range(first, first + _BATCH)
                ]
                with io.BytesIO() as buffer:
                    estimates = np.stack([path.estimates for path in paths])
                    np.savez_compressed(buffer, estimates=estimates, risk=pool.risk(truth))
                    write_file(file, buffer.getvalue())
        print(f"{first + _BATCH} draws of each pool", flush=True)


def table() -> None:
    """Prints coverage and widths, in Markdown."""
    print(f"{describe()}\n")
    print(
        "| loss | rule | estimator | n | mean coverage | least | at stop (from 40 labels) | mean"
        " labels | at stop (from 100) | mean labels | width at 200 |"
    )
    print("|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for loss in ("cross_entropy", "zero_one"):
        kept = {rule: _kept(loss, rule) for rule in ("expected_loss", "uniform")}
        if any(each is None for each in kept.values()):
            continue
        plain = list(ESTIMATORS).index("monte_carlo")
        widths = np.diff(kept["uniform"][0][:, plain, :, 1:], axis=2)[..., 0]
        target = np.nanmedian(widths[:, STEPS.index(BUDGET // 2) - 1])
        last = np.nanmean(widths[:, -1])
        for rule, names in (
            ("uniform", ("monte_carlo", "difference", "tuned_difference")),
            ("expected_loss", ("lure", "equal_steps", "difference", "tuned_difference")),
        ):
            for name in names:
                _print(loss, rule, name, *kept[rule], target, last)


def _kept(loss, rule):
    files = sorted(Path(OUT.value).glob(f"*-{loss}-{rule}-*.npz"))
    if not files:
        return None
    parts = [read_npz(file) for file in files]
    risks = [np.full(len(part["estimates"]), float(part["risk"])) for part in parts]
    return np.concatenate([part["estimates"] for part in parts]), np.concatenate(risks)


def _print(loss, rule, name, estimates, risks, target, plain) -> None:
    _, low, high = np.moveaxis(estimates[:, list(ESTIMATORS).index(name)], 2, 0)
    there = np.isfinite(low)
    covered = (low <= risks[:, None]) & (risks[:, None] <= high)
    columns = [STEPS.index(tenth) - 1 for tenth in TENTHS]
    each = np.array([covered[there[:, c], c].mean() for c in columns])
    cells = [loss, rule, name, str(len(risks)), f"{each.mean():.1%}", f"{each.min():.1%}"]
    for least in LEAST:
        allowed = (high - low <= target) & (np.array(STEPS[1:]) >= least)
        stopped = np.where(allowed.any(axis=1), allowed.argmax(axis=1), -1)
        share = covered[np.arange(len(risks)), stopped].mean()
        cells += [f"{share:.1%}", f"{np.array(STEPS[1:])[stopped].mean():.0f}"]
    width = np.nanmean((high - low)[:, -1]) / plain
    print(f"| {' | '.join([*cells, f'{width:.2f}'])} |")


if __name__ == "__main__":
    start(run, table)
