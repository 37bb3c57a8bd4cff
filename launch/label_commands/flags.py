"""Flags of the subcommands of `launch.label` that take models and a pool, and the ends of their
`--help`.
"""

from nevis_stream.launch import command_line
from nevis_stream.launch.command_line import (
    Subcommand,
    define_number,
    define_repeated,
    define_text,
    define_whole,
)


def _about(title: str, table) -> str:
    return f"\n{title}:\n" + "".join(f"  {name}: {each.about}\n" for name, each in table.items())


def list_estimators() -> str:
    """Returns the estimators with a line for each."""
    from nevis_stream.active_testing.estimators import ESTIMATORS

    return _about("Estimators", ESTIMATORS)


def list_surrogates() -> str:
    """Returns the surrogates, rules and losses, with a line for each."""
    from nevis_stream.active_testing.acquisition_functions import RULES
    from nevis_stream.active_testing.pool import LOSSES
    from nevis_stream.active_testing.surrogates import SURROGATES

    return _about("Surrogates", SURROGATES) + _about("Rules", RULES) + _about("Losses", LOSSES)


def define_subject_flags(subcommand: Subcommand, times: str) -> None:
    """Defines the flags that say what is tested.

    Args:
      subcommand: which gets them.
      times: the end of the help of --model: how often it may be given.
    """
    subcommands = (subcommand,)
    meaning = (
        "A checkpoint, RUN/checkpoints/EVENT-TASK, an .npz with `probabilities` [samples, classes]"
        " and `samples`, their ids, or a csv with a column `sample` and one for each class"
    )
    define_repeated(subcommands, "model", [], meaning + times)
    define_text(
        subcommands,
        "pool",
        None,
        "A folder of images, an .npz with `images`, or a split of a data set, for example"
        " mnist:test.",
    )
    define_text(
        subcommands,
        "out",
        None,
        "Directory of the session or study. If it exists, the same session or study goes on.",
    )
    define_text(
        subcommands, "loss", "zero_one", "Loss to estimate; the mean of zero_one is the error rate."
    )
    define_text(
        subcommands,
        "surrogate",
        None,
        "What predicts the labels; default: heads for a checkpoint, tested_model for a file.",
    )
    define_number(
        subcommands,
        "uniform",
        0.5,
        "Share of plain random draws; a smaller one makes intervals too short where the surrogate"
        " is sure of what is wrong.",
        lower_bound=0.0,
        upper_bound=1.0,
    )
    define_repeated(
        subcommands, "run_dir", [], "Further runs of the same task, whose models join the ensemble."
    )
    define_text(
        subcommands,
        "cache",
        None,
        "Directory of an evaluation cache that has outcomes of known models on the pool; the"
        " surrogates known_models and known_models_heads learn from it.",
    )
    define_whole(subcommands, "seed", 0, "Seed of all draws.", lower_bound=0)
    command_line.define_recorded_stream(subcommand.flags)
    command_line.define_data_dir(subcommand.flags)
    define_repeated(
        subcommands,
        "trust",
        [],
        "Module outside this project that may be imported because a run's learner is defined in it;"
        " may be given several times.",
    )
