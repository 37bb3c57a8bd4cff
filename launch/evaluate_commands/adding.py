"""`launch.evaluate add-model` and `add-samples`: a few cells are asked, the others predicted."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from experiments.filling import open_cache
from experiments.oracles import CheckpointOracle
from experiments.predictors import KeptRun, cell_ids, kept_model, provenance
from launch.data_commands.terminal import bar
from launch.evaluate_commands.terminal import budget, flops, one_cache
from nevis_stream.dynamic_evaluation import adding, methods
from nevis_stream.dynamic_evaluation.adding import FileOracle, Observed, Oracle
from nevis_stream.dynamic_evaluation.additions import Addition
from nevis_stream.dynamic_evaluation.cache import EvaluationCache
from nevis_stream.dynamic_evaluation.cache.files import read_values
from nevis_stream.errors import BadInput, unknown
from nevis_stream.run_directory.ledger import FILE_NAME


def add_model(
    directory: Path, model: Path, trial: int | None, name: str | None, how: dict[str, Any]
) -> None:
    """Adds models to caches and tells what is now known of them.

    Args:
      directory: a cache, or a folder of caches.
      model: a checkpoint of a run, a run (all predictors that it keeps), or a file of outcomes.
      trial: which of the checkpoint's; None: the chosen one.
      name: which of the file's models; None: all.
      how: budget, method, seed and stream.
    """
    methods.get(how["method"])
    if trial is not None and (not model.is_dir() or model.parent.name != "checkpoints"):
        raise BadInput(
            f"--trial={trial} is of one checkpoint, RUN/checkpoints/EVENT-TASK, and --model={model}"
            " is none."
        )
    if name is not None and model.is_dir():
        raise BadInput(f"--name={name} is of a file, and --model={model} is a directory.")
    if model.is_dir():
        _add_predictors(directory, model, trial, how)
        return
    if not model.exists():
        raise BadInput(
            f"--model={model}: no such file, checkpoint (RUN/checkpoints/EVENT-TASK) or run."
        )
    table = read_values(model)
    if name is not None and name not in table.models:
        raise BadInput(f"{model}: {unknown('model', name, table.models)}")
    _add(
        one_cache(directory),
        table.models if name is None else [name],
        FileOracle(table, str(model)),
        how,
    )


def _add_predictors(directory: Path, path: Path, trial: int | None, how: dict[str, Any]) -> None:
    """Adds predictors of a run, each to the cache of its data set."""
    if path.parent.name == "checkpoints":
        run = KeptRun(path.parent.parent, how["stream"])
        chosen = [kept_model(run, path, trial)]
    else:
        run = KeptRun(path, how["stream"])
        chosen = run.predictors
    for dataset_id in dict.fromkeys(predictor.task.dataset_id for predictor in chosen):
        mine = [predictor for predictor in chosen if predictor.task.dataset_id == dataset_id]
        cache = open_cache(one_cache(directory, dataset_id).directory, run, mine[0])
        checkpoints = {
            predictor.predictor_id: (predictor.checkpoint, predictor.trial) for predictor in mine
        }
        facts = [provenance(run, predictor) for predictor in mine]
        _add(cache, list(checkpoints), CheckpointOracle(checkpoints, how["stream"]), how, facts)


def _add(
    cache: EvaluationCache,
    models: list[str],
    oracle: Oracle,
    how: dict[str, Any],
    facts: list | None = None,
) -> None:
    cells = budget(how["budget"], cache.shape[1])
    with bar(f"{cache.directory.name}, {how['method']}") as move:
        asked = _Shown(oracle, move, cells * len(models))
        told = adding.add_models(
            cache, models, asked, cells, how["method"], seed=how["seed"], provenances=facts
        )
    for account in told:
        _tell(account)


def add_samples(directory: Path, file: str | None, splits: list[str], how: dict[str, Any]) -> None:
    """Adds the samples of a file, or splits of the cache's data set that its models' runs have, and
    tells the account.
    """
    cache = one_cache(directory)
    if file:
        table = read_values(Path(file))
        samples, oracle = list(table.samples), FileOracle(table, file)
    else:
        checkpoints = _checkpoints(cache, [Path(path) for path in how["run_dirs"]])
        first = KeptRun(
            next(path for path, _ in checkpoints.values() if path.is_dir()).parent.parent,
            how["stream"],
        )
        task = next(
            task for task in first.stream.tasks if task.dataset_id == cache.about.get("dataset_id")
        )
        samples = [cell for part in first.samples(task, splits) for cell in cell_ids(task, part)]
        oracle = CheckpointOracle(checkpoints, how["stream"])
    about = {"file": file} if file else {"dataset_id": cache.about["dataset_id"], "splits": splits}
    cells = budget(how["budget"], cache.shape[0])
    with bar(f"{cache.directory.name}, {how['method']}") as move:
        asked = _Shown(oracle, move, cells * len(samples))
        told = adding.add_samples(
            cache, samples, asked, cells, how["method"], seed=how["seed"], provenance=about
        )
    _tell(told)


def _checkpoints(cache: EvaluationCache, run_dirs: Sequence[Path]) -> dict[str, tuple[Path, int]]:
    """Returns where the predictors of a cache's models lie, and their trials.

    Args:
      cache: its models' provenance tells where they lay.
      run_dirs: runs, or folders of runs, where those lie that were moved; a run is known by its
        folder's name.
    """
    came = {model: facts for model, facts in cache.models().items() if "checkpoint" in facts}
    if not came:
        raise BadInput(
            f"{cache.directory}: none of its models came from a run, so none can be asked; give"
            " --samples=FILE."
        )
    moved = {}
    for folder in run_dirs:
        runs = [
            path.parent
            for path in (folder / FILE_NAME, *sorted(folder.glob(f"*/{FILE_NAME}")))
            if path.is_file()
        ]
        if not runs:
            raise BadInput(
                f"--run_dir={folder}: is no run directory and holds none (no {FILE_NAME})."
            )
        moved |= {run.resolve().name: run for run in runs}
    found = {}
    for model, facts in came.items():
        path = Path(facts["checkpoint"])
        if not path.is_dir() and (name := Path(facts["run"]).name) in moved:
            path = moved[name] / "checkpoints" / path.name
        found[model] = path, facts["trial"]
    if not any(path.is_dir() for path, _ in found.values()):
        runs = sorted({facts["run"] for facts in came.values()})
        raise BadInput(
            f"{cache.directory}: its models' checkpoints are not where they were, {runs[0]} for one"
            f" ({len(runs)} runs). Say where the runs lie now: --run_dir=FOLDER; or give"
            " --samples=FILE."
        )
    return found


class _Shown:
    """An oracle that shows how many of the cells it has been asked."""

    def __init__(self, oracle: Oracle, move: Callable[[str, int, int], None], cells: int):
        self._oracle, self._move, self._cells, self._done = oracle, move, cells, 0
        move("learning from the known models", 0, cells)

    def answer(self, model: str, samples: Sequence[str]) -> Observed:
        """Asks, and moves the bar."""
        told = self._oracle.answer(model, samples)
        self._done += len(samples)
        self._move("asked", self._done, self._cells)
        return told


def _tell(addition: Addition) -> None:
    told = addition
    total = told.samples if told.kind == "model" else told.models * int(told.name.split()[0])
    others = (
        f", the others predicted by {told.method}"
        if told.asked < total
        else "; nothing is left to predict"
    )
    print(f"{told.kind} {told.name}: {told.asked:,} of {total:,} cells observed{others}")
    if told.accuracy is not None:
        print(
            f"  accuracy {told.accuracy:.4f}{_interval(told)}, by {told.models} known"
            f" model{'s'[: told.models != 1]}"
        )
        if told.rank is not None:
            among = f"rank {told.rank} of {told.models + 1}"
            print(
                f"  {among}"
                + ("" if told.rank_low is None else f" (95%: {told.rank_low} to {told.rank_high})")
            )
    print(f"  spent {flops(told.flops_spent)}, saved {flops(told.flops_saved)}")


def _interval(told: Addition) -> str:
    return (
        f" (no interval: {told.reason})"
        if told.low is None
        else f" (95%: {told.low:.4f} to {told.high:.4f})"
    )
