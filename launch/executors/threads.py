"""Runs several trials at once, in threads of this process; and one `Progress` for several trials
that run at the same time.

XLA releases the interpreter's lock while it computes. A step of a small network uses one core, so N
cores can train N trials at once; a large network uses all cores by itself. Where this machine has
several devices, each trial runs on the one that has the fewest.
"""

import itertools
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any

from nevis_stream.errors import BadInput
from nevis_stream.executor import Result, Trial
from nevis_stream.progress import Silent
from nevis_stream.run_directory.environment import count_cores


class SharedProgress:
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

    def of_trial(self, trial: Trial, check: Callable[[], None] = lambda: None) -> "TrialProgress":
        """Returns the `Progress` of one trial; `check` is called at each of its reports."""
        return TrialProgress(self, trial.number, check)

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


class TrialProgress(Silent):
    """The `Progress` of one of several trials."""

    def __init__(self, together: SharedProgress, number: int, check: Callable[[], None]):
        self._together, self._number, self._check = together, number, check

    def step(self, step: int, steps: int) -> None:
        """Reports that `step` of `steps` steps are done."""
        self._check()
        self._together.step(self._number, step, steps)


class _Abandoned(Exception):
    """Ends a trial because another one has failed."""


@dataclass(frozen=True)
class Threads:
    """Runs trials in threads.

    Attributes:
      workers: number of threads; None: one for each device where there are several, else for each
        core.
    """

    workers: int | None = None

    def __post_init__(self):
        if self.workers is not None and self.workers < 1:
            raise BadInput(f"executor 'threads': workers={self.workers}; it must be 1 or more.")

    def run(self, trials: Sequence[Trial], progress: Any) -> list[Result]:
        """Runs the trials and returns their results in order.

        The first exception is raised, after the other trials have ended at their next report.
        """
        import jax

        from nevis_stream.cost.counted import find_default_device

        together, failed = SharedProgress(progress, trials), threading.Event()
        own = find_default_device()  # None: the first device, as outside of trials
        devices = [None, *jax.local_devices()[1:]] if own is None else [own]
        workers = self.workers or (len(devices) if len(devices) > 1 else count_cores())
        free: queue.SimpleQueue = queue.SimpleQueue()
        for device in itertools.islice(itertools.cycle(devices), workers):
            free.put(device)

        def check() -> None:
            if failed.is_set():
                raise _Abandoned

        def work(trial: Trial) -> Result:
            check()
            device = free.get()
            try:
                with jax.default_device(device):
                    result = trial.run(together.of_trial(trial, check))
            finally:
                free.put(device)
            together.ended(trial)
            return result

        with ThreadPoolExecutor(min(workers, len(trials)), "trial") as pool:
            jobs = [pool.submit(work, trial) for trial in trials]
            try:
                for job in as_completed(jobs):
                    job.result()
            except BaseException:  # Ctrl-C too
                failed.set()
                pool.shutdown(cancel_futures=True)
                raise
        return [job.result() for job in jobs]
