"""The learner `frontier`: a data set that occurs again is recognised by its images alone."""

import numpy as np
import pytest

from nevis_stream.configs import run_config
from nevis_stream.cost.meter import total
from nevis_stream.datasets.dataset import make_dataset
from nevis_stream.datasets.images import ArrayImages
from nevis_stream.learner import Context
from nevis_stream.learners.closed_form import repeats
from nevis_stream.learners.closed_form.frontier import Frontier
from nevis_stream.run_directory.records import PredictRecord, TrainRecord
from nevis_stream.runner import run
from nevis_stream.streams.stream import Stream
from nevis_stream.streams.task import LabelledImages, TaskView
from tests import toy


def random_images(n, seed=0):
    return np.random.RandomState(seed).randint(256, size=(n, 8, 8, 3)).astype(np.uint8)


def task(images, labels, classes=3, kind="single_label", name="new"):
    half = len(images) // 2
    splits = [
        LabelledImages(ArrayImages(images[rows]), np.asarray(labels)[rows])
        for rows in (slice(None, half), slice(half, None))
    ]
    return TaskView(name, 2000, kind, "object", classes, *splits)


def search(current, earlier):
    """The repeat of `earlier` that `current` is, and the context."""
    ctx = Context(
        path=("test",),
        phase="train",
        past={"old": dict},
        past_views={"old": lambda: earlier},
    )
    sketches = {"old": repeats.sketch_hashes(repeats.hash_images(earlier.train))}
    return repeats.find(current, repeats.hash_images(current.train), sketches, ctx), ctx


IMAGES, LABELS = random_images(200), np.arange(200) % 3


def test_the_same_images_with_renumbered_classes_are_recognised():
    order = np.random.RandomState(1).permutation(100)
    order = np.concatenate([order, np.arange(100, 200)])
    renumbered = np.asarray([2, 0, 1])[LABELS]
    (name, classes), ctx = search(task(IMAGES[order], renumbered[order]), task(IMAGES, LABELS))
    assert name == "old" and list(classes) == [1, 2, 0]  # class 0 is the earlier class 1
    assert total(ctx.meter.counts(), "train") > 0


@pytest.mark.parametrize(
    ("images", "labels", "classes", "kind"),
    [
        (random_images(200, 1), LABELS, 3, "single_label"),
        (np.concatenate([IMAGES[:70], random_images(130, 1)]), LABELS, 3, "single_label"),
        (IMAGES, np.roll(LABELS, 1) * (np.arange(200) % 2), 3, "single_label"),
        (IMAGES, LABELS // 2, 2, "single_label"),
        (IMAGES, np.eye(3, dtype=np.uint8)[LABELS], 3, "multi_label"),
    ],
    ids=["other images", "many others", "other labels", "merged classes", "other kind"],
)
def test_what_is_not_the_same_is_not_taken_for_it(images, labels, classes, kind):
    assert search(task(images, labels, classes, kind), task(IMAGES, LABELS))[0] is None


def test_a_few_images_more_or_less_are_the_same_data_set():
    assert search(task(IMAGES[:192], LABELS[:192]), task(IMAGES, LABELS))[0] is not None


def test_images_that_all_occur_twice_are_compared_by_their_labels():
    images, labels = np.repeat(random_images(20), 12, axis=0), np.repeat(np.arange(20) % 3, 12)
    order = np.random.RandomState(1).permutation(240)
    earlier = task(images[order], labels[order])
    (_, classes), _ = search(task(images[order], (labels[order] + 1) % 3), earlier)
    assert list(classes) == [2, 0, 1]
    other = task(images[order], np.random.RandomState(2).randint(3, size=240))
    assert search(other, earlier)[0] is None


def test_classes_without_a_common_image_are_not_guessed():
    images, labels = random_images(200), np.zeros(200, int)
    labels[[0, 1]] = 1, 2
    other = images.copy()
    other[:2] = random_images(2, seed=5)
    assert search(task(other, labels), task(images, labels))[0] is None


def test_labels_of_several_are_matched_too():
    members = np.random.RandomState(3).randint(2, size=(200, 4)).astype(np.uint8)
    current = task(IMAGES, members[:, [3, 1, 0, 2]], 4, "multi_label")
    (_, classes), _ = search(current, task(IMAGES, members, 4, "multi_label"))
    assert list(classes) == [3, 1, 0, 2]


def learner(**values):
    config = run_config.make_default("frontier")
    config.update(values)
    return run_config.resolve(config).build()


def test_a_repeat_costs_next_to_nothing_and_answers_the_same(tmp_path):
    first = toy.blobs("alpha", seed=1)
    tasks = [first, toy.blobs("beta", classes=4, seed=2), first, first]
    stream = Stream.from_datasets("toy", tasks, [1992, 1998, 2005, 2015], meta_test=2)
    ledger = run(learner(), stream, tmp_path / "with")
    alone = run(learner(repeats=False), stream, tmp_path / "without")
    trained, without = (each.of_kind(TrainRecord) for each in (ledger, alone))
    spent = [total(record.flops) for record in trained]
    assert max(spent[2:]) < spent[0] / 1000
    assert [total(record.flops) for record in without][:2] == pytest.approx(spent[:2], rel=1e-3)
    starts = [record.chosen_trial.info["initialised_from"] for record in trained]
    assert starts == ["random", "random", "alpha", "alpha_2"]
    errors = [record.error for record in ledger.of_kind(PredictRecord)]
    assert errors[0] == errors[2] == errors[3]
    assert all(record.chosen_trial.info["initialised_from"] == "random" for record in without)


def test_the_predictor_of_a_repeat_is_reused_where_the_first_is_no_longer_kept(tmp_path):
    first, other = toy.blobs("alpha", seed=1), toy.blobs("beta", seed=2)
    stream = Stream.from_datasets(
        "toy", [first, first, first, other, first], range(2000, 2005), meta_test=1
    )
    few = learner(gradients=(16,), pixels=0, components=4, pictures=20, centres=20, sample=10)
    trained = run(few, stream, tmp_path, keep="last_1").of_kind(TrainRecord)
    starts = [record.chosen_trial.info["initialised_from"] for record in trained]
    assert starts == ["random", "alpha", "alpha_2", "random", "random"]


def test_a_repeat_with_fewer_classes_does_not_hide_the_first(tmp_path):
    def data(name, classes):
        parts = {
            part: (ArrayImages(random_images(40, seed)), np.arange(40) % 3)
            for seed, part in enumerate(("train", "dev", "dev_test", "test"))
        }
        return make_dataset(name, "single_label", parts, classes)

    tasks = [data("x", 4), data("y", 3), data("z", 4)]  # one class of x and z has no image
    stream = Stream.from_datasets("toy", tasks, range(2000, 2003), meta_test=1)
    few = learner(gradients=(16,), pixels=0, components=4, pictures=20, centres=20, sample=10)
    trained = run(few, stream, tmp_path).of_kind(TrainRecord)
    starts = [record.chosen_trial.info["initialised_from"] for record in trained]
    assert starts == ["random", "x", "x"]


def test_networks_go_on_from_a_repeat(monkeypatch):
    monkeypatch.setattr(repeats, "find", lambda *_: ("old", np.asarray([1, 0, 2])))
    tree = {"coefficients": np.zeros((2, 3)), "means": np.zeros(3), "facts": {}}
    ctx = Context(path=("test",), phase="train", past={"old": lambda: tree}, past_views={})
    state = {"sketches": {"old": np.arange(3)}, "network_of": "old"}
    state, _ = learner().train(task(IMAGES, LABELS), state, ctx)
    assert state["network_of"] == "new" and list(state["sketches"]) == ["new"]


def test_the_last_of_many_tasks_costs_what_the_first_did(tmp_path):
    tasks = [toy.blobs(f"blobs_{number}", n=30, seed=number) for number in range(30)]
    stream = Stream.from_datasets("many", tasks, range(1990, 2020), meta_test=1)
    few = learner(gradients=(16,), pixels=0, components=4, pictures=20, centres=20, sample=10)
    trained = run(few, stream, tmp_path).of_kind(TrainRecord)
    costs = [total(record.flops) for record in trained]
    assert len(costs) == 30 and max(costs) < 1.2 * min(costs)


def test_a_network_that_is_no_longer_kept_is_not_started_from(monkeypatch):
    starts = []

    def with_network(self, task, earlier, ctx):
        starts.append(earlier)
        return {"facts": {}}, "random"

    monkeypatch.setattr(Frontier, "_with_network", with_network)
    current, state = task(IMAGES, LABELS), {"sketches": {}, "network_of": "old"}
    learner().train(current, state, Context.standalone(phase="train"))
    kept = Context(path=("test",), phase="train", past={"old": dict}, past_views={})
    learner().train(current, state, kept)
    assert starts == ["", "old"]


@pytest.mark.slow
def test_networks_are_chained_averaged_and_reused_with_renumbered_classes(tmp_path):
    first = toy.blobs("alpha", classes=12, seed=1)
    tasks = [first, toy.blobs("beta", classes=12, seed=2), first]
    stream = Stream.from_datasets("toy", tasks, [1992, 1998, 2005], meta_test=2)
    values = {"network_steps": 4, "network_above": 0.0, "sample": 40, "pictures": 40}
    ledger = run(learner(**values), stream, tmp_path, keep="all")
    trained = ledger.of_kind(TrainRecord)
    facts = [record.chosen_trial.info for record in trained]
    assert [each["initialised_from"] for each in facts] == ["random", "alpha", "alpha"]
    assert all("network_weight" in each["hyper"] for each in facts)
    assert total(trained[2].flops) < total(trained[0].flops) / 1000
    errors = [record.error for record in ledger.of_kind(PredictRecord)]
    assert errors[0] == errors[2]
