"""`launch.evaluate add-model` and `add-samples`: a few cells are asked, the others predicted."""

from collections.abc import Callable, Sequence
from functools import cache as cached
from functools import partial
from pathlib import Path
from typing import Any

from experiments.checkpoint_ask import CheckpointAsk, MovableCheckpoint
from experiments.filling import open_cache
from experiments.predictors import KeptRun, cell_ids, kept_model, provenance, sample_facts
from launch.evaluate_commands.caches import budget, one_cache
from launch.terminal import bar, flops
from nevis_stream.dynamic_evaluation import adding, methods
from nevis_stream.dynamic_evaluation.additions import Addition
from nevis_stream.dynamic_evaluation.asking import Answers, Ask, Cells
from nevis_stream.dynamic_evaluation.cache import EvaluationCache
from nevis_stream.dynamic_evaluation.cache.entries import EACH
from nevis_stream.dynamic_evaluation.cache.exchange import read_for
from nevis_stream.dynamic_evaluation.file_ask import FileAsk
from nevis_stream.dynamic_evaluation.sample_groups import means_by_group
from nevis_stream.errors import BadInput, unknown
from nevis_stream.run_directory.ledger import FILE_NAME

_MOST_GROUPS = 40  # lines of means by group


def add_model(
    directory: Path, model: Path, trial: int | None, name: str | None, how: dict[str, Any]
) -> None:
    """Adds models to caches and prints what is now known of them.

    Args:
      directory: a cache, or a folder of caches.
      model: a checkpoint of a run, a run (all predictors that it keeps), or a file of outcomes.
      trial: which of the checkpoint's; None: the chosen one.
      name: which of the file's models; None: all.
      how: budget, method, seed, stream, trust, and range (of a file's scores).
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
    cache = one_cache(directory)
    table = read_for(cache, model, how["range"])
    if name is not None and name not in table.models:
        raise BadInput(f"{model}: {unknown('model', name, table.models)}")
    wanted = table.models if name is None else [name]
    asks = {each: FileAsk(table, each, cache.samples, str(model)) for each in wanted}
    _add(cache, asks, how)


def _add_predictors(directory: Path, path: Path, trial: int | None, how: dict[str, Any]) -> None:
    """Adds predictors of a run, each to the cache of its data set."""
    if path.parent.name == "checkpoints":
        run = KeptRun(path.parent.parent, how["stream"], how["trust"])
        chosen = [kept_model(run, path, trial)]
    else:
        run = KeptRun(path, how["stream"], how["trust"])
        chosen = [predictor for predictor in run.predictors if predictor.checkpoint]
    for dataset_id in dict.fromkeys(predictor.task.dataset_id for predictor in chosen):
        mine = [predictor for predictor in chosen if predictor.task.dataset_id == dataset_id]
        cache = open_cache(one_cache(directory, dataset_id).directory, run, mine[0])
        asks = {each.predictor_id: CheckpointAsk(run, each, cache.samples) for each in mine}
        facts = {}
        for each in mine:
            flops_each = run.flops_each(each)
            price = {} if flops_each is None else {EACH: flops_each}
            facts[each.predictor_id] = provenance(run, each) | price
        _add(cache, asks, how, facts)


def _add(
    cache: EvaluationCache, asks: dict[str, Ask], how: dict[str, Any], facts: dict | None = None
) -> None:
    cells = budget(how["budget"], cache.shape[1])
    with bar(f"{cache.directory.name}, {how['method']}") as move:
        shown = _shown(asks, move, cells * len(asks))
        accounts = adding.add_models(
            cache, shown, cells, how["method"], seed=how["seed"], provenances=facts
        )
    for account in accounts:
        _tell(account)
        _print_groups(cache, account.name)


def _print_groups(cache: EvaluationCache, model: str) -> None:
    """Prints a model's mean by data set and group, of observed and predicted values."""
    groups = means_by_group(cache.facts(), cache.matrix([model], predicted=True))
    if len(groups) < 2:
        return
    rounded = "" if cache.scores else ", each predicted as 0 or 1"
    print(f"  means of observed and predicted cells{rounded}, which need not match the accuracy:")
    for each in groups[:_MOST_GROUPS]:
        name = f"{each.dataset} {each.group}".strip()
        print(
            f"  {name}: mean {each.means[0]:.4g} (range {each.low:g} to {each.high:g}),"
            f" {each.samples:,} samples"
        )
    if len(groups) > _MOST_GROUPS:
        print(f"  and {len(groups) - _MOST_GROUPS} more groups")


def add_samples(directory: Path, file: str | None, splits: list[str], how: dict[str, Any]) -> None:
    """Adds the samples of a file, or splits of the cache's data set that its models' runs have, and
    prints the account.
    """
    cache = one_cache(directory)
    if file:
        table = read_for(cache, file, how["range"])
        samples = list(table.samples)
        mine = [model for model in cache.models() if model in set(table.models)]
        asks = {model: FileAsk(table, model, partial(_chosen, samples), file) for model in mine}
        about = [{"file": file} | each for each in table.sample_provenance]
    else:
        open_run = cached(lambda run_dir: KeptRun(run_dir, how["stream"], how["trust"]))
        checkpoints = _checkpoints(cache, [Path(path) for path in how["run_dirs"]])
        first = open_run(
            next(path for path, _ in checkpoints.values() if path.is_dir()).parent.parent
        )
        task = next(
            task for task in first.stream.tasks if task.dataset_id == cache.about.get("dataset_id")
        )
        parts = first.samples(task, splits)
        samples = [cell for part in parts for cell in cell_ids(task, part)]
        asks = {
            model: MovableCheckpoint(model, path, trial, open_run, partial(_chosen, samples))
            for model, (path, trial) in checkpoints.items()
        }
        about = [
            facts
            for split, part in zip(splits, parts, strict=True)
            for facts in sample_facts(task, split, part)
        ]
    cells = budget(how["budget"], cache.shape[0])
    with bar(f"{cache.directory.name}, {how['method']}") as move:
        shown = _shown(asks, move, cells * len(samples))
        account = adding.add_samples(
            cache, samples, shown, cells, how["method"], seed=how["seed"], provenances=about
        )
    _tell(account)


def _chosen(samples: Sequence[str], columns: Sequence[int]) -> list[str]:
    return [samples[column] for column in columns]


def _checkpoints(cache: EvaluationCache, run_dirs: Sequence[Path]) -> dict[str, tuple[Path, int]]:
    """Returns the checkpoints of a cache's models, and their trials.

    Args:
      cache: its models' provenance names where they were.
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
            f" ({len(runs)} runs). Give the folder that has the runs now: --run_dir=FOLDER; or give"
            " --samples=FILE."
        )
    return found


def _shown(
    asks: dict[str, Ask], move: Callable[[str, int, int], None], cells: int
) -> dict[str, Ask]:
    """Returns the same, which also move a bar over all cells that will be asked."""
    done = 0
    move("learning from the known models", 0, cells)

    def moving(ask: Ask) -> Ask:
        def call(wanted: Cells) -> Answers:
            nonlocal done
            answers = ask(wanted)
            done += wanted.samples.size
            move("asked", done, cells)
            return answers

        return call

    return {model: moving(ask) for model, ask in asks.items()}


def _tell(addition: Addition) -> None:
    models = addition.models
    several = addition.kind == "samples"
    total = models * int(addition.name.split()[0]) if several else addition.samples
    others = (
        f", the others predicted by {addition.method}"
        if addition.asked < total
        else "; nothing is left to predict"
    )
    name = f"{addition.kind} {addition.name}"
    print(f"{name}: {addition.asked:,} of {total:,} cells observed{others}")
    if addition.accuracy is not None:
        print(
            f"  accuracy {addition.accuracy:.4f}{_interval(addition)}, from {models} known"
            f" model{'s'[: models != 1]}"
        )
        if addition.rank is not None:
            low, high = addition.rank_low, addition.rank_high
            among = "" if low is None else f" (95%: {low} to {high})"
            print(f"  rank {addition.rank} of {models + 1}{among}")
    method = f"the method itself: {flops(addition.flops_method)}"
    print(f"  spent {flops(addition.flops_spent)} ({method}), saved {flops(addition.flops_saved)}")


def _interval(addition: Addition) -> str:
    return (
        f" (no interval: {addition.reason})"
        if addition.low is None
        else f" (95%: {addition.low:.4f} to {addition.high:.4f})"
    )
