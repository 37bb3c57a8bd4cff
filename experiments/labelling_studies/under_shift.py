"""Active testing under distribution shift: MNIST, a model trained without 7s, a pool with 7s.

    python -m experiments.labelling_studies.under_shift run --seconds=3600 [--surrogates=heads] [--losses=zero_one] [--pools=6000]
    python -m experiments.labelling_studies.under_shift table

`run` adds repetitions to under_shift.jsonl until the time is over, and continues where it
was stopped; two of them must not work on the same surrogate and loss. A repetition has its own
pool, training pictures and networks. Needs `mnist.npz` in the folder that NEVIS_STREAM_SHARED names.
"""  # noqa: E501

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from nevis_stream.active_testing.surrogate import PUBLISHED
from nevis_stream.experiments import engine
from nevis_stream.experiments.labelling_studies.recorded_paths import RecordedPaths
from nevis_stream.experiments.labelling_studies.tested_models import (
    MISSING,
    bootstrap_interval,
    format_ratios,
    load,
    make_heads,
    make_shifted_repetition,
)
from nevis_stream.experiments.scripts import describe
from nevis_stream.learners.closed_form.patch_features import PatchFeatures

POOL, LARGE = 6000, 60_000
SHOWN = (50, 100, 200, 500, 1000)
RARE = (0, 20, 50, 100, 200, 350, 500, 1000)
"""Numbers of labels at which surrogates are retrained that take seconds to minutes for it."""
MAIN = ("xwed!", "bald!", "expected_loss!", "xwed", "bald", "expected_loss", "uniform")
OTHERS = ("xwed!", "expected_loss", "uniform")
LOSSES = ("cross_entropy", "zero_one")
PRINTED = ("ase", "difference", "lure", "monte_carlo", "tuned_difference")
"""`equal_steps` is close to `lure`."""
# pool, surrogate, acquisitions, repetitions, numbers of labels at which it is retrained
PLAN = (
    (POOL, "heads", MAIN, 100, PUBLISHED),
    (POOL, "tested_model", OTHERS, 30, PUBLISHED),
    (POOL, "bayesian", OTHERS, 30, PUBLISHED),
    (POOL, "forest", OTHERS, 30, RARE),
    (POOL, "networks", OTHERS, 30, RARE),
    (LARGE, "heads", MAIN, 1, PUBLISHED),
)
SURROGATES = tuple(sorted({row[1] for row in PLAN}))
RECORDED = RecordedPaths(
    Path(__file__).with_name("under_shift.jsonl"),
    ("pool", "surrogate", "loss", "acquisition"),
    SHOWN,
    MISSING,
)


def run(
    pools: Sequence[int] = (POOL, LARGE),
    seconds: float = 3600,
    surrogates: Sequence[str] = SURROGATES,
    losses: Sequence[str] = LOSSES,
) -> None:
    """Adds repetitions, until `seconds` are over."""
    images, labels = load("mnist")
    features = PatchFeatures.fit(images)(images)
    tests = (
        ((str(size), surrogate, loss, name), number, (number, size), steps)
        for size, surrogate, names, most, steps in PLAN
        if surrogate in surrogates and size in pools
        for number in range(most)
        for loss in losses
        for name in names
    )
    RECORDED.add_missing(
        tests, lambda key: make_shifted_repetition(images, labels, features, *key), seconds
    )


def table() -> None:
    """Prints the table of ratios, in Markdown."""
    print(f"{describe()}\n")
    recorded = RECORDED.read()
    tests = (
        (str(size), surrogate, loss, name)
        for size, surrogate, names, *_ in PLAN
        for loss, name in itertools.product(LOSSES, names)
    )
    engine.print_table(
        make_heads("pool: | surrogate | loss | acquisition", SHOWN),
        (row for words in tests if words in recorded for row in _list_rows(words, recorded[words])),
    )


def _list_rows(words, recorded) -> Iterator[tuple]:
    paths = list(recorded.values())
    rows = format_ratios(paths, SHOWN, PRINTED)
    if "monte_carlo" in rows:
        del rows["lure"]  # the same for uniform draws
    rows["share of 7s"] = [
        _percentage(np.array([path[f"share_{asked}"] for path in paths])) for asked in SHOWN
    ]
    for estimator, cells in rows.items():
        yield (*words, estimator, len(paths), *cells)


def _percentage(shares: np.ndarray) -> str:
    """Returns the mean with its 95% interval."""
    if len(shares) == 1:
        return f"{shares[0]:.0%}"
    low, high = bootstrap_interval(lambda rows: shares[rows].mean(), len(shares))
    return f"{shares.mean():.0%} [{low:.0%}, {high:.0%}]"


if __name__ == "__main__":
    engine.start(run, table, keep_programs=False)
