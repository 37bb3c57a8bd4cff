"""Coverage of the intervals, at every tenth of the budget and where labelling stops by itself.

    python -m experiments.labelling_studies.interval_coverage run --losses=cross_entropy --seconds=1200
    python -m experiments.labelling_studies.interval_coverage table

MNIST as in `under_shift`: a tested model and heads that have never seen a 7, pools of 2,500 with
7s. Each repetition has its own pool, networks and draws. 200 labels are asked, 20 at a time. The
surrogate is the tested model, or heads that are retrained as the labels come. `run` adds to the
record --record and continues where it was stopped; two of them must not work on the same loss.
`table` prints interval_coverage.csv beside this file, the measures over all repetitions; where the
record is, it makes that file anew.
The numbers are those of one core (`taskset -c 0`); with more the networks' last digits differ, and
so do the draws.
"""  # noqa: E501

import csv
import itertools
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from nevis_stream.active_testing.pool import Pool
from nevis_stream.active_testing.surrogate import Schedule
from nevis_stream.active_testing.surrogates import build_surrogate
from nevis_stream.experiments import engine
from nevis_stream.experiments.labelling_studies.simulation import Acquisition, simulate
from nevis_stream.experiments.labelling_studies.tested_models import (
    NO_ANSWERS,
    load,
    make_shifted_repetition,
)
from nevis_stream.experiments.scripts import describe
from nevis_stream.experiments.study_record import StudyRecord
from nevis_stream.learners.closed_form.patch_features import PatchFeatures
from nevis_stream.seeds import seed_for
from nevis_stream.storage import write_file
from nevis_stream.storage.tables import format_csv

RECORD = Path("runs/label_coverage.jsonl")

SUMMARY = Path(__file__).with_suffix(".csv")
WORDS = ("surrogate", "loss", "rule", "estimator")
POOL, BUDGET = 2500, 200
STEPS = tuple(range(0, BUDGET + 1, 20))
RETRAINED = (0, 20, 40, 60, 100, 150)  # labels after which heads are trained anew
TENTHS = STEPS[2:]  # there is no interval before 40 labels
DRAWN = ("lure", "equal_steps", "difference", "tuned_difference")
PLAIN = ("monte_carlo", "difference", "tuned_difference")  # `lure` is `monte_carlo` then
FIRST_SEED = 40_000  # pools on which nothing was chosen
UNIT = 10_000  # numbers on record are in 1/10,000 of the standard deviation of the losses
FEWEST = 100  # labels before which labelling does not stop: the rule of `status --until`
TARGETS = (100, 400)  # labelling stops at the width that random labels have with so many labels


def _estimators(rule):
    return PLAIN if rule == "uniform" else DRAWN


def run(
    losses: Sequence[str] = ("cross_entropy", "zero_one"),
    surrogates: Sequence[str] = ("heads", "tested_model"),
    rules: Sequence[str] = ("rms_loss", "uniform"),
    repetitions: int = 500,
    seconds: float = 1200,
    record: Path = RECORD,
) -> None:
    """Adds repetitions, until `seconds` are over."""
    end = time.monotonic() + seconds
    images, labels = load("mnist")
    features = PatchFeatures.fit(images)(images)
    measured = StudyRecord(record)
    for number in range(repetitions):
        missing = measured.missing(
            {"repetition": number, "surrogate": surrogate, "loss": loss, "rule": rule}
            for surrogate, loss, rule in itertools.product(surrogates, losses, rules)
        )
        if not missing:
            continue
        if time.monotonic() > end:
            return
        subject = make_shifted_repetition(images, labels, features, FIRST_SEED + number, POOL)
        _measure(measured, missing, number, *subject)
        print(f"{number}: {end - time.monotonic():.0f} s left", flush=True)


def _measure(record, cells, number, data, truth) -> None:
    """Adds the cells of a repetition: for each estimator rows of error, low and high."""
    surrogates = {}
    for cell in cells:
        name, loss, rule = (cell[word] for word in ("surrogate", "loss", "rule"))
        if name not in surrogates:
            surrogates[name] = _begun(build_surrogate(name, data, seed_for(number, name)))
        pool = Pool.of(data.predictions, loss)
        estimators = _estimators(rule)
        path = simulate(
            pool,
            truth,
            Schedule(RETRAINED if name == "heads" else STEPS).applied(surrogates[name]),
            Acquisition.named(rule),
            BUDGET,
            seed_for(number, "coverage", name, rule, loss),
            estimators,
            STEPS,
        )
        losses = pool.losses[np.arange(pool.n), truth]
        scaled = UNIT * (path.estimates[:, 1:] - losses.mean()) / losses.std(ddof=1)
        record.add(cell, dict(zip(estimators, np.rint(scaled), strict=True)))


def _begun(surrogate):
    """Returns a surrogate that is not trained again for each case before there are labels."""
    first = surrogate(NO_ANSWERS)
    return lambda answers: surrogate(answers) if answers.values.size else first


def table(record: Path = RECORD) -> None:
    """Prints coverage, widths and errors, in Markdown."""
    if len(measured := StudyRecord(record)):
        _summarise(measured)
    with open(SUMMARY, newline="") as file:
        heads, *rows = csv.reader(file)
    print(f"{describe()}\n")
    engine.print_table(
        " | ".join([*heads[: len(WORDS)], *(f"{h}:" for h in heads[len(WORDS) :])]), rows
    )


def _summarise(record: StudyRecord) -> None:
    """Writes what was measured over all repetitions."""
    groups = defaultdict(list)
    for cell, result in record.items():
        for estimator, numbers in result.items():
            words = cell["surrogate"], cell["loss"], cell["rule"], estimator
            groups[words].append(np.array(numbers) / UNIT)
    stops = [head for asked in TARGETS for head in (f"stop at the width of {asked}", "labels")]
    heads = (*WORDS, "n", "mean coverage", "least", *stops)
    heads += tuple(f"{name} at 100, 200" for name in ("width", "squared error"))
    rows = ((*words, len(each), *_cells(np.array(each))) for words, each in sorted(groups.items()))
    write_file(SUMMARY, format_csv(heads, rows).encode())


def _cells(paths: np.ndarray) -> list[str]:
    """Returns the cells of a row, of float64[r, tenths, 3]: error, low and high, minus the risk and
    in standard deviations of the losses.
    """
    error, low, high = np.moveaxis(paths, 2, 0)
    covered, asked = (low <= 0) & (high >= 0), np.array(TENTHS)  # a missing interval covers nothing
    each = covered.mean(axis=0)
    cells = [f"{each.mean():.1%}", f"{each.min():.1%}"]
    for target in TARGETS:
        narrow = (high - low <= 3.92 * _deviation(target)) & (asked >= FEWEST)
        stopped = np.where(narrow.any(axis=1), narrow.argmax(axis=1), -1)
        share = covered[np.arange(len(paths)), stopped].mean()
        cells += [f"{share:.1%}", f"{asked[stopped].mean():.0f}"]
    shown = [TENTHS.index(asked) for asked in (100, 200)]
    plain = _deviation(asked[shown])
    widths = np.nanmean(high - low, axis=0)[shown] / (3.92 * plain)
    squares = (error**2).mean(axis=0)[shown] / plain**2
    return [*cells, *(", ".join(f"{value:.2f}" for value in pair) for pair in (widths, squares))]


def _deviation(asked):
    """Returns the standard deviation of the mean of some random losses over that of the losses."""
    return np.sqrt(1 / asked - 1 / POOL)


if __name__ == "__main__":
    engine.start(run, table, keep_programs=False)
