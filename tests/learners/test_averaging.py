"""Networks whose answers are averaged with the ridge regression's."""

import numpy as np
import pytest

from experiments import run_config
from learners.closed_form import averaging, repeats
from nevis_stream.datasets.images import ArrayImages
from nevis_stream.learner import Context
from nevis_stream.streams.task import LabelledImages, TaskView

LABELS = np.arange(40) % 4
RIGHT = np.eye(4, dtype=np.float32)[LABELS] * 0.7 + 0.075
WRONG = np.roll(RIGHT, 1, axis=1)


def test_the_weight_follows_who_is_right():
    assert averaging.best_weight(RIGHT, WRONG, LABELS, "single_label") == 0
    assert averaging.best_weight(WRONG, RIGHT, LABELS, "single_label") == 0.55
    mixed = np.where(np.arange(40)[:, None] < 20, RIGHT, WRONG), np.flip(RIGHT, 0)
    assert 0 <= averaging.best_weight(*mixed, LABELS, "single_label") <= 0.6
    nothing = np.zeros((0, 4), np.float32)
    assert averaging.best_weight(nothing, nothing, LABELS[:0], "single_label") == 0


def test_the_weight_of_labels_follows_who_is_right():
    members = np.eye(4, dtype=np.uint8)[LABELS]
    assert averaging.best_weight(RIGHT, WRONG, members, "multi_label") == 0
    assert averaging.best_weight(WRONG, RIGHT, members, "multi_label") == 0.55


@pytest.mark.parametrize("kind", ["single_label", "multi_label"])
def test_an_average_is_between_its_parts_and_sums_to_one(kind):
    assert averaging.averaged(RIGHT, WRONG, 0.0, kind) == pytest.approx(RIGHT, abs=1e-6)
    equal = averaging.averaged(RIGHT, RIGHT, 0.4, kind)
    assert equal == pytest.approx(RIGHT, abs=1e-6)
    both = averaging.averaged(RIGHT, WRONG, 0.5, kind)
    right, others = both[np.arange(40), LABELS], both[np.arange(40), LABELS - 2]
    assert (right > 2 * others).all() and (right < 0.7).all()
    if kind == "single_label":
        assert both.sum(axis=1) == pytest.approx(1)


def test_a_repeat_with_renumbered_classes_renumbers_the_network_too():
    classes = np.asarray([2, 0, 1])
    tree = {
        "coefficients": np.arange(6).reshape(2, 3),
        "means": np.arange(3),
        "network": {"variables": {}, "classes": np.arange(3)},
    }
    once = repeats.permuted(tree, classes)
    assert list(once["means"]) == list(once["network"]["classes"]) == [2, 0, 1]
    assert list(repeats.permuted(once, np.argsort(classes))["network"]["classes"]) == [0, 1, 2]


def test_more_images_than_centres_are_judged_by_a_fit_without_dev():
    draw = np.random.RandomState(0)
    labels = np.arange(120) % 3
    images = ArrayImages(
        (labels[:, None, None, None] * 60 + draw.randint(90, size=(120, 16, 16, 3))).astype(
            np.uint8
        )
    )
    task = TaskView(
        "blobs",
        2000,
        "single_label",
        "object",
        3,
        train=LabelledImages(images.take(np.arange(80)), labels[:80]),
        dev=LabelledImages(images.take(np.arange(80, 120)), labels[80:]),
    )
    config = run_config.default("frontier")
    config.update(sample=20, centres=40, pictures=200, components=8, gradients=(16,), pixels=8)
    learner = run_config.build(run_config.resolve(config))
    context = Context.standalone(0, "train")
    _, examples, answers = learner._learn(task, context, held_out_above=-1.0)
    assert sorted(examples.rows[answers.positions]) == list(range(80, 120))
    assert answers.scores.shape == (40, 3) and answers.error < 0.1
