"""Runs jobs with submitit, on a SLURM cluster or on this machine."""

import os
import shlex
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nevis_stream.errors import BadInput, NevisStreamError
from nevis_stream.launch.entry import as_typed
from nevis_stream.launch.job import PACKAGES, Job

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
            "submitit, which sends the jobs, is not installed: pip install submitit (it is part of"
            " the extra `cluster`)."
        ) from None


def sbatch_text(jobs: Sequence[Job], folder: str, resources: Resources) -> str:
    """Returns the script that would be sent to SLURM; needs no SLURM on this machine."""
    from submitit import SlurmExecutor

    previous_path = os.environ["PATH"]
    with tempfile.TemporaryDirectory() as programs:
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
