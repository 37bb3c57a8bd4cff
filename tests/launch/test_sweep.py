"""Sweeps as a user meets them: real processes."""

import json
import re
import shlex
import shutil
import signal
import time
from types import SimpleNamespace

import pytest

from nevis_stream.launch import commands
from nevis_stream.run_directory.ledger import Ledger
from tests import forked

INDEP = "--config=indep"
QUICK = [
    "--config.network.name=mlp",
    "--config.network.hidden=(8,)",
    "--config.network.resolution=8",
]


def sweep(*words, start=forked.run):
    return start("launch.sweep", INDEP, *words)


def grid(stream):
    """Two numbers of trials with two of steps."""
    return [f"--config.stream={stream}", *QUICK, "--trials=1,2", "--steps=4,8"]


def table(printed):
    """The cells of the table in what was printed, but those of its head."""
    return [
        [cell.strip() for cell in line.split("│")[1:-1]]
        for line in printed.splitlines()
        if line.startswith("│")
    ]


def ledgers(directory):
    return {
        str(path.parent.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("ledger.jsonl"))
    }


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "nothing to sweep: give --trials=2,4"),
        (["--trials=2"], "error: --run_dir"),
        (["--trials=2", "--dry_run", "--commands"], "error: --run_dir"),
        (
            ["--trials=2", "--run_dir=README.md"],
            "--run_dir=README.md: README.md is a file",
        ),
        (["--trials=2,many"], "search.trials=many: "),
        (["--trials=2,,4"], "search.trials=: "),
        (["--trials=0,2"], "search.trials=0: config.search.trials is 0"),
        (["--trials=2,2"], "search.trials=2 and search.trials=2 would have the same directory"),
        (["--trials=2,3", "--set=search.trials=4"], "search.trials is swept twice"),
        (
            ["--trials=2,3", "--config.search.trials=4"],
            "--config.search.trials sets a value that is also swept",
        ),
        (
            ["--set=network.widt=8"],
            "'network.width'",
        ),
        (["--set=network.width"], "'network.width': --set needs KEY=V1,V2"),
        (
            ["--set=network.name=mlp,resnet43"],
            "network.name=resnet43: ",
        ),
        (
            ["--set=augmentation.crop=true,perhaps"],
            "augmentation.crop=perhaps: ",
        ),
        (
            ["--set=network.width=16,8", "--config.network.width=8"],
            "--config.network.width sets a value that is also swept",
        ),
        (["--set=seed=1,2"], "seed cannot be swept: use --seeds=N"),
        (
            ["--set=learner=ft_prev,nearest_class_mean", "--config.train.steps=4"],
            "learner nearest_class_mean: ",
        ),
        (["--set=budget=tiny,tny"], "budget=tny: "),
        (
            ["--trials=2,4", "--config.budget=cheap"],
            "a grid search runs every combination of its values",
        ),
        (
            ["--trials=2,4", "--config.budgt=tiny"],
            "'budget'",
        ),
        (["--trial=2,4"], "'--trials'"),
        (["--trials=2,4", "8"], "'8': this command takes flags only"),
        (["--set=stream=pico,pic", "--dry_run"], "'pico'"),
    ],
)
def test_a_mistake_gets_one_clear_message(words, message):
    done = sweep(*words)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr and done.stderr.startswith("error: ")


def test_steps_of_an_own_learner_are_swept_with_set(tmp_path):
    (tmp_path / "stepper.py").write_text(
        "import dataclasses\n\n@dataclasses.dataclass(frozen=True)\nclass Stepper:\n"
        "    steps: int = 1\n\n    def build(self):\n        return self\n"
    )
    done = forked.run(
        "launch.sweep", "--config.learner=stepper:Stepper", "--steps=1,2", "--dry_run",
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 2 and "use --set=steps=1,2." in done.stderr, done.stderr


def test_help_names_configs_and_studies():
    done = sweep("--help")
    assert (
        "\n  ft_prev " in done.stdout
        and "studies/width" in done.stdout
        and "--trials" in done.stdout
    )


def test_dry_run_prints_the_grid_and_its_sum(small_stream, tmp_path):
    words = [*grid(small_stream), "--seeds=3"]
    done = sweep(*words, "--dry_run", f"--run_dir={tmp_path / 's'}")
    assert done.returncode == 0, done.stderr
    rows = table(done.stdout)
    assert [row[:3] for row in rows] == [
        ["1", "4", "2"],
        ["1", "8", "2"],
        ["2", "4", "2"],
        ["2", "8", "2"],
    ]
    training = [float(row[3]) for row in rows]
    assert training == pytest.approx(
        [training[0], 2 * training[0], 2 * training[0], 4 * training[0]], rel=5e-3
    )
    total = re.search(r"12 runs .* of which (\S+)\s+are training", done.stdout)
    assert float(total[1]) == pytest.approx(3 * sum(training), rel=5e-3)
    assert not (tmp_path / "s").exists()


def test_dry_run_names_the_learner_that_does_not_estimate_its_flops(small_stream):
    unknown = sweep(
        f"--config.stream={small_stream}",
        "--set=learner=nearest_class_mean,indep",
        "--dry_run",
    )
    assert "nearest_class_mean does not estimate its FLOPs" in unknown.stdout
    assert "2 runs with an estimated" in unknown.stdout


def test_dry_run_of_runs_without_estimates_prints_their_number_alone(small_stream):
    uncounted = sweep(
        "--config=nearest_class_mean", f"--config.stream={small_stream}", "--seeds=2",
        "--set=protocol=meta_test,meta_train", "--dry_run",
    )  # fmt: skip
    assert "4 runs with an unknown number of FLOPs. Nothing was run." in uncounted.stdout


@pytest.fixture(scope="module")
def whole(small_stream, tmp_path_factory):
    """A sweep that nothing stopped: its folder and its command."""
    folder = tmp_path_factory.mktemp("whole") / "sweep"
    done = sweep(*grid(small_stream), f"--run_dir={folder}", start=forked.alone)
    assert done.returncode == 0, done.stderr
    return SimpleNamespace(folder=folder, done=done)


@pytest.fixture(scope="module")
def killed(small_stream, tmp_path_factory):
    """The same sweep, sent SIGTERM in its second run."""
    folder = tmp_path_factory.mktemp("killed") / "sweep"
    child = sweep(
        *grid(small_stream), f"--run_dir={folder}", "--checkpoint_seconds=0", start=forked.Started
    )
    until = time.monotonic() + 120
    while not (folder / "trials-1-steps-8" / "seed-0").exists():
        assert child.poll() is None and time.monotonic() < until
        time.sleep(0.005)
    child.send_signal(signal.SIGTERM)
    child.wait(60)
    return SimpleNamespace(folder=folder, child=child)


@pytest.fixture(scope="module")
def resumed(small_stream, killed, tmp_path_factory):
    """The killed sweep, started again."""
    folder = tmp_path_factory.mktemp("resumed") / "sweep"
    shutil.copytree(killed.folder, folder)
    done = sweep(*grid(small_stream), f"--run_dir={folder}")
    assert done.returncode == 0, done.stderr
    return SimpleNamespace(folder=folder, done=done)


def test_each_point_of_the_grid_is_a_run_with_its_values(whole):
    points = [f"trials-{t}-steps-{s}/seed-0" for t in (1, 2) for s in (4, 8)]
    assert list(ledgers(whole.folder)) == points
    config = json.loads((whole.folder / points[-1] / "config.json").read_text())
    assert (
        config["search"]["trials"],
        config["train"]["steps"],
        config["train"]["validate_every"],
    ) == (2, 8, 2)
    assert "run 3 of 4: " in whole.done.stdout
    assert "next: python -m launch.report" in whole.done.stdout


def test_the_front_is_marked(whole):
    points = {
        (row[0], row[1]): (float(row[3]), float(row[5]), row[7]) for row in table(whole.done.stdout)
    }
    assert len(points) == 4
    for error, cost, mark in points.values():
        beaten = any(
            e <= error and c <= cost and (e, c) != (error, cost) for e, c, _ in points.values()
        )
        assert mark == ("" if beaten else "*")
    assert points["1", "4"][2] == "*"  # nothing is cheaper


def test_a_sweep_that_is_sent_sigterm_ends_in_its_run_and_tells_how_to_go_on(killed):
    assert killed.child.poll() == 143
    assert "start the same command again to continue" in killed.child.stderr
    assert not (killed.folder / "trials-2-steps-8").exists()


def test_a_killed_sweep_goes_on_to_the_ledgers_of_one_that_was_not(whole, resumed):
    first = resumed.folder / "trials-1-steps-4" / "seed-0"
    assert f"{first} (already complete)" in resumed.done.stdout
    assert ledgers(resumed.folder) == ledgers(whole.folder)


def test_a_complete_sweep_is_not_run_again(small_stream, whole, resumed, tmp_path):
    shutil.copytree(resumed.folder, tmp_path / "sweep")
    done = sweep(*grid(small_stream), f"--run_dir={tmp_path / 'sweep'}")
    assert done.stdout.count("(already complete)") == 4
    assert ledgers(tmp_path / "sweep") == ledgers(whole.folder)


def test_a_sweep_does_not_go_on_with_other_settings(small_stream, resumed, tmp_path):
    shutil.copytree(resumed.folder, tmp_path / "sweep")
    words = [*grid(small_stream), "--config.train.weight_decay=0.1"]
    done = sweep(*words, f"--run_dir={tmp_path / 'sweep'}")
    assert done.returncode == 2 and "weight_decay" in done.stderr


@pytest.fixture(scope="module")
def printed(small_stream, tmp_path_factory):
    """The words of a sweep with seeds, the folder that it is for, and what it prints as commands,
    with their jobs; nothing was run.
    """
    folder = tmp_path_factory.mktemp("printed") / "sweep"
    words = [
        f"--config.stream={small_stream}",
        *QUICK,
        "--trials=1",
        "--set=train.warmup_share=0,0.5",
        "--seeds=2",
        "--config.train.steps=4",
        "--config.search.learning_rate=(0.01,0.1)",
        f"--run_dir={folder}",
    ]
    done = sweep(*words, "--commands")
    assert done.returncode == 0, done.stderr
    jobs = commands.list_jobs(shlex.split(done.stdout))
    return SimpleNamespace(words=words, folder=folder, jobs=jobs, began=folder.exists())


@pytest.fixture(scope="module")
def continued(printed):
    """The folder after the first job and then the sweep, and what the sweep said."""
    first = forked.run(*printed.jobs[0])
    assert first.returncode == 0, first.stderr
    done = sweep(*printed.words)
    assert done.returncode == 0, done.stderr
    return SimpleNamespace(folder=printed.folder, said=done.stdout)


@pytest.mark.slow
def test_a_sweep_prints_a_command_for_each_run_and_runs_nothing(printed):
    assert len(printed.jobs) == 4 and not printed.began


@pytest.mark.slow
def test_a_run_by_its_printed_command_is_one_of_the_sweep(continued):
    assert continued.said.count("(already complete)") == 1


@pytest.mark.slow
def test_each_point_of_a_sweep_with_seeds_has_a_run_of_each(continued):
    names = [path.parent.parent.name for path in continued.folder.rglob("ledger.jsonl")]
    points = ["trials-1-train.warmup_share-0.0", "trials-1-train.warmup_share-0.5"]
    assert sorted(names) == sorted(2 * points)
    seeds = [Ledger(continued.folder / names[0] / f"seed-{n}").header.seed for n in (0, 1)]
    assert seeds == [0, 1]
