"""Evaluates new models and samples at a fraction of the cost: dynamic evaluation with caches of
models × samples.

A new model is asked on --budget samples and its other values are predicted; the cache keeps both,
apart. Checkpoints are run on exactly the samples that are asked, on the accelerator, and charged.
`python -m launch.report runs/* caches/*` shows it all.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from absl import flags

from launch import entry
from launch.evaluate_commands.flags import define_flags
from launch.subcommands import Subcommand, start

# Each subcommand imports its own module alone: `stats` needs no learner and no plots, and answers
# seconds sooner.


def _import(words: Sequence[str]) -> None:
    from launch.evaluate_commands.filling import import_all

    values, paths = _IMPORT.flags, [Path(word) for word in words]
    if any(path.is_dir() for path in paths):  # a run, whose predictors are asked
        entry.use_compilation_cache()
    of_runs = {
        "which": values.models,
        "splits": values.splits,
        "probabilities": values.probabilities,
        "stream": values.stream,
        "trust": values.trust,
    }
    import_all(paths, Path(values.cache), _file_options(values), of_runs)


def _stats(_: Sequence[str]) -> None:
    from launch.evaluate_commands.looking import stats

    stats(Path(_STATS.flags.cache))


def _verify(_: Sequence[str]) -> None:
    from launch.evaluate_commands.looking import verify

    verify(Path(_VERIFY.flags.cache))


def _repair(_: Sequence[str]) -> None:
    from launch.evaluate_commands.filling import repair

    repair(Path(_REPAIR.flags.cache), Path(_REPAIR.flags.out))


def _merge(words: Sequence[str]) -> None:
    from launch.evaluate_commands.filling import merge

    merge([Path(word) for word in words], Path(_MERGE.flags.cache))


def _export(words: Sequence[str]) -> None:
    from launch.evaluate_commands.filling import export

    export(Path(words[0]), Path(_EXPORT.flags.cache))


def _add_model(_: Sequence[str]) -> None:
    options = _asking_options(values := _ADD_MODEL.flags)
    from launch.evaluate_commands.adding import add_model

    add_model(Path(values.cache), Path(values.model), values.trial, values.name, options)


def _add_samples(_: Sequence[str]) -> None:
    options = _asking_options(values := _ADD_SAMPLES.flags)
    if bool(values.samples) == bool(values.splits):
        entry.fail("add-samples needs either --samples=FILE or --splits=NAME.")
    from launch.evaluate_commands.adding import add_samples

    options["run_dirs"] = values.run_dir
    add_samples(Path(values.cache), values.samples, values.splits, options)


def _metrics(_: Sequence[str]) -> None:
    settings = _study_settings(_METRICS.flags)
    from launch.evaluate_commands.studying import metrics

    entry.use_compilation_cache()
    metrics(Path(_METRICS.flags.cache), settings)


def _study(words: Sequence[str]) -> None:
    settings, values = _study_settings(_STUDY.flags), _STUDY.flags
    from launch.evaluate_commands.studying import study

    entry.use_compilation_cache()
    study([Path(word) for word in words], settings, values.out, _file_options(values))


def _method_names() -> str:
    from nevis_stream.dynamic_evaluation import methods

    parts = {
        "Methods": methods.registry(),
        "Or POLICY+PREDICTOR, with one of these policies": methods.policy_registry(),
        "and one of these predictors": methods.predictor_registry(),
    }
    return "".join(
        f"\n{title}:\n" + "".join(f"  {name}: {each.about}\n" for name, each in entries.items())
        for title, entries in parts.items()
    )


_IMPORT = Subcommand(
    "import",
    _import,
    "Adds files of models × samples (npz, csv, parquet) or runs to a cache.",
    ("import outcomes.npz --cache=caches/mine", "import runs/indep runs/b --cache=caches"),
    words="FILE_OR_RUN_DIR ...",
    needs=("cache",),
    details="A run is added to one cache for each data set, CACHE/DATASET. What is in the cache"
    " already costs nothing.",
)
_STATS = Subcommand(
    "stats",
    _stats,
    "Prints what is in a cache, with the means of each data set.",
    ("stats --cache=caches/mine",),
    needs=("cache",),
)
_VERIFY = Subcommand(
    "verify",
    _verify,
    "Checks every byte of a cache and names what is damaged.",
    ("verify --cache=caches/mine",),
    needs=("cache",),
)
_REPAIR = Subcommand(
    "repair",
    _repair,
    "Copies everything that is sound in a damaged cache into a new one.",
    ("repair --cache=caches/mine --out=caches/new",),
    needs=("cache", "out"),
)
_MERGE = Subcommand(
    "merge",
    _merge,
    "Adds caches to a cache, or directories of caches to a directory of caches.",
    ("merge caches/b --cache=caches/a",),
    words="CACHE ...",
    needs=("cache",),
)
_EXPORT = Subcommand(
    "export",
    _export,
    "Writes a cache as one npz file, which import reads.",
    ("export all.npz --cache=caches/mine",),
    words="FILE",
    needs=("cache",),
)
_ADD_MODEL = Subcommand(
    "add-model",
    _add_model,
    "Evaluates new models from a few samples each.",
    (
        "add-model --model=new.csv --budget=256 --cache=caches/mine",
        "add-model --model=runs/new/checkpoints/0004-mnist --budget=256 --cache=caches/mnist",
        "add-model --model=runs/new --budget=5% --cache=caches",
    ),
    needs=("cache", "model", "budget"),
    details="Predicts their other values and prints the estimated mean and rank with intervals, and"
    " the cost.",
    lists=_method_names,
)
_ADD_SAMPLES = Subcommand(
    "add-samples",
    _add_samples,
    "Evaluates new samples from a few of the known models.",
    (
        "add-samples --samples=new.npz --budget=64 --cache=caches/mine",
        "add-samples --splits=test --budget=8 --cache=caches/mnist",
    ),
    needs=("cache", "budget"),
    details="Predicts the other models' values.",
    lists=_method_names,
)
_METRICS = Subcommand(
    "metrics",
    _metrics,
    "Measures how well methods would do on a cache.",
    ("metrics --cache=caches/mine",),
    needs=("cache",),
    details="Part of its models are treated as new. The report shows what this writes into the"
    " cache.",
    lists=_method_names,
)
_STUDY = Subcommand(
    "study",
    _study,
    "Compares methods on files of models × samples, with tables and figures.",
    ("study a.npz b.npz --budgets=16,64,256 --known=0.6 --seeds=10 --out=study",),
    words="FILE ...",
    details="Continues where it was stopped.",
    lists=_method_names,
)
SUBCOMMANDS = (
    _IMPORT, _STATS, _VERIFY, _REPAIR, _MERGE, _EXPORT, _ADD_MODEL, _ADD_SAMPLES, _METRICS, _STUDY
)  # fmt: skip
define_flags(SUBCOMMANDS)


def _asking_options(values: flags.FlagValues) -> dict[str, Any]:
    from launch.evaluate_commands.caches import budget

    entry.use_compilation_cache()
    budget(values.budget, 1)
    names = ("budget", "method", "seed", "stream", "trust")
    options = {name: values[name].value for name in names}
    return options | {"range": _value_range(values.range)}


def _study_settings(values: flags.FlagValues) -> dict[str, Any]:
    if not values.budgets:
        entry.fail("--budgets is empty: whole numbers above 0 are expected, as 16,64,256.")
    for budget in values.budgets:
        if not budget.isdecimal() or int(budget) < 1:
            entry.fail(
                f"--budgets={','.join(values.budgets)}: {budget!r} is not a whole number above 0."
            )
    if not 0 < values.known < 1:
        entry.fail(f"--known={values.known}: the share of known models must be between 0 and 1.")
    return {
        "budgets": sorted({int(budget) for budget in values.budgets}),
        "known": values.known,
        "seeds": values.seeds,
        "methods": values.methods,
    }


def _file_options(values: flags.FlagValues) -> dict[str, Any]:
    """How files of values are read."""
    return {
        "threshold": values.threshold,
        "range": _value_range(values.range),
        "features": values.features if "features" in values else None,
        "dataset_weights": _weights(values.dataset_weights),
    }


def _value_range(words: list[str]) -> tuple[float, float] | None:
    """--range as numbers; None if it was not given."""
    if not words:
        return None
    try:
        low, high = map(float, words)
    except ValueError:
        low = high = 0.0
    if not low < high:
        entry.fail(f"--range={','.join(words)}: two numbers are expected, as 0,100.")
    return low, high


def _weights(words: list[str]) -> dict[str, float] | str:
    """--dataset_weights by data set, or "equal"; {} if it was not given."""
    if words == ["equal"]:
        return "equal"
    weights = {}
    for word in words:
        name, _, weight = word.rpartition("=")
        try:
            weights[name] = float(weight)
        except ValueError:
            name = ""
        if not name:
            entry.fail(f"--dataset_weights: {word!r} is not NAME=WEIGHT; or give just `equal`.")
    return weights


def _fail_at_damage(error: Exception) -> None:
    """Names what is damaged in the cache instead of an error to which the damage may have led."""
    from launch.evaluate_commands.looking import damage

    # a damaged index may contain anything
    if not isinstance(error, IndexError | KeyError | TypeError | ValueError | ArithmeticError):
        return

    for each in SUBCOMMANDS:
        cache = each.flags["cache"].value if "cache" in each.flags else None
        if cache and (lines := damage(Path(cache))):
            entry.fail(lines)


if __name__ == "__main__":
    start(__doc__, SUBCOMMANDS, _fail_at_damage)
