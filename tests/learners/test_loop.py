"""The training loop: positions and early ends, for one trial and for several in one program."""

import jax
import numpy as np
import pytest

from learners.parts.fit import Recipe, fit
from learners.parts.model import Network, head_size, initialise_program
from learners.parts.probe import fit_heads
from nevis_stream.errors import RunWarning
from nevis_stream.learner import Context, Silent
from nevis_stream.run_directory.checkpoint import to_host
from nevis_stream.run_directory.workspace import EventWorkspace
from nevis_stream.streams.task import LabelledImages, TaskView
from tests import toy

NETWORK = Network("mlp", (("hidden", (16,)),), resolution=8)
RECIPE = Recipe(NETWORK, steps=40, validate_every=10)
HYPER = {"learning_rate": 0.1, "label_smoothing": 0.0}


def view(dataset):
    part = dataset.parts["all"]
    halves = [
        LabelledImages(part.images.take(rows), part.labels[rows])
        for rows in np.split(np.arange(len(part)), [40])
    ]
    return TaskView("a", 2000, dataset.kind, "shape", dataset.num_classes, *halves)


TASK = view(toy.blobs("a", n=60))


def variables(network=NETWORK):
    words = np.arange(4, dtype=np.uint32)
    return to_host(jax.jit(initialise_program(network, head_size(3)))(words))


class Steps(Silent):
    """Remembers the looks, and ends the work at one of them as a kill would."""

    def __init__(self, killed_at=None):
        self.seen, self.killed_at = [], killed_at

    def step(self, step, steps):
        self.seen.append(step)
        if step == self.killed_at:
            raise KeyboardInterrupt


def context(folder, progress):
    workspace = EventWorkspace(folder, 0)
    return Context(path=("seed 0",), phase="train", workspace=workspace, progress=progress)


def one(ctx):
    (result,) = ctx.map(lambda trial, hyper: fit(trial, TASK, variables(), hyper, RECIPE), [HYPER])
    return [result]


def several(ctx):
    hypers = [HYPER | {"learning_rate": rate} for rate in (0.03, 1e25, 0.1)]
    return fit_heads(ctx, TASK, variables(), hypers, RECIPE)


@pytest.mark.filterwarnings("ignore:task 'a', trial 1")
@pytest.mark.parametrize("train", [one, several])
def test_training_goes_on_where_it_was_killed(tmp_path, train):
    whole = Context(path=("seed 0",), phase="train")
    expected = to_host(train(whole))
    with pytest.raises(KeyboardInterrupt):
        train(context(tmp_path / "event", Steps(killed_at=30)))
    again = context(tmp_path / "event", steps := Steps())
    results = to_host(train(again))
    assert steps.seen == [30, 40]
    assert [result["info"] for result in results] == [result["info"] for result in expected]
    assert jax.tree.all(jax.tree.map(np.array_equal, results, expected))
    assert again.meter.counts() == whole.meter.counts()


def test_a_trial_that_diverges_ends_and_those_beside_it_do_not():
    with pytest.warns(RunWarning, match=r"task 'a', trial 1: the loss was not finite at step \d"):
        infos = [result["info"] for result in several(Context.standalone(phase="train"))]
    assert [info["diverged_at"] is None for info in infos] == [True, False, True]
    assert [info["steps"] for info in infos] == [40, 10, 40]
    assert [len(info["curve"]) for info in infos] == [5, 1, 5]
    assert 0 < infos[1]["diverged_at"] < 10 and infos[0]["dev_error"] < infos[0]["curve"][0][2]
