"""Sending runs to a cluster: what is sent, and jobs that are stopped, requeued and go on."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nevis_stream.errors import BadInput, NevisStreamError, RunWarning
from nevis_stream.launch import commands, job
from nevis_stream.launch.job import Job
from nevis_stream.run_directory.ledger import Ledger
from tests import forked

submitit = pytest.importorskip(
    "submitit", reason="jobs are sent with submitit, which is not installed"
)

NCM = "--config=nearest_class_mean"
FT = "--config=ft_prev"
SLURM = ["--partition=gpu", "--hours=1.5"]


def launch(*words, start=forked.run, **options):
    return start("launch.slurm", *words, **options)


def wait_for(what, seconds=120):
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([*SLURM], "a command is missing: write it after --"),
        (
            [*SLURM, "--", "launch.run", NCM, "--run_dir=x", "+"],
            "before or after a '+'",
        ),
        (
            [*SLURM, "--", "launch.rn", NCM],
            "'launch.run'",
        ),
        ([*SLURM, "--", "launch.slurm"], "'launch.slurm'"),
        ([*SLURM, "--", "launch.run", NCM], f"launch.run {NCM}: --run_dir"),
        ([*SLURM, "--", "launch.run", "--run_dir=x"], "--run_dir=x: --config"),
        (
            [*SLURM, "--", "launch.run", "--config=none.py", "--run_dir=x"],
            "launch.run --config=none.py --run_dir=x: --config=none.py: ",
        ),
        (
            [*SLURM, "--", "launch.run", NCM, "--run_dir=x", "--seeds=no"],
            "--seeds=no: ",
        ),
        (
            [*SLURM, "--", "launch.run", NCM, "--run_dir=x", "+", "launch.run", FT, "--run_dir=x"],
            "two jobs would write",
        ),
        (
            [
                *SLURM,
                "--",
                "launch.run",
                NCM,
                "--run_dir=a/x",
                "+",
                "launch.run",
                FT,
                "--run_dir=a/../a/x",
            ],
            "--run_dir=a/x: two",
        ),
        (
            [*SLURM, "--", "launch.run", NCM, "--run_dir=README.md"],
            "--run_dir=README.md: README.md is a file",
        ),
        (["--hours=1", "--", "launch.run", NCM, "--run_dir=x"], "--partition missing"),
        (
            [*SLURM, "--nodes=2", "--", "launch.run", NCM, "--run_dir=x"],
            "--nodes=2: a run is one process on one node",
        ),
        (
            [*SLURM, "--", "launch.run", FT, "--config.budget=tny", "--run_dir=x"],
            "'tiny'",
        ),
        (
            [*SLURM, "--", "launch.run", FT, "--config.ensemble=9", "--run_dir=x"],
            "config.ensemble is 9",
        ),
        (
            [*SLURM, "--", "launch.run", FT, "--config.train.stps=9", "--run_dir=x"],
            "'train.steps'",
        ),
        (
            [*SLURM, "--", "launch.run", "--config.train.steps=x", FT, "--run_dir=x"],
            "--config.train.steps=x: ",
        ),
        (
            [
                *SLURM,
                "--",
                "launch.run",
                NCM,
                "--run_dir=x",
                "+",
                "launch.run",
                FT,
                "--config.keep=x",
                "--run_dir=y",
            ],
            "'x'",
        ),
        (
            [*SLURM, "--", "launch.run", NCM, "--config.stream=pcio", "--run_dir=x"],
            "'pico'",
        ),
        (
            [*SLURM, "--", "launch.run", FT, "--config.seed=x", "--run_dir=x"],
            "--config.seed=x: ",
        ),
        ([*SLURM, "--", "launch.run", FT, "--flagfile=none", "--run_dir=x"], "error: launch.run"),
        (
            ["--executor=slrum", "--", "launch.run", NCM, "--run_dir=x"],
            "'slurm'",
        ),
        (
            [*SLURM, "--sbatch==x", "--dry_run", "--", "launch.run", NCM, "--run_dir=x"],
            "it must be NAME=VALUE",
        ),
        (
            [*SLURM, "launch.run", NCM, "--run_dir=x"],
            "Write the command that is to be sent after --.",
        ),
        (
            [*SLURM, "--", "launch.run", NCM, "--run_dir=x"],
            "sbatch and srun not found. Run this command on a machine",
        ),
    ],
)
def test_a_mistake_gets_one_clear_message(words, message, tmp_path):
    done = launch(*words, env=os.environ | {"PATH": str(tmp_path)})
    assert done.returncode == 2
    assert done.stderr.startswith("error: ") and message in done.stderr
    assert "Traceback" not in done.stderr


def test_without_submitit_it_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(NevisStreamError, match=r"submitit.*'\.\[cluster\]'"):
        job.require_submitit()


@pytest.mark.parametrize(
    "words",
    [
        [
            "--config.train.steps=9",
            "--config.train.validate_every",
            "3",
            FT,
            "--executor",
            "threads",
            "--notensorboard",
        ],
        [
            "--config",
            "studies/order",
            "--config.search.learning_rate=(0.1, 0.2)",
            "--config.seed=4",
        ],
        ["--config=own.py:7", "--config.stream=not_yet.csv", "--noconfig.augmentation.flip"],
    ],
)
def test_what_a_run_takes_is_sent(words, tmp_path):
    own = (
        "from nevis_stream.configs import run_config\n\ndef get_config(_):\n    return"
        " run_config.make_default('indep')\n"
    )
    (tmp_path / "own.py").write_text(own)
    words = [word.replace("=own.py", f"={tmp_path / 'own.py'}") for word in words]
    commands.check_configs(
        [["launch.run", *words, "--run_dir=x"], ["launch.report", "x", "--out=y"]]
    )


def test_jobs_that_only_read_run_directories_may_share_them():
    add = ["launch.evaluate", "add-samples", "--splits=test", "--run_dir=runs", "--budget=8"]
    words = [*add, "--cache=caches/a", "+", *add, "--cache=caches/b"]
    assert len(commands.list_jobs(words)) == 2
    run = ["launch.run", NCM, "--run_dir=runs"]
    with pytest.raises(BadInput, match="two jobs would write"):
        commands.list_jobs([*run, "+", *run])


def test_weights_that_are_not_there_yet_are_no_mistake():
    words = [
        "-config=pt_ft",
        "--config.pretrained.path=not/yet.safetensors",
        "--run_dir=x",
    ]
    with pytest.warns(
        RunWarning,
        match="not/yet.safetensors does not exist yet, so this command is not checked: launch.run",
    ):
        commands.check_configs([["launch.run", *words]])


@pytest.mark.parametrize(
    ("returned", "message"), [("None", "returns nothing"), ("[1]", "returns a list")]
)
def test_a_file_without_a_config_is_named(returned, message, tmp_path):
    (tmp_path / "own.py").write_text(f"def get_config():\n    return {returned}\n")
    for module, words in (
        ("launch.slurm", [*SLURM, "--dry_run", "--", "launch.run"]),
        ("launch.run", []),
    ):
        done = forked.run(module, *words, f"--config={tmp_path}/own.py", "--run_dir=x")
        assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr


def test_each_seed_is_a_job():
    words = ["launch.run", NCM, "--config.budget=small", "--run_dir", "runs/a", "--seeds=3"]
    head = ["launch.run", NCM, "--config.budget=small"]
    result = commands.list_jobs(
        [*words, "--config.seed=4", "+", "launch.report", "runs/b", "--out=page"]
    )
    assert result[:3] == [
        [*head, f"--config.seed={seed}", f"--run_dir=runs/a/seed-{seed}"] for seed in (4, 5, 6)
    ]
    assert result[3:] == [["launch.report", "runs/b", "--out=page"]]
    assert [job[-2] for job in commands.list_jobs(words)] == [
        "--config.seed=0",
        "--config.seed=1",
        "--config.seed=2",
    ]
    alone = ["launch.run", NCM, "--run_dir=runs/a", "--seeds=1"]
    assert commands.list_jobs(alone) == [alone]
    with pytest.raises(BadInput, match="two jobs would write"):
        commands.list_jobs([*words, "+", "launch.run", FT, "--run_dir=runs/../runs/a/seed-2"])


def test_seeds_begin_where_the_config_says(tmp_path):
    config = tmp_path / "own.py"
    config.write_text(
        "import ml_collections\n\ndef get_config():\n    return ml_collections.ConfigDict({'seed':"
        " 7})\n"
    )
    result = commands.list_jobs(["launch.run", f"--config={config}", "--run_dir=a", "--seeds=2"])
    assert [job[-1] for job in result] == ["--run_dir=a/seed-7", "--run_dir=a/seed-8"]


def test_dry_run_prints_the_script(tmp_path):
    words = [
        *SLURM,
        "--gpus=2",
        "--cpus=8",
        "--memory_gb=31.5",
        "--array_parallelism=2",
        "--sbatch=account=lab",
    ]
    words += [
        "--sbatch=exclusive",
        "--setup=module load cuda",
        f"--folder={tmp_path / 'logs'}",
        "--dry_run",
    ]
    done = launch(
        *words,
        "--",
        "launch.run",
        NCM,
        f"--run_dir={tmp_path / 'r'}",
        "--seeds=3",
        start=forked.alone,
    )
    assert done.returncode == 0, done.stderr
    options = dict(re.findall(r"^#SBATCH --([\w-]+)(?:=(.*))?$", done.stdout, re.M))
    expected = {
        "partition": "gpu",
        "time": "90",
        "gpus-per-node": "2",
        "cpus-per-task": "8",
        "mem": "32256M",
    }
    expected |= {
        "signal": "USR2@90",
        "array": "0-2%2",
        "requeue": "",
        "account": "lab",
        "exclusive": "",
        "nodes": "1",
    }
    assert {name: options[name] for name in expected} == expected
    assert re.search(r"^export PYTHONSAFEPATH=1$(.|\n)*^module load cuda$", done.stdout, re.M)
    assert f"_submit {tmp_path / 'logs'}\n" in done.stdout
    assert "--cpus-per-task=8 " in done.stdout.partition("srun ")[2]
    assert (
        f"# job 2: python -m launch.run {NCM} --config.seed=2 --run_dir={tmp_path / 'r' / 'seed-2'}"
        in done.stdout
    )
    assert not list(tmp_path.iterdir())
    first = launch(*SLURM, "--dry_run", "--", "run", NCM, f"--run_dir={tmp_path / 'r'}")
    assert f"# job 0: python -m launch.run {NCM}" in first.stdout
    assert "--array" not in first.stdout and "--gpus" not in first.stdout


def test_the_local_executor_runs_and_tells_of_failures(tmp_path, small_stream):
    words = [
        "--executor=local",
        "--hours=1",
        "--array_parallelism=2",
        f"--folder={tmp_path / 'logs'}",
        "--",
    ]
    quick = ["launch.run", NCM, f"--config.stream={small_stream}"]
    words += [*quick, f"--run_dir={tmp_path / 'r'}", "--seeds=2", "+"]
    words += ["launch.run", NCM, "--config.stream=none.csv", f"--run_dir={tmp_path / 'x'}"]
    done = launch(*words)
    assert done.returncode == 1, done.stderr
    assert done.stdout.count("done: ") == 2
    assert [Ledger(tmp_path / "r" / f"seed-{seed}").header.seed for seed in (0, 1)] == [0, 1]
    assert all(Ledger(tmp_path / "r" / f"seed-{seed}").complete for seed in (0, 1))
    assert "exit status 2: a mistake in the command; error: none.csv: " in done.stdout
    assert "1 of 3 jobs failed" in done.stderr
    debug = launch(
        "--executor=debug",
        f"--folder={tmp_path / 'logs'}",
        "--",
        *quick,
        f"--run_dir={tmp_path / 'd'}",
    )
    assert debug.returncode == 0 and Ledger(tmp_path / "d").complete, debug.stderr


# Jobs that are signalled. Three programs imitate a cluster: sbatch keeps the script, srun
# starts its command, scontrol keeps what it is asked. As SLURM does, signals go to every process of
# the job.


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """Directory where sent scripts and requeues are kept."""
    programs = tmp_path / "cluster"
    programs.mkdir()
    for name, text in {
        "sbatch": 'cp "$1" "$(dirname "$0")/script.sh"; echo Submitted batch job 7',
        "srun": (
            'while [ "${1#-}" != "$1" ]; do case "$1" in --output|--error) shift;; esac; shift;'
            ' done; exec "$@"'
        ),
        "scontrol": 'echo "$@" >> "$(dirname "$0")/asked"',
    }.items():
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    return programs


def start(cluster):
    """Starts the sent script as SLURM would, in a process group of its own; the shell itself
    survives signals.
    """
    command = ["bash", "-c", f"trap : TERM USR2; . {cluster / 'script.sh'}"]
    environment = os.environ | {"SLURM_JOB_ID": "7"}
    with open(cluster / "log", "a") as log:
        return subprocess.Popen(
            command, env=environment, start_new_session=True, stdout=log, stderr=subprocess.STDOUT
        )


def log(cluster):
    return (cluster / "log").read_text()


@pytest.mark.slow
def test_a_job_is_requeued_and_ends_with_the_same_ledger(tmp_path, cluster, small_stream):
    words = [
        "launch.run",
        FT,
        f"--config.stream={small_stream}",
        "--config.network.name=mlp",
        "--config.network.hidden=(8,)",
    ]
    words += [
        "--config.train.steps=1500",
        "--config.train.validate_every=50",
        "--config.search.trials=1",
    ]
    words += ["--config.search.learning_rate=(0.001,0.002)", "--checkpoint_seconds=0"]
    plain = forked.run(*words, f"--run_dir={tmp_path / 'plain'}")
    assert plain.returncode == 0, plain.stderr
    run_dir = tmp_path / "run"
    sent = launch(*SLURM, f"--folder={tmp_path / 'logs'}", "--", *words, f"--run_dir={run_dir}")
    assert sent.returncode == 0, sent.stderr
    assert "sent: 7: launch.run" in sent.stdout
    # a line of each start: before it a signal finds no handler
    begun = run_dir / "environment.jsonl"
    for requeues, (task, numbers) in enumerate(
        [("0000", [signal.SIGUSR2]), ("0002", [signal.SIGTERM, signal.SIGUSR2])], 1
    ):
        process = start(cluster)
        wait_for(lambda count=requeues: begun.exists() and begun.read_text().count("\n") == count)
        wait_for(lambda task=task: list(run_dir.glob(f"checkpoints/{task}-*")))
        for number in numbers:  # the time limit; then a preemption, which begins with TERM
            os.killpg(process.pid, number)
            wait_for(lambda count=requeues: log(cluster).count("stopped by SIG") == count)
        process.wait(60)
        assert (cluster / "asked").read_text() == requeues * "requeue 7\n"
        assert not Ledger(run_dir).complete
    assert start(cluster).wait(120) == 0, log(cluster)
    assert Ledger(run_dir).complete
    assert Ledger(run_dir).path.read_bytes() == Ledger(tmp_path / "plain").path.read_bytes()
    again = launch(
        *SLURM, f"--folder={tmp_path / 'logs'}", "--", *words, f"--run_dir={run_dir}", "--seeds=2"
    )
    assert "sent: 7_0: " in again.stdout and "sent: 7_1: " in again.stdout


@pytest.fixture
def own_path(tmp_path, monkeypatch):
    """Jobs find programs of the test."""
    folders = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(folders))


def own_job(cluster, tmp_path, program):
    """Sends a program of the test, and starts it."""
    from submitit.slurm.slurm import SlurmExecutor

    (tmp_path / "own_program.py").write_text(program)
    SlurmExecutor(tmp_path / "logs").submit(Job(["own_program"], tmp_path))
    return start(cluster)


SLEEP = "import time; print('begun', flush=True); time.sleep(600)"
BUSY = (
    "import os, signal; [signal.signal(number, lambda *_: os._exit(2)) for number in (10, 12,"
    f" 15)]; {SLEEP}"
)


def test_a_cancelled_job_stays_cancelled(tmp_path, own_path, cluster):
    process = own_job(cluster, tmp_path, SLEEP)
    wait_for(lambda: "begun" in log(cluster))
    os.killpg(process.pid, signal.SIGTERM)
    time.sleep(1)
    assert process.poll() is None  # SLURM ends it, or sends the signal at which it requeues
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(30)
    assert not (cluster / "asked").exists()


@pytest.mark.parametrize(
    ("program", "sent"), [("exit(2)", None), ("exit(1)", None), (BUSY, signal.SIGUSR2)]
)
def test_a_failed_command_is_not_requeued(tmp_path, own_path, cluster, program, sent):
    process = own_job(cluster, tmp_path, program)
    if sent:
        wait_for(lambda: "begun" in log(cluster))
        os.killpg(process.pid, sent)
    assert process.wait(60) != 0
    assert not (cluster / "asked").exists()
    assert "a mistake in the command" in log(cluster) or program == "exit(1)"


def test_a_checkpoint_ends_the_command_and_is_the_same_job(tmp_path, own_path):
    (tmp_path / "own_program.py").write_text(
        "import time, pathlib; pathlib.Path('begun').touch(); time.sleep(600)"
    )
    job = Job(["own_program"], tmp_path)
    job._start()
    wait_for((tmp_path / "begun").exists)
    again = job.checkpoint()
    assert job._child.returncode == -signal.SIGTERM
    assert isinstance(again, submitit.helpers.DelayedSubmission)
    assert (again.function.words, again.function.directory) == (job.words, job.directory)
    (tmp_path / "own_program.py").write_text("open('ended', 'w')")
    again.result()
    assert (tmp_path / "ended").exists()


def test_a_command_ends_with_a_job_that_is_killed(tmp_path, own_path):
    program = "import os, time; open('pid', 'w').write(str(os.getpid())); time.sleep(600)"
    (tmp_path / "own_program.py").write_text(program)
    words = f"from nevis_stream.launch.job import Job; Job(['own_program'], {str(tmp_path)!r})()"
    job, file = subprocess.Popen([sys.executable, "-c", words]), tmp_path / "pid"
    wait_for(lambda: file.exists() and file.read_text())
    job.kill()
    job.wait()
    stat = Path(f"/proc/{file.read_text()}/stat")
    wait_for(lambda: not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z")


def test_the_local_executor_starts_a_stopped_job_again(tmp_path, own_path):
    from submitit.local.local import LocalExecutor

    program = (
        "import os, pathlib, time; again = pathlib.Path('job').exists(); print(os.getppid(),"
        " file=open('job', 'w'))"
    )
    (tmp_path / "own_program.py").write_text(f"{program}; again or time.sleep(600)")
    executor = LocalExecutor(tmp_path / "logs")
    executor.update_parameters(timeout_min=60)
    sent = executor.submit(Job(["own_program"], tmp_path))
    wait_for(lambda: (tmp_path / "job").exists() and (tmp_path / "job").read_text())
    os.kill(int((tmp_path / "job").read_text()), signal.SIGUSR2)
    assert sent.exception() is None, sent.stderr()
    assert "Requeued job" in sent.stdout()
