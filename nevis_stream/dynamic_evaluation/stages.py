"""Reports which stage of an evaluation is running."""

import contextlib
from collections.abc import Callable, Iterator

from nevis_stream.learner import Context

STAGES = {
    "train": "fitting",
    "validate": "cross-validation",
    "select": "asking",
    "predict": "predicting",
}


class _Staged(Context):
    """A context that reports each phase as it begins, except those inside another phase: the fits
    of a cross-validation are part of it.
    """

    report: Callable[[str], None]
    _inside = False

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """As `Context.phase`."""
        outermost, self._inside = not self._inside, True
        if outermost:
            self.report(STAGES.get(name, name))
        try:
            with super().phase(name):
                yield
        finally:
            self._inside = not outermost


def staged_context(report: Callable[[str], None]) -> Context:
    """Returns a context like `method.context()` that reports the stages of an evaluation.

    Args:
      report: called with the name of each stage, one of the values of `STAGES`, when it begins.
    """
    ctx = _Staged.standalone(path=("dynamic evaluation",))
    ctx.report = report
    return ctx
