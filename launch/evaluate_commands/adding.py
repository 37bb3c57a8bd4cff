"""`launch.evaluate add-model` and `add-samples`: a few cells are asked, the others predicted."""

from pathlib import Path
from typing import Any

from experiments.filling import open_cache
from experiments.oracles import CheckpointOracle
from experiments.predictors import KeptRun, cell_ids, kept_model, provenance
from launch.evaluate_commands.terminal import flops, one_cache
from nevis_stream.dynamic_evaluation import adding, methods
from nevis_stream.dynamic_evaluation.adding import Addition, FileOracle
from nevis_stream.dynamic_evaluation.cache_files import read_outcomes
from nevis_stream.errors import BadInput, unknown


def add_model(directory: Path, model: Path, trial: int | None, name: str | None, how: dict[str, Any]) -> None:
    """Adds a checkpoint of a run, or a model of a file, to a cache and tells what is now known of it."""
    methods.get(how["method"])
    if model.is_dir():
        _add_checkpoint(directory, model, trial, how)
        return
    if not model.exists():
        raise BadInput(f"--model={model}: no such file or checkpoint (RUN/checkpoints/EVENT-TASK).")
    table = read_outcomes(model)
    if name is None and len(table.models) > 1:
        raise BadInput(f"{model}: holds {len(table.models)} models; say which with --name: {', '.join(table.models[:8])} …")
    name = name or table.models[0]
    if name not in table.models:
        raise BadInput(f"{model}: {unknown('model', name, table.models)}")
    _tell(adding.add_model(one_cache(directory), name, FileOracle(table), how["budget"], how["method"], seed=how["seed"]))


def _add_checkpoint(directory: Path, checkpoint: Path, trial: int | None, how: dict[str, Any]) -> None:
    if checkpoint.parent.name != "checkpoints":
        raise BadInput(f"--model={checkpoint}: a checkpoint is a directory RUN/checkpoints/EVENT-TASK.")
    run = KeptRun(checkpoint.parent.parent, how["stream"])
    predictor = kept_model(run, checkpoint, trial)
    cache = one_cache(directory, predictor.task.dataset_id)
    open_cache(cache.directory, run, predictor)
    model = predictor.predictor_id
    oracle = CheckpointOracle({model: (checkpoint, predictor.trial)}, how["stream"])
    facts = provenance(run, predictor)
    _tell(adding.add_model(cache, model, oracle, how["budget"], how["method"], seed=how["seed"], provenance=facts))


def add_samples(directory: Path, file: str | None, splits: list[str], how: dict[str, Any]) -> None:
    """Adds the samples of a file, or splits of the cache's data set that its models' runs have, and tells the account."""
    cache = one_cache(directory)
    if file:
        table = read_outcomes(Path(file))
        samples, oracle = list(table.samples), FileOracle(table)
    else:
        came = {model: facts for model, facts in cache.models().items() if "checkpoint" in facts}
        checkpoints = {model: (Path(facts["checkpoint"]), facts["trial"]) for model, facts in came.items()}
        if not checkpoints:
            raise BadInput(f"{cache.directory}: none of its models came from a run, so none can be asked; give --samples=FILE.")
        first = KeptRun(next(iter(checkpoints.values()))[0].parent.parent, how["stream"])
        task = next(task for task in first.stream.tasks if task.dataset_id == cache.about.get("dataset_id"))
        samples = [cell for part in first.samples(task, splits) for cell in cell_ids(task, part)]
        oracle = CheckpointOracle(checkpoints, how["stream"])
    about = {"file": file} if file else {"dataset_id": cache.about["dataset_id"], "splits": splits}
    _tell(adding.add_samples(cache, samples, oracle, how["budget"], how["method"], seed=how["seed"], provenance=about))


def _tell(addition: Addition) -> None:
    told = addition
    total = told.samples if told.kind == "model" else told.models * int(told.name.split()[0])
    print(f"{told.kind} {told.name}: {told.asked:,} of {total:,} cells observed, the others predicted by {told.method}")
    if told.accuracy is not None:
        print(f"  accuracy {told.accuracy:.4f}{_interval(told.low, told.high)}, by {told.models} known models")
        if told.rank is not None:
            among = f"rank {told.rank} of {told.models + 1}"
            print(f"  {among}" + ("" if told.rank_low is None else f" (95%: {told.rank_low} to {told.rank_high})"))
    print(f"  spent {flops(told.flops_spent)}, saved {flops(told.flops_saved)}")


def _interval(low: float | None, high: float | None) -> str:
    return " (no interval)" if low is None or high is None else f" (95%: {low:.4f} to {high:.4f})"
