"""`launch.evaluate import`, `merge`, `export` and `repair`: filling caches and copying them."""

import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from absl.flags import FlagValues

from nevis_stream.configs.recorded import open_checkpoint, open_run
from nevis_stream.errors import BadInput, plural
from nevis_stream.evaluation_cache import INDEX, EvaluationCache
from nevis_stream.evaluation_cache.additions import merge_additions
from nevis_stream.evaluation_cache.entries import spread_provenance
from nevis_stream.evaluation_cache.exchange import export_npz, import_file
from nevis_stream.evaluation_cache.facts import collect_facts, get_dataset, read_features
from nevis_stream.evaluation_cache.files import format_source as as_text
from nevis_stream.evaluation_cache.files import read_values
from nevis_stream.evaluation_cache.importers import describe_kinds_of_logs, is_log
from nevis_stream.evaluation_cache.matrix_files import import_matrix
from nevis_stream.evaluation_cache.records import Imported
from nevis_stream.evaluation_cache.values import Ranges
from nevis_stream.launch.command_line import format_flops, print_import
from nevis_stream.launch.entry import use_compilation_cache
from nevis_stream.launch.evaluate_commands.flags import (
    get_reading_choices,
    open_caches,
    open_one_cache,
)
from nevis_stream.queries.samples import check_one_mean, check_weights
from nevis_stream.run_directory.ledger import FILE_NAME, find_run_dirs
from nevis_stream.storage.reading import explain_absence
from nevis_stream.terminal import TerminalProgress
from nevis_stream.trained_runs.caches import add_features, fill
from nevis_stream.trained_runs.predictors import KeptPredictor, KeptRun
from nevis_stream.vocabulary import HELD_OUT_SPLITS


def import_all(words: Sequence[str], values: FlagValues) -> None:
    """Adds files to the cache --cache, and runs to the caches in the folder --cache."""
    # in one order, so that the cache does not depend on that of the words
    paths = sorted({path for word in words for path in find_run_dirs(Path(word))})
    target = Path(values.cache)
    for path in paths:
        if not (path.is_file() or path.is_dir()):
            raise BadInput(f"{path}: {explain_absence(path)}.")
        if path.is_dir() and not is_log(path) and not (path / FILE_NAME).is_file():
            hint = f"; these are: {describe_kinds_of_logs()}."
            if (path / INDEX).is_file():
                hint = ". It is a cache: `merge` adds it to another."
            raise BadInput(f"{path}: not a run directory (no {FILE_NAME}), and has no logs{hint}")
    runs = [path for path in paths if (path / FILE_NAME).is_file()]
    if runs:  # the predictors of a run are compiled
        use_compilation_cache()
    weights = _check_weights([path for path in paths if path not in runs], target, values)
    backbone = _backbone(values, paths, runs)
    for path in _together(paths, runs):
        if isinstance(path, Path) and path in runs:
            import_run(
                path,
                target,
                stream=values.stream,
                trust=values.trust,
                which=values.models,
                splits=values.splits or HELD_OUT_SPLITS,
                probabilities=values.probabilities,
                backbone=backbone,
            )
        else:
            _import_file(path, target, values, weights)
    if values.dataset_weights:
        open_one_cache(target).set_dataset_weights(values.dataset_weights)
    elif (target / INDEX).is_file():
        _say_unused_weights(EvaluationCache(target))


def _together(paths: Sequence[Path], runs: Sequence[Path]) -> list[Path | tuple[Path, ...]]:
    """Returns what is imported at a time: runs and files one by one, in their order, and all logs
    together, so that their order does not matter.
    """
    logs = tuple(path for path in paths if path not in runs and is_log(path))
    if len(logs) < 2:
        return list(paths)
    return [logs if path == logs[0] else path for path in paths if path not in logs[1:]]


def _backbone(
    values: FlagValues, paths: Sequence[Path], runs: Sequence[Path]
) -> tuple[KeptRun, KeptPredictor] | None:
    """Returns the backbone that --features names, for the images of runs; None for files.

    Raises:
      BadInput: a file of features for runs, a backbone for files, or no such checkpoint.
    """
    if not values.features:
        return None
    if 0 < len(runs) < len(paths):
        raise BadInput("--features: import runs and files by one command each.")
    if values.features.endswith(".npz") == bool(runs):
        raise BadInput(
            f"--features={values.features}: for files of models × samples, it is a FILE.npz with"
            " the array `features`; for runs, whose images are described by a backbone, it is a"
            " checkpoint, RUN/checkpoints/EVENT-TASK."
        )
    if not runs:
        return None
    return open_checkpoint(Path(values.features), trust=values.trust)


def _check_weights(
    files: Sequence[Path], target: Path, values: FlagValues
) -> dict[str, float] | None:
    """Returns --dataset_weights by data set, checked before anything is written; None without the
    flag, or without files.

    Raises:
      BadInput: a weight is invalid, a data set has one sample, or the weights are not those of the
        data sets of the files and the cache.
    """
    if not values.dataset_weights or not files:  # the data set of a run's cache is its name
        return None
    datasets, all_provenances = {}, []
    if (target / INDEX).is_file():
        cache = EvaluationCache(target)
        provenances = spread_provenance(cache.sample_provenance())
        datasets = dict(zip(cache.samples(), map(get_dataset, provenances), strict=True))
        all_provenances += provenances
    for path in _together(files, ()):
        table = read_values(path, values.threshold, **get_reading_choices(values))
        provenances = table.sample_provenance or [{}] * len(table.samples)
        datasets |= dict(zip(table.samples, map(get_dataset, provenances), strict=True))
        all_provenances += provenances
    weights = check_weights(values.dataset_weights, Counter(datasets.values()))
    check_one_mean(collect_facts(all_provenances, None))
    return weights


def _say_unused_weights(cache: EvaluationCache) -> None:
    """Says if the weights of a cache no longer have a mean to which they belong."""
    if cache.about.get("dataset_weights") and not cache.has_one_mean():
        print(
            f"{cache.directory}: its dataset_weights are no longer used, as its data sets now"
            " differ in direction or range and have no common mean"
        )


def _import_file(
    path: Path | tuple[Path, ...],
    target: Path,
    values: FlagValues,
    weights: dict[str, float] | None,
) -> None:
    caches = [] if (target / INDEX).is_file() else sorted(target.glob(f"*/{INDEX}"))
    if caches:
        raise BadInput(
            f"{target}: holds caches, {caches[0].parent} among them; a file goes into one cache:"
            f" --cache={target / Path(as_text(path)).stem}"
        )

    def features(samples: list[str]) -> tuple[np.ndarray, list[str]]:
        return read_features(values.features, samples)

    name = as_text(path)
    if isinstance(path, Path) and path.suffix == ".npy":
        _import_matrix(path, target, values)
        return
    if values.rows:
        raise BadInput(f"--rows={values.rows}: names rows of a .npy matrix; {name} is none.")
    with TerminalProgress(f"import {name}") as progress:
        table = import_file(
            target,
            path,
            values.threshold,
            features=features if values.features else None,
            progress=progress,
            dataset_weights=weights,
            **get_reading_choices(values),
        )
    print_import(name, Imported(Path(name).name, table.remarks, table.left_out))
    print(_size(EvaluationCache(target)))


def _import_matrix(path: Path, target: Path, values: FlagValues) -> None:
    """Adds a bare matrix to a cache."""
    how = get_reading_choices(values)
    used = {"value_range", "errors"}
    given = [name for name in how if name not in used and how[name]]
    if given or values.threshold is not None or values.features:
        raise BadInput(f"{path}: a bare matrix takes --range and --rows only.")
    with TerminalProgress(f"import {path}") as progress:
        record = import_matrix(
            target,
            path,
            Ranges.of(how["value_range"]),
            Path(values.rows) if values.rows else None,
            progress,
        )
    print_import(str(path), record)
    for other in sorted(path.parent.glob("rank_idx_*.npy")) if not values.rows else ():
        print(f"{path}: {other.name} beside it may name the models to learn from: --rows={other}")
    print(_size(EvaluationCache(target)))


def import_run(
    path: Path,
    folder: Path,
    *,
    stream: str | None = None,
    trust: Sequence[str] = (),
    which: str = "all",
    splits: Sequence[str] = HELD_OUT_SPLITS,
    probabilities: bool = False,
    backbone: tuple[KeptRun, KeptPredictor] | None = None,
) -> None:
    """Adds a run's predictors to the caches of its data sets and prints a line for each cache.

    Args:
      path: the run directory.
      folder: of the caches, one for each data set.
      stream, trust: as of `KeptRun`.
      which, splits, probabilities: as of `fill`.
      backbone: computes features of the samples; None adds none.
    """
    run = open_run(path, stream, trust)
    with TerminalProgress(f"import {path}") as progress:
        additions = fill(
            run,
            folder,
            which=which,
            splits=splits,
            probabilities=probabilities,
            progress=progress,
        )
    for added in additions:
        print(
            f"{path}: {plural(added.models, 'new model')}, {format_flops(added.flops)};"
            f" {_size(EvaluationCache(added.cache))}"
        )
    for added in additions if backbone else ():
        with TerminalProgress(f"features for {added.cache}"):
            features, spent = add_features(EvaluationCache(added.cache), run, *backbone)
        print(f"{added.cache}: {features.shape[1]} features of each sample, {format_flops(spent)}")
    if not run.ledger.complete:
        print(
            f"{path}: the run is unfinished; import it again later: what is already in the cache"
            " costs nothing."
        )


def merge(words: Sequence[str], values: FlagValues) -> None:
    """Adds caches to the cache --cache; those of a folder to the caches of the same names in the
    folder --cache, which may be new.
    """
    folder = Path(values.cache)
    for path in map(Path, words):
        single = (path / INDEX).is_file() or (folder / INDEX).is_file()
        for source in open_caches(path):
            directory = folder if single else folder / source.directory.name
            target = EvaluationCache(directory, create=True, about=source.about)
            with TerminalProgress(f"merge {source.directory}") as progress:
                merged = target.merge(source, progress)
            merge_additions(target.directory, source.directory, merged.names)
            for line in merged.lines:
                print(f"{source.directory}: {line}")
            print(f"{source.directory} merged; {_size(target)}")


def export(words: Sequence[str], values: FlagValues) -> None:
    """Writes the cache --cache as one npz file."""
    path = Path(words[0])
    if path.suffix != ".npz":
        raise BadInput(f"{path}: the file to export to must end in .npz.")
    cache = open_one_cache(Path(values.cache))
    export_npz(cache, path)
    print(f"written: {path}")
    if weights := cache.about.get("dataset_weights"):
        given = ",".join(f"{name}={weight}" for name, weight in weights.items())
        flag = shlex.quote(f"--dataset_weights={given}")
        print(f"the weights of data sets are left out: import it with {flag}")


def repair(_: Sequence[str], values: FlagValues) -> None:
    """Copies the undamaged parts of --cache to the new cache --out, and prints what is left out."""
    cache, target = open_one_cache(Path(values.cache)), Path(values.out)
    with TerminalProgress(f"repair {values.cache}") as progress:
        damage = cache.repair(target, progress)
    if not (lines := damage.lines()):
        print(
            f"{cache.directory}: undamaged, so there is nothing to repair; {target} was not created"
        )
        return
    print(f"{cache.directory}: {len(lines)} damaged part{'s'[: len(lines) != 1]} left out:")
    for line in lines:
        print(f"  {line}")
    print(
        f"everything else is in a new cache; {cache.directory} is unchanged;"
        f" {_size(EvaluationCache(target))}"
    )
    if damage.tiles:
        print(
            "to restore observed values, import the same runs and files again; to restore predicted"
            " values, run `add-model` again"
        )


def _size(cache: EvaluationCache) -> str:
    models, samples = cache.shape
    return f"{cache.directory} has {plural(models, 'model')} × {plural(samples, 'sample')}"
