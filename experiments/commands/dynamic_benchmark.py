"""The subcommands of `launch.dynamic_benchmark`."""

from collections.abc import Sequence
from pathlib import Path

from absl import flags

from nevis_stream.errors import BadInput
from nevis_stream.launch import command_line, entry
from nevis_stream.launch.command_line import (
    Subcommand,
    define,
    define_number,
    define_text,
    define_whole,
    make_console,
)
from nevis_stream.storage import make_directory
from nevis_stream.terminal import TerminalProgress


def check_theory(words: Sequence[str]) -> None:
    """Writes the page of the theory and prints each claim with its verdict."""
    from rich.table import Table

    from nevis_stream.experiments.theory import page
    from nevis_stream.experiments.theory.claims import Tables, check

    values = THEORY.flags
    make_directory(Path(values.out))  # an error before anything is computed
    tables = Tables.compute(values.instances, values.seed)
    claims = check(tables)
    shown = Table("claim", "source", "measured", "holds")
    for each in claims:
        shown.add_row(each.claim, each.source, each.measured, each.verdict)
    make_console().print(shown)
    print(page.write(Path(values.out), tables, claims))


def run_rollouts(words: Sequence[str]) -> None:
    """Runs rollouts, or continues them, and writes their page."""
    from nevis_stream.experiments.rollouts import page
    from nevis_stream.experiments.rollouts.study import RolloutSettings, begin, run_rollouts
    from nevis_stream.experiments.rollouts.training import choose_default_data, load_pool

    values = ROLLOUTS.flags
    for flag, design in (("rounds", "path"), ("depth", "hierarchical"), ("width", "hierarchical")):
        if values.design and design not in values.design and values[flag].present:
            raise BadInput(f"--{flag} needs --design={design}.")
    data = values.data or choose_default_data()
    pool, fingerprint = load_pool(data, values.images)
    designs = {"path": (1, values.rounds), "hierarchical": (values.depth, values.width)}
    chosen = values.design or list(designs)
    executor = command_line.make_executor(
        values.executor, {"workers": values.workers} if values.workers else {}
    )
    entry.use_compilation_cache()
    entry.stop_at_signals()
    settings, studies = {}, []
    for name in chosen:
        settings[name] = RolloutSettings(
            data, len(pool), fingerprint, *designs[name], values.base_accuracy, values.seed
        )
        begin(settings[name], Path(values.out) / name)  # an error before anything is trained
    for name in chosen:
        out = Path(values.out) / name
        with TerminalProgress(f"{data}, {name}") as progress:
            studies.append(
                run_rollouts(
                    settings[name],
                    pool,
                    out,
                    values.rollouts,
                    executor=executor,
                    progress=progress,
                )
            )
        make_console().print(page.state_stall(studies[-1]), highlight=False)
    print(page.write(Path(values.out), studies))


THEORY = Subcommand(
    "theory",
    check_theory,
    "Checks every theorem on exact finite populations, and writes a page with figures.",
    ("theory", "theory --out=studies/theory --seed=1"),
    details="Takes less than a minute. Claimed bounds next to measured risks over grids of eps,"
    " distance, rounds, depth and width; fitted exponents with intervals.",
)
ROLLOUTS = Subcommand(
    "rollouts",
    run_rollouts,
    "Runs the paper's simulation: networks of 42,442 parameters in a path or a hierarchy.",
    (
        "rollouts",
        "rollouts --data=cifar10_12k --design=path --rollouts=100 --out=studies/cifar10",
        "rollouts --data=my_images.npz --design=hierarchical --width=5 --out=studies/mine",
    ),
    details="The default takes about ten minutes on one core. Continues where it was stopped;"
    " a later call with more --rollouts adds to them. Writes a page with the vote's risk by round"
    " and by labels, and the early statistic z_4.",
)
SUBCOMMANDS = (THEORY, ROLLOUTS)
define_text(
    (ROLLOUTS,),
    "data",
    None,
    "Id of a single-label data set; or the name, without .npz, of a file in the folder that"
    " NEVIS_STREAM_SHARED names; or a path. Default: fashion_mnist if it is on this machine, else"
    " pico_digits.",
)
define(
    flags.DEFINE_multi_enum,
    (ROLLOUTS,),
    "design",
    [],
    ("path", "hierarchical"),
    "Design of the benchmark; default: both, compared.",
)
for _name, _default, _least, _meaning in (
    ("images", 2500, 16, "Images, the first ones of the training part."),
    ("rounds", 25, 2, "Rounds of a path; ties count as errors, so odd is better."),
    ("depth", 2, 2, "Depth of a hierarchy."),
    ("width", 5, 2, "Members of each vote of a hierarchy; odd, like the rounds, is better."),
    ("rollouts", 4, 1, "Rollouts of each design."),
):
    define_whole((ROLLOUTS,), _name, _default, _meaning, lower_bound=_least)
define_number(
    (ROLLOUTS,),
    "base_accuracy",
    0.73,
    "Accuracy on its training images at which the base classifier stops; all classifiers are"
    " trained for as many epochs.",
    lower_bound=0.0,
    upper_bound=1.0,
)
define_text((ROLLOUTS,), "executor", "inline", "Who runs the rollouts: inline, threads or ray.")
define_whole((ROLLOUTS,), "workers", None, "Number of threads (threads).", lower_bound=1)
define_text(
    (ROLLOUTS,),
    "out",
    "dynamic-benchmark-rollouts",
    "Directory of the rollouts and of report.html; continued if it exists.",
)
define_text(
    (THEORY,), "out", "dynamic-benchmark-theory", "Directory for report.html and its tables."
)
define_whole(
    (THEORY,), "instances", 10_000, "Random and adversarial instances of the bound.", lower_bound=9
)
define_whole(SUBCOMMANDS, "seed", 0, "Seed of all draws.", lower_bound=0)
