"""Tested models: checkpoints of runs, or files of probabilities, on the images of a pool."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nevis_stream.active_testing.labelling.pools import SUFFIXES, PoolImages, read_probabilities
from nevis_stream.active_testing.surrogate import LabelledSamples, SurrogateData
from nevis_stream.configs.recorded import open_checkpoint
from nevis_stream.datasets.dataset import SINGLE_LABEL, Samples
from nevis_stream.errors import BadInput
from nevis_stream.evaluation_cache import EvaluationCache
from nevis_stream.learners.closed_form.patch_features import PatchFeatures
from nevis_stream.trained_runs.predictors import KeptPredictor, KeptRun

SIDE = 28
"""Side in pixels of the images that surrogates see."""


@dataclass(frozen=True)
class TestedModel:
    """A model on n samples of a pool.

    Attributes:
      name: its absolute path.
      predictions: float64[n, c], its probabilities.
      classes: names of the classes, if they are known.
      run, predictor: where it comes from; None for a file.
      remark: how a file was understood, if that could be otherwise.
    """

    name: str
    predictions: np.ndarray
    classes: Sequence[str] = ()
    run: KeptRun | None = None
    predictor: KeptPredictor | None = None
    remark: str = ""

    __test__ = False  # its name looks like that of a test


def load_tested_model(path: str, pool: PoolImages, stream: str | None, trust) -> TestedModel:
    """Returns a model's probabilities on a pool.

    Args:
      path: a checkpoint, RUN/checkpoints/EVENT-TASK, or a file of `read_probabilities`.
      pool: n images.
      stream: csv of the run's stream, if it was one.
      trust: modules outside this project whose learners may be imported.

    Raises:
      BadInput: no such model, or one of a multi-label task.
    """
    name = os.path.abspath(path)
    if path.endswith(SUFFIXES):
        values, named, remark = read_probabilities(Path(path), pool)
        return TestedModel(name, values, named, remark=remark)
    checkpoint = Path(path)
    if not checkpoint.is_dir() or checkpoint.parent.name != "checkpoints":
        siblings = sorted(each.name for each in checkpoint.parent.glob("*-*") if each.is_dir())
        there = f" {checkpoint.parent} contains: {', '.join(siblings)}." if siblings else ""
        raise BadInput(
            f"--model={path}: neither a checkpoint (RUN/checkpoints/EVENT-TASK) nor an .npz with"
            f" the array 'probabilities' [samples, classes], nor a csv.{there}"
        )
    run, predictor = open_checkpoint(checkpoint, stream, trust)
    if predictor.task.kind != SINGLE_LABEL:
        raise BadInput(f"--model={path}: its task is multi-label; one label per sample is needed.")
    classes = run.stream.dataset(predictor.task).class_names
    return TestedModel(name, predict_probabilities(run, predictor, pool), classes, run, predictor)


def predict_probabilities(run: KeptRun, predictor: KeptPredictor, pool: PoolImages) -> np.ndarray:
    """Returns float64[n, c], the probabilities of a run's predictor on images of any source."""
    samples = Samples(pool.images, np.zeros(len(pool.ids), np.int32), list(pool.ids))
    answer = run.answer(predictor, [samples])
    return np.asarray(answer.probabilities, np.float64)


def gather(
    model: TestedModel,
    pool: PoolImages,
    needs: Sequence[str],
    runs: Sequence[KeptRun] = (),
    cache: EvaluationCache | None = None,
    seed: int = 0,
) -> SurrogateData:
    """Returns what a surrogate can learn from.

    The training split of a checkpoint's task is for training, its dev split for calibration.

    Args:
      model: the (first) tested model.
      pool: the images.
      needs: attributes of `SurrogateData` that are needed; others are left out.
      runs: further runs of the same task, whose predictors join the ensemble.
      cache: known models' outcomes on the pool's samples.
      seed: of the features.

    Raises:
      BadInput: the cache lacks a sample or has no complete model; or the data of the cache, or of
        a run, are others under the same name.
    """
    needs = set(needs)
    images = _shrink(pool.images) if needs & {"features", "images"} else None
    extractor = PatchFeatures.fit(images, seed) if "features" in needs else None
    others = _others(model, runs) if "ensemble" in needs else []
    splits = {} if model.run is None else model.run.splits(model.predictor.task)

    def examples(split):
        if split not in splits or not needs & {"features", "images", "ensemble"}:
            return None
        samples = splits[split]
        known = PoolImages(samples.ids, samples.images)
        small = None if images is None else _shrink(samples.images)
        answers = [(model.run, model.predictor), *others] if split == "dev" else []
        predicted = [predict_probabilities(*each, known) for each in answers]
        return LabelledSamples(
            samples.labels,
            None if extractor is None else extractor(small),
            small if "images" in needs else None,
            predicted[0] if predicted else None,
            np.stack(predicted[1:]) if len(predicted) > 1 else None,
        )

    return SurrogateData(
        model.predictions,
        None if extractor is None else extractor(images),
        images if "images" in needs else None,
        np.stack([predict_probabilities(*each, pool) for each in others]) if others else None,
        _outcomes(cache, pool) if cache is not None else None,
        examples("train"),
        examples("dev"),
    )


def _shrink(images) -> np.ndarray:
    small = images.resized(SIDE)
    grey = (small == small[..., :1]).all()
    return np.ascontiguousarray(small[..., :1]) if grey else small


def _others(model, runs) -> list[tuple[KeptRun, KeptPredictor]]:
    """Returns the other predictors of the model's data set with a checkpoint.

    Raises:
      BadInput: a run has other data under the same name.
    """
    if model.run is None:
        return []
    dataset_id = model.predictor.task.dataset_id
    for run in runs:
        named = any(task.dataset_id == dataset_id for task in run.stream.tasks)
        if named and run.fingerprint(dataset_id) != model.run.fingerprint(dataset_id):
            raise BadInput(
                f"--run_dir={run.path}: its data set {dataset_id!r} has other data than that of the"
                f" tested model's run, {model.run.path}."
            )
    others = [
        (run, each)
        for run in (model.run, *runs)
        for each in run.predictors
        if each.checkpoint
        and each.task.dataset_id == dataset_id
        and (run is not model.run or each.predictor_id != model.predictor.predictor_id)
    ]
    return others


def _outcomes(cache, pool) -> np.ndarray:
    data = cache.about.get("fingerprint")
    if data and pool.dataset is not None and pool.dataset.fingerprint() != data:
        raise BadInput(
            f"{cache.directory}: its outcomes are on other data of the name"
            f" {pool.dataset.dataset_id!r} than those of the pool."
        )
    columns = {sample: column for column, sample in enumerate(cache.samples())}
    missing = [sample for sample in pool.ids if sample not in columns]
    if missing:
        raise BadInput(
            f"{cache.directory}: has no sample {missing[0]!r}; {len(missing)} of"
            f" {len(pool.ids)} samples of the pool are missing."
        )
    rows = cache.matrix(samples=list(pool.ids)).astype(np.float64)
    complete = (cache.states(samples=list(pool.ids)) == 1).all(axis=1)
    if not complete.any():
        raise BadInput(f"{cache.directory}: no known model has an outcome for every sample.")
    return rows[complete]
