"""Trials that run at the same time, shown by one `Progress` as if they were one: trials done, and
steps of all that run.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Any

from nevis_stream.executor import Silent, Trial


class SideBySide:
    """Tells `progress` of trials that run at the same time; may be called from several threads.

    Args:
      progress: what shows it.
      trials: those of one map.
    """

    def __init__(self, progress: Any, trials: Sequence[Trial]):
        self._progress, self._lock = progress, threading.Lock()
        self._done, self._trials = trials[0].number, trials[-1].number + 1
        self._steps: dict[int, tuple[int, int]] = {}
        progress.trial(self._done, self._trials)

    def of(self, trial: Trial, check: Callable[[], None] = lambda: None) -> "Steps":
        """Returns the progress of one trial; `check` is called at each of its reports."""
        return Steps(self, trial.number, check)

    def step(self, number: int, step: int, steps: int) -> None:
        """So many steps of one trial are done."""
        with self._lock:
            self._steps[number] = (step, steps)
            self._progress.step(*map(sum, zip(*self._steps.values(), strict=True)))

    def ended(self, trial: Trial) -> None:
        """One trial is done."""
        with self._lock:
            self._done += 1
            self._steps.pop(trial.number, None)
            self._progress.trial(self._done, self._trials)


class Steps(Silent):
    """The `Progress` of one of several trials."""

    def __init__(self, together: SideBySide, number: int, check: Callable[[], None]):
        self._together, self._number, self._check = together, number, check

    def step(self, step: int, steps: int) -> None:
        """So many steps are done."""
        self._check()
        self._together.step(self._number, step, steps)
