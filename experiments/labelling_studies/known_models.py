"""Known models' outcomes as the surrogate of difficulty: MNIST, twelve known networks, a new one.

    python -m experiments.labelling_studies.known_models run --seconds=1200
    python -m experiments.labelling_studies.known_models table

The known networks were trained on 150 to 2,500 pictures, six of them without one class, never 7.
The new one was trained on 2,000 pictures without 7s. "shared": two known ones lack 7s too. `run`
adds repetitions to known_models.jsonl and continues where it was stopped.
"""

import itertools
from pathlib import Path

from nevis_stream.experiments import engine
from nevis_stream.experiments.labelling_studies.recorded_paths import RecordedPaths
from nevis_stream.experiments.labelling_studies.tested_models import (
    format_ratios,
    make_heads,
    make_known_repetition,
)
from nevis_stream.experiments.scripts import describe

STEPS = (0, 20, 50, 100, 150, 200)
SHOWN = (50, 100, 200)
CASES = ("shared", "not shared")
PRINTED = ("ase", "difference", "lure")
"""The other two are close to `lure` and `difference`."""
PLAN = [
    (surrogate, loss, rule)
    for loss in ("cross_entropy", "zero_one")
    for surrogate, rules in {
        "known_models": ("expected_loss", "xwed!"),
        "known_models_heads": ("expected_loss", "xwed!"),
        "heads": ("expected_loss",),
    }.items()
    for rule in rules
]
RECORDED = RecordedPaths(
    Path(__file__).with_name("known_models.jsonl"),
    ("case", "surrogate", "loss", "acquisition"),
    SHOWN,
)


def run(seconds: float = 1200, repetitions: int = 30) -> None:
    """Adds repetitions, until `seconds` are over."""
    tests = (
        ((case, *words), number, (number, case), STEPS)
        for number in range(repetitions)
        for case in CASES
        for words in PLAN
    )
    RECORDED.add_missing(tests, lambda key: make_known_repetition(*key), seconds)


def table() -> None:
    """Prints the ratios, in Markdown."""
    print(f"{describe()}\n")
    recorded, rows = RECORDED.read(), []
    for case, (surrogate, loss, rule) in itertools.product(CASES, PLAN):
        paths = list(recorded.get((case, surrogate, loss, rule), {}).values())
        for estimator, cells in (format_ratios(paths, SHOWN, PRINTED) if paths else {}).items():
            rows.append((case, loss, surrogate, rule, estimator, len(paths), *cells))
    engine.print_table(make_heads("case | loss | surrogate | acquisition", SHOWN), rows)


if __name__ == "__main__":
    engine.start(run, table, keep_programs=False)
