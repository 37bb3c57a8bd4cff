"""The entry points as a user meets them: real processes."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from nevis_stream.launch import config_flag
from nevis_stream.run_directory.ledger import Ledger
from tests import forked

NCM = "--config=nearest_class_mean"
FT = "--config=ft_prev"
MLP = ["--config.network.name=mlp", "--config.network.hidden=(8,)"]


def launch(module, *words, start=forked.run, **options):
    return start(f"launch.{module}", *words, **options)


@pytest.mark.parametrize("last", ["--dry_run", "--run_dir=run"])
def test_a_run_makes_its_config_and_its_learner_once(tmp_path, last):
    words = [FT, "--config.train.steps=2", "--config.search.trials=1", *MLP, last]
    words.append("--config.stream=adaptive:pico_digits,rounds=2,samples=20")
    if last == "--dry_run":
        words[-1] = "--config.stream=pico"
    done = forked.run("tests.launch.counted_run", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    made = {"BaselineConfig": 1, "RunConfig": 1, "Baseline": 1}
    assert done.stderr.splitlines()[-1] == str(made)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "--config is missing; give the name of a learner (indep, "),
        (["--config=ft_prv"], "'ft_prev'"),
        (
            ["--config=none.py"],
            "--config=none.py: no such file or directory. You can also give the name",
        ),
        ([NCM], "error: --run_dir"),
        ([NCM, "extra"], "'extra': this command takes flags only"),
        ([NCM, "--runs_dir=x"], "'--run_dir'"),
        (
            [NCM, "--config.budgt=tiny"],
            "'budget'",
        ),
        (
            [FT, "--config.train.steps=many"],
            "--config.train.steps=many: the value must be of type int, not 'many'",
        ),
        (
            [FT, "--config.train.steps=-1", "--run_dir=x"],
            "config.train.steps is -1",
        ),
        (
            [FT, "--config.augmentation.min_area=2", "--run_dir=x"],
            "config.augmentation.min_area is 2.0",
        ),
        (
            [FT, "--config.train.warmup_share=1.5", "--run_dir=x"],
            "config.train.warmup_share is 1.5",
        ),
        (
            [FT, "--config.search.learning_rate=(0,0.1)", "--run_dir=x"],
            "config.search.learning_rate is (0, 0.1)",
        ),
        (
            [FT, "--config.budget=tny", "--run_dir=x"],
            "'tiny'",
        ),
        ([NCM, "--config.stream=pic", "--run_dir=x"], "'pico'"),
        ([NCM, "--config.stream=none.csv", "--run_dir=x"], "none.csv: "),
        ([NCM, "--config.protocol=test", "--run_dir=x"], "'test'"),
        ([NCM, "--config.learner=ncm", "--run_dir=x"], "'ncm'"),
        ([NCM, "--seeds=0"], "seeds"),
        (
            [FT, "--config.network.name=resnet43", "--run_dir=x"],
            "'resnet34'",
        ),
        (
            [NCM, "--run_dir=README.md"],
            "--run_dir=README.md: README.md is a file; a directory is expected",
        ),
        (
            [NCM, "--run_dir=README.md/a"],
            "--run_dir=README.md/a: README.md is a file",
        ),
        ([NCM, "--dry_run", "--executor=foo"], "'foo'"),
        (
            [NCM, "--dry_run", "--executor=inline", "--workers=2"],
            "--workers needs --executor=threads",
        ),
        (
            [NCM, "--dry_run", "--executor=threads", "--devices=2"],
            "--devices cannot be combined with --executor=threads",
        ),
        (
            [FT, "--config.search.learning_rate=(1,)", "--run_dir=x"],
            "random search needs (low, high)",
        ),
        (
            [FT, "--config.search.learning_rate=(0.1,0.01)", "--dry_run"],
            "config.search.learning_rate is (0.1, 0.01), (low, high): low is above high.",
        ),
    ],
)
def test_a_mistake_gets_one_clear_message(words, message):
    done = launch("run", *words)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("error: ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n", "own.py: has no function get_config"),
        ("def get_config():\n    return (\n", "own.py, line 2: SyntaxError: '(' was never closed"),
        (
            "def get_config(name):\n    return name\n",
            "own.py: TypeError: get_config() missing 1 required",
        ),
        (
            (
                "import ml_collections\n\ndef get_config():\n    return"
                " ml_collections.ConfigDict({'seed': 7})\n"
            ),
            "config.learner ",
        ),
        (
            "import no_such_module\n",
            "own.py, line 1: ModuleNotFoundError: No module named 'no_such_module'",
        ),
        (
            (
                "from nevis_stream.configs import run_config\n\ndef get_config():\n    config ="
                " run_config.make_default('indep')\n    config.train.steps = 'abc'\n"
                "    return config\n"
            ),
            "own.py, line 5: TypeError: ",
        ),
        (
            "from nevis_stream.experiments import run_config\n",
            "own.py, line 1: ImportError: nevis_stream.experiments.run_config is now"
            " nevis_stream.configs.run_config",
        ),
    ],
)
def test_a_config_file_that_fails_is_named_with_its_line(tmp_path, text, message):
    (tmp_path / "own.py").write_text(text)
    done = launch("run", f"--config={tmp_path / 'own.py'}", "--run_dir=x")
    assert done.returncode == 2
    assert (
        message in done.stderr
        and done.stderr.startswith("error: ")
        and "Traceback" not in done.stderr
    )


def test_help_teaches():
    done = launch("run", "--help")
    assert done.returncode == 0
    for word in (
        "python -m launch.run --config",
        "Budgets: tiny, small, cheap, paper",
        "--config.train.steps",
        "pico",
    ):
        assert word in done.stdout


def test_help_of_a_report_names_what_it_writes():
    assert "Writes report.html" in launch("report", "--help").stdout


@pytest.mark.parametrize("name", ["run", "pretrain", "sweep"])
def test_help_names_the_config_wherever_there_is_one(name):
    assert "\n  --config: Name of a learner" in launch(name, "--help").stdout


def test_help_may_be_read_in_part():
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "launch.run", "--help"],
        stdout=write,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(
    "budget", ["tiny", *(pytest.param(name, marks=pytest.mark.slow) for name in ("cheap", "paper"))]
)
def test_dry_run_plans_and_runs_nothing(small_stream, tmp_path, budget):
    words = [
        FT,
        *MLP,
        f"--config.stream={small_stream}",
        f"--config.budget={budget}",
        f"--run_dir={tmp_path / 'r'}",
    ]
    done = launch("run", *words, "--dry_run")
    assert done.returncode == 0, done.stderr
    trials, steps = {"tiny": (2, 120), "cheap": (4, 25_000), "paper": (16, 50_000)}[budget]
    assert f"2 tasks, {2 * trials} trials, {2 * trials * steps} steps" in " ".join(
        done.stdout.split()
    )
    assert "Nothing was run" in done.stdout
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize("config", [[FT], FT.split("=")])
def test_values_may_stand_before_their_config(config):
    words = config_flag.split_words(
        ["--config.budget=small", "--dry_run", "--config.network.name=mlp", *config]
        + ["--config.seed=3"]
    )
    made = words.config()
    assert (made.learner, made.budget, made.network.name) == ("ft_prev", "small", "mlp")
    assert made.seed == 3 and words.rest == ["--dry_run"]


@pytest.fixture(scope="module")
def seeded(small_stream, tmp_path_factory):
    """Runs of three seeds, their command, and what was said."""
    folder = tmp_path_factory.mktemp("seeded")
    words = [NCM, f"--config.stream={small_stream}", "--seeds=3"]
    done = launch("run", *words, f"--run_dir={folder}", start=forked.alone)
    assert done.returncode == 0, done.stderr
    return SimpleNamespace(folder=folder, runs=sorted(folder.iterdir()), words=words, done=done)


def test_each_seed_is_a_run(seeded):
    assert [run.name for run in seeded.runs] == ["seed-0", "seed-1", "seed-2"]
    assert [Ledger(run).header.seed for run in seeded.runs] == [0, 1, 2]
    assert all(Ledger(run).complete for run in seeded.runs)


def test_each_run_ends_with_its_mean_error_and_its_cost(seeded):
    assert seeded.done.stdout.count("mean error 0.") == 3
    assert "; FLOPs of all phases: " in seeded.done.stdout


def test_complete_runs_are_not_run_again(seeded, tmp_path):
    shutil.copytree(seeded.folder, tmp_path / "runs")
    assert launch("run", *seeded.words, f"--run_dir={tmp_path / 'runs'}").returncode == 0
    for run in seeded.runs:
        assert (
            Ledger(tmp_path / "runs" / run.name).path.read_bytes() == Ledger(run).path.read_bytes()
        )


def test_runs_are_reported(seeded, tmp_path):
    report = launch("report", *seeded.runs, f"--out={tmp_path / 'page'}", start=forked.alone)
    assert report.returncode == 0, report.stderr
    assert "nearest_class_mean" in (tmp_path / "page" / "report.html").read_text()


def test_a_report_of_no_run_is_refused(tmp_path):
    nothing = launch("report", tmp_path / "none", f"--out={tmp_path / 'other'}")
    assert nothing.returncode == 2
    assert "Traceback" not in nothing.stderr and "none" in nothing.stderr


def test_explicit_values_win_over_the_budget(small_stream, tmp_path):
    words = [
        FT,
        f"--config.stream={small_stream}",
        f"--run_dir={tmp_path / 'r'}",
        "--config.train.steps=3",
    ]
    words += [
        "--config.network.name=mlp",
        "--config.network.hidden=(8,)",
        "--config.search.trials=1",
    ]
    done = launch("run", *words)
    assert done.returncode == 0, done.stderr
    config = json.loads((tmp_path / "r" / "config.json").read_text())
    assert (config["train"]["steps"], config["search"]["trials"], config["network"]["hidden"]) == (
        3,
        1,
        [8],
    )
    assert config["network"]["stage_sizes"] is None
    assert config["train"]["validate_every"] == 30  # the budget's
    assert "FLOPs" not in done.stderr and "two: error" in done.stderr.replace("2020 ", "")


@pytest.mark.parametrize(
    "sent",
    [
        signal.SIGTERM,
        *(
            pytest.param(each, marks=pytest.mark.slow)
            for each in (signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2)
        ),
    ],
)
def test_a_signal_stops_it_and_the_same_command_goes_on(small_stream, tmp_path, sent):
    words = [
        FT,
        f"--config.stream={small_stream}",
        "--config.network.name=mlp",
        "--config.network.hidden=(8,)",
    ]
    words += [
        "--config.train.steps=30000",
        "--config.train.validate_every=50",
        "--checkpoint_seconds=0",
    ]
    child = forked.Started("launch.run", *words, f"--run_dir={tmp_path / 'r'}")
    progress = tmp_path / "r" / "checkpoints" / "0000-one.progress"
    until = time.monotonic() + 120
    while not progress.exists():
        assert child.poll() is None and time.monotonic() < until, child.stderr
        time.sleep(0.05)
    child.send_signal(sent)
    assert child.wait(60) in (143, 130), child.stderr
    assert "start the same command again to continue" in child.stderr
    assert "Traceback" not in child.stderr
    assert progress.exists()
