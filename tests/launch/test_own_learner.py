"""A learner of the user's own, in a folder outside the checkout: swept, run by Ray and as a job,
reported, and imported only where the user asks for it.
"""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nevis_stream.errors import BadInput
from nevis_stream.experiments.recorded import load_learner
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


@pytest.fixture
def folder(tmp_path):
    """A folder with a package of the user's."""
    (tmp_path / "home" / "own_package").mkdir(parents=True)
    (tmp_path / "home" / "own_package" / "__init__.py").write_text("")
    (tmp_path / "home" / "own_package" / "means.py").write_text(LEARNER)
    return tmp_path / "home"


def launch(module, *words, cwd):
    done = forked.run(f"launch.{module}", *words, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_is_swept_and_stands_in_a_report_with_ft_prev(folder, small_stream):
    stream = f"--config.stream={small_stream}"
    own = [f"--config.learner={OWN}", stream]
    assert "--config.shrinkage: share of the mean" in launch("run", own[0], "--help", cwd=folder)
    printed = launch("sweep", *own, "--set=side=2,3,4,5", "--run_dir=runs/sweep", cwd=folder)
    assert printed.count("ShrunkMeans") == 0 and "│    5 │" in printed
    launch("run", "--config=ft_prev", stream, *QUICK, "--run_dir=runs/ft_prev", cwd=folder)
    runs = sorted((folder / "runs" / "sweep").glob("*/seed-0"))
    assert len(runs) == 4 and all(Ledger(run).complete for run in runs)
    assert json.loads((runs[0] / "config.json").read_text())["side"] == 2
    assert Ledger(runs[0]).header.learner == "ShrunkMeans"
    launch("report", *runs, "runs/ft_prev", "--out=report", cwd=folder.parent / "home")
    page = (folder / "report" / "report.html").read_text()
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
        "from nevis_stream.experiments import run_config\n\ndef get_config():\n"
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
        "from nevis_stream.experiments import run_config\n\ndef get_config():\n"
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


def test_reading_a_run_never_imports_what_it_names(folder, small_stream, tmp_path):
    """The module of the learner that a run directory names writes a file when it is imported."""
    words = [f"--config.learner={OWN}", f"--config.stream={small_stream}", "--run_dir=runs/a"]
    launch("run", *words, cwd=folder)
    launch("run", *words[:2], "--config.side=3", "--run_dir=runs/b", cwd=folder)
    trap = "from pathlib import Path\nPath(__file__).with_name('imported').touch()\n"
    (folder / "own_package" / "means.py").write_text(trap + LEARNER)
    launch("report", "runs/a", "runs/b", "--out=report", cwd=folder)
    launch("compare", "runs/a", "runs/b", cwd=folder)
    launch("watch", "--once", "runs/a", cwd=folder)
    refused = forked.run("launch.transfer_matrix", "--indep=runs/a", "--dry_run", cwd=folder)
    assert refused.returncode == 2 and "this is one of ShrunkMeans" in refused.stderr
    with pytest.raises(BadInput, match="add --trust=own_package.means"):
        load_learner(read_values(folder / "runs" / "a"))
    with pytest.raises(BadInput, match="outside this project"):
        load_learner(read_values(folder / "runs" / "a"), trust=["own"])
    read = ["import", "runs/a", f"--stream={small_stream}", "--cache=caches"]
    refused = forked.run("launch.evaluate", *read, cwd=folder)
    assert refused.returncode == 2 and "add --trust=own_package.means" in refused.stderr
    assert "--splits=test" in refused.stderr and not (folder / "caches").exists()
    launch("evaluate", *read, "--splits=test", cwd=folder)
    assert not (folder / "own_package" / "imported").exists()
    launch("evaluate", *read, "--trust=own_package", cwd=folder)
    (folder / "own_package" / "imported").unlink()
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        learner = load_learner(read_values(folder / "runs" / "b"), trust=["own_package"])
    assert (learner.side, learner.shrinkage) == (3, 0.1)
    assert (folder / "own_package" / "imported").exists()


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
