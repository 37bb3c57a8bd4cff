"""A job of a cluster: runs a command in a child process, and stops and requeues it when signalled.

SLURM sends its signals to every process of a job. USR2 (or the signal in SUBMITIT_PREEMPT_SIGNAL)
comes before the time limit and at preemption: submitit calls `Job.checkpoint`, stores the job that
it returns, and requeues it. TERM comes at preemption and at scancel, and only a preempted job must
start again. SLURM takes care of that (with USR2, or by requeueing the job itself), so after TERM a
job stops its command and waits until SLURM ends it.
"""

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import nevis_stream

SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
# exit statuses of a command that was asked to stop
STOPPED = (*(128 + number for number in SIGNALS), *(-number for number in SIGNALS))
# seconds from TERM to KILL, much less than the 90 s that SLURM leaves; a run survives both
PATIENCE = 20.0
LATE = 10.0  # seconds by which the job's signal may come after its command's

PACKAGES = Path(nevis_stream.__file__).resolve().parents[1]  # the folder that this package is in
# nothing of the job's directory is imported but what its command names (nevis_stream.user_code)
_START = (
    "import runpy, sys; sys.path.append(sys.argv.pop(1)); "
    "runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)


class CommandFailed(RuntimeError):
    """A job's command failed; the job is not sent again."""


class Job:
    """Runs one command; submitit pickles it and calls it on the node.

    Args:
      words: a module and its flags.
      directory: working directory of the command.
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
          CommandFailed: its exit status was not 0.
        """
        previous_handler = signal.getsignal(signal.SIGTERM)
        try:
            self._start()
            # a blocking wait() would hold the lock that the signals' handlers need
            while self._child.poll() is None:
                time.sleep(0.2)
            if self._child.returncode in STOPPED:
                self._await_the_end()
        finally:
            self._stop()
            signal.signal(signal.SIGTERM, previous_handler or signal.SIG_DFL)
        if self._child.returncode:
            raise CommandFailed(_describe(self._child.returncode))

    def checkpoint(self):
        """Stops the command; returns the job to be sent again, or None if it had failed."""
        from submitit.helpers import DelayedSubmission

        status = self._stop()
        if status not in (None, 0, *STOPPED):
            print(
                f"{_describe(status)}, so it is not sent again: {self}",
                file=sys.stderr,
                flush=True,
            )
            return None
        return DelayedSubmission(Job(self.words, self.directory))

    def _start(self) -> None:
        """Starts the command; signals are blocked until the child process is known."""
        module, *words = self.words
        module = f"nevis_stream.{module}" if module.startswith("launch.") else module
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            self._child = subprocess.Popen(
                [sys.executable, "-P", "-c", _START, str(PACKAGES), module, *words],
                cwd=self.directory,
                preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, mask),
            )
            signal.signal(signal.SIGTERM, self._on_term)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def _stop(self) -> int | None:
        """Ends the command if it is running; returns its status, None if it was never started."""
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
        """Waits, after the command was asked to stop, for the signal that the job gets too."""
        until = time.monotonic() + LATE
        while time.monotonic() < until or (
            self._terminated and os.environ.get("SUBMITIT_EXECUTOR") == "slurm"
        ):
            time.sleep(0.2)


def _describe(status: int) -> str:
    if status == 2:
        return "exit status 2: a mistake in the command"
    if status < 0:
        hint = ", perhaps because memory ran out" if status == -signal.SIGKILL else ""
        return f"killed by {signal.Signals(-status).name}{hint}"
    if status in STOPPED:
        return f"exit status {status}: a signal stopped the command, but not the job"
    return f"exit status {status}"
