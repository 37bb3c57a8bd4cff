"""The console command `nevis-stream`, from a directory whose own packages have this project's
names.
"""

import importlib
import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from nevis_stream.launch import console
from nevis_stream.run_directory.ledger import Ledger

ROOT = Path(__file__).resolve().parents[2]
NCM = "--config=nearest_class_mean"


@pytest.fixture
def folder(tmp_path):
    """A directory with packages of other content."""
    for name in ("experiments", "launch", "learners", "nevis_stream"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('the wrong package')\n")
    return tmp_path


def nevis_stream(*words, cwd, status=0):
    """Runs it as the script of an installed wheel does, which finds nothing in its directory."""
    start = "from nevis_stream.launch.console import main; main()"
    done = subprocess.run(
        [sys.executable, "-P", "-c", start, *map(str, words)],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == status, done.stdout + done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout if status == 0 else done.stderr


def test_the_version_is_printed(folder):
    assert re.fullmatch(r"nevis-stream \d+\.\d+\S*\n", nevis_stream("--version", cwd=folder))


@pytest.mark.parametrize("command", ["evaluate", "label"])
def test_every_subcommand_names_a_function_that_exists(command):
    for each in importlib.import_module(f"nevis_stream.launch.{command}").SUBCOMMANDS:
        name = inspect.getclosurevars(each.main).nonlocals["function"]
        module, function = name.split(".")
        package = inspect.getclosurevars(each.main).nonlocals["package"]
        assert hasattr(importlib.import_module(f"nevis_stream.{package}.{module}"), function)


def test_a_study_of_the_installed_package_is_named(folder):
    shown = nevis_stream("run", "--config=studies/width", "--help", cwd=folder)
    assert "studies/width" in shown and "--config.network.width:" in shown
    assert "set by the learner or the budget (tiny 16, small 16)" in shown


def test_help_lists_every_command(folder):
    shown = nevis_stream("--help", cwd=folder)
    rows = dict(re.findall(r"^  (\S+) +(\S.*)$", shown, re.M))
    assert {"run", "report", "compare", "watch", "data", "evaluate", "sweep", "slurm"} < set(rows)
    assert {"pretrain", "transfer-matrix", "demo"} < set(rows)
    assert set(rows) == set(console.COMMANDS) and all(row.endswith(".") for row in rows.values())


def test_every_module_that_can_be_run_is_a_command():
    files = [
        file
        for file in (ROOT / "launch").glob("*.py")
        if "\nif __name__ ==" in file.read_text()
        and file.stem != "owned_program"  # the supervisor that other commands start
    ]
    assert sorted(console.find_module(name) for name in console.COMMANDS) == sorted(
        f"launch.{file.stem}" for file in files
    )
    assert list(console.COMMANDS) == sorted(console.COMMANDS)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "error: name a command: compare, data,"),
        (["rnu"], "error: unknown command 'rnu'. Did you mean 'run'? Valid: compare, data,"),
        (["run", NCM, "--runs_dir=x"], "'--run_dir'"),
        (["run", NCM, "--runs_dir=x"], "See: nevis-stream run --help\n"),
        (
            ["run", NCM, "--seeds=two"],
            "error: --seeds=two: a whole number is expected, for example",
        ),
        (["data", "shw"], "'show'"),
        (["data", "list", "--yera=3"], "See: nevis-stream data list --help\n"),
        (["evaluate", "stats", "--cache=none"], "To create one: nevis-stream evaluate import"),
        (["transfer-matrix"], "error: --indep"),
    ],
)
def test_messages_name_the_command_as_it_was_typed(folder, words, message):
    output = nevis_stream(*words, cwd=folder, status=2)
    assert message in output and "python -m" not in output


def test_help_names_the_command_as_it_was_typed(folder):
    for words in (["run"], ["evaluate", "add-model"]):
        shown = nevis_stream(*words, "--help", cwd=folder)
        assert f"Usage: nevis-stream {' '.join(words)} " in shown and "python -m" not in shown


@pytest.mark.slow
def test_runs_reports_and_jobs_in_a_directory_with_packages_of_the_same_names(folder):
    pytest.importorskip("submitit", reason="jobs are sent with submitit, which is not installed")
    shown = nevis_stream("run", NCM, "--run_dir=runs/a", cwd=folder)
    assert "next: nevis-stream report runs/a --out=report" in shown
    job = ["--executor=local", "--", "run", NCM, "--run_dir=runs/b"]
    assert "done: launch.run" in nevis_stream("slurm", *job, cwd=folder)
    assert Ledger(folder / "runs" / "b").complete
    nevis_stream("report", "runs/a", "runs/b", "--out=report", cwd=folder)
    assert (folder / "report" / "report.html").is_file()


@pytest.mark.parametrize(("wanted", "threads"), [(None, 1), ("2", 2)])
def test_blas_has_one_thread_unless_the_user_wants_more(wanted, threads):
    pytest.importorskip("threadpoolctl")
    program = (
        "from nevis_stream.launch import entry\n"
        "def work():\n"
        "    import scipy.linalg, threadpoolctl\n"
        "    pools = threadpoolctl.threadpool_info()\n"
        "    print([p['num_threads'] for p in pools if p['internal_api'] == 'openblas'])\n"
        "entry.guard(work)"
    )
    environment = {n: v for n, v in os.environ.items() if n != "OPENBLAS_NUM_THREADS"}
    environment |= {"OPENBLAS_NUM_THREADS": wanted} if wanted else {}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    found = set(json.loads(done.stdout))
    if not found:
        pytest.skip("numpy and scipy of this environment use no OpenBLAS")
    assert found == {min(threads, len(os.sched_getaffinity(0)))}
