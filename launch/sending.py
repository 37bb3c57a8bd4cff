"""Sends jobs with submitit: to SLURM, or to this machine."""

import os
import shlex
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from launch.job import PACKAGES, Job
from nevis_stream.errors import BadInput, NevisStreamError

EXECUTORS = ("slurm", "local", "debug")
SIGNAL_DELAY = 90  # seconds before the time limit


@dataclass(frozen=True)
class Wishes:
    """What a job asks of a cluster; None: as the cluster has it.

    Args:
      partition: the queue.
      minutes: time limit of one start of a job.
      gpus: GPUs of a job.
      cpus: cores of a job.
      memory_gb: main memory of a job.
      at_once: how many jobs run at the same time.
      timeouts: how many times a job may reach its time limit and continue.
      setup: lines of shell before the job.
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
            "submitit is not installed, and jobs are sent with it: pip install submitit (it is part"
            " of the extra `cluster`)."
        ) from None


def sbatch_text(jobs: Sequence[Job], folder: str, wishes: Wishes) -> str:
    """Returns the script that would be sent to SLURM; works where there is no SLURM."""
    from submitit import SlurmExecutor

    before = os.environ["PATH"]
    with tempfile.TemporaryDirectory() as place:
        # takes the place of SLURM's own, to which submitit gives the script
        for name, line in (("sbatch", f'cp "$1" {place}/script; echo job 0'), ("srun", "")):
            Path(place, name).write_text(f"#!/bin/sh\n{line}\n")
            Path(place, name).chmod(0o755)
        os.environ["PATH"] = os.pathsep.join([place, before, os.defpath])
        try:
            executor = SlurmExecutor(f"{place}{Path(folder).absolute()}")
            executor.update_parameters(**_slurm_parameters(wishes))
            executor.submit_array(jobs)
        finally:
            os.environ["PATH"] = before
        return Path(place, "script").read_text().replace(place, "")


def send(jobs: Sequence[Job], folder: str, wishes: Wishes) -> list:
    """Sends jobs to SLURM, several as one array; returns submitit's jobs.

    Raises:
      NevisStreamError: there is no SLURM here, or sbatch refused.
    """
    from submitit import SlurmExecutor
    from submitit.core.utils import FailedJobError, FailedSubmissionError

    missing = [program for program in ("sbatch", "srun") if shutil.which(program) is None]
    if missing:
        raise NevisStreamError(
            f"{' and '.join(missing)} not found: start this on a machine of the cluster that can"
            " send jobs, or take --executor=local (this machine) or --dry_run (print the script)."
        )
    executor = SlurmExecutor(folder, max_num_timeout=wishes.timeouts)
    executor.update_parameters(**_slurm_parameters(wishes))
    try:
        return executor.submit_array(jobs)
    except (FailedJobError, FailedSubmissionError) as error:
        raise NevisStreamError(f"sbatch refused: {str(error).strip()}") from error


def run_here(jobs: Sequence[Job], folder: str, wishes: Wishes, in_process: bool = False) -> int:
    """Runs jobs on this machine, by default one at a time, and waits for them.

    Args:
      jobs: what to run.
      folder: where submitit's files and logs go.
      wishes: of these, minutes, gpus, at_once, timeouts and setup are followed.
      in_process: take submitit's debug executor, which starts no process for the job itself.

    Returns:
      The number of jobs that failed.
    """
    from submitit import DebugExecutor, LocalExecutor

    os.environ.update(_import_variables())
    if in_process:
        executor = DebugExecutor(folder)
    else:
        executor = LocalExecutor(folder, max_num_timeout=wishes.timeouts)
        executor.update_parameters(
            timeout_min=wishes.minutes,
            gpus_per_node=wishes.gpus,
            signal_delay_s=SIGNAL_DELAY,
            setup=list(wishes.setup),
        )
    waiting, running, failed = list(jobs), [], 0
    while waiting or running:
        while waiting and len(running) < (wishes.at_once or 1):
            running.append((waiting[0], executor.submit(waiting.pop(0))))
            print(f"started: {running[-1][0]}\n  log: {_log(running[-1][1])}", flush=True)
        for pair in [pair for pair in running if in_process or pair[1].done()]:
            running.remove(pair)
            error = pair[1].exception()
            failed += error is not None
            print(
                (
                    f"done: {pair[0]}"
                    if error is None
                    else f"failed: {pair[0]}\n  {_reason(pair[1], error)}"
                ),
                flush=True,
            )
        time.sleep(0.2 if running else 0)
    return failed


def _slurm_parameters(wishes: Wishes) -> dict:
    # after a preemption or a node's failure of which the job gets no word
    further = {"requeue": True}
    for option in wishes.sbatch:
        name, equals, value = option.lstrip("-").partition("=")
        if not name:
            raise BadInput(
                f"--sbatch={option}: it must be NAME=VALUE, for example --sbatch=account=mine."
            )
        further[name.replace("-", "_")] = value if equals else True
    parameters = {
        "job_name": "nevis_stream",
        "partition": wishes.partition,
        "time": wishes.minutes,
        "nodes": 1,
        "ntasks_per_node": 1,
        "gpus_per_node": wishes.gpus or None,
        "cpus_per_task": wishes.cpus,
        "mem": f"{round(wishes.memory_gb * 1024)}M" if wishes.memory_gb else None,
        "setup": [
            *(f"export {name}={shlex.quote(value)}" for name, value in _import_variables().items()),
            *wishes.setup,
        ],
        # srun has not inherited it since 22.05
        "srun_args": [f"--cpus-per-task={wishes.cpus}"] if wishes.cpus else None,
        "signal_delay_s": SIGNAL_DELAY,
        "wckey": None,
        "additional_parameters": further,
    }
    return parameters | ({"array_parallelism": wishes.at_once} if wishes.at_once else {})


def _import_variables() -> dict[str, str]:
    """Environment of a job's Python: it imports nothing from the directory in which it starts, and
    this package from where it is now.
    """
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
    """What the command said, or else the end of submitit's message."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    why = next((line for line in reversed(lines) if "CommandFailed: " in line), lines[-1])
    said = [line for line in (job.stderr() or "").splitlines() if line.startswith("error: ")]
    return "; ".join([why.rpartition("CommandFailed: ")[2], *said[-1:]])
