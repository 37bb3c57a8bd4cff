"""Sweeps as a user meets them: real processes."""

import json
import re
import shlex
import signal
import time

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
    words = [f"--config.stream={small_stream}", *QUICK, "--trials=1,2", "--steps=4,8", "--seeds=3"]
    done = sweep(*words, "--dry_run", f"--run_dir={tmp_path / 's'}")
    assert done.returncode == 0, done.stderr
    rows = [
        [cell.strip() for cell in line.split("│")[1:-1]]
        for line in done.stdout.splitlines()
        if line.startswith("│")
    ]
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
    unknown = sweep(
        f"--config.stream={small_stream}",
        "--set=learner=nearest_class_mean,indep",
        "--dry_run",
    )
    assert "nearest_class_mean does not estimate its FLOPs" in unknown.stdout
    assert "2 runs with an estimated" in unknown.stdout
    uncounted = sweep(
        "--config=nearest_class_mean", f"--config.stream={small_stream}", "--seeds=2",
        "--set=protocol=meta_test,meta_train", "--dry_run",
    )  # fmt: skip
    assert "4 runs with an unknown number of FLOPs. Nothing was run." in uncounted.stdout


def test_a_sweep_runs_is_killed_goes_on_and_marks_the_front(small_stream, tmp_path):
    words = [f"--config.stream={small_stream}", *QUICK, "--trials=1,2", "--steps=4,8"]
    done = sweep(*words, f"--run_dir={tmp_path / 's'}", start=forked.alone)
    assert done.returncode == 0, done.stderr
    plain = ledgers(tmp_path / "s")
    assert list(plain) == [f"trials-{t}-steps-{s}/seed-0" for t in (1, 2) for s in (4, 8)]
    config = json.loads(
        (tmp_path / "s" / "trials-2-steps-8" / "seed-0" / "config.json").read_text()
    )
    assert (
        config["search"]["trials"],
        config["train"]["steps"],
        config["train"]["validate_every"],
    ) == (2, 8, 2)
    assert "run 3 of 4: " in done.stdout and "next: python -m launch.report" in done.stdout
    rows = [
        [cell.strip() for cell in line.split("│")[1:-1]]
        for line in done.stdout.splitlines()
        if line.startswith("│")
    ]
    points = {(row[0], row[1]): (float(row[3]), float(row[5]), row[7]) for row in rows}
    for error, cost, mark in points.values():
        beaten = any(
            e <= error and c <= cost and (e, c) != (error, cost) for e, c, _ in points.values()
        )
        assert mark == ("" if beaten else "*")
    assert points["1", "4"][2] == "*"  # nothing is cheaper

    child = sweep(
        *words, f"--run_dir={tmp_path / 'k'}", "--checkpoint_seconds=0", start=forked.Started
    )
    second = tmp_path / "k" / "trials-1-steps-8" / "seed-0"
    until = time.monotonic() + 120
    while not second.exists():
        assert child.poll() is None and time.monotonic() < until
        time.sleep(0.005)
    child.send_signal(signal.SIGTERM)
    assert child.wait(60) == 143 and "start the same command again to continue" in child.stderr
    assert not (tmp_path / "k" / "trials-2-steps-8").exists()
    again = sweep(*words, f"--run_dir={tmp_path / 'k'}")
    assert again.returncode == 0, again.stderr
    assert f"{tmp_path / 'k' / 'trials-1-steps-4' / 'seed-0'} (already complete)" in again.stdout
    assert ledgers(tmp_path / "k") == plain
    once_more = sweep(*words, f"--run_dir={tmp_path / 'k'}")
    assert once_more.stdout.count("(already complete)") == 4 and ledgers(tmp_path / "k") == plain
    other = sweep(*words, "--config.train.weight_decay=0.1", f"--run_dir={tmp_path / 'k'}")
    assert other.returncode == 2 and "weight_decay" in other.stderr


@pytest.mark.slow
def test_commands_do_the_same_runs_and_can_be_sent(small_stream, tmp_path):
    words = [
        f"--config.stream={small_stream}",
        *QUICK,
        "--trials=1",
        "--set=train.warmup_share=0,0.5",
        "--seeds=2",
    ]
    words += [
        "--config.train.steps=4",
        "--config.search.learning_rate=(0.01,0.1)",
        f"--run_dir={tmp_path / 'c'}",
    ]
    printed = sweep(*words, "--commands")
    assert printed.returncode == 0, printed.stderr
    result = commands.list_jobs(shlex.split(printed.stdout))
    assert len(result) == 4 and not (tmp_path / "c").exists()
    first = forked.run(*result[0])
    assert first.returncode == 0, first.stderr
    done = sweep(*words)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("(already complete)") == 1
    names = [path.parent.parent.name for path in (tmp_path / "c").rglob("ledger.jsonl")]
    assert sorted(names) == sorted(
        2 * ["trials-1-train.warmup_share-0.0", "trials-1-train.warmup_share-0.5"]
    )
    assert [Ledger(tmp_path / "c" / names[0] / f"seed-{seed}").header.seed for seed in (0, 1)] == [
        0,
        1,
    ]
