"""How trials of a task are run: pruned by halving, all heads at once on frozen features, and what
feeds them.
"""

import functools

import jax
import numpy as np
import pytest

from nevis_stream.errors import BadInput
from nevis_stream.learner import Context
from nevis_stream.learners.parts import feed
from nevis_stream.learners.parts.baseline import Baseline
from nevis_stream.learners.parts.feed import Feed
from nevis_stream.learners.parts.initialisation import FromPrevious, FromRandom
from nevis_stream.learners.parts.linear_probe import fit_heads
from nevis_stream.learners.parts.model import Network, begin, choose_head_size, initialise_program
from nevis_stream.learners.parts.recipe import Recipe
from nevis_stream.learners.parts.search import Halving, RandomSearch
from nevis_stream.run_directory.records import PredictRecord, TrainRecord
from nevis_stream.runner import run
from nevis_stream.storage.checkpoint import Checkpoint, to_host
from nevis_stream.streams.task import LabelledImages, TaskView
from tests import toy

NETWORK = Network(
    "resnet", (("stage_sizes", (1,)), ("stem", "strided"), ("width", 4)), resolution=8
)
MLP = Network("mlp", (("hidden", (16,)),), resolution=8)
SPACE = {"learning_rate": (0.02, 0.2), "label_smoothing": (0.0, 0.1)}


def view(dataset):
    part = dataset.parts["all"]
    halves = [
        LabelledImages(part.images.take(rows), part.labels[rows])
        for rows in np.split(np.arange(len(part)), [40])
    ]
    return TaskView("a", 2000, dataset.kind, "shape", dataset.num_classes, *halves)


def learner(trials=4, initialisation=None, **options):
    search = RandomSearch(trials, SPACE)
    return Baseline(
        initialisation or FromRandom(), search, Recipe(MLP, steps=40, validate_every=10), **options
    )


# -- successive halving
# -------------------------------------------------------------------------------------------------


def test_rungs_are_looks_and_the_end_is_the_last():
    assert Halving(2, 2).list_rung_steps(1000, 100) == [200, 500, 1000]  # 250 is no look
    assert Halving(4, 2).list_rung_steps(1600, 100) == [100, 400, 1600]
    assert Halving(2, 3).list_rung_steps(40, 10) == [10, 20, 40]  # two rungs at one look are one
    assert Halving(2, 2).list_rung_steps(60, 10) == [20, 30, 60]
    assert Halving(2, 2).list_rung_steps(10, 10) == [10]


def test_trials_that_are_not_pruned_end_as_if_nobody_had_stopped_them(tmp_path):
    """A trial in three pieces has the parameters and the curve of one that ran through."""
    whole = run(learner(), toy.stream(), tmp_path / "whole", keep="all").of_kind(TrainRecord)[0]
    halved = run(learner(halving=Halving()), toy.stream(), tmp_path / "halved", keep="all").of_kind(
        TrainRecord
    )[0]
    last = next(trial for trial in halved.trials if trial.trial == 6)
    assert last.info["steps"] == 40 and last.info["continues"] in (4, 5)
    assert sum("pruned_at" in trial.info for trial in halved.trials) == 3
    twin = next(trial for trial in whole.trials if trial.info["hyper"] == last.info["hyper"])
    assert last.info["curve"] == twin.info["curve"] and last.step == twin.step
    trees = [
        Checkpoint(tmp_path / folder / "checkpoints/0000-alpha").load(
            f"predictor-{trial.trial:03d}"
        )["variables"]
        for folder, trial in (("whole", twin), ("halved", last))
    ]
    assert jax.tree.all(jax.tree.map(np.array_equal, *trees))


def test_pruned_trials_cost_what_they_ran(tmp_path):
    record = run(learner(halving=Halving()), toy.stream(), tmp_path).of_kind(TrainRecord)[0]
    by_trial = {int(trial): flops for trial, flops in record.flops["train"].items()}
    assert sorted(by_trial) == [0, 1, 2, 3, 4, 5, 6]
    whole = run(learner(), toy.stream(), tmp_path / "whole").of_kind(TrainRecord)[0].flops["train"]
    step = (int(whole["0"]) - _initial_flops()) / 40
    assert all(by_trial[trial] == pytest.approx(10 * step + _initial_flops()) for trial in range(4))
    assert by_trial[4] == by_trial[5] == pytest.approx(10 * step) and by_trial[6] == pytest.approx(
        20 * step
    )
    steps = {
        trial.trial: trial.info.get("pruned_at", trial.info["steps"]) for trial in record.trials
    }
    assert sorted(steps.values()) == [10, 10, 20, 40] and len(record.trials) == 4


def _initial_flops():
    ctx = Context(path=("x",), phase="train")
    ctx.jit(initialise_program(MLP, choose_head_size(3)))(np.zeros(4, np.uint32))
    return sum(sum(by_trial.values()) for by_trial in ctx.meter.counts().values())


def test_a_diverged_trial_does_not_go_on():
    def piece(ctx, item):
        number = item["hyper"]["learning_rate"]
        diverged = number == 0.1
        result = {
            "trial": ctx.trial,
            "info": {"dev_error": None if diverged else number, "steps": item["until"]},
        }
        return result if diverged or item["until"] == 40 else result | {"position": {}}

    hypers = [{"learning_rate": rate} for rate in (0.1, 0.9, 0.8)]
    results = Halving().run(Context(path=("x",), phase="train"), piece, hypers, 40, 10)
    assert [result["info"]["steps"] for result in results] == [10, 20, 40]
    assert "pruned_at" not in results[0]["info"] and results[1]["info"]["pruned_at"] == 20


# -- heads on frozen features
# -------------------------------------------------------------------------------------------


def variables(network, classes=3):
    return to_host(
        jax.jit(initialise_program(network, choose_head_size(classes)))(
            np.arange(4, dtype=np.uint32)
        )
    )


@pytest.mark.parametrize(
    "dataset", [toy.blobs("a", n=60), toy.striped("a", n=60)], ids=["single_label", "multi_label"]
)
def test_heads_learn_and_trials_do_not_depend_on_each_other(dataset):
    task, recipe = view(dataset), Recipe(NETWORK, steps=60, validate_every=20)
    hypers = [{"learning_rate": rate, "label_smoothing": 0.1} for rate in (0.03, 0.3, 0.1)]
    results = [
        fit_heads(Context(path=("x",), phase="train"), task, variables(NETWORK), subset, recipe)
        for subset in (hypers, hypers[:1])
    ]
    errors = [point[2] for point in results[0][1]["info"]["curve"]]
    assert errors[-1] < errors[0] and results[0][1]["info"]["dev_error"] == min(errors)
    assert [point[0] for point in results[0][1]["info"]["curve"]] == [0, 20, 40, 60]
    alone, beside = (
        result[0]["variables"]["params"]["head"]["Dense_0"]["kernel"] for result in results
    )
    assert np.allclose(alone, beside, atol=1e-5)


def test_each_trial_pays_its_share_and_features_are_computed_once():
    task, recipe = view(toy.blobs("a", n=60)), Recipe(NETWORK, steps=60, validate_every=20)
    counts = []
    for trials in (1, 3):
        ctx = Context(path=("x",), phase="train")
        fit_heads(
            ctx,
            task,
            variables(NETWORK),
            [{"learning_rate": 0.1, "label_smoothing": 0.0}] * trials,
            recipe,
        )
        counts.append(ctx.meter.counts())
    first, three = counts
    assert (
        set(three["train"]) == {"-", "0", "1", "2"} and three["train"]["-"] == first["train"]["-"]
    )
    # a batched gather counts less
    assert three["train"]["1"] == pytest.approx(first["train"]["0"], rel=0.05)


def test_a_frozen_learner_keeps_the_backbone(tmp_path):
    ledger = run(learner(initialisation=FromPrevious(), frozen=True), toy.stream(), tmp_path)
    trees = [
        Checkpoint(tmp_path / f"checkpoints/{record.event:04d}-{record.task_id}").load(
            f"predictor-{record.chosen:03d}"
        )["variables"]["params"]
        for record in ledger.of_kind(TrainRecord)
    ]
    assert all(
        jax.tree.all(jax.tree.map(np.array_equal, trees[0]["backbone"], tree["backbone"]))
        for tree in trees
    )
    again = run(
        learner(initialisation=FromPrevious(), frozen=True), toy.stream(), tmp_path / "again"
    )
    assert again.path.read_bytes() == ledger.path.read_bytes()


# -- what feeds the loop
# ------------------------------------------------------------------------------------------------


def test_batches_are_the_same_from_the_host_from_the_device_and_ahead():
    task, ctx = view(toy.striped("a", n=60)), Context(path=("x",), phase="train")
    feeds = {mode: Feed(ctx, task, 10, 16, 5, mode) for mode in ("host", "resident", "ahead")}
    for step in (0, 1, 2, 7, 3):
        batches = [each(step) for each in feeds.values()]
        for other in batches[1:]:
            assert jax.tree.all(jax.tree.map(np.array_equal, batches[0], other))
    for each in feeds.values():
        each.close()
    assert isinstance(feeds["resident"](0).stored, jax.Array) and isinstance(
        feeds["host"](0).stored, np.ndarray
    )


def test_what_fits_on_a_device_is_kept_there(monkeypatch):
    class Device:
        platform = "gpu"

        def memory_stats(self):
            return {"bytes_limit": 1000}

    monkeypatch.setattr(jax, "local_devices", lambda: [Device()])
    assert [feed._mode(size) for size in (250, 251)] == ["resident", "ahead"]
    monkeypatch.setattr(feed, "_on_device", {})
    images = [np.zeros((size, 1), np.uint8) for size in (200, 200, 100)]
    for each in images:
        assert np.array_equal(feed._resident(each), each)
    assert list(feed._on_device) == [(id(each), None) for each in images[:3]]
    feed._resident(np.ones((150, 1), np.uint8))
    # the oldest makes room
    assert (id(images[0]), None) not in feed._on_device
    assert (id(images[1]), None) in feed._on_device


# -- precision
# ----------------------------------------------------------------------------------------------------------  # noqa: E501


def test_bfloat16_computes_nearly_the_same_and_keeps_parameters_in_float32():
    import dataclasses

    half = dataclasses.replace(NETWORK, precision="bfloat16")
    expected, images = (
        variables(NETWORK),
        np.random.RandomState(0).uniform(-1, 1, (4, 8, 8, 3)).astype(np.float32),
    )
    values = expected["params"]["backbone"], expected["batch_stats"], images
    answers = [
        jax.jit(functools.partial(network.features, train=True))(*values)
        for network in (NETWORK, half)
    ]
    assert answers[1][0].dtype == np.float32 and not np.array_equal(answers[0][0], answers[1][0])
    assert np.allclose(answers[0][0], answers[1][0], atol=0.1)
    assert {leaf.dtype for leaf in jax.tree.leaves(answers[1][1])} == {np.dtype(np.float32)}
    step = Recipe(half, steps=2, validate_every=1).step(3)
    task = view(toy.blobs("a", n=60))
    batch = Feed(Context(path=("x",), phase="train"), task, 10, 16, 5)(0)
    stored, sizes, target, shape = batch
    rest = (jax.random.key(0), np.int32(0), np.float32(0.1), np.float32(0), shape)
    carry = jax.jit(step)(begin(expected), stored, sizes, target, *rest)
    assert {leaf.dtype for leaf in jax.tree.leaves(carry["params"])} == {np.dtype(np.float32)}


# -- what is kept
# -------------------------------------------------------------------------------------------------------  # noqa: E501


def test_only_the_last_tasks_are_kept(tmp_path):
    ledger = run(learner(2, FromPrevious()), toy.stream(), tmp_path, keep="last_2")
    remaining = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert remaining == ["0004-gamma", "0006-alpha_2", "init"]
    every = run(learner(2, FromPrevious()), toy.stream(), tmp_path / "every")
    assert [r.error for r in ledger.of_kind(PredictRecord)] == [
        r.error for r in every.of_kind(PredictRecord)
    ]
    with pytest.raises(BadInput, match="Or last_K, for example last_5: the chosen predictors"):
        run(learner(), toy.stream(), tmp_path / "wrong", keep="last_0")
