"""A real SLURM of two nodes on this machine: jobs that meet what clusters do to them end with the
ledger of an undisturbed run.

Needs slurmctld, slurmd, slurm-client and munge (packages of Debian); their own services need not
run.
"""

import getpass
import os
import secrets
import shutil
import socket
import subprocess
import time

import psutil
import pytest

from nevis_stream.run_directory.ledger import Ledger
from tests import forked

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scontrol")
PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"
missing = [name for name in PROGRAMS if shutil.which(name, path=PATH) is None]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing), reason=f"no SLURM here: {', '.join(missing)} not found"),
]

RUN = [
    "launch.run",
    "--config=ft_prev",
    "--config.stream=pico",
    "--config.train.steps=300",
]
CONF = """
ClusterName=here
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthInfo=socket={folder}/munge.sock,cred_expire=10
SlurmctldPort={ports[0]}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SlurmdTimeout=10
KillWait=5
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=1,sched_interval=2,bf_interval=2
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=2
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=2
PartitionName=low Nodes=n[1-2] PriorityTier=1 GraceTime=10
PartitionName=high Nodes=n[1-2] PriorityTier=2 PreemptMode=OFF
"""


class Cluster:
    """Daemons in a folder of their own; commands find them by SLURM_CONF."""

    def __init__(self, folder):
        self.folder = folder
        probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
        ports = [probe.getsockname()[1] for probe in probes]
        for probe in probes:
            probe.close()
        host = socket.gethostname().partition(".")[0]
        (folder / "slurm.conf").write_text(
            CONF.format(folder=folder, ports=ports, host=host, user=getpass.getuser())
        )
        (folder / "state").mkdir()
        (folder / "key").write_bytes(secrets.token_bytes(128))
        (folder / "key").chmod(0o400)
        self.environment = os.environ | {"PATH": PATH, "SLURM_CONF": str(folder / "slurm.conf")}
        files = [
            f"--{name}={folder}/{file}"
            for name, file in (("socket", "munge.sock"), ("key-file", "key"))
        ]
        files += [
            f"--{name}={folder}/munge.{name}" for name in ("pid-file", "log-file", "seed-file")
        ]
        self._daemons = {}
        try:
            self._daemons["munged"] = self._start("munged", "--foreground", "--force", *files)
            wait_for((folder / "munge.sock").exists)
            self._daemons["slurmctld"] = self._start("slurmctld", "-D")
            for node in ("n1", "n2"):
                self.begin(node)
        except BaseException:
            self.shutdown()
            raise

    def _start(self, *words):
        with open(self.folder / f"{words[0]}.out", "a") as out:
            return subprocess.Popen(
                words,
                env=self.environment,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def begin(self, node):
        """Starts a node and waits until jobs can go to it."""
        self._daemons[node] = self._start("slurmd", "-D", "-N", node)
        wait_for(
            lambda: (
                self.says("sinfo", "-h", "-n", node, "-p", "low", "-o", "%t")
                in ("idle", "mix", "alloc")
            )
        )

    def lose(self, node):
        """A node is gone at once, with all that runs on it."""
        here = {"SLURM_CONF": self.environment["SLURM_CONF"], "SLURMD_NODENAME": node}
        of_jobs = [
            process
            for process in psutil.process_iter()
            if here.items() <= _environment(process).items()
        ]
        above = {
            parent
            for process in of_jobs
            for parent in process.parents()
            if parent.name() == "slurmstepd"
        }
        assert of_jobs and above
        for process in [psutil.Process(self._daemons[node].pid), *above, *of_jobs]:
            process.kill()
        self._daemons[node].wait()

    def says(self, *words):
        return subprocess.run(
            words, env=self.environment, capture_output=True, text=True, timeout=60
        ).stdout.strip()

    def send(self, run_dir, *words):
        """Sends a run with further flags; returns the job's number."""
        wishes = ["--partition=low", "--hours=1", f"--folder={self.folder / 'jobs'}"]
        sent = forked.run(
            "launch.slurm",
            *wishes,
            "--",
            *RUN,
            *words,
            f"--run_dir={run_dir}",
            env=self.environment,
        )
        assert sent.returncode == 0, sent.stderr
        return sent.stdout.partition("sent: ")[2].partition(":")[0]

    def job(self, number):
        """What SLURM knows of a job."""
        output = self.says("scontrol", "show", "job", number, "-o")
        return dict(word.split("=", 1) for word in output.split() if "=" in word)

    def end(self, number):
        """Waits for a job's end; returns its state."""
        wait_for(
            lambda: (
                self.job(number)["JobState"]
                in ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")
            ),
            300,
        )
        return self.job(number)["JobState"]

    def log(self, number):
        return "".join(
            path.read_text() for path in (self.folder / "jobs").glob(f"{number}_*_log.err")
        )

    def shutdown(self):
        self.says("scancel", "--user", getpass.getuser())
        for daemon in reversed(self._daemons.values()):
            daemon.terminate()
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()


def _environment(process):
    try:
        return process.environ()
    except psutil.Error:
        return {}


def wait_for(what, seconds=180):
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until
        time.sleep(0.2)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    pytest.importorskip("submitit", reason="jobs are sent with submitit, which is not installed")
    result = Cluster(tmp_path_factory.mktemp("slurm"))
    yield result
    result.shutdown()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The ledger's bytes of the run that no cluster has disturbed."""
    run_dir = tmp_path_factory.mktemp("undisturbed") / "run"
    done = forked.run(*RUN, f"--run_dir={run_dir}")
    assert done.returncode == 0, done.stderr
    return Ledger(run_dir).path.read_bytes()


def preempt(cluster, number, node):
    """A job that may push others out takes the whole node."""
    cluster.says(
        "sbatch",
        "--partition=high",
        f"--nodelist={node}",
        "--exclusive",
        "--output=/dev/null",
        "--wrap=sleep 5",
    )


def lose_the_node(cluster, number, node):
    """The node stops responding, SLURM gives its jobs to others; then it comes back."""
    cluster.lose(node)
    wait_for(
        lambda: (
            cluster.job(number)["JobState"] != "KILLED" or cluster.job(number)["NodeList"] != node
        )
    )
    cluster.begin(node)


def requeue(cluster, number, node):
    """An operator sends the job back."""
    cluster.says("scontrol", "requeue", number)


def reach_the_limit(cluster, number, node):
    """The time limit becomes one whose signal, 90 s before it, is due."""
    cluster.says("scontrol", "update", f"JobId={number}", "TimeLimit=1")
    wait_for(lambda: cluster.job(number)["Restarts"] == "1")
    cluster.says("scontrol", "update", f"JobId={number}", "TimeLimit=60")


@pytest.mark.parametrize("blow", [preempt, lose_the_node, requeue, reach_the_limit])
def test_a_disturbed_job_goes_on_and_ends_as_if_it_had_not_been(
    blow, cluster, undisturbed, tmp_path
):
    run_dir = tmp_path / "run"
    number = cluster.send(run_dir)
    wait_for(lambda: list(run_dir.glob("checkpoints/0002-*")))
    blow(cluster, number, cluster.job(number)["NodeList"])
    wait_for(lambda: cluster.job(number)["Restarts"] == "1")
    assert cluster.end(number) == "COMPLETED", cluster.log(number)
    assert Ledger(run_dir).path.read_bytes() == undisturbed
    assert len((run_dir / "environment.jsonl").read_text().splitlines()) == 2  # two starts


def test_cancelled_is_cancelled_and_a_mistake_is_not_sent_again(cluster, tmp_path):
    run_dir = tmp_path / "run"
    cancelled = cluster.send(run_dir)
    wait_for(lambda: list(run_dir.glob("checkpoints/0002-*")))
    cluster.says("scancel", cancelled)
    mistaken = cluster.send(tmp_path / "mistaken", "--config.stream=none.csv")
    assert (cluster.end(cancelled), cluster.end(mistaken)) == ("CANCELLED", "FAILED")
    assert "stopped by SIGTERM" in cluster.log(cancelled)
    assert "none.csv: no such file" in cluster.log(mistaken)
    time.sleep(15)  # a requeued job begins after its credentials' 10 s
    for number in (cancelled, mistaken):
        assert (
            cluster.job(number)["JobState"] in ("CANCELLED", "FAILED"),
            cluster.job(number)["Restarts"],
        ) == (True, "0")
