"""Reports which stage of an evaluation is running."""

import contextlib
from collections.abc import Iterator

from nevis_stream.cost.compute import Compute
from nevis_stream.progress import Progress

STAGES = {
    "train": "fitting",
    "validate": "cross-validation",
    "select": "asking",
    "predict": "predicting",
}


class _Staged(Compute):
    """A context that reports each phase as it begins, except those inside another phase: the fits
    of a cross-validation are part of it.
    """

    report: Progress
    _inside = False
    _stage = ""

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """As `Compute.phase`."""
        outermost, self._inside = not self._inside, True
        if outermost:
            self._stage = STAGES.get(name, name)
            self.report.stage(self._stage)
        try:
            with super().phase(name):
                yield
        finally:
            self._inside = not outermost

    def progress(self, step: int, steps: int) -> None:
        """Reports every tenth of a long training, with the stage."""
        tenths = 10 * step // steps
        if tenths > 10 * (step - 1) // steps:
            self.report.stage(f"{self._stage}, {tenths}0% of a training")


def staged_context(progress: Progress) -> Compute:
    """Returns a context like `method.context()` that reports the stages of an evaluation.

    Args:
      progress: is told the stages, of the values of `STAGES`, and each tenth of a long training.
    """
    ctx = _Staged.standalone(path=("dynamic evaluation",))
    ctx.report = progress
    return ctx
