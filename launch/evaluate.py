"""Dynamic evaluation: caches of models × samples, and the evaluation of new models and samples at a
fraction of the cost.

A new model is asked on `--budget` samples, its other values are predicted; the cache keeps both,
apart. Checkpoints are run on exactly the asked samples, on the accelerator, and charged.
`launch.report runs/* caches/*` shows it all.
"""

import sys
from pathlib import Path

from absl import flags

from launch import entry
from launch.evaluate_commands.usage import COMMANDS, check_flags, overview, usage
from nevis_stream.vocabulary import HELD_OUT_SPLITS, KEEP

_CACHE = flags.DEFINE_string(
    "cache", None, "Directory of a cache; for runs, and many commands, a folder of caches."
)
_MODELS = flags.DEFINE_enum("models", "all", KEEP, "Which predictors of a run are imported.")
_SPLITS = flags.DEFINE_list(
    "splits",
    [],
    f"Splits of a run's data set: {', '.join(HELD_OUT_SPLITS)}; default of import: all.",
)
_PROBABILITIES = flags.DEFINE_bool(
    "probabilities", False, "Keep the classes' probabilities, too (runs)."
)
_THRESHOLD = flags.DEFINE_float(
    "threshold",
    None,
    "Turns real-valued scores into outcomes, right above it; default: keep scores.",
)
_RANGE = flags.DEFINE_list(
    "range",
    [],
    "LOW,HIGH: the range of scores whose range the file does not state; default: 0,1.",
)
_FEATURES = flags.DEFINE_string(
    "features",
    None,
    "FILE.npz with `features` of the samples, float[n, d], and optionally their ids, `samples`.",
)
_WEIGHTS = flags.DEFINE_list(
    "dataset_weights",
    [],
    "NAME=WEIGHT,... or equal: how the data sets' means are averaged; default: every sample weighs"
    " the same.",
)
_STREAM = flags.DEFINE_string(
    "stream", None, "The stream of a run, if it was a csv; default: the run's own."
)
_TRUST = flags.DEFINE_list(
    "trust", [], "Modules outside this project whose learners may be imported and run."
)
_MODEL = flags.DEFINE_string(
    "model", None, "What to add: RUN/checkpoints/EVENT-TASK, a RUN (all its models), or a file."
)
_TRIAL = flags.DEFINE_integer(
    "trial", None, "Which trial of the checkpoint; default: the chosen one."
)
_NAME = flags.DEFINE_string("name", None, "Which model of the file; default: all.")
_SAMPLES = flags.DEFINE_string("samples", None, "A file of known models × new samples.")
_RUN_DIR = flags.DEFINE_list(
    "run_dir", [], "Where the runs of the cache's models are now, if they were moved."
)
_BUDGET = flags.DEFINE_string(
    "budget", None, "Samples asked of a new model, or models asked on a new sample: 64, or 5%."
)
_METHOD = flags.DEFINE_string(
    "method", None, "How samples are chosen and the others predicted; default: recommended."
)
_METHODS = flags.DEFINE_list("methods", [], "Methods to compare; default: the main ones.")
_BUDGETS = flags.DEFINE_list("budgets", ["16", "64", "256"], "Samples asked of each new model.")
_KNOWN = flags.DEFINE_float(
    "known", 0.6, "Share of the models that are known; the others are new.", 0.0, 1.0
)
_SEEDS = flags.DEFINE_integer(
    "seeds", None, "Random splits of the models; default: 10 (study), 3 (metrics).", lower_bound=1
)
_SEED = flags.DEFINE_integer(
    "seed",
    0,
    "Seed of a method's choices.",
    lower_bound=-(2**63),
    upper_bound=2**63 - 1,
)
_OUT = flags.DEFINE_string(
    "out",
    None,
    "Folder of the study's tables and figures (default: study), or the new cache (repair).",
)


def main(argv):
    """Runs one command."""
    from nevis_stream.errors import unknown

    if not argv:
        entry.fail(f"name a command: {', '.join(COMMANDS)}. See: python -m launch.evaluate --help")
    command, words = argv[0], argv[1:]
    if command not in COMMANDS:
        entry.fail(unknown("command", command, COMMANDS))
    see = f"See: python -m launch.evaluate {command} --help"
    if wrong := check_flags(command):
        entry.fail(f"{wrong} {see}")
    if command != "study" and not _CACHE.value:
        entry.fail(f"{command} needs --cache=DIR, the directory of an evaluation cache. {see}")
    if words and not COMMANDS[command].files:
        entry.fail(f"{command} takes flags only, not {words[0]!r}. {see}")
    if not words and COMMANDS[command].files:
        entry.fail(f"{command} needs at least one file or directory. {see}")
    try:
        _run(command, [Path(word) for word in words])
    except (IndexError, KeyError, TypeError, ValueError, ArithmeticError):
        from launch.evaluate_commands.looking import damage

        # a damaged index may say anything
        if _CACHE.value and (lines := damage(Path(_CACHE.value))):
            entry.fail(lines)
        raise


def _run(command: str, paths: list[Path]) -> None:
    # each command imports its own module alone: `stats` needs no learner and no plots, and answers
    # seconds sooner
    if command in ("stats", "verify"):
        from launch.evaluate_commands import looking

        (looking.stats if command == "stats" else looking.verify)(Path(_CACHE.value))
    elif command in ("import", "repair", "merge", "export"):
        _fill(command, paths, Path(_CACHE.value))
    elif command in ("study", "metrics"):
        _study(command, paths)
    else:
        _add(command, Path(_CACHE.value))


def _fill(command: str, paths: list[Path], cache: Path) -> None:
    from launch.evaluate_commands import filling

    if command == "import":
        # a run, whose predictors answer for what it has not recorded
        if any(path.is_dir() for path in paths):
            entry.use_compilation_cache()
        how = {
            "which": _MODELS.value,
            "splits": _SPLITS.value,
            "probabilities": _PROBABILITIES.value,
            "stream": _STREAM.value,
            "trust": _TRUST.value,
        }
        filling.import_all(paths, cache, _how_file(), how)
    elif command == "repair":
        if not _OUT.value:
            entry.fail("repair needs --out=NEW_DIR, where the new cache is made.")
        filling.repair(cache, Path(_OUT.value))
    else:
        (filling.merge if command == "merge" else filling.export)(paths, cache)


def _study(command: str, paths: list[Path]) -> None:
    from launch.evaluate_commands import studying

    entry.use_compilation_cache()
    if command == "study":
        studying.study(paths, _what_to_study(10), _OUT.value, _how_file())
    else:
        studying.metrics(Path(_CACHE.value), _what_to_study(3))


def _add(command: str, cache: Path) -> None:
    from launch.evaluate_commands import adding
    from launch.evaluate_commands.terminal import budget

    entry.use_compilation_cache()
    if _BUDGET.value is None:
        entry.fail(
            f"{command} needs --budget=N: how many cells are asked (64, or 5%); the others are"
            " predicted."
        )
    budget(_BUDGET.value, 1)
    how = {
        "budget": _BUDGET.value,
        "method": _METHOD.value or "recommended",
        "seed": _SEED.value,
        "stream": _STREAM.value,
        "trust": _TRUST.value,
        "range": _value_range(),
    }
    if command == "add-model":
        if not _MODEL.value:
            entry.fail(
                "add-model needs --model: RUN/checkpoints/EVENT-TASK, or a file of the model's"
                " outcomes."
            )
        adding.add_model(cache, Path(_MODEL.value), _TRIAL.value, _NAME.value, how)
    else:
        if bool(_SAMPLES.value) == bool(_SPLITS.value):
            entry.fail("add-samples needs either --samples=FILE or --splits=NAME.")
        adding.add_samples(cache, _SAMPLES.value, _SPLITS.value, how | {"run_dirs": _RUN_DIR.value})


def _what_to_study(seeds: int) -> dict:
    if not _BUDGETS.value:
        entry.fail("--budgets is empty: whole numbers above 0 are expected, as 16,64,256.")
    for budget in _BUDGETS.value:
        if not budget.isdecimal() or int(budget) < 1:
            entry.fail(
                f"--budgets={','.join(_BUDGETS.value)}: {budget!r} is not a whole number above 0."
            )
    if not 0 < _KNOWN.value < 1:
        entry.fail(f"--known={_KNOWN.value}: the share of known models must be between 0 and 1.")
    return {
        "budgets": sorted({int(budget) for budget in _BUDGETS.value}),
        "known": _KNOWN.value,
        "seeds": _SEEDS.value or seeds,
        "methods": _METHODS.value,
    }


def _how_file() -> dict:
    """How files of values are read."""
    return {
        "threshold": _THRESHOLD.value,
        "range": _value_range(),
        "features": _FEATURES.value,
        "dataset_weights": _weights(),
    }


def _value_range() -> tuple[float, float] | None:
    """--range as numbers; None where it was not given."""
    if not _RANGE.value:
        return None
    try:
        low, high = map(float, _RANGE.value)
    except ValueError:
        low = high = 0.0
    if not low < high:
        entry.fail(f"--range={','.join(_RANGE.value)}: two numbers are expected, as 0,100.")
    return low, high


def _weights() -> dict[str, float] | str:
    """--dataset_weights by data set, or "equal"; {} where it was not given."""
    if _WEIGHTS.value == ["equal"]:
        return "equal"
    weights = {}
    for word in _WEIGHTS.value:
        name, _, weight = word.rpartition("=")
        try:
            weights[name] = float(weight)
        except ValueError:
            name = ""
        if not name:
            entry.fail(f"--dataset_weights: {word!r} is not NAME=WEIGHT; or give just `equal`.")
    return weights


def _help(words: list[str]) -> None:
    """Prints the help of a command, if one is named; else adds all of them to the module's."""
    global __doc__
    named = [word for word in words if word in COMMANDS]
    if named:
        print(usage(named[0]))
        sys.exit(0)
    __doc__ += overview()


if __name__ == "__main__":
    if any(word.lstrip("-").startswith("help") for word in sys.argv[1:]):
        _help(sys.argv[1:])
    entry.start(main)
