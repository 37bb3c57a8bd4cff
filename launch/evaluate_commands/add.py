"""`launch.evaluate add-model` and `add-samples`: a few cells are asked, the others predicted."""

from collections.abc import Mapping, Sequence
from functools import cache as cached
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from absl.flags import FlagValues

from nevis_stream.additions import models as added_models
from nevis_stream.additions import samples as added_samples
from nevis_stream.configs.recorded import open_run
from nevis_stream.dynamic_evaluation import methods
from nevis_stream.dynamic_evaluation.estimates import (
    Population,
    compute_group_means,
    read_population,
)
from nevis_stream.dynamic_evaluation.session_view import rank_failures
from nevis_stream.errors import BadInput, plural, unknown
from nevis_stream.evaluation_cache import EvaluationCache, make_cache_board
from nevis_stream.evaluation_cache.additions import Addition
from nevis_stream.evaluation_cache.entries import CHECKPOINT, FLOPS_PER_SAMPLE
from nevis_stream.evaluation_cache.exchange import FileOracle, read_for_cache
from nevis_stream.evaluation_cache.importers import is_log
from nevis_stream.evaluation_cache.records import Imported
from nevis_stream.launch import entry
from nevis_stream.launch.command_line import format_flops, print_groups, print_import
from nevis_stream.launch.evaluate_commands.flags import (
    get_reading_choices,
    open_one_cache,
    parse_count_or_price,
    parse_sample_count,
)
from nevis_stream.progress import Progress, Silent, Within
from nevis_stream.queries.board import convert_budget
from nevis_stream.queries.oracle import (
    Oracle,
    Query,
    Responses,
)
from nevis_stream.queries.samples import Part, is_observed
from nevis_stream.run_directory.ledger import FILE_NAME
from nevis_stream.storage import write_file
from nevis_stream.storage.reading import explain_absence, locate, resolve_path
from nevis_stream.storage.tables import encode_csv
from nevis_stream.terminal import TerminalProgress
from nevis_stream.trained_runs.caches import (
    CheckpointOracle,
    MovedCheckpointOracle,
    find_task,
    open_cache,
)
from nevis_stream.trained_runs.predictors import (
    KeptRun,
    describe_predictor,
    find_predictor,
    list_cell_ids,
    sample_facts,
)

_OUTCOMES = Part("", np.arange(0), lower=False, unbounded=False, low=0.0, high=1.0)
_FILE_REMEDY = "Add their values on the new samples to the file."
_RUN_REMEDY = (
    "If their runs were moved, give the folder, --run_dir=FOLDER; for models without a run or a"
    " checkpoint, give their values, --samples=FILE."
)


def add_model(_: Sequence[str], values: FlagValues) -> None:
    """Adds the models of --model to the cache --cache, or to the caches in that folder, and prints
    the estimates.
    """
    _check(values)
    model = Path(values.model)
    if values.trial is not None and (not model.is_dir() or model.parent.name != "checkpoints"):
        raise BadInput(
            f"--trial={values.trial} needs a checkpoint, RUN/checkpoints/EVENT-TASK;"
            f" --model={model} is not one."
        )
    if values.name is not None and model.is_dir() and not is_log(model):
        raise BadInput(f"--name={values.name} needs a file; --model={model} is a directory.")
    if model.is_dir() and not is_log(model):
        _add_predictors(model, values)
        return
    if not (model.is_file() or model.is_dir()):
        raise BadInput(
            f"--model={model}: {explain_absence(model)}. It is a file, a checkpoint"
            " (RUN/checkpoints/EVENT-TASK) or a run."
        )
    cache = open_one_cache(Path(values.cache), to_change=True)
    if not all(cache.shape):
        raise BadInput(
            f"{cache.directory}: has no model yet; to add some: python -m launch.evaluate import"
            f" FILE --cache={cache.directory}"
        )
    table = read_for_cache(cache, model, **get_reading_choices(values))
    if values.name is not None and values.name not in table.models:
        raise BadInput(f"{model}: {unknown('model', values.name, table.models)}")
    names = table.models if values.name is None else [values.name]
    oracles = {name: FileOracle(table, name, cache.samples, str(model)) for name in names}
    columns = cache.samples()
    available = {name: oracle.available(columns) for name, oracle in oracles.items()}
    if not any(each.any() for each in available.values()):
        raise BadInput(
            f"{model}: has none of the cache's samples, for example {columns[0]!r}; its own are"
            f" named like {table.samples[0]!r}."
        )
    print_import(str(model), Imported(model.name, table.remarks, table.left_out))
    stated = dict(
        zip(table.models, table.model_provenance or [{}] * len(table.models), strict=True)
    )
    _add(cache, oracles, values, {name: stated[name] for name in names}, available, from_file=True)


def _check(values: FlagValues) -> None:
    """Refuses an invalid budget or method before anything is read; compiled programs are kept."""
    if "prices" in values:
        parse_count_or_price(values.budget)
    else:
        parse_sample_count(values.budget)
    if "assume" in values:
        values.method = methods.apply_assumption(values.method, values.assume)
    if values.method is not None:
        methods.get_within_budget(values.method)
    entry.use_compilation_cache()


def _add_predictors(path: Path, values: FlagValues) -> None:
    """Adds predictors of a run, each to the cache of its data set.

    Args:
      path: a run, or one of its checkpoints.
      values: the flags.
    """
    is_checkpoint = path.parent.name == "checkpoints"
    run = open_run(path.parent.parent if is_checkpoint else path, values.stream, values.trust)
    if is_checkpoint:
        predictors = [find_predictor(run, path, values.trial)]
    else:
        predictors = [predictor for predictor in run.predictors if predictor.checkpoint]
    _ = run.learner  # trusted and importable, or an error before anything is computed
    dataset_ids = list(dict.fromkeys(predictor.task.dataset_id for predictor in predictors))
    if values.failures is not None and len(dataset_ids) > 1:
        raise BadInput(
            f"--failures={values.failures}: one file is for one data set; {path} has models of"
            f" {len(dataset_ids)}. Add a checkpoint, RUN/checkpoints/EVENT-TASK, at a time."
        )
    for dataset_id in dataset_ids:
        added = {p.predictor_id: p for p in predictors if p.task.dataset_id == dataset_id}
        directory = open_one_cache(Path(values.cache), dataset_id, to_change=True).directory
        cache = open_cache(directory, run, next(iter(added.values())))
        oracles = {name: CheckpointOracle(run, each, cache.samples) for name, each in added.items()}
        flops_each = {name: run.flops_each(predictor) for name, predictor in added.items()}
        provenances = {
            name: describe_predictor(run, predictor, directory)
            | ({} if flops_each[name] is None else {FLOPS_PER_SAMPLE: flops_each[name]})
            for name, predictor in added.items()
        }
        _add(cache, oracles, values, provenances)


def _add(
    cache: EvaluationCache,
    oracles: Mapping[str, Oracle],
    values: FlagValues,
    provenances: Mapping[str, dict[str, Any]] | None = None,
    available: Mapping[str, np.ndarray] | None = None,
    from_file: bool = False,
) -> None:
    if values.failures is not None and cache.scores:
        raise BadInput("--failures: the cache has scores, of which none is a failure.")
    facts = cache.facts()
    kind = "samples" if facts.image is None or available else "images"
    size = facts.n if available and facts.prompt is None else facts.points
    given = parse_count_or_price(values.budget, size, kind, cache)
    budget = given
    if isinstance(given, str) or values.prices is not None:
        budget = convert_budget(make_cache_board(cache), given, values.prices)
    population = read_population(make_cache_board(cache), values.population, values.clusters)
    count = given if isinstance(given, int) else 0
    expected: dict[str, np.ndarray] = {}
    complete = added_models.find_complete_models(cache, list(oracles), population)
    before = added_models.count_observed_cells(cache, list(oracles))
    measure = _name_measure(cache)
    parts = {part.name: part for part in facts.parts}
    for model in complete:
        _print_complete(model, measure, parts[model.dataset], population)
    title = f"{cache.directory.name}, {values.method or methods.DEFAULT}"
    with TerminalProgress(title, lines=len(complete) < len(oracles)) as progress:
        metrics = 1 if size == facts.n else facts.n // facts.points
        asking = _Asking(progress, count * metrics * (len(oracles) - len(complete)))
        asking.stage("learning from the known models")
        added = added_models.add_models(
            cache,
            asking.count_answers(oracles),
            budget,
            values.method,
            seed=values.seed,
            provenances=provenances,
            available=available,
            drawn=values.answered == "random",
            population=population,
            progress=asking,
            report_values=expected.__setitem__,
        )
    if facts.prompt is not None:
        asked_parts = [part.name for part in facts.parts if part.asked_with is None]
        print(
            f"{cache.directory}: each answer gives several metrics; samples are chosen by"
            f" {', '.join(asked_parts)}"
        )
    elif len(parts) > 1:
        print(
            f"{cache.directory}: its {len(parts)} data sets differ in direction or range, so there"
            " is no mean of all: estimate, interval and rank are of each data set"
        )
    for addition in added:
        earlier = before[addition.name] if len(parts) == 1 else 0
        _print_addition(addition, earlier, from_file, measure, parts[addition.dataset or ""])
    if values.failures is not None:
        _write_failures(cache, expected, values.failures)
    for name, values_of_model in expected.items():
        print_groups(
            f"{name}: means of observed and expected values by data set and group, without"
            f" intervals; the {measure} above need not be their average, since it is corrected as a"
            " whole",
            compute_group_means(cache.facts(), values_of_model[None]),
        )


def _write_failures(cache: EvaluationCache, expected: Mapping[str, np.ndarray], file: str) -> None:
    """Writes a csv of the samples on which each model most likely fails."""
    import pandas as pd  # takes a third of a second

    tables = [
        rank_failures(cache.samples(), row, is_observed(cache.matrix([model])[0])).assign(
            model=model
        )
        for model, row in expected.items()
    ]
    if tables:
        content = encode_csv(pd.concat(tables)[["model", "sample", "probability"]])
        write_file(Path(file), content)
        print(f"the samples on which they most likely fail are in {file}")


def fit(_: Sequence[str], values: FlagValues) -> None:
    """Fits a method to the known models of the cache --cache and stores the fit there."""
    _check(values)
    cache = open_one_cache(Path(values.cache))
    facts = cache.facts()
    kind = "samples" if facts.image is None else "images"
    cells = parse_sample_count(values.budget, facts.points, kind, cache)
    with TerminalProgress(f"fit {cache.directory.name}") as progress:
        name, cost = added_models.fit_to_cache(
            cache,
            cells,
            values.method,
            seed=values.seed,
            progress=Within(progress, "fit"),
        )
    print(
        f"{name} is fitted for a budget of {cells}: {format_flops(cost)}, charged to the first"
        " model that is added with it"
    )


def add_samples(_: Sequence[str], values: FlagValues) -> None:
    """Adds the samples of a file, or splits of the cache's data set as its models' runs have them,
    to the cache --cache, and prints what was added.
    """
    if bool(values.samples) == bool(values.splits):
        raise BadInput("add-samples needs either --samples=FILE or --splits=NAME.")
    _check(values)
    cache = open_one_cache(Path(values.cache), to_change=True)
    oracles: dict[str, Oracle]
    if values.samples:
        table = read_for_cache(cache, values.samples, **get_reading_choices(values))
        source = Path(values.samples)
        print_import(str(source), Imported(source.name, table.remarks, table.left_out))
        samples = list(table.samples)
        models = [model for model in cache.models() if model in set(table.models)]
        oracles = {
            model: FileOracle(table, model, partial(_choose, samples), values.samples)
            for model in models
        }
        provenances = [{"file": source.name} | each for each in table.sample_provenance]
    else:

        @cached
        def open_same(run_dir: Path) -> KeptRun:
            """Opens a run on the data of the cache."""
            run = open_run(run_dir, values.stream, values.trust)
            find_task(cache, run)
            return run

        checkpoints = _checkpoints(cache, [Path(path) for path in values.run_dir])
        first = next(path for path, _ in checkpoints.values())
        run = open_same(first.parent.parent)
        _ = run.learner  # trusted and importable, or an error before anything is computed
        task = find_task(cache, run)
        parts = run.samples(task, values.splits)
        samples = [cell for part in parts for cell in list_cell_ids(task, part)]
        oracles = {
            model: MovedCheckpointOracle(model, path, trial, open_same, partial(_choose, samples))
            for model, (path, trial) in checkpoints.items()
        }
        provenances = [
            facts
            for split, part in zip(values.splits, parts, strict=True)
            for facts in sample_facts(task, split, part)
        ]
    cells = parse_sample_count(values.budget, cache.shape[0], "models", cache)
    if set(samples) <= set(cache.samples()) and is_observed(cache.matrix(None, samples)).all():
        print(f"{plural(len(samples), 'sample')}: already complete: nothing to ask")
        return
    with TerminalProgress(f"{cache.directory.name}, {values.method}", lines=True) as progress:
        asking = _Asking(progress, cells * len(samples))
        asking.stage("learning from the known models")
        addition = added_samples.add_samples(
            cache,
            samples,
            asking.count_answers(oracles),
            cells,
            values.method,
            seed=values.seed,
            provenances=provenances,
            source=values.samples or str(cache.directory),
            remedy=_FILE_REMEDY if values.samples else _RUN_REMEDY,
            progress=asking,
        )
    _print_addition(addition, from_file=bool(values.samples))


def _choose(samples: Sequence[str], columns: Sequence[int]) -> list[str]:
    return [samples[column] for column in columns]


def _checkpoints(cache: EvaluationCache, run_dirs: Sequence[Path]) -> dict[str, tuple[Path, int]]:
    """Returns the checkpoints of a cache's models, and their trials.

    Args:
      cache: the provenance of its models names their checkpoints.
      run_dirs: runs that were moved, or folders of such runs; a run is recognised by the name of
        its directory.
    """
    provenances = {model: facts for model, facts in cache.models().items() if CHECKPOINT in facts}
    if not provenances:
        raise BadInput(
            f"{cache.directory}: none of its models came from a run, so none can be evaluated; give"
            " --samples=FILE."
        )
    moved = {}
    for folder in run_dirs:
        ledgers = [folder / FILE_NAME, *sorted(folder.glob(f"*/{FILE_NAME}"))]
        runs = [ledger.parent for ledger in ledgers if ledger.is_file()]
        if not runs:
            raise BadInput(
                f"--run_dir={folder}: is neither a run directory nor a folder of them (no"
                f" {FILE_NAME})."
            )
        moved |= {resolve_path(run).name: run for run in runs}
    checkpoints, missing = {}, set()
    for model, facts in provenances.items():
        path = Path(locate(facts[CHECKPOINT], cache.directory))
        run = path.parent.parent
        missing.add(str(run))
        if not path.is_dir() and run.name in moved:
            path = moved[run.name] / "checkpoints" / path.name
        if path.is_dir():
            checkpoints[model] = path, facts["trial"]
    if not checkpoints:
        raise BadInput(
            f"{cache.directory}: the runs of its models are no longer where they were, for example"
            f" {min(missing)} ({len(missing)} runs). If they were moved, give their folder:"
            " --run_dir=FOLDER; or give --samples=FILE."
        )
    return checkpoints


class _Asking(Silent):
    """Reports the stage of an addition with the number of answers so far.

    Args:
      progress: is told them.
      cells: number of cells that will be asked.
    """

    def __init__(self, progress: Progress, cells: int):
        self._progress, self._cells, self._done = progress, cells, 0

    def stage(self, name: str, done: int = 0, total: int | None = None) -> None:
        """A stage begins."""
        self._progress.stage(name, self._done, self._cells)

    def count_answers(self, oracles: Mapping[str, Oracle]) -> dict[str, Oracle]:
        """Returns oracles that also report the number of answers."""
        return {model: self._count_answers(oracle) for model, oracle in oracles.items()}

    def _count_answers(self, oracle: Oracle) -> Oracle:
        def call(wanted: Query) -> Responses:
            answers = oracle(wanted)
            self._done += wanted.samples.size
            self.stage("asking")
            return answers

        return call


def _name_measure(cache: EvaluationCache) -> str:
    """Returns what a model's mean over all samples is called."""
    lower = any(part.lower for part in cache.facts().parts)
    return "mean score" if cache.scores else "mean" if lower else "accuracy"


def _print_complete(
    model: added_models.CompleteModel, measure: str, part: Part, population: Population | None
) -> None:
    where = f" on {model.dataset}" if model.dataset else ""
    print(f"model {model.name}{where}: already complete: nothing to ask")
    mean, low, high = map(part.unscale, (model.accuracy, model.low, model.high))
    interval = "" if np.isnan(low) else f" (95%: {low:.4f} to {high:.4f})"
    print(f"  {measure} {mean:.4f}{interval}, rank {model.rank} of {model.models} known models")
    if interval:
        print(f"  it is of the mean over {population}")


def _print_addition(
    addition: Addition,
    before: int = 0,
    from_file: bool = False,
    measure: str = "accuracy",
    part: Part = _OUTCOMES,
) -> None:
    """Prints an addition.

    Args:
      addition: what was added, and how well it is known.
      before: number of cells that were observed before.
      from_file: whether the answers came from a file.
      measure: what a model's mean is called.
      part: the samples that it is a mean of; it is printed in their range.
    """
    models = addition.models
    new_samples = int(addition.name.split()[0]) if addition.kind == "samples" else 0
    total = models * new_samples or addition.samples
    complete = addition.asked == total
    earlier = f" ({before:,} of them before)" if before else ""
    others = f", the others predicted by {addition.method}"
    if complete:
        others = "; nothing is left to predict"
    name = f"{addition.kind} {addition.name}" + (f" on {addition.dataset}" * bool(addition.dataset))
    print(f"{name}: {addition.asked:,} of {total:,} cells observed{earlier}{others}")
    if addition.accuracy is not None:
        estimate = addition.estimate.scaled_to(part)
        interval = f"no interval: {estimate.reason}"
        if addition.low is not None:
            low, high, holds_for = estimate.low, estimate.high, estimate.holds_for
            interval = f"95%: {low:.4f} to {high:.4f}, for {holds_for}"
        known = f"{models:,} known model{'s'[: models != 1]}"
        samples = f"{addition.budget:,} sample{'s'[: addition.budget != 1]}"
        basis = f"estimated by {addition.method} from {samples} and {known}"
        if complete:
            basis = "the mean of all samples"
        print(f"  {measure} {estimate.value:.4f} ({interval}), {basis}")
        print(f"  it is of the mean over {estimate.mean_over}")
        for text in filter(None, (estimate.note, estimate.other_text)):
            print(f"  {text}")
    if addition.rank is not None:
        low, high = addition.rank_low, addition.rank_high
        interval = "" if low is None else f" (95%: {low} to {high})"
        best = ", the lowest is the best" if addition.lower else ""
        print(f"  rank {addition.rank} of {models + 1}{interval}{best}")
    elif addition.accuracy is not None:
        print("  no rank: the samples that were answered do not stand for all")
    if addition.failed:
        print(f"  {addition.failed:,} samples were asked without an answer; see the warning")
    if addition.spending is not None:
        print(f"  {addition.spending}")
    print(f"  {_cost_text(addition, from_file)}")


def _cost_text(addition: Addition, from_file: bool) -> str:
    method = f"the method itself: {format_flops(addition.flops_method)}"
    if addition.flops_spent is None:
        where = " in the file" if from_file else ""
        return f"cost of the answers: not recorded{where}; {method}"
    spent = f"spent {format_flops(addition.flops_spent)} ({method})"
    if addition.flops_saved is None:
        return f"{spent}; the cost of the other answers is not recorded"
    return f"{spent}, saved {format_flops(addition.flops_saved)}"
