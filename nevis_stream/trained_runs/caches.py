"""Predictors of runs in evaluation caches: kept predictors × samples of their data sets fill them,
and models of a cache whose checkpoints are there run on exactly the samples that are asked.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nevis_stream.datasets.dataset import SINGLE_LABEL, Samples
from nevis_stream.errors import BadInput, unknown
from nevis_stream.evaluation_cache import EvaluationCache
from nevis_stream.evaluation_cache.entries import FLOPS_PER_SAMPLE
from nevis_stream.evaluation_cache.exchange import IdsOfColumns
from nevis_stream.progress import SILENT, Progress
from nevis_stream.queries.oracle import Cost, Query, Responses
from nevis_stream.queries.samples import UNKNOWN
from nevis_stream.streams.task import Task
from nevis_stream.trained_runs.predictors import (
    KeptPredictor,
    KeptRun,
    describe_predictor,
    find_predictor,
    list_cell_ids,
    sample_facts,
    sample_id,
)
from nevis_stream.user_code import Untrusted
from nevis_stream.vocabulary import HELD_OUT_SPLITS, KEEP, POOL


@dataclass(frozen=True)
class FilledCache:
    """The number of models that were added to a cache, and the FLOPs of their answers."""

    cache: Path
    models: int
    flops: int


def fill(
    run: KeptRun,
    out: Path,
    *,
    which: str = "all",
    splits: Sequence[str] = HELD_OUT_SPLITS,
    probabilities: bool = False,
    progress: Progress = SILENT,
) -> list[FilledCache]:
    """Adds a run's predictors to caches, one for each data set: `out/DATASET_ID`.

    Answers that are in a cache already are not computed again. Rows are predictor ids, columns
    sample ids; in multi-label tasks there is a column `SAMPLE#LABEL` for each label of a sample.

    Args:
      run: the run.
      out: folder of the caches.
      which: "all" kept predictors, or each task's "chosen" one.
      splits: the splits that the predictors answer.
      probabilities: whether the classes' probabilities are kept too (single-label tasks).
      progress: is told the stages.

    Raises:
      BadInput: an unknown choice, or a cache of other data under the same name.
    """
    if which not in KEEP:
        raise BadInput(unknown("models", which, KEEP))
    for split in splits:
        if split not in (*HELD_OUT_SPLITS, POOL):
            raise BadInput(unknown("split", split, (*HELD_OUT_SPLITS, POOL)))
    predictors = [p for p in run.predictors if which == "all" or p.chosen]
    if not predictors:
        raise BadInput(f"{run.path}: contains neither checkpoints nor recorded answers.")
    added: dict[str, FilledCache] = {}
    for done, predictor in enumerate(predictors):
        task = predictor.task
        progress.stage(f"{task.task_id}, trial {predictor.trial}", done, len(predictors))
        path = out / task.dataset_id
        _check_trust(run, predictor, splits, probabilities and task.kind == SINGLE_LABEL)
        cache = open_cache(path, run, predictor)
        flops = _fill_one(
            cache, run, predictor, splits, probabilities and task.kind == SINGLE_LABEL
        )
        total = added.get(task.dataset_id, FilledCache(path, 0, 0))
        models = total.models + (flops is not None)
        added[task.dataset_id] = FilledCache(path, models, total.flops + (flops or 0))
    progress.stage("done", len(predictors), len(predictors))
    return list(added.values())


def _check_trust(
    run: KeptRun, predictor: KeptPredictor, splits: Sequence[str], probabilities: bool
) -> None:
    """Builds the learner if it must answer a split, so that an error leaves no empty cache.

    Raises:
      Untrusted: the message names the splits whose recorded answers need no trust.
    """
    recorded = [split for split in splits if run.has_recorded(predictor, split)]
    if not predictor.checkpoint or (len(recorded) == len(splits) and not probabilities):
        return
    try:
        _ = run.learner
    except Untrusted as error:
        if not recorded or probabilities:
            raise
        raise Untrusted(
            f"{error} Recorded answers are read without running it: --splits={','.join(recorded)}."
        ) from None


def open_cache(path: Path, run: KeptRun, predictor: KeptPredictor) -> EvaluationCache:
    """Opens the cache of a predictor's data set, or creates it.

    Raises:
      BadInput: the cache contains other data.
    """
    about = _describe_data(run, predictor.task)
    cache = EvaluationCache(path, create=True, about=about)
    _check_data(cache, run, about)
    return cache


def find_task(cache: EvaluationCache, run: KeptRun) -> Task:
    """Returns a task of a run on the data of a cache.

    Raises:
      BadInput: it has none, or other data under the same name.
    """
    dataset_id = cache.about.get("dataset_id")
    for task in run.stream.tasks:
        if task.dataset_id == dataset_id:
            _check_data(cache, run, _describe_data(run, task))
            return task
    raise BadInput(f"{run.path}: its stream has no data set {dataset_id!r} of {cache.directory}.")


def _describe_data(run: KeptRun, task: Task) -> dict[str, Any]:
    return {
        "dataset_id": task.dataset_id,
        "kind": task.kind,
        "num_classes": task.num_classes,
        "fingerprint": run.fingerprint(task.dataset_id),
    }


def _check_data(cache: EvaluationCache, run: KeptRun, about: dict[str, Any]) -> None:
    stored = cache.about
    for name, value in about.items():
        if stored.get(name) != value:
            raise BadInput(
                f"{cache.directory}: this cache contains data with {name} {stored.get(name)!r}, but"
                f" those of {run.path} have {value!r}. Use another folder: --cache=OTHER."
            )


def _fill_one(
    cache: EvaluationCache,
    run: KeptRun,
    predictor: KeptPredictor,
    splits: Sequence[str],
    probabilities: bool,
) -> int | None:
    """Adds a predictor's missing answers; returns their FLOPs, or None if none was missing.

    Answers that the run recorded are read; the predictor computes the others, if its checkpoint was
    kept.
    """
    task, model = predictor.task, predictor.predictor_id
    is_known, columns = model in cache.models(), set(cache.samples())
    missing = []
    for split in splits:
        parts = run.samples(task, [split])
        ids = list_cell_ids(task, parts[0])
        if ids and not (
            is_known and columns.issuperset(ids) and _has_answers(cache, model, ids, probabilities)
        ):
            must_run = probabilities and predictor.checkpoint  # probabilities are not recorded
            answers = None if must_run else run.recorded(predictor, split)
            if answers is None and predictor.checkpoint:
                answers = run.answer(predictor, parts)
            if answers is not None:
                missing.append(answers)
                cache.add_samples(ids, sample_facts(task, split, parts[0]))
    if not missing:
        return None
    spent = sum(answers.flops for answers in missing)
    cells = sum(len(answers.ids) for answers in missing if answers.flops)
    price = spent / cells if cells else run.flops_each(predictor)
    facts = describe_predictor(run, predictor, cache.directory) | (
        {} if price is None else {FLOPS_PER_SAMPLE: price}
    )
    for answers in missing:
        cache.append(
            model,
            answers.ids,
            answers.correct,
            answers.confidence,
            answers.probabilities if probabilities else None,
            provenance=None if is_known else facts,
        )
    return spent


def add_features(
    cache: EvaluationCache, run: KeptRun, backbone_run: KeptRun, backbone: KeptPredictor
) -> tuple[np.ndarray, int]:
    """Adds features to the samples of a cache that have none; in multi-label tasks all pairs of an
    image have the same.

    Args:
      cache: of a data set of `run`, see `fill`.
      run: the run that has the images.
      backbone_run: the run that has the backbone.
      backbone: the predictor whose backbone computes the features.

    Returns: the features of all samples, float32[n, d], and their FLOPs.

    Raises:
      BadInput: the learner has no backbone, or samples have features of another one.
    """
    task = find_task(cache, run)
    cells = cache.samples()
    samples = Samples.join(run.samples_of(task, cells))
    features, flops = backbone_run.features(backbone, samples)
    row_of = {sample: row for row, sample in enumerate(samples.ids)}
    features = features[[row_of[sample_id(task, cell)] for cell in cells]]
    known, is_new = cache.features(), np.ones(len(cells), bool)
    if known is not None:
        is_new = np.isnan(known).any(axis=1)
        # rounding differs between processors
        if known.shape[1] != features.shape[1] or not np.allclose(
            known[~is_new], features[~is_new], rtol=1e-3, atol=1e-3
        ):
            raise BadInput(
                f"{cache.directory}: its samples already have features, which are not those of"
                f" {backbone.checkpoint}. Use another folder: --cache=OTHER."
            )
    if is_new.any():
        cache.add_features(np.asarray(cells)[is_new], features[is_new])
    return features, flops


def _has_answers(
    cache: EvaluationCache, model: str, ids: Sequence[str], probabilities: bool
) -> bool:
    if (cache.matrix([model], ids) == UNKNOWN).any():
        return False
    if not probabilities:
        return True
    stored = cache.probabilities(model, ids)
    return stored.shape[1] > 0 and not np.isnan(stored).any()


class CheckpointOracle:
    """An `Oracle` for one predictor of a run, on an accelerator if there is one.

    The checkpoint is read once, at the first question.

    Args:
      run: the run.
      predictor: the predictor.
      ids: returns the ids of columns.
    """

    def __init__(self, run: KeptRun, predictor: KeptPredictor, ids: IdsOfColumns):
        self._run, self._predictor, self._ids, self._tree = run, predictor, ids, None

    def __call__(self, query: Query) -> Responses:
        """Runs the model on int64[1, b] samples of any splits, padded to a power of two.

        Raises:
          BadInput: the data set has no such sample, or has changed since the run.
        """
        if self._tree is None:
            self._tree = self._run.tree(self._predictor)
        ids = self._ids(query.samples[0])
        parts = self._run.samples_of(self._predictor.task, ids)
        answers = self._run.answer(self._predictor, parts, self._tree, small_batches=True)
        place = {cell: i for i, cell in enumerate(answers.ids)}
        positions = np.asarray([place[cell] for cell in ids])
        values, confidence = answers.correct[positions][None], answers.confidence[positions][None]
        return Responses(query, values, Cost(answers.flops), confidence)


class MovedCheckpointOracle:
    """An `Oracle` for a model of a cache, whose run is opened at the first question.

    Args:
      model: the model's id.
      checkpoint: its checkpoint, RUN/checkpoints/EVENT-TASK.
      trial: its trial.
      open_run: opens a run directory, and returns the same run for several models.
      ids: returns the ids of columns.
    """

    def __init__(
        self,
        model: str,
        checkpoint: Path,
        trial: int,
        open_run: Callable[[Path], KeptRun],
        ids: IdsOfColumns,
    ):
        self._model, self._path, self._trial = model, checkpoint, trial
        self._open, self._ids, self._oracle = open_run, ids, None

    def __call__(self, query: Query) -> Responses:
        """Runs the model, as `CheckpointOracle` does.

        Raises:
          BadInput: its checkpoint is missing, or belongs to another model.
        """
        if self._oracle is None:
            self._oracle = self._open_checkpoint()
        return self._oracle(query)

    def _open_checkpoint(self) -> CheckpointOracle:
        if not self._path.is_dir():
            raise BadInput(
                f"model {self._model!r}: its checkpoint {self._path} is missing. If its run was"
                " moved, give its new folder: --run_dir=FOLDER."
            )
        run = self._open(self._path.parent.parent)
        predictor = find_predictor(run, self._path, self._trial)
        if predictor.predictor_id != self._model:
            raise BadInput(
                f"{self._path}, trial {self._trial}: contains model {predictor.predictor_id!r}"
                f" instead of {self._model!r}, so it belongs to another run."
            )
        return CheckpointOracle(run, predictor, self._ids)
