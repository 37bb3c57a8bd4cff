"""Known models' outcomes as the surrogate of difficulty: MNIST, twelve known networks, a new one.

    python -m experiments.labelling_studies.known_models run --seconds=1200
    python -m experiments.labelling_studies.known_models table

The known networks were trained on 150 to 2,500 pictures, six of them without one class, never 7.
The new one was trained on 2,000 pictures without 7s. "shared": two known ones lack 7s too. `run`
adds repetitions to known_models.jsonl and continues where it was stopped.
"""

from pathlib import Path

from absl import flags

from nevis_stream.experiments.labelling_studies.recorded_paths import RecordedPaths
from nevis_stream.experiments.labelling_studies.tested_models import (
    format_ratios,
    make_known_repetition,
    print_heads,
)
from nevis_stream.experiments.scripts import describe

SECONDS = flags.DEFINE_float("seconds", 1200, "Wall-clock time after which nothing is begun.")
MOST = flags.DEFINE_integer("repetitions", 30, "Repetitions.")

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


def run() -> None:
    """Adds repetitions."""
    tests = (
        ((case, *words), number, (number, case), STEPS)
        for number in range(MOST.value)
        for case in CASES
        for words in PLAN
    )
    RECORDED.add_missing(tests, lambda key: make_known_repetition(*key), SECONDS.value)


def print_table() -> None:
    """Prints the ratios, in Markdown."""
    print(f"{describe()}\n")
    print_heads(dict.fromkeys(("case", "loss", "surrogate", "acquisition"), "---"), SHOWN)
    recorded = RECORDED.read()
    for case in CASES:
        for surrogate, loss, rule in PLAN:
            paths = list(recorded.get((case, surrogate, loss, rule), {}).values())
            for estimator, cells in (format_ratios(paths, SHOWN, PRINTED) if paths else {}).items():
                words = (case, loss, surrogate, rule, estimator, str(len(paths)), *cells)
                print(f"| {' | '.join(words)} |")


if __name__ == "__main__":
    from nevis_stream.launch.command_line import start_run_or_table

    start_run_or_table(run, print_table)
