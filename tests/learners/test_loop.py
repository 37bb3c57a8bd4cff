"""The training loop: positions and early ends, for one trial and for several in one program."""

import jax
import numpy as np
import pytest
from flax.traverse_util import flatten_dict

from nevis_stream.cost.meter import total
from nevis_stream.errors import BadInput, RunWarning
from nevis_stream.learner import Context
from nevis_stream.learners.parts.fit import fit
from nevis_stream.learners.parts.linear_probe import fit_heads
from nevis_stream.learners.parts.model import Network, choose_head_size, initialise_program
from nevis_stream.learners.parts.recipe import Recipe
from nevis_stream.progress import Silent
from nevis_stream.storage.checkpoint import EventWorkspace, to_host
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
    return to_host(jax.jit(initialise_program(network, choose_head_size(3)))(words))


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


# -- hooks of `fit`


RESNET = Network("resnet", (("stage_sizes", (1,)), ("stem", "strided"), ("width", 4)), resolution=8)


def fitted(network=NETWORK, helpers=(), **hooks):
    """Returns the result of a trial, and the FLOPs of training."""
    ctx, start = Context.standalone(phase="train"), variables(network)
    if helpers:
        start["params"]["helpers"] = {"0": start["params"]["head"]}
    recipe, hyper = Recipe(network, steps=40, validate_every=10), HYPER | {"auxiliary_weight": 0.5}
    result = to_host(fit(ctx, TASK, start, hyper, recipe, helpers, **hooks))
    return result, total(ctx.meter.counts(), "train")


def test_a_trial_ends_early_where_its_curve_says_so():
    whole, flops = fitted()
    curve = whole["info"]["curve"]
    (early, fewer) = fitted(stop=lambda rows: len(rows) == 3)
    assert early["info"]["curve"] == curve[:3] and early["info"]["steps"] == 20
    assert early["info"]["diverged_at"] is None and "position" not in early
    assert 2 * fewer == flops


def test_a_trial_that_ended_early_stays_so_after_a_kill(tmp_path):
    def run(progress):
        ctx, asked = context(tmp_path / "event", progress), []

        def stop(rows):
            asked.append(rows[-1][0])
            return rows[-1][0] == 20

        return fit(ctx, TASK, variables(), HYPER, RECIPE, stop=stop), asked

    first, asked = run(Steps())
    again, asked_again = run(Steps())
    assert asked == [10, 20] and asked_again == []
    assert again["info"] == first["info"] and again["step"] == first["step"]


def test_views_may_grow_while_a_network_trains():
    whole, flops = fitted(RESNET)
    grown, fewer = fitted(RESNET, side=lambda step: 4 if step < 25 else 8)
    assert fewer < 0.8 * flops
    errors = [row[2] for row in grown["info"]["curve"]]
    assert errors[-1] < errors[0] and grown["info"]["curve"] != whole["info"]["curve"]
    same, _ = fitted(RESNET, side=lambda step: 8)
    assert jax.tree.all(jax.tree.map(np.array_equal, same, whole))


def test_a_part_of_the_parameters_is_learned_and_the_rest_costs_no_gradients():
    whole, flops = fitted(RESNET)
    part, fewer = fitted(RESNET, learned=("head", "backbone/BasicBlock_0/Conv_1"))
    start = flatten_dict(variables(RESNET)["params"])
    changed = {
        "/".join(path)
        for path, leaf in flatten_dict(part["variables"]["params"]).items()
        if not np.array_equal(leaf, start[path])
    }
    kernel = "backbone/BasicBlock_0/Conv_1/kernel"
    assert changed == {"head/Dense_0/kernel", "head/Dense_0/bias", kernel}
    assert fewer < 0.8 * flops
    errors = [row[2] for row in part["info"]["curve"]]
    assert errors[-1] < errors[0]
    with pytest.raises(BadInput, match="'backbone/Conv_7'.*BasicBlock_0"):
        fitted(RESNET, learned=("backbone/Conv_7",))


@pytest.mark.parametrize(
    "helpers",
    [
        pytest.param((), id="alone"),
        pytest.param((TASK,), id="with an auxiliary task", marks=pytest.mark.slow),
    ],
)
def test_steps_in_one_program_are_the_same_steps(helpers):
    whole, flops = fitted(helpers=helpers)
    scanned, same = fitted(helpers=helpers, together=5)
    assert same == flops
    assert scanned["info"]["steps"] == 40 and scanned["step"] == whole["step"]
    curves = [np.asarray(each["info"]["curve"][1:]) for each in (whole, scanned)]
    assert np.allclose(*curves, rtol=1e-4)
    close = [
        np.allclose(a, b, atol=1e-5)
        for a, b in zip(
            jax.tree.leaves(whole["variables"]), jax.tree.leaves(scanned["variables"]), strict=True
        )
    ]
    assert all(close)
