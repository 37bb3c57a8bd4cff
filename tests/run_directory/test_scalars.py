"""TensorBoard's files, read back: the content of the ledger, no point twice, and nothing that
could stop a run.
"""

import importlib.util
import random
import signal
import subprocess
import sys

import numpy as np
import pytest

from nevis_stream.cost.meter import total
from nevis_stream.errors import RunWarning
from nevis_stream.launch.executors import EXECUTORS
from nevis_stream.run_directory import scalars
from nevis_stream.run_directory.ledger import Ledger
from nevis_stream.run_directory.records import PredictRecord, TrainRecord
from nevis_stream.run_directory.scalars import Scalars, read
from nevis_stream.runner import run
from tests import forked, toy
from tests.launch.test_executors import LEARNERS


def everything(run_dir):
    """The points of every directory by its name."""
    root = run_dir / "tensorboard"
    folders = sorted({file.parent for file in root.rglob("events.*")})
    assert all(len(list(folder.glob("events.*"))) == 1 for folder in folders)
    return {str(folder.relative_to(root)): read(folder) for folder in folders}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return run(toy.ToyLearner(), toy.stream(), tmp_path_factory.mktemp("whole"), seed=3, keep="all")


def test_the_stream_is_that_of_the_ledger(whole):
    shown = everything(whole.run_dir)["stream"]
    predicted = whole.of_kind(PredictRecord)
    errors = np.asarray([record.error for record in predicted])
    so_far = [
        [total(record.flops, phase) for record in whole.records if record.kind != "end"]
        for phase in ("train", None)
    ]
    expected = {
        "stream/dev_error": [0.5] * 4,
        "stream/error": errors,
        "stream/mean_error_all_tasks": np.cumsum(errors) / [1, 2, 3, 4],
        "stream/mean_error_meta_test": np.cumsum(errors[2:]) / [1, 2],
        "stream/flops_train": np.cumsum(so_far[0])[2::2],
        "stream/flops_total": np.cumsum(so_far[1])[2::2],
    }
    assert shown.keys() == expected.keys()
    for tag, values in expected.items():
        orders = [record.order for record in predicted][-len(values) :]
        assert [step for step, _ in shown[tag]] == orders
        assert [value for _, value in shown[tag]] == pytest.approx(values, rel=1e-6)


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.slow] if n == "ray" else []) for n in EXECUTORS],
)
def test_curves_are_those_of_the_ledger_whoever_runs_the_trials(tmp_path, name):
    if name == "ray" and importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed: pip install ray")
    options = EXECUTORS[name](**({"workers": 2} if name == "threads" else {}))
    ledger = run(LEARNERS["baseline"], toy.stream(), tmp_path, executor=options)
    shown = everything(tmp_path)
    assert len(shown) == 1 + 4 * 4
    for record in ledger.of_kind(TrainRecord):
        for trial in record.trials:
            points = shown[f"{record.event:04d}-{record.task_id}/trial-{trial.trial:03d}"]
            steps, losses, errors = zip(*trial.info["curve"], strict=True)
            assert points["trial/dev_error"] == [
                (s, pytest.approx(e)) for s, e in zip(steps, errors, strict=True)
            ]
            assert points["trial/train_loss"] == [
                (s, pytest.approx(v)) for s, v in zip(steps[1:], losses[1:], strict=True)
            ]
            assert [step for step, _ in points["trial/learning_rate"]] == list(steps[1:])
            assert all(
                0 < rate <= trial.info["hyper"]["learning_rate"]
                for _, rate in points["trial/learning_rate"]
            )


@pytest.mark.parametrize("executor", [pytest.param("inline", marks=pytest.mark.slow), "threads"])
def test_killed_and_gone_on_with_no_point_is_missing_or_stands_twice(tmp_path, whole, executor):
    """kill -9 in the middle of file operations, half-written points among them, again and again in
    one run.
    """
    chance, kills, run_dir = random.Random(4), 0, tmp_path / executor
    while True:
        words = [run_dir, "toy", chance.randint(60, 150), executor, "{}"]
        done = forked.run("tests.kill_target", *words)
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
        kills += 1
    assert kills >= 4
    assert everything(run_dir) == everything(whole.run_dir)
    assert Ledger(run_dir).path.read_bytes() == whole.path.read_bytes()


def test_an_attempt_that_was_taken_for_lost_writes_no_more(tmp_path):
    lost, new = Scalars(tmp_path, "trial-000"), Scalars(tmp_path, "trial-000")
    for step in (1, 2, 3):
        lost.write(step, {"a": step})
    new.write(1, {"a": 10.0})
    lost.write(4, {"a": 4.0})
    new.write(2, {"a": 20.0, "b": None})
    assert read(tmp_path / "trial-000") == {"a": [(1, 10.0), (2, 20.0)]}


def test_a_machine_that_does_not_see_the_run_writes_nothing(tmp_path):
    Scalars(tmp_path / "elsewhere" / "tensorboard", "trial-000").write(1, {"a": 1.0})
    assert not list(tmp_path.iterdir())


def test_a_cut_file_is_read_up_to_the_cut(tmp_path):
    to = Scalars(tmp_path, "x")
    for step in (1, 2):
        to.write(step, {"a": 1.5})
    (file,) = (tmp_path / "x").iterdir()
    data = file.read_bytes()
    for end in range(len(data)):
        file.write_bytes(data[:end])
        assert read(tmp_path / "x") in ({}, {"a": [(1, 1.5)]})
    file.write_bytes(data[:-6] + b"?" + data[-5:])
    assert read(tmp_path / "x") == {"a": [(1, 1.5)]}


def test_without_tensorboardx_the_run_gives_one_warning_and_goes_on(tmp_path, monkeypatch, whole):
    scalars._library.cache_clear()
    monkeypatch.setitem(sys.modules, "tensorboardX.proto", None)
    with pytest.warns(
        RunWarning, match="tensorboardX cannot be imported .* pip install -c"
    ) as warned:
        ledger = run(toy.ToyLearner(), toy.stream(), tmp_path, seed=3, keep="all")
    scalars._library.cache_clear()
    assert len(warned) == 1 and ledger.path.read_bytes() == whole.path.read_bytes()
    assert not (tmp_path / "tensorboard").exists()


def test_switched_off_nothing_is_written(tmp_path, whole):
    ledger = run(toy.ToyLearner(), toy.stream(), tmp_path, seed=3, keep="all", tensorboard=False)
    assert (
        ledger.path.read_bytes() == whole.path.read_bytes()
        and not (tmp_path / "tensorboard").exists()
    )


def test_a_disk_without_room_for_them_ends_no_run(tmp_path, whole):
    """A real file system of 16 kB for the folder alone."""
    folder = tmp_path / "tensorboard"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(folder)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"mounting is not permitted here: {mounted.stderr.strip()}")
    try:
        with pytest.warns(
            RunWarning, match="cannot be written .No space left on device.; the run continues"
        ):
            ledger = run(toy.ToyLearner(), toy.stream(), tmp_path, seed=3, keep="all")
        assert ledger.path.read_bytes() == whole.path.read_bytes()
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_folder_that_cannot_be_made_ends_no_run(tmp_path, whole):
    (tmp_path / "tensorboard").write_text("a file")
    with pytest.warns(RunWarning, match="cannot be written .File exists."):
        ledger = run(toy.ToyLearner(), toy.stream(), tmp_path, seed=3, keep="all")
    assert ledger.path.read_bytes() == whole.path.read_bytes()
