"""`python -m launch.compare` as a user meets it."""

import csv
from pathlib import Path

import pytest

from tests import forked
from tests.report.synthetic import SyntheticRun

ROOT = Path(__file__).resolve().parents[2]
RUN = SyntheticRun(tasks=8, meta_test=6, thumbnails=False)


@pytest.fixture
def compare(tmp_path):
    def run(*words, status=0, start=forked.run):
        done = start("launch.compare", *words, cwd=ROOT)
        assert "Traceback" not in done.stderr, done.stderr
        assert done.returncode == status, done.stdout + done.stderr
        return done.stderr if status else done.stdout

    return run


def test_seeds_are_found_budgets_paired_and_a_csv_written(compare, tmp_path):
    for seed in range(2):
        RUN.but(seed=seed).write(tmp_path / f"indep-{seed}")
        RUN.but(seed=seed, learner="mt", skill=0.2).write(tmp_path / "mt" / f"seed-{seed}")
    RUN.but(learner="mt", budget="large", flops=5000).write(tmp_path / "mt-large")
    output = compare(
        f"--a={tmp_path}/mt*",
        f"--b={tmp_path}/indep-*",
        f"--out={tmp_path}/c.csv",
        start=forked.alone,
    )
    assert output.startswith("mt · small is better than indep · small")
    assert (
        "at equal FLOPs" in output
        and "FLOPs to reach mean error" in output
        and "error: mt · large" in output
    )
    with open(tmp_path / "c.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 7 and rows[-1]["task_id"] == "" and float(rows[-1]["tasks_high"]) < 0
    assert "fewer than 20 tasks" in output and "note: With one seed" not in output
    by_position = compare(
        tmp_path / "mt" / "seed-0",
        tmp_path / "mt" / "seed-1",
        *(tmp_path / f"indep-{s}" for s in range(2)),
    )
    assert by_position.splitlines()[0] == output.splitlines()[0]


def test_a_learner_without_flops_is_not_one_of_unknown_cost(compare, tmp_path):
    RUN.write(tmp_path / "a")
    RUN.but(learner="mt", flops=0).write(tmp_path / "b")
    output = compare(tmp_path / "a", tmp_path / "b")
    assert "same error: no ratio, because B used none." in output and "unknown" not in output


def test_one_seed_is_said_and_mistakes_are_plain(compare, tmp_path):
    for name in ("a", "b", "c"):
        RUN.but(learner=name).write(tmp_path / name)
    assert "note: With one seed, the interval over tasks may be too narrow" in compare(
        tmp_path / "a", tmp_path / "b"
    )
    assert "these runs belong to 3 methods, not two" in compare(
        *(tmp_path / name for name in "abc"), status=2
    )
    assert "no such directory" in compare(tmp_path / "a", tmp_path / "nowhere", status=2)
    assert "name both methods" in compare(tmp_path / "a", f"--b={tmp_path}/b", status=2)
