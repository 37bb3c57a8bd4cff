"""Sends runs to a SLURM cluster with submitit; a job that reaches its time limit or is preempted is
requeued and continues.

  python -m launch.slurm --partition=gpu --hours=24 --gpus=1 -- launch.run --config=mt --run_dir=runs/a
  python -m launch.slurm --partition=gpu --hours=24 -- COMMAND + COMMAND     # several commands as one array
  python -m launch.slurm --partition=gpu --hours=24 --dry_run -- COMMAND     # only print the script and the commands
  python -m launch.slurm --executor=local -- COMMAND                         # on this machine, without SLURM

COMMAND is a command of this project with its flags. launch.run with --seeds=N becomes N jobs, each
with its own RUN_DIR/seed-N. See docs/clusters.md.
"""  # noqa: E501

import math
import sys
from pathlib import Path

from absl import flags

from nevis_stream.errors import unknown
from nevis_stream.launch import command_line, entry

_PARTITION = flags.DEFINE_string("partition", None, "Queue of the cluster; `sinfo` lists them.")
_HOURS = flags.DEFINE_float(
    "hours",
    None,
    "Time limit of a job, after which it is requeued and continues; default with"
    " --executor=local: 24.",
    lower_bound=0.05,
)
_GPUS = flags.DEFINE_integer("gpus", 0, "GPUs per job.", lower_bound=0)
_CPUS = flags.DEFINE_integer("cpus", None, "Cores per job; default: the cluster's.", lower_bound=1)
_MEMORY = flags.DEFINE_float(
    "memory_gb", None, "Main memory per job, in GiB; default: the cluster's.", lower_bound=0.1
)
_NODES = flags.DEFINE_integer(
    "nodes", 1, "Nodes per job; a run is one process, so only 1 is valid.", lower_bound=1
)
_PARALLEL = flags.DEFINE_integer(
    "array_parallelism",
    None,
    "Number of jobs that run at the same time; default: all, but 1 with --executor=local.",
    lower_bound=1,
)
_FOLDER = flags.DEFINE_string(
    "folder",
    "runs/slurm",
    "Directory for logs and submitit's files; every node must be able to read and write it.",
)
_EXECUTOR = flags.DEFINE_string(
    "executor",
    "slurm",
    "Where the jobs run: slurm, local (on this machine) or debug (in this process).",
)
_TIMEOUTS = flags.DEFINE_integer(
    "timeouts",
    100,
    "Number of times that a job is requeued after it reaches its time limit.",
    lower_bound=0,
)
_SETUP = flags.DEFINE_multi_string(
    "setup", [], "A shell command that is run before the job; may be repeated."
)
_SBATCH = flags.DEFINE_multi_string(
    "sbatch",
    [],
    "An additional option of sbatch, for example account=mine; may be repeated.",
)
_DRY_RUN = command_line.define_dry_run("the script and the commands")


def main(argv):
    """Sends the jobs, or prints what would be sent."""
    from nevis_stream.launch import commands, job
    from nevis_stream.launch.job import Job

    executor, folder = _EXECUTOR.value, _FOLDER.value
    if executor not in job.EXECUTORS:
        entry.fail(unknown("executor", executor, job.EXECUTORS))
    job_commands = commands.list_jobs(argv)
    if executor == "slurm" and not (_PARTITION.value and _HOURS.value):
        missing = [
            name
            for name, value in (("--partition", _PARTITION.value), ("--hours", _HOURS.value))
            if not value
        ]
        entry.fail(
            f"{' and '.join(missing)} missing: a job needs a queue and a time limit; `sinfo` lists"
            " the queues and their limits."
        )
    if _NODES.value != 1:
        entry.fail(
            f"--nodes={_NODES.value}: a run is one process on one node. To use several nodes, send"
            " several runs, with --seeds or +."
        )
    job.require_submitit()
    commands.check_configs(job_commands)
    jobs = [Job(words, str(Path.cwd())) for words in job_commands]
    resources = job.Resources(
        partition=_PARTITION.value,
        minutes=math.ceil(60 * (_HOURS.value or 24)),
        gpus=_GPUS.value,
        cpus=_CPUS.value,
        memory_gb=_MEMORY.value,
        at_once=_PARALLEL.value,
        timeouts=_TIMEOUTS.value,
        setup=_SETUP.value,
        sbatch=_SBATCH.value,
    )
    if _DRY_RUN.value:
        if executor == "slurm":
            print(job.format_sbatch(jobs, folder, resources))
        print("\n".join(f"# job {number}: python -m {each}" for number, each in enumerate(jobs)))
        print("Nothing was sent.")
    elif executor == "slurm":
        sent = job.send(jobs, folder, resources)
        for each, words in zip(sent, jobs, strict=True):
            print(f"sent: {each.job_id}: {words}")
        number = sent[0].job_id.partition("_")[0]
        print(
            f"logs: {folder}/{number}*_log.out and .err; to see the state: squeue --jobs={number};"
            f" to cancel: scancel {number}"
        )
    elif failed := job.run_here(jobs, folder, resources, in_process=executor == "debug"):
        print(
            f"{failed} of {len(jobs)} jobs failed; the same command continues those that are not"
            " complete",
            file=sys.stderr,
        )
        sys.exit(1)


def _hint(problem: str) -> str:
    return (
        problem if "--" in sys.argv else f"{problem} Write the command that is to be sent after --."
    )


if __name__ == "__main__":
    entry.start(main, hint=_hint, words="-- COMMAND [+ COMMAND ...]")
