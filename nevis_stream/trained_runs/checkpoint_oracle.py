"""Answers from checkpoints: a model runs on exactly the samples that are asked, and is charged."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from nevis_stream.errors import BadInput
from nevis_stream.evaluation_cache.exchange import IdsOfColumns
from nevis_stream.queries.oracle import Cost, Query, Responses
from nevis_stream.trained_runs.predictors import KeptPredictor, KeptRun, kept_model


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


class MovableCheckpoint:
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
        predictor = kept_model(run, self._path, self._trial)
        if predictor.predictor_id != self._model:
            raise BadInput(
                f"{self._path}, trial {self._trial}: contains model {predictor.predictor_id!r}"
                f" instead of {self._model!r}, so it belongs to another run."
            )
        return CheckpointOracle(run, predictor, self._ids)
