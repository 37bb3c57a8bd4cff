"""`launch.evaluate import`, `merge` and `export`: caches from files and runs, caches from caches,
files from caches.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.filling import fill
from experiments.predictors import KeptRun
from launch.evaluate_commands.caches import caches_in, one_cache
from launch.terminal import bar, flops
from nevis_stream.dynamic_evaluation.additions import merge_additions
from nevis_stream.dynamic_evaluation.cache import INDEX, EvaluationCache
from nevis_stream.dynamic_evaluation.cache.exchange import export_npz, import_file
from nevis_stream.dynamic_evaluation.cache.files import read_features
from nevis_stream.errors import BadInput
from nevis_stream.run_directory.ledger import FILE_NAME
from nevis_stream.vocabulary import HELD_OUT_SPLITS


def import_all(
    paths: Sequence[Path], out: Path, how_file: dict[str, Any], how_run: dict[str, Any]
) -> None:
    """Adds files to the cache `out`, and runs to the caches in the folder `out`.

    Args:
      paths: files and run directories.
      out: a cache, or a folder of caches; created if needed.
      how_file: threshold, range, features and dataset_weights, of files.
      how_run: models, splits, probabilities, stream and trust, of runs.
    """
    for path in paths:
        if not path.exists():
            raise BadInput(f"{path}: no such file or directory.")
        if path.is_dir() and not (path / FILE_NAME).is_file():
            inside = sorted(path.glob(f"*/{FILE_NAME}"))
            merge = (
                " It is a cache: `merge` adds it to another." if (path / INDEX).is_file() else ""
            )
            hint = f" It holds runs: import {path}/*" if inside else merge
            raise BadInput(f"{path}: not a run directory (no {FILE_NAME}).{hint}")
    for path in paths:
        if path.is_dir():
            import_run(path, out, how_run)
        else:
            _import_file(path, out, how_file)
    if weights := how_file["dataset_weights"]:
        one_cache(out).set_dataset_weights(weights)


def _import_file(path: Path, out: Path, how: dict[str, Any]) -> None:
    if not (out / INDEX).is_file() and (
        inside := [cache.parent for cache in sorted(out.glob(f"*/{INDEX}"))]
    ):
        raise BadInput(
            f"{out}: holds caches, {inside[0]} among them; a file goes into one:"
            f" --cache={out / path.stem}"
        )
    features = how["features"] and (lambda samples: read_features(how["features"], samples))
    with bar(f"import {path}") as move:
        table = import_file(
            out,
            path,
            how["threshold"],
            how["range"],
            features,
            lambda stage: move(stage, 0, None),
        )
    for remark in table.remarks:
        print(f"{path}: {remark}")
    print(_size(EvaluationCache(out)))


def import_run(path: Path, out: Path, how: dict[str, Any]) -> None:
    """Adds a run's predictors to the caches of its data sets, a line for each cache."""
    run = KeptRun(path, how.get("stream"), how.get("trust", ()))
    with bar(f"import {path}") as move:
        filled = fill(
            run,
            out,
            which=how.get("which", "all"),
            splits=how.get("splits") or HELD_OUT_SPLITS,
            probabilities=how.get("probabilities", False),
            progress=move,
        )
    for each in filled:
        print(
            f"{path}: {each.models} models new, {flops(each.flops)};"
            f" {_size(EvaluationCache(each.cache))}"
        )
    if not run.ledger.complete:
        print(
            f"{path}: the run is unfinished; import it again later: what is in the cache already"
            " costs nothing."
        )


def merge(paths: Sequence[Path], out: Path) -> None:
    """Adds caches to another; those of a folder to those of the same names in the folder `out`,
    which may be new.
    """
    for path in paths:
        alone = (path / INDEX).is_file() or (out / INDEX).is_file()
        for source in caches_in(path):
            where = out if alone else out / source.directory.name
            target = EvaluationCache(where, create=True, about=source.about)
            with bar(f"merge {source.directory}") as move:
                target.merge(source, move)
            merge_additions(target.directory, source.directory)
            print(f"{source.directory} merged; {_size(target)}")


def export(path: Path, directory: Path) -> None:
    """Writes a cache as one npz file."""
    if path.suffix != ".npz":
        raise BadInput(f"{path}: export writes a file that ends in .npz.")
    export_npz(one_cache(directory), path)
    print(f"written: {path}")


def repair(directory: Path, out: Path) -> None:
    """Writes all that is sound in a cache into a new one, and prints what is left out."""
    cache = one_cache(directory)
    with bar(f"repair {directory}") as move:
        damage = cache.repair(out, lambda stage, done, total: move(stage, done, total or None))
    if not (lines := damage.lines()):
        print(f"{cache.directory}: sound, nothing to repair; {out} was not made")
        return
    print(f"{cache.directory}: {len(lines)} damaged, left out:")
    for line in lines:
        print(f"  {line}")
    print(
        f"everything else is in a new cache; {cache.directory} is unchanged;"
        f" {_size(EvaluationCache(out))}"
    )
    if damage.tiles:
        print(
            "to restore observed values, import the same runs and files again; for predicted ones,"
            " run `add-model` again"
        )


def _size(cache: EvaluationCache) -> str:
    models, samples = cache.shape
    return f"{cache.directory} has {models:,} models × {samples:,} samples"
