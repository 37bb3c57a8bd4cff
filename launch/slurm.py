"""Sends runs to a SLURM cluster with submitit; at the time limit and at preemption they requeue
themselves and continue.

  python -m launch.slurm --partition=gpu --hours=24 --gpus=1 -- launch.run --config=mt --run_dir=runs/a
  python -m launch.slurm --partition=gpu --hours=24 -- COMMAND + COMMAND     # several commands, one array
  python -m launch.slurm --partition=gpu --hours=24 --dry_run -- COMMAND     # print the script and the commands, send nothing
  python -m launch.slurm --executor=local -- COMMAND                         # on this machine, without SLURM

COMMAND is an entry point with its flags. launch.run with --seeds=N becomes N jobs, each with its
own RUN_DIR/seed-N. More in docs/clusters.md.
"""  # noqa: E501

import math
import sys
from pathlib import Path

from absl import flags

from launch import entry

_PARTITION = flags.DEFINE_string("partition", None, "Queue of the cluster; sinfo lists them.")
_HOURS = flags.DEFINE_float(
    "hours",
    None,
    "Time limit of one start of a job; it requeues and continues. Local default: 24.",
    lower_bound=0.05,
)
_GPUS = flags.DEFINE_integer("gpus", 0, "GPUs of a job.", lower_bound=0)
_CPUS = flags.DEFINE_integer("cpus", None, "Cores of a job; default: the cluster's.", lower_bound=1)
_MEMORY = flags.DEFINE_float(
    "memory_gb", None, "Main memory of a job; default: the cluster's.", lower_bound=0.1
)
_NODES = flags.DEFINE_integer(
    "nodes", 1, "Nodes of a job; a run is one process, so 1 is the only choice.", lower_bound=1
)
_PARALLEL = flags.DEFINE_integer(
    "array_parallelism",
    None,
    "Jobs that run at the same time; default: all, and 1 with --executor=local.",
    lower_bound=1,
)
_FOLDER = flags.DEFINE_string(
    "folder", "runs/slurm", "Logs and submitit's files; every node must see it."
)
_EXECUTOR = flags.DEFINE_string(
    "executor", "slurm", "slurm, local (this machine) or debug (this process, this terminal)."
)
_TIMEOUTS = flags.DEFINE_integer(
    "timeouts", 100, "Times that a job may reach its time limit and continue.", lower_bound=0
)
_SETUP = flags.DEFINE_multi_string(
    "setup", [], "A line of shell before the job; may be given several times."
)
_SBATCH = flags.DEFINE_multi_string(
    "sbatch",
    [],
    "A further option of sbatch, for example account=mine; may be given several times.",
)
_DRY_RUN = flags.DEFINE_bool("dry_run", False, "Print the script and the commands; send nothing.")


def main(argv):
    """Sends the jobs, or prints what would be sent."""
    from launch import commands, sending
    from launch.job import Job
    from nevis_stream.errors import unknown

    executor, folder = _EXECUTOR.value, _FOLDER.value
    if executor not in sending.EXECUTORS:
        entry.fail(unknown("executor", executor, sending.EXECUTORS))
    found = commands.jobs(argv)
    if executor == "slurm" and not (_PARTITION.value and _HOURS.value):
        missing = [
            name
            for name, value in (("--partition", _PARTITION.value), ("--hours", _HOURS.value))
            if not value
        ]
        entry.fail(
            f"{' and '.join(missing)} missing: the queue and the time limit of a job. sinfo lists"
            " both."
        )
    if _NODES.value != 1:
        entry.fail(
            f"--nodes={_NODES.value}: a run is one process on one node; send more runs instead,"
            " with --seeds or +."
        )
    sending.require_submitit()
    commands.check_configs(found)
    jobs = [Job(words, str(Path.cwd())) for words in found]
    wishes = sending.Wishes(
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
            print(sending.sbatch_text(jobs, folder, wishes))
        print("\n".join(f"# job {number}: python -m {job}" for number, job in enumerate(jobs)))
        print("Nothing was sent.")
    elif executor == "slurm":
        sent = sending.send(jobs, folder, wishes)
        for job, words in zip(sent, jobs, strict=True):
            print(f"sent: {job.job_id}: {words}")
        number = sent[0].job_id.partition("_")[0]
        print(
            f"logs: {folder}/{number}*_log.out and .err; state: squeue --jobs={number}; to stop:"
            f" scancel {number}"
        )
    elif failed := sending.run_here(jobs, folder, wishes, in_process=executor == "debug"):
        print(
            f"{failed} of {len(jobs)} jobs failed; the same command continues what is not complete",
            file=sys.stderr,
        )
        sys.exit(1)


def _hint(problem: str) -> str:
    return problem if "--" in sys.argv else f"{problem} The command to be sent comes after --."


if __name__ == "__main__":
    entry.start(main, hint=_hint, words="-- COMMAND [+ COMMAND ...]")
