"""A command as a job of a cluster: a process of its own, stopped and sent again as submitit's
signals ask.

SLURM sends its signals to every process of a job. USR2 (or what SUBMITIT_PREEMPT_SIGNAL names)
comes before the time limit and at preemption; submitit then calls `Job.checkpoint`, writes what it
returns in place of the job, and requeues. TERM comes at preemption and at scancel. Only the first
must be followed by a new start, and SLURM sees to it (USR2, or its own requeue), so after TERM a
job stops its command and waits for what SLURM does.
"""

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
# a command that was asked to stop
STOPPED = (*(128 + number for number in SIGNALS), *(-number for number in SIGNALS))
# seconds from TERM to KILL, well inside the 90 s that SLURM leaves; a run survives both
PATIENCE = 20.0
LATE = 10.0  # seconds in which the job's own signal may come later than its command's

PACKAGES = Path(__file__).resolve().parents[1]  # the folder that this package is in
# packages of the same names in the job's directory must not hide this project's
_START = (
    "import runpy, sys; sys.path += [sys.argv.pop(1), '']; "
    "runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)


class CommandFailed(RuntimeError):
    """A job's command failed by itself; the job is not sent again."""


class Job:
    """Runs one command; what submitit sends.

    Args:
      words: a module and its flags.
      directory: where the command works.
    """

    def __init__(self, words: Sequence[str], directory: str):
        self.words = list(words)
        self.directory = str(directory)
        self._child: subprocess.Popen | None = None
        self._terminated = False

    def __str__(self) -> str:
        return shlex.join(self.words)

    def __call__(self) -> None:
        """Runs the command to its end.

        Raises:
          CommandFailed: it ended with another status than 0.
        """
        before = signal.getsignal(signal.SIGTERM)
        try:
            self._start()
            # a blocking wait() would hold the lock that the signals' handlers need
            while self._child.poll() is None:
                time.sleep(0.2)
            if self._child.returncode in STOPPED:
                self._await_the_end()
        finally:
            self._stop()
            signal.signal(signal.SIGTERM, before or signal.SIG_DFL)
        if self._child.returncode:
            raise CommandFailed(_described(self._child.returncode))

    def checkpoint(self):
        """Stops the command; returns the same job, to be sent again, or None if the command had
        failed by itself.
        """
        from submitit.helpers import DelayedSubmission

        status = self._stop()
        if status not in (None, 0, *STOPPED):
            print(
                f"{_described(status)}, so it is not sent again: {self}",
                file=sys.stderr,
                flush=True,
            )
            return None
        return DelayedSubmission(Job(self.words, self.directory))

    def _start(self) -> None:
        """Starts the command; a signal in the middle waits until the process is known."""
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            self._child = subprocess.Popen(
                [sys.executable, "-P", "-c", _START, str(PACKAGES), *self.words],
                cwd=self.directory,
                preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, mask),
            )
            signal.signal(signal.SIGTERM, self._on_term)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def _stop(self) -> int | None:
        """Ends the command if it runs; returns its status, None if it never ran."""
        if self._child is None:
            return None
        until = time.monotonic() + PATIENCE
        if self._child.poll() is None:
            self._child.terminate()
        while self._child.poll() is None:
            if time.monotonic() > until:
                self._child.kill()
                return -signal.SIGTERM
            time.sleep(0.05)
        return self._child.returncode

    def _on_term(self, signum, frame) -> None:
        self._terminated = True
        self._child.terminate()

    def _await_the_end(self) -> None:
        """The command was asked to stop: waits for the signal, or the end, that is meant for the
        job too.
        """
        until = time.monotonic() + LATE
        while time.monotonic() < until or (
            self._terminated and os.environ.get("SUBMITIT_EXECUTOR") == "slurm"
        ):
            time.sleep(0.2)


def _described(status: int) -> str:
    if status == 2:
        return "status 2, a mistake in the command"
    if status < 0:
        hint = ", perhaps for want of memory" if status == -signal.SIGKILL else ""
        return f"ended by {signal.Signals(-status).name}{hint}"
    if status in STOPPED:
        return f"status {status}, stopped by a signal that only the command got"
    return f"status {status}"
