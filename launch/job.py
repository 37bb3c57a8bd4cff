"""A job of a cluster: runs a command in a child process, and stops and requeues it when signalled;
jobs are run with submitit, on a SLURM cluster or on this machine.

SLURM sends its signals to every process of a job. USR2 (or the signal in SUBMITIT_PREEMPT_SIGNAL)
comes before the time limit and at preemption: submitit calls `Job.checkpoint`, stores the job that
it returns, and requeues it. TERM comes at preemption and at scancel, and only a preempted job must
start again. SLURM takes care of that (with USR2, or by requeueing the job itself), so after TERM a
job stops its command and waits until SLURM ends it.
"""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import nevis_stream
from nevis_stream.errors import BadInput, NevisStreamError, describe_installation
from nevis_stream.launch.entry import as_typed
from nevis_stream.launch.owned_program import end_with_parent
from nevis_stream.storage import make_scratch_folder

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

        def prepare() -> None:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            end_with_parent()

        try:
            self._child = subprocess.Popen(
                [sys.executable, "-P", "-c", _START, str(PACKAGES), module, *words],
                cwd=self.directory,
                preexec_fn=prepare,
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


EXECUTORS = ("slurm", "local", "debug")
SIGNAL_DELAY = 90  # seconds before the time limit


@dataclass(frozen=True)
class Resources:
    """What a job requests of a cluster; None leaves the choice to the cluster.

    Args:
      partition: the queue.
      minutes: time limit of a job, after which it is requeued.
      gpus: GPUs of a job.
      cpus: cores of a job.
      memory_gb: main memory of a job, in GiB.
      at_once: number of jobs that run at the same time.
      timeouts: number of times that a job may reach its time limit and continue.
      setup: shell commands that are run before the job.
      sbatch: further options of sbatch, `NAME=VALUE` or `NAME`.
    """

    partition: str | None = None
    minutes: int = 24 * 60
    gpus: int = 0
    cpus: int | None = None
    memory_gb: float | None = None
    at_once: int | None = None
    timeouts: int = 100
    setup: Sequence[str] = ()
    sbatch: Sequence[str] = ()


def require_submitit() -> None:
    """Raises: NevisStreamError, which says how to install submitit, when it is absent."""
    try:
        import submitit  # noqa: F401
    except ImportError:
        raise NevisStreamError(
            f"submitit, which sends the jobs, is not installed: {describe_installation('cluster')}."
        ) from None


def format_sbatch(jobs: Sequence[Job], folder: str, resources: Resources) -> str:
    """Returns the script that would be sent to SLURM; needs no SLURM on this machine."""
    from submitit import SlurmExecutor

    previous_path = os.environ["PATH"]
    with make_scratch_folder("nevis-stream-sbatch") as made:
        programs = str(made)
        # submitit gives the script to these programs instead of to SLURM's
        for name, line in (("sbatch", f'cp "$1" {programs}/script; echo job 0'), ("srun", "")):
            Path(programs, name).write_text(f"#!/bin/sh\n{line}\n")
            Path(programs, name).chmod(0o755)
        os.environ["PATH"] = os.pathsep.join([programs, previous_path, os.defpath])
        try:
            executor = SlurmExecutor(f"{programs}{Path(folder).absolute()}")
            executor.update_parameters(**_slurm_parameters(resources))
            executor.submit_array(jobs)
        finally:
            os.environ["PATH"] = previous_path
        return Path(programs, "script").read_text().replace(programs, "")


def send(jobs: Sequence[Job], folder: str, resources: Resources) -> list:
    """Sends jobs to SLURM, several of them as one array; returns submitit's jobs.

    Raises:
      NevisStreamError: SLURM's programs are not on this machine, or sbatch refused the job.
    """
    from submitit import SlurmExecutor
    from submitit.core.utils import FailedJobError, FailedSubmissionError

    missing = [program for program in ("sbatch", "srun") if shutil.which(program) is None]
    if missing:
        raise NevisStreamError(
            f"{' and '.join(missing)} not found. Run this command on a machine from which jobs can"
            " be sent to SLURM, or use --executor=local (runs them on this machine) or --dry_run"
            " (prints the script)."
        )
    executor = SlurmExecutor(folder, max_num_timeout=resources.timeouts)
    executor.update_parameters(**_slurm_parameters(resources))
    try:
        return executor.submit_array(jobs)
    except (FailedJobError, FailedSubmissionError) as error:
        raise NevisStreamError(f"sbatch refused: {str(error).strip()}") from error


def run_here(
    jobs: Sequence[Job], folder: str, resources: Resources, in_process: bool = False
) -> int:
    """Runs jobs on this machine, by default one at a time, and waits for them.

    Args:
      jobs: what to run.
      folder: where submitit's files and logs go.
      resources: minutes, gpus, at_once, timeouts and setup are used.
      in_process: use submitit's debug executor, which runs a job in this process.

    Returns:
      The number of jobs that failed.
    """
    from submitit import DebugExecutor, LocalExecutor

    os.environ.update(_import_variables())
    if in_process:
        executor = DebugExecutor(folder)
    else:
        executor = LocalExecutor(folder, max_num_timeout=resources.timeouts)
        executor.update_parameters(
            timeout_min=resources.minutes,
            gpus_per_node=resources.gpus,
            signal_delay_s=SIGNAL_DELAY,
            setup=list(resources.setup),
        )
    waiting, running, failed = list(jobs), [], 0
    while waiting or running:
        while waiting and len(running) < (resources.at_once or 1):
            running.append((waiting[0], executor.submit(waiting.pop(0))))
            print(as_typed(f"started: {running[-1][0]}\n  log: {_log(running[-1][1])}"), flush=True)
        for pair in [pair for pair in running if in_process or pair[1].done()]:
            running.remove(pair)
            job, submission = pair
            error = submission.exception()
            failed += error is not None
            result = f"failed: {job}\n  {_reason(submission, error)}" if error else f"done: {job}"
            print(as_typed(result), flush=True)
        time.sleep(0.2 if running else 0)
    return failed


def _slurm_parameters(resources: Resources) -> dict:
    # also after a preemption or a node's failure that sends the job no signal
    options = {"requeue": True}
    for option in resources.sbatch:
        name, equals, value = option.lstrip("-").partition("=")
        if not name:
            raise BadInput(
                f"--sbatch={option}: it must be NAME=VALUE, for example --sbatch=account=mine."
            )
        options[name.replace("-", "_")] = value if equals else True
    parameters = {
        "job_name": "nevis_stream",
        "partition": resources.partition,
        "time": resources.minutes,
        "nodes": 1,
        "ntasks_per_node": 1,
        "gpus_per_node": resources.gpus or None,
        "cpus_per_task": resources.cpus,
        "mem": f"{round(resources.memory_gb * 1024)}M" if resources.memory_gb else None,
        "setup": [
            *(f"export {name}={shlex.quote(value)}" for name, value in _import_variables().items()),
            *resources.setup,
        ],
        # since SLURM 22.05 srun does not inherit it
        "srun_args": [f"--cpus-per-task={resources.cpus}"] if resources.cpus else None,
        "signal_delay_s": SIGNAL_DELAY,
        "wckey": None,
        "additional_parameters": options,
    }
    return parameters | ({"array_parallelism": resources.at_once} if resources.at_once else {})


def _import_variables() -> dict[str, str]:
    """Returns the environment that makes a job import this project and not its own directory."""
    variables = {"PYTHONSAFEPATH": "1"}
    if PACKAGES.name not in ("site-packages", "dist-packages"):
        folders = [os.environ.get("PYTHONPATH"), str(PACKAGES)]
        variables["PYTHONPATH"] = os.pathsep.join(filter(None, folders))
    return variables


def _log(job) -> str:
    path = Path(job.paths.stderr)
    return shlex.quote(
        str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
    )


def _reason(job, error: Exception) -> str:
    """Returns why a job failed, with the last error message of its command."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    reason = next((line for line in reversed(lines) if "CommandFailed: " in line), lines[-1])
    errors = [line for line in (job.stderr() or "").splitlines() if line.startswith("error: ")]
    return "; ".join([reason.rpartition("CommandFailed: ")[2], *errors[-1:]])
