"""One suite over every learner in the registry: the contract of init, train and predict."""

import dataclasses

import numpy as np
import pytest

from nevis_stream.configs import run_config
from nevis_stream.cost.meter import total
from nevis_stream.learner import Context
from nevis_stream.learners.parts import weights
from nevis_stream.learners.parts.model import Network, initialise_program
from nevis_stream.learners.table import TABLE
from nevis_stream.run_directory.records import PredictRecord, TrainRecord
from nevis_stream.runner import run
from nevis_stream.storage.checkpoint import to_host
from nevis_stream.streams.task import LabelledImages, TaskView
from tests import toy


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    """Builds a learner by name with a tiny budget, and with weights if it starts from any."""
    file = tmp_path_factory.mktemp("weights") / "mlp.safetensors"
    network = Network("mlp", (("hidden", (8,)),), 8)
    drawn = initialise_program(network, 64)(np.arange(4, dtype=np.uint32))
    file.write_bytes(
        weights.encode(
            to_host(drawn), weights.Facts(weights.describe_network(network), "nothing", 1000)
        )
    )

    def build(name):
        config = run_config.make_default(name)
        if "network" in config:
            config.network.update(name="mlp", hidden=(8,), resolution=8)
            config.train.update(steps=4, validate_every=2)
        if name == "bhpo":
            config.search.trials = 4
            config.other_network.update(name="mlp", hidden=(4,))
        if name.startswith("shared_"):
            config.update(steps=100, width=8, resolution=8)
        if name.startswith("pt_"):
            config.pretrained.path = str(file)
        return run_config.resolve(config).build()

    return build


# four trials of a Gaussian process take as long as all other learners
@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=[pytest.mark.slow] * (name == "bhpo")) for name in TABLE],
)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def ledger(name, build, tmp_path_factory):
    return run(build(name), toy.stream(), tmp_path_factory.mktemp(name), keep="all")


def view(task, splits):
    parts = {
        part: LabelledImages(splits[part].images, splits[part].labels) for part in ("train", "dev")
    }
    return TaskView(task.task_id, task.year, task.kind, task.domain, task.num_classes, **parts)


def test_it_completes_a_stream_of_both_kinds_with_a_repeat(ledger):
    assert ledger.complete
    assert [record.error is not None for record in ledger.of_kind(PredictRecord)] == [True] * 4


def test_it_learns_something(ledger):
    """Better than always answering the same, on tasks made to be easy (the steps are few: on
    average).
    """
    if ledger.header.learner == "Baseline":
        pytest.skip("four steps teach a network nothing; tests/learners/test_fit.py trains longer")
    errors = [record.error for record in ledger.of_kind(PredictRecord)]
    assert np.mean(errors) < 0.45


def test_every_task_costs_something_to_train_and_to_predict(ledger):
    for train, predict in zip(
        ledger.of_kind(TrainRecord), ledger.of_kind(PredictRecord), strict=True
    ):
        assert total(train.flops, "train") > 0
        assert total(predict.flops, "predict") > 0
        assert set(predict.flops) == {"predict"}


def test_it_gives_the_same_ledger_again(name, build, ledger, tmp_path):
    again = run(build(name), toy.stream(), tmp_path, keep="all")
    assert again.path.read_bytes() == ledger.path.read_bytes()


def test_its_configuration_cannot_be_changed(name, build):
    learner = build(name)
    assert dataclasses.is_dataclass(learner)
    field = next((field.name for field in dataclasses.fields(learner)), "anything")
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(learner, field, None)


@pytest.mark.parametrize("position", [0, 2], ids=["single_label", "multi_label"])
def test_predict_answers_each_image_for_itself(name, build, position):
    """In another order, or in two halves, each image gets the same probabilities; nothing is
    learned from the asking.
    """
    learner, stream = build(name), toy.stream()
    task = stream.tasks[position]
    splits = stream.splits(task)
    ctx = Context(path=("test",), phase="train")
    _, predictors = learner.train(view(task, splits), to_host(learner.init(ctx)), ctx)
    tree, images = to_host(predictors[0].tree), splits["test"].images

    def ask(some):
        return np.asarray(learner.predict(tree, some, Context(path=("test",), phase="predict")))

    whole = ask(images)
    assert whole.shape == (len(images), task.num_classes)
    order = np.arange(len(images))[::-1]
    assert np.allclose(ask(images.take(order)), whole[order], atol=1e-5)
    halves = np.concatenate([ask(images.take(order[:5])), ask(images.take(order[5:]))])
    assert np.allclose(halves, whole[order], atol=1e-5)
