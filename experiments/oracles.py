"""An oracle that runs real checkpoints: it asks a model exactly the samples that are wanted, and
charges what that costs.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from experiments.predictors import KeptPredictor, KeptRun, kept_model
from nevis_stream.dynamic_evaluation.adding import Observed
from nevis_stream.errors import BadInput


class CheckpointOracle:
    """Answers for the predictors of run directories, on the accelerator where there is one.

    Args:
      checkpoints: by model id, where the predictor lies: RUN/checkpoints/EVENT-TASK, and its trial.
      stream: the runs' stream; None: by the name that each run has.
    """

    def __init__(self, checkpoints: dict[str, tuple[Path, int]], stream: str | None = None):
        self._checkpoints, self._stream = checkpoints, stream
        self._runs: dict[Path, KeptRun] = {}

    def answer(self, model: str, samples: Sequence[str]) -> Observed:
        """Runs the model on the samples, all splits in one go, padded to a power of two; see
        `adding.Oracle`.

        Raises:
          BadInput: the model's checkpoint is not there, or its data set has no such sample.
        """
        run, predictor = self._load(model)
        answers = run.answer(predictor, run.find(predictor.task, samples), sparing=True)
        place = {cell: i for i, cell in enumerate(answers.ids)}
        wanted = np.asarray([place[sample] for sample in samples])
        return Observed(
            answers.correct[wanted],
            answers.confidence[wanted],
            answers.flops,
            run.flops_each(predictor),
        )

    def _load(self, model: str) -> tuple[KeptRun, KeptPredictor]:
        if model not in self._checkpoints:
            raise BadInput(
                f"model {model!r} has no checkpoint: only models that came from a run directory can"
                " be asked."
            )
        path, trial = self._checkpoints[model]
        if not path.is_dir():
            raise BadInput(
                f"model {model!r}: its checkpoint {path} is not there any more, so it cannot be"
                " asked. Where its run was moved, say where it lies now: --run_dir=FOLDER."
            )
        run_dir = path.parent.parent
        if run_dir not in self._runs:
            self._runs[run_dir] = KeptRun(run_dir, self._stream)
        run = self._runs[run_dir]
        predictor = kept_model(run, path, trial)
        if predictor.predictor_id != model:
            raise BadInput(
                f"{path}, trial {trial}: holds model {predictor.predictor_id!r}, not {model!r}:"
                " another run."
            )
        return run, predictor
