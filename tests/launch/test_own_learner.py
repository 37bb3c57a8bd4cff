"""A learner of the user's own, in a folder outside the checkout: swept, run by Ray and as a job,
reported, and imported only where the user asks for it.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from nevis_stream.configs.recorded import load_learner
from nevis_stream.errors import BadInput
from nevis_stream.run_directory.config import read_values
from nevis_stream.run_directory.ledger import Ledger
from tests import forked

ROOT = Path(__file__).resolve().parents[2]
OWN = "own_package.means:ShrunkMeans"
LEARNER = '''
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from nevis_stream import Predictor


@dataclass(frozen=True)
class ShrunkMeans:
    """Distances to the mean image of each class, shrunk towards the mean of all."""

    shrinkage: float = field(default=0.1, metadata={"help": "share of the mean", "range": (0, 1)})
    side: int = field(default=4, metadata={"help": "of an image in pixels", "range": (1, 64)})

    def init(self, ctx):
        return {}

    def train(self, task, state, ctx):
        pixels = self.pixels(task.train.images)
        means = np.stack([pixels[task.train.labels == c].mean(0) for c in range(task.num_classes)])

        def trial(ctx, scale):
            ctx.charge(means.size)
            shrunk = (1 - self.shrinkage) * means + self.shrinkage * means.mean(0)
            return {"means": shrunk.astype(np.float32), "scale": scale}

        trees = ctx.map(trial, [5.0, 20.0])
        return state, [Predictor(tree, trial=number) for number, tree in enumerate(trees)]

    def predict(self, predictor, images, ctx):
        distances = ((self.pixels(images)[:, None] - predictor["means"]) ** 2).mean(-1)
        ctx.charge(3 * distances.size)
        scores = np.exp(-predictor["scale"] * (distances - distances.min(1, keepdims=True)))
        return scores / scores.sum(1, keepdims=True)

    def pixels(self, images):
        images = images.center_cropped(self.side)
        return images.reshape(len(images), -1).astype(np.float32) / 255
'''
QUICK = [
    "--config.network.name=mlp",
    "--config.network.hidden=(8,)",
    "--config.network.resolution=8",
    "--config.train.steps=4",
]


def write_package(folder):
    (folder / "own_package").mkdir(parents=True)
    (folder / "own_package" / "__init__.py").write_text("")
    (folder / "own_package" / "means.py").write_text(LEARNER)
    return folder


@pytest.fixture
def folder(tmp_path):
    """A folder with a package of the user's."""
    return write_package(tmp_path / "home")


def launch(module, *words, cwd):
    done = forked.run(f"launch.{module}", *words, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def swept(small_stream, tmp_path_factory):
    """A folder with a sweep of the user's learner, its runs, and what was printed."""
    folder = write_package(tmp_path_factory.mktemp("swept") / "home")
    words = [f"--config.learner={OWN}", f"--config.stream={small_stream}", "--set=side=2,3,4,5"]
    printed = launch("sweep", *words, "--run_dir=runs/sweep", cwd=folder)
    runs = sorted((folder / "runs" / "sweep").glob("*/seed-0"))
    return SimpleNamespace(folder=folder, runs=runs, printed=printed)


def test_the_settings_of_a_users_learner_are_in_the_help(folder):
    said = launch("run", f"--config.learner={OWN}", "--help", cwd=folder)
    assert "--config.shrinkage: share of the mean" in said


def test_a_users_learner_is_swept_over_its_settings(swept):
    assert swept.printed.count("ShrunkMeans") == 0 and "│    5 │" in swept.printed
    assert len(swept.runs) == 4 and all(Ledger(run).complete for run in swept.runs)


def test_a_run_keeps_the_name_and_the_settings_of_a_users_learner(swept):
    assert json.loads((swept.runs[0] / "config.json").read_text())["side"] == 2
    assert Ledger(swept.runs[0]).header.learner == "ShrunkMeans"


def test_a_users_learner_stands_in_a_report_with_ft_prev(swept, small_stream, tmp_path):
    words = ["--config=ft_prev", f"--config.stream={small_stream}", *QUICK]
    launch("run", *words, f"--run_dir={tmp_path / 'ft_prev'}", cwd=swept.folder)
    words = [*swept.runs, tmp_path / "ft_prev", f"--out={tmp_path / 'report'}"]
    launch("report", *words, cwd=swept.folder)
    page = (tmp_path / "report" / "report.html").read_text()
    assert "ShrunkMeans" in page and "ft_prev" in page


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--config.learner=own_package.means:Means"], "own_package.means has no class 'Means'"),
        (["--config.learner=pathlib:Pth"], "'Path'"),
        ([f"--config={OWN}"], f"is given as --config.learner={OWN}"),
        ([f"--config.learner={OWN}", "--config.shrinkage=nan"], "NaN is not allowed"),
        (["--config.learner=own_package.mean:Means"], "No module named 'own_package.mean'"),
        ([f"--config.learner={OWN}", "--config.side=0"], "config.side is 0"),
        (
            [f"--config.learner={OWN}", "--config.shrinkag=1"],
            "'shrinkage'",
        ),
        (["--config.learner=pathlib:Path"], "Path: a learner's class must be a frozen dataclass"),
    ],
)
def test_a_mistake_gets_one_clear_message(folder, words, message):
    done = forked.run("launch.run", *words, "--run_dir=x", cwd=folder)
    assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr


def test_a_config_file_finds_it_from_any_directory_and_as_a_job(folder, small_stream, tmp_path):
    pytest.importorskip("submitit", reason="jobs are sent with submitit, which is not installed")
    (folder / "wide.py").write_text(
        "from nevis_stream.configs import run_config\n\ndef get_config():\n"
        f"    config = run_config.make_default({OWN!r})\n    config.side = 6\n    return config\n"
    )
    words = [f"--config={folder / 'wide.py'}", f"--config.stream={small_stream}", "--run_dir=run"]
    (tmp_path / "empty").mkdir()
    launch("slurm", "--executor=local", "--", "launch.run", *words, cwd=tmp_path / "empty")
    assert Ledger(tmp_path / "empty" / "run").complete
    assert read_values(tmp_path / "empty" / "run")["side"] == 6


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed")
def test_ray_runs_it(folder, small_stream, tmp_path):
    (folder / "narrow.py").write_text(
        "from nevis_stream.configs import run_config\n\ndef get_config():\n"
        f"    return run_config.make_default({OWN!r})\n"
    )
    (tmp_path / "empty").mkdir()
    words = [f"--config={folder / 'narrow.py'}", f"--config.stream={small_stream}"]
    for executor in ("inline", "ray"):
        command = [sys.executable, "-m", "launch.run", *words, f"--executor={executor}"]
        done = subprocess.run(
            [*command, f"--run_dir={executor}"],
            cwd=tmp_path / "empty",
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), *sys.path]))},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
    inline, ray = (Ledger(tmp_path / "empty" / name) for name in ("inline", "ray"))
    assert inline.path.read_bytes() == ray.path.read_bytes()


IMPORT = ["import", "runs/a", "--cache=caches"]


@pytest.fixture(scope="module")
def trapped(small_stream, tmp_path_factory):
    """A folder with runs of a learner whose module since then writes a file when it is imported."""
    folder = write_package(tmp_path_factory.mktemp("trapped") / "home")
    words = [f"--config.learner={OWN}", f"--config.stream={small_stream}"]
    launch("run", *words, "--run_dir=runs/a", cwd=folder)
    launch("run", *words, "--config.side=3", "--run_dir=runs/b", cwd=folder)
    trap = "from pathlib import Path\nPath(__file__).with_name('imported').touch()\n"
    (folder / "own_package" / "means.py").write_text(trap + LEARNER)
    return folder


@pytest.fixture
def trap(trapped, tmp_path):
    """A copy of the folder, and the file that the module would write."""
    folder = shutil.copytree(trapped, tmp_path / "home")
    return SimpleNamespace(folder=folder, sprung=folder / "own_package" / "imported")


@pytest.mark.parametrize(
    "words",
    [
        ["report", "runs/a", "runs/b", "--out=report"],
        ["compare", "runs/a", "runs/b"],
        ["watch", "--once", "runs/a"],
    ],
    ids=lambda words: words[0],
)
def test_a_command_that_shows_runs_does_not_import_their_learner(trap, words):
    launch(*words, cwd=trap.folder)
    assert not trap.sprung.exists()


def test_a_transfer_matrix_is_refused_by_the_learners_name_without_an_import(trap):
    words = ["--indep=runs/a", "--dry_run"]
    refused = forked.run("launch.transfer_matrix", *words, cwd=trap.folder)
    assert refused.returncode == 2 and "this is one of ShrunkMeans" in refused.stderr
    assert not trap.sprung.exists()


def test_a_learner_is_not_loaded_without_trust_in_its_module(trap):
    with pytest.raises(BadInput, match="add --trust=own_package.means"):
        load_learner(read_values(trap.folder / "runs" / "a"))
    with pytest.raises(BadInput, match="outside this project"):
        load_learner(read_values(trap.folder / "runs" / "a"), trust=["own"])
    assert not trap.sprung.exists()


def test_an_import_of_a_run_into_a_cache_needs_trust_or_its_test_splits_alone(trap, small_stream):
    words = [*IMPORT, f"--stream={small_stream}"]
    refused = forked.run("launch.evaluate", *words, cwd=trap.folder)
    assert refused.returncode == 2 and "add --trust=own_package.means" in refused.stderr
    assert "--splits=test" in refused.stderr and not (trap.folder / "caches").exists()
    assert not trap.sprung.exists()


def test_test_splits_of_a_run_are_imported_into_a_cache_without_its_learner(trap, small_stream):
    words = [*IMPORT, f"--stream={small_stream}", "--splits=test"]
    launch("evaluate", *words, cwd=trap.folder)
    assert (trap.folder / "caches").exists() and not trap.sprung.exists()


def test_an_import_of_a_run_into_a_cache_with_trust_imports_its_learner(trap, small_stream):
    words = [*IMPORT, f"--stream={small_stream}", "--trust=own_package"]
    launch("evaluate", *words, cwd=trap.folder)
    assert trap.sprung.exists()


def test_a_trusted_learner_is_loaded_with_its_settings(trap, monkeypatch):
    monkeypatch.syspath_prepend(trap.folder)
    learner = load_learner(read_values(trap.folder / "runs" / "b"), trust=["own_package"])
    assert (learner.side, learner.shrinkage) == (3, 0.1)
    assert trap.sprung.exists()


@pytest.mark.slow
def test_an_installed_wheel_in_an_empty_directory(folder, small_stream, wheel_environment):
    """The same from a wheel, outside of any checkout."""
    # packages of a user's own, with the names of this project's
    for name in ("experiments", "launch", "learners"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text("raise SystemExit('the wrong package')\n")

    def command(*words):
        done = subprocess.run(
            [wheel_environment / "bin" / "nevis-stream", *map(str, words)],
            cwd=folder,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    (site,) = wheel_environment.glob("lib/python*/site-packages")
    installed = {path.name for path in site.iterdir()} - {"libraries.pth"}
    assert {name.partition("-")[0] for name in installed} == {"nevis_stream"}
    stream = f"--config.stream={small_stream}"
    command(
        "sweep",
        f"--config.learner={OWN}",
        stream,
        "--set=side=2,3,4,5",
        "--run_dir=runs/sweep",
    )
    command("run", "--config=ft_prev", stream, *QUICK, "--run_dir=runs/ft_prev")
    runs = sorted((folder / "runs" / "sweep").glob("*/seed-0"))
    command("report", *runs, "runs/ft_prev", "--out=report")
    assert "ShrunkMeans" in (folder / "report" / "report.html").read_text()
    job = ["run", "--config=ft_prev", stream, *QUICK, "--run_dir=runs/job"]
    assert "done: " in command("slurm", "--executor=local", "--", *job)
