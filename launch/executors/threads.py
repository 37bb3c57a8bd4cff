"""Runs several trials at once, in threads of this process.

XLA releases the interpreter's lock while it computes. A step of a small network uses one core, so N
cores can train N trials at once; a large network uses all cores by itself.
"""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any

from nevis_stream.errors import BadInput
from nevis_stream.executor import Result, Trial
from nevis_stream.launch.side_by_side import SideBySide
from nevis_stream.run_directory.environment import cores


class _Abandoned(Exception):
    """Ends a trial because another one has failed."""


@dataclass(frozen=True)
class Threads:
    """Runs trials in threads.

    Attributes:
      workers: number of threads; None: one for each core.
    """

    workers: int | None = None

    def __post_init__(self):
        if self.workers is not None and self.workers < 1:
            raise BadInput(f"executor 'threads': workers={self.workers}; it must be 1 or more.")

    def run(self, trials: Sequence[Trial], progress: Any) -> list[Result]:
        """Runs the trials and returns their results in order.

        The first exception is raised, after the other trials have ended at their next report.
        """
        together, failed = SideBySide(progress, trials), threading.Event()

        def check() -> None:
            if failed.is_set():
                raise _Abandoned

        def work(trial: Trial) -> Result:
            check()
            result = trial.run(together.of_trial(trial, check))
            together.ended(trial)
            return result

        with ThreadPoolExecutor(min(self.workers or cores(), len(trials)), "trial") as pool:
            jobs = [pool.submit(work, trial) for trial in trials]
            try:
                for job in as_completed(jobs):
                    job.result()
            except BaseException:  # Ctrl-C too
                failed.set()
                pool.shutdown(cancel_futures=True)
                raise
        return [job.result() for job in jobs]
