"""The flags of the subcommands of `launch.evaluate`."""

from collections.abc import Sequence

from absl import flags

from launch.subcommands import Subcommand, define
from nevis_stream.vocabulary import HELD_OUT_SPLITS, KEEP


def define_flags(subcommands: Sequence[Subcommand]) -> None:
    """Defines the flags of each subcommand."""
    named = {each.name: each for each in subcommands}
    adding = [named["add-model"], named["add-samples"]]
    trying = [named["metrics"], named["study"]]
    reading = [named["import"], named["study"]]
    one_cache = [named["repair"], named["export"], named["add-samples"]]
    several_caches = [each for each in subcommands if each not in (*one_cache, named["study"])]
    define(flags.DEFINE_string, one_cache, "cache", None, "Directory of a cache.")
    define(
        flags.DEFINE_string,
        several_caches,
        "cache",
        None,
        "Directory of a cache, or of several caches.",
    )
    define(
        flags.DEFINE_float,
        reading,
        "threshold",
        None,
        "Turns real-valued scores into outcomes, right above it; default: keep scores.",
    )
    define(
        flags.DEFINE_list,
        [*reading, *adding],
        "range",
        [],
        "LOW,HIGH: the range of scores if the file does not state it; default: 0,1.",
    )
    define(
        flags.DEFINE_list,
        reading,
        "dataset_weights",
        [],
        "NAME=WEIGHT,... or equal: weights of the data sets; default: all samples weigh the same.",
    )
    define(
        flags.DEFINE_string,
        [named["import"]],
        "features",
        None,
        "FILE.npz with `features` of the samples, float[n, d], and perhaps their ids, `samples`.",
    )
    define(
        flags.DEFINE_enum,
        [named["import"]],
        "models",
        "all",
        KEEP,
        "Which predictors of a run are imported.",
    )
    define(
        flags.DEFINE_list,
        [named["import"]],
        "splits",
        [],
        f"Splits of a run's data set: {', '.join(HELD_OUT_SPLITS)}; default: all.",
    )
    define(
        flags.DEFINE_bool,
        [named["import"]],
        "probabilities",
        False,
        "Keep the classes' probabilities of runs, too.",
    )
    define(
        flags.DEFINE_string,
        [named["import"], *adding],
        "stream",
        None,
        "The csv of a run's stream, if it was a csv; default: the run's own stream.",
    )
    define(
        flags.DEFINE_list,
        [named["import"], *adding],
        "trust",
        [],
        "Modules outside this project whose learners may be imported and run.",
    )
    define(
        flags.DEFINE_string,
        [named["add-model"]],
        "model",
        None,
        "What to add: RUN/checkpoints/EVENT-TASK, a RUN (all its models), or a file.",
    )
    define(
        flags.DEFINE_integer,
        [named["add-model"]],
        "trial",
        None,
        "Trial of the checkpoint; default: the chosen one.",
    )
    define(
        flags.DEFINE_string, [named["add-model"]], "name", None, "Model of the file; default: all."
    )
    define(
        flags.DEFINE_string,
        [named["add-samples"]],
        "samples",
        None,
        "A file of known models × new samples.",
    )
    define(
        flags.DEFINE_list, [named["add-samples"]], "splits", [], "Splits of the cache's data set."
    )
    define(
        flags.DEFINE_list,
        [named["add-samples"]],
        "run_dir",
        [],
        "Directories of the runs of the cache's models, if they were moved.",
    )
    define(
        flags.DEFINE_string,
        [named["add-model"]],
        "budget",
        None,
        "Number of samples that a new model is asked: 64, or 5%.",
    )
    define(
        flags.DEFINE_string,
        [named["add-samples"]],
        "budget",
        None,
        "Number of models that are asked on a new sample: 64, or 5%.",
    )
    define(
        flags.DEFINE_string,
        adding,
        "method",
        "recommended",
        "How samples are chosen and the others predicted.",
    )
    define(
        flags.DEFINE_integer,
        adding,
        "seed",
        0,
        "Seed of a method's choices.",
        lower_bound=-(2**63),
        upper_bound=2**63 - 1,
    )
    define(flags.DEFINE_list, trying, "methods", [], "Methods to compare; default: the main ones.")
    define(
        flags.DEFINE_list,
        trying,
        "budgets",
        ["16", "64", "256"],
        "Numbers of samples that each new model is asked.",
    )
    define(
        flags.DEFINE_float,
        trying,
        "known",
        0.6,
        "Share of the models that are known; the others are new.",
        lower_bound=0.0,
        upper_bound=1.0,
    )
    define(
        flags.DEFINE_integer,
        [named["metrics"]],
        "seeds",
        3,
        "Number of random splits of the models.",
        lower_bound=1,
    )
    define(
        flags.DEFINE_integer,
        [named["study"]],
        "seeds",
        10,
        "Number of random splits of the models.",
        lower_bound=1,
    )
    define(flags.DEFINE_string, [named["repair"]], "out", None, "Directory of the new cache.")
    define(
        flags.DEFINE_string,
        [named["study"]],
        "out",
        "study",
        "Directory of the tables and figures.",
    )
