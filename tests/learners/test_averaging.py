"""Networks whose answers are averaged with the ridge regression's."""

import dataclasses

import numpy as np
import pytest

from nevis_stream.configs import run_config
from nevis_stream.cost.meter import total
from nevis_stream.datasets.images import ArrayImages
from nevis_stream.learner import Context
from nevis_stream.learners.closed_form import frontier, repeats
from nevis_stream.learners.closed_form.learner import log_probabilities
from nevis_stream.storage.checkpoint import to_host
from nevis_stream.streams.task import LabelledImages, TaskView

LABELS = np.arange(40) % 4
RIGHT = np.eye(4, dtype=np.float32)[LABELS] * 0.7 + 0.075
WRONG = np.roll(RIGHT, 1, axis=1)


def best_weight(ridge, network, labels, kind="single_label"):
    return frontier.choose_weight(Context.standalone(), ridge, network, labels, kind)


def averaged(ridge, network, weight, kind):
    return frontier.average(Context.standalone(), ridge, network, weight, kind)


def test_the_weight_follows_who_is_right():
    assert best_weight(RIGHT, WRONG, LABELS) == 0
    assert best_weight(WRONG, RIGHT, LABELS) == 0.55
    nothing = np.zeros((0, 4), np.float32)
    assert best_weight(nothing, nothing, LABELS[:0]) == 0


def test_the_lowest_weight_that_makes_no_error_is_chosen():
    ridge, network = RIGHT.copy(), RIGHT.copy()
    ridge[0] = 0.45, 0.55, 0, 0  # wrong by a little; with 0.1 of the network it is right
    assert best_weight(ridge, network, LABELS) == 0.1


def test_the_weight_of_labels_follows_who_is_right():
    members = np.eye(4, dtype=np.uint8)[LABELS]
    assert best_weight(RIGHT, WRONG, members, "multi_label") == 0
    assert best_weight(WRONG, RIGHT, members, "multi_label") == 0.55


@pytest.mark.parametrize("kind", ["single_label", "multi_label"])
def test_an_average_is_between_its_parts_and_sums_to_one(kind):
    assert averaged(RIGHT, WRONG, 0.0, kind) == pytest.approx(RIGHT, abs=1e-6)
    equal = averaged(RIGHT, RIGHT, 0.4, kind)
    assert equal == pytest.approx(RIGHT, abs=1e-6)
    both = averaged(RIGHT, WRONG, 0.5, kind)
    right, others = both[np.arange(40), LABELS], both[np.arange(40), LABELS - 2]
    assert (right > 2 * others).all() and (right < 0.7).all()
    if kind == "single_label":
        assert both.sum(axis=1) == pytest.approx(1)


@pytest.mark.parametrize(("kind", "each"), [("single_label", 5), ("multi_label", 10)])
def test_averages_are_charged(kind, each):
    ctx = Context.standalone()
    frontier.average(ctx, RIGHT, WRONG, 0.5, kind)
    assert total(ctx.meter.counts()) == each * RIGHT.size
    labels = LABELS if kind == "single_label" else np.eye(4, dtype=np.uint8)[LABELS]
    frontier.choose_weight(ctx, RIGHT, WRONG, labels, kind)
    assert total(ctx.meter.counts()) == (1 + 13) * each * RIGHT.size


def test_a_repeat_with_renumbered_classes_renumbers_the_network_too():
    classes = np.asarray([2, 0, 1])
    tree = {
        "coefficients": np.arange(6).reshape(2, 3),
        "means": np.arange(3),
        "network": {"variables": {}, "outputs": 3, "classes": np.arange(3)},
    }
    once = repeats.permute(tree, classes)
    assert list(once["means"]) == list(once["network"]["classes"]) == [2, 0, 1]
    assert list(repeats.permute(once, np.argsort(classes))["network"]["classes"]) == [0, 1, 2]


def blobs(labels, dev_labels=None, noise=30, name="blobs"):
    """A task of 120 images whose brightness is their class; 40 of them are dev."""
    draw = np.random.RandomState(0)
    pixels = labels[:, None, None, None] * 60 + draw.randint(noise, size=(120, 16, 16, 3))
    images = ArrayImages(pixels.astype(np.uint8))
    dev_labels = labels[80:] if dev_labels is None else dev_labels
    train = LabelledImages(images.take(np.arange(80)), labels[:80])
    dev = LabelledImages(images.take(np.arange(80, 120)), dev_labels)
    return TaskView(name, 2000, "single_label", "object", 3, train=train, dev=dev)


def learner(**values):
    small = {"sample": 60, "centres": 200, "pictures": 200, "components": 8, "pixels": 8}
    config = run_config.make_default("frontier")
    config.update(small | {"gradients": (16,)} | values)
    return run_config.resolve(config).build()


CLASSES = np.random.RandomState(3).permutation(np.arange(120) % 3)


def left_out(dev_labels):
    """The answers to the images of dev, by their position in dev."""
    few = learner(sample=20, centres=40)
    context = Context.standalone(0, "train")
    _, examples, answers = few._learn(blobs(CLASSES, dev_labels), context, held_out_above=-1.0)
    rows = examples.rows[answers.positions]
    assert sorted(rows) == list(range(80, 120))
    return answers.scores[np.argsort(rows)], answers.error


def test_more_images_than_centres_are_judged_by_a_fit_without_dev():
    scores, error = left_out(CLASSES[80:])
    assert scores.shape == (40, 3) and error < 0.1
    others, _ = left_out(CLASSES[80:][::-1])  # the same frequencies
    assert np.allclose(scores, others, atol=1e-5)


@pytest.fixture
def networks(monkeypatch):
    """Replaces networks: `answer(images)` instead of training; returns what they were asked."""
    calls = {"trained": [], "answer": lambda images: np.full((len(images), 3), 1 / 3, np.float32)}

    def trained(ctx, task, start, steps, flip):
        calls["trained"].append((start, steps, flip))
        network = {"variables": {"of": np.zeros(1)}, "outputs": 3, "classes": np.arange(3)}
        return network, {"steps": steps}

    monkeypatch.setattr(frontier, "train_network", trained)
    monkeypatch.setattr(
        frontier, "predict_network", lambda ctx, network, kind, images: calls["answer"](images)
    )
    return calls


def by_brightness(images):
    """Probabilities of a network that knows what the classes of `blobs` are."""
    brightness = images.center_cropped(16).mean((1, 2, 3))
    return np.eye(3, dtype=np.float32)[(brightness // 60).astype(int)] * 0.97 + 0.01


def train(task, past=None, network_of="", **values):
    ctx = Context(path=("test",), phase="train", past=past or {}, past_views={})
    state = {"sketches": {}, "network_of": network_of}
    chosen = learner(**({"network_steps": 10, "network_above": 0.0} | values))
    state, predictors = chosen.train(task, state, ctx)
    return state, predictors[0], chosen


def partly_wrong():
    """Blobs with 8 of 40 dev images that the ridge regression gets wrong."""
    labels = CLASSES[80:].copy()
    labels[::5] = (labels[::5] + 1) % 3
    return blobs(CLASSES, labels)


@pytest.mark.parametrize("centres", [200, 40])
def test_the_answers_that_are_averaged_belong_to_the_same_images(networks, centres):
    _, predictor, _ = train(partly_wrong(), centres=centres)  # networks that know nothing
    assert predictor.info["dev_error"] == pytest.approx(8 / 40)
    assert predictor.info["hyper"]["network_weight"] == 0


def test_a_network_that_is_right_is_averaged_in_the_answers(networks):
    networks["answer"] = by_brightness
    task = blobs(CLASSES)
    wrong = LabelledImages(task.train.images, (task.train.labels + 1) % 3)
    state, predictor, chosen = train(dataclasses.replace(task, train=wrong), centres=40)
    assert predictor.info["hyper"]["network_weight"] > 0
    assert predictor.info["dev_error"] == 0
    assert predictor.info["network"] == {"steps": 10}
    assert state["network_of"] == "blobs"
    tree = to_host(predictor.tree)
    asked = blobs(CLASSES).dev
    ctx = Context.standalone()
    answers = chosen.predict(tree, asked.images, ctx)
    alone = chosen.predict(tree | {"weight": 0.0}, asked.images, ctx)
    expected = averaged(alone, by_brightness(asked.images), tree["weight"], "single_label")
    assert np.allclose(answers, expected, atol=1e-6) and not np.allclose(answers, alone, atol=0.05)


def test_the_ridge_regression_is_averaged_as_sure_as_it_is(networks, monkeypatch):
    seen = []
    monkeypatch.setattr(frontier, "choose_weight", lambda ctx, ridge, *_: seen.append(ridge) or 0.0)
    _, predictor, chosen = train(partly_wrong(), centres=40)
    ctx = Context(path=("test",), phase="train", past={}, past_views={})
    *_, found = chosen._learn(partly_wrong(), ctx, held_out_above=0.0)  # the same draws
    temperature = to_host(predictor.tree)["temperature"]
    assert temperature < 0.9
    expected = np.exp(log_probabilities(found.scores, temperature, True)[0])
    assert np.allclose(seen[0], expected, atol=1e-5)


def test_a_network_is_trained_only_where_the_error_is_high(networks):
    easy = blobs(CLASSES)
    _, predictor, _ = train(easy, network_above=0.2)
    assert not networks["trained"] and "network" not in predictor.tree
    train(blobs(np.random.RandomState(1).permutation(CLASSES), noise=250), network_above=0.2)
    assert len(networks["trained"]) == 1


def test_without_dev_images_there_is_no_network(networks):
    _, predictor, _ = train(blobs(CLASSES, noise=250), pictures=2, sample=4)
    assert not networks["trained"] and predictor.info["dev_error"] is None


@pytest.mark.parametrize(("chained", "started_from"), [(True, "old"), (False, "random")])
def test_a_network_starts_from_the_latest_one_if_they_are_chained(networks, chained, started_from):
    past = {"old": lambda: {"network": "the old one"}}
    hard = blobs(np.random.RandomState(1).permutation(CLASSES), noise=250)
    _, predictor, _ = train(hard, past, "old", chained=chained, mirrored=(True,))
    assert predictor.info["initialised_from"] == started_from
    assert networks["trained"] == [("the old one" if chained else None, 10, True)]


def test_images_are_mirrored_in_training_only_if_the_kernel_says_so(networks):
    train(blobs(CLASSES, noise=250), mirrored=(False,))
    assert [flip for *_, flip in networks["trained"]] == [False]


def test_a_network_answers_only_the_classes_that_a_repeat_has():
    count = 3
    task = dataclasses.replace(blobs(CLASSES), num_classes=4)  # one class has no image
    ctx = Context.standalone(phase="train")
    network, course = frontier.train_network(ctx, task, None, steps=2, flip=False)
    assert course["steps"] == 2 and [step for step, *_ in course["curve"]] == [0, 2]
    whole = frontier.predict_network(ctx, network, "single_label", task.dev.images)
    fewer = network | {"classes": np.asarray([2, 0, 1])}
    part = frontier.predict_network(ctx, fewer, "single_label", task.dev.images)
    assert whole.shape == (40, 4) and part.shape == (40, count)
    assert np.array_equal(part, whole[:, [2, 0, 1]])


def test_a_network_learns():
    ctx = Context.standalone(phase="train")
    network, course = frontier.train_network(ctx, blobs(CLASSES), None, steps=60, flip=False)
    errors = [error for *_, error in course["curve"]]
    assert course["step"] == 60 and errors[-1] < 0.3 < errors[0]
