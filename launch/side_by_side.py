"""One `Progress` for several trials that run at the same time.

It shows the number of trials done, and the sum of the steps of those that are running.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Any

from nevis_stream.executor import Trial
from nevis_stream.progress import Silent


class SideBySide:
    """Reports trials that run at the same time to `progress`; safe to call from several threads.

    Args:
      progress: shows the reports.
      trials: the trials of one `ctx.map`.
    """

    def __init__(self, progress: Any, trials: Sequence[Trial]):
        self._progress, self._lock = progress, threading.Lock()
        self._done, self._trials = trials[0].number, trials[-1].number + 1
        self._steps: dict[int, tuple[int, int]] = {}
        progress.trial(self._done, self._trials)

    def of_trial(self, trial: Trial, check: Callable[[], None] = lambda: None) -> "Steps":
        """Returns the `Progress` of one trial; `check` is called at each of its reports."""
        return Steps(self, trial.number, check)

    def step(self, number: int, step: int, steps: int) -> None:
        """Reports that `step` of the `steps` steps of a trial are done."""
        with self._lock:
            self._steps[number] = (step, steps)
            self._progress.step(*map(sum, zip(*self._steps.values(), strict=True)))

    def ended(self, trial: Trial) -> None:
        """Reports that a trial is done."""
        with self._lock:
            self._done += 1
            self._steps.pop(trial.number, None)
            self._progress.trial(self._done, self._trials)


class Steps(Silent):
    """The `Progress` of one of several trials."""

    def __init__(self, together: SideBySide, number: int, check: Callable[[], None]):
        self._together, self._number, self._check = together, number, check

    def step(self, step: int, steps: int) -> None:
        """Reports that `step` of `steps` steps are done."""
        self._check()
        self._together.step(self._number, step, steps)
