"""What code of users is given: it can change nothing that others use, and what it keeps in itself
is noticed.
"""

import collections
import copy
import functools
import pickle
import random
import threading
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.linear_model import SGDClassifier

from nevis_stream import active_testing as at
from nevis_stream import dynamic_evaluation as de
from nevis_stream.dynamic_evaluation.session import Session
from nevis_stream.errors import BadInput, LearnerFault
from nevis_stream.learner import Predictor
from nevis_stream.queries.oracle import Query, Responses, ask_checked
from nevis_stream.runner import run
from nevis_stream.streams.stream import Stream
from nevis_stream.user_calls import ReadOnlyList, find_change, read_attributes
from tests import toy


@dataclass(frozen=True)
class Means:
    """Class means of labels, some of which it replaces in place, those of the past too."""

    noise: float = 0.0

    def init(self, ctx):
        return {"met": np.zeros(1)}

    def train(self, task, state, ctx):
        for each in (task, *map(ctx.task, ctx.past_tasks)):
            for part in (each.train, each.dev):
                part.labels[ctx.generator("noise").random(len(part)) < self.noise] = 1
        state["met"] += 1
        images = task.train.images.resized(8).reshape(len(task.train), -1) / 255
        labels, found = task.train.labels, np.arange(task.num_classes)
        if labels.ndim == 1:
            of_class = [images[labels == each].sum(axis=0) for each in found]
            found = np.stack(of_class) / np.bincount(labels, minlength=len(found))[:, None]
        ctx.charge(images.size)
        return state, [Predictor({"means": found, "met": state["met"]})]

    def predict(self, predictor, images, ctx):
        ctx.charge(1)
        vectors = images.resized(8).reshape(len(images), -1) / 255
        if predictor["means"].ndim == 1:
            return np.full((len(images), len(predictor["means"])), 0.5)
        far = ((vectors[:, None] - predictor["means"]) ** 2).sum(axis=-1)
        predictor["means"] += 1
        return np.eye(far.shape[1])[far.argmin(axis=1)]


def test_labels_and_states_that_a_learner_changes_are_its_own(tmp_path):
    """Two data sets, the first of them twice: neither the repeat nor a later run sees the noise."""

    def ledger(learner, stream, name):
        return run(learner, stream, tmp_path / name).path.read_bytes()

    stream = toy.stream()
    clean, noisy = (ledger(Means(noise), toy.stream(), f"{noise}") for noise in (0.0, 0.4))
    assert noisy != clean
    assert ledger(Means(0.4), stream, "first") == noisy
    assert ledger(Means(0.4), stream, "again") == noisy
    assert ledger(Means(0.0), stream, "after") == clean


def change(in_train=lambda self, task: None, in_predict=lambda self, images: None, **attributes):
    """A learner that does something more in train and in predict."""

    class Changing(toy.ToyLearner):
        def train(self, task, state, ctx):
            in_train(self, task)
            return super().train(task, state, ctx)

        def predict(self, predictor, images, ctx):
            in_predict(self, images)
            return super().predict(predictor, images, ctx)

    learner = Changing()
    vars(learner).update(attributes)
    return learner


def colours():
    images = np.random.RandomState(0).randint(0, 255, size=(40, 6, 6, 3)).astype(np.uint8)
    parts = {"all": (toy.ArrayImages(images), np.arange(40) % 2)}
    return Stream.from_datasets("c", [toy.make_dataset("c", "single_label", parts)], [2000], 1)


@pytest.mark.parametrize(
    ("stream", "take"),
    [
        (colours, lambda images: images[0]),
        (colours, lambda images: images.resized(4)),
        (toy.multi_label_stream, lambda images: images.sizes),
        (toy.multi_label_stream, lambda images: images.center_cropped(4)),
    ],
)
@pytest.mark.parametrize(
    "write_into",
    [
        lambda array: array.__setitem__(0, 0),
        lambda array: np.random.RandomState(0).shuffle(array),
        lambda array: random.Random(0).shuffle(array),
        lambda array: array.setflags(write=True),
    ],
    ids=["item", "shuffle", "python", "flag"],
)
def test_images_that_a_learner_writes_into_are_refused_with_the_line(
    tmp_path, stream, take, write_into
):
    def write(self, images):
        write_into(take(images))

    message = r"task '\w+': \w+: test_user_calls.py, line \d+, would write into .* It is read-only"
    with pytest.raises(LearnerFault, match=message):
        run(change(lambda self, task: write(self, task.train.images)), stream(), tmp_path / "train")
    with pytest.raises(LearnerFault, match=message):
        run(change(in_predict=write), stream(), tmp_path / "predict")


class Buffer:
    """A user's own class."""

    def __init__(self):
        self.kept = []


class Slots:
    __slots__ = ("count",)

    def __init__(self):
        self.count = 0


@dataclass
class Owner:
    value: object = None
    shared = collections.Counter()

    @functools.cached_property
    def program(self):
        return [1]


def holding(value):
    return Owner(value)


def add_one(owner):
    owner.value += 1


CHANGES = {
    "number": (lambda: 0, add_one),
    "array": (lambda: np.zeros(3), lambda owner: owner.value.__setitem__(1, 2)),
    "array in place of another": (lambda: jnp.zeros(3), add_one),
    "list": (list, lambda owner: owner.value.append((np.ones(2), 1))),
    "array in a list in a dict": (
        lambda: {"a": [np.zeros(2)]},
        lambda owner: owner.value["a"][0].fill(1),
    ),
    "deque": (lambda: collections.deque(maxlen=1), lambda owner: owner.value.append(2)),
    "set": (set, lambda owner: owner.value.add("a")),
    "generator": (lambda: np.random.default_rng(0), lambda owner: owner.value.random()),
    "Random": (lambda: random.Random(0), lambda owner: owner.value.random()),
    "own class": (Buffer, lambda owner: owner.value.kept.append(1)),
    "slots": (Slots, lambda owner: setattr(owner.value, "count", 1)),
    "scikit-learn": (
        SGDClassifier,
        lambda owner: owner.value.partial_fit(np.eye(2), [0, 1], [0, 1]),
    ),
    "of the class": (lambda: None, lambda owner: owner.shared.update("a")),
    "new": (lambda: None, lambda owner: setattr(owner, "classes", 3)),
    "deleted": (lambda: 1, lambda owner: delattr(owner, "value")),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_attribute_is_found(change):
    make, act = CHANGES[change]
    owner = holding(make())
    before = read_attributes(owner)
    assert find_change(before, read_attributes(owner)) is None
    act(owner)
    names = {"of the class": "shared", "new": "classes"}
    assert find_change(before, read_attributes(owner)) == names.get(change, "value")


NO_CHANGES = {
    "program": lambda owner: owner.program,
    "compiled": lambda owner: owner.value.update(images=jax.jit(abs)),
    "compiled by size": lambda owner: owner.value.update({3: jax.jit(abs).lower(1.0).compile()}),
    "module": lambda owner: setattr(owner, "numpy", np),
    "lock": lambda owner: setattr(owner, "lock", threading.Lock()),
    "equal array": lambda owner: owner.value.update(a=np.array(owner.value["a"])),
    "equal array of JAX": lambda owner: owner.value.update(b=owner.value["b"] + 0),
}


@pytest.mark.parametrize("act", NO_CHANGES)
def test_programs_and_equal_values_are_no_change(act):
    owner = holding({"a": np.zeros(3), "b": jnp.zeros(3), "c": float("nan"), "images": None})
    owner.value["itself"] = owner.value
    owner.worst = float("nan")
    owner.fixed = np.broadcast_to(np.zeros(()), (10**5, 10**5))  # not read
    before = read_attributes(owner)
    NO_CHANGES[act](owner)
    assert find_change(before, read_attributes(owner)) is None


class Replay(toy.ToyLearner):
    """Its buffer is of the class."""

    buffer: list = []

    def train(self, task, state, ctx):
        self.buffer.append(task.train.labels)
        return super().train(task, state, ctx)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            Replay,
            r"train changed the attribute 'buffer'.* return \{'buffer': …\}.*state\['buffer'\]",
        ),
        (
            lambda: change(lambda self, task: vars(self).update(task=task)),
            "train changed the attribute 'task'",
        ),
        (
            lambda: change(in_predict=lambda self, images: self.seen.add(1), seen=set()),
            "predict changed the attribute 'seen'.* the predictor's tree",
        ),
        (
            lambda: change(lambda self, task: self.rng.random(), rng=np.random.default_rng(0)),
            "train changed the attribute 'rng'",
        ),
    ],
)
def test_state_that_a_learner_keeps_in_itself_is_refused(tmp_path, make, message):
    with pytest.raises(LearnerFault, match=message):
        run(make(), toy.stream(), tmp_path, config={"learner": "keeps"})


@dataclass(frozen=True)
class Filling(toy.ToyLearner):
    """All trials fill and return one array."""

    def train(self, task, state, ctx):
        filled, lock = np.zeros(task.num_classes), threading.Lock()

        def trial(ctx, item):
            ctx.charge(1)
            with lock:
                filled[:] = item
                return {"frequencies": filled}

        plain = ctx.map
        ctx.map = lambda function, items: plain(trial, items)
        return super().train(task, state, ctx)


def test_what_a_trial_returned_is_not_changed_by_the_next(tmp_path):
    """As where each is in a process of its own, or was read after a kill."""
    means = []

    class Watched(Filling):
        def train(self, task, state, ctx):
            state, predictors = super().train(task, state, ctx)
            means.append([each.tree["frequencies"][0] for each in predictors])
            return state, predictors

    run(Watched(), toy.stream(), tmp_path / "a")
    assert [sorted(each) for each in means] == [[0, 1, 2]] * 4


def sorting(answer):
    def model(ids):
        ids.sort(reverse=True)
        return answer(ids)

    return model


def test_ids_that_a_model_sorts_in_place_are_refused(tmp_path):
    """Its values would be taken for those of other samples."""
    known = (np.random.default_rng(0).random((8, 40)) < 0.6).astype(np.uint8)
    board = de.read_board(known)
    message = (
        r"test_user_calls.py, line \d+, changes a list .* of \d+ ids or names. It is read-only"
    )
    with pytest.raises(BadInput, match=message):
        de.evaluate(board, sorting(lambda ids: known[0][ids]), 10, "stratified_mean")
    with pytest.raises(BadInput, match=message):
        session = Session.start(tmp_path / "s", board, budget=10, method="stratified_mean")
        session.run(sorting(lambda ids: [1] * len(ids)))
    with pytest.raises(BadInput, match=message):
        probabilities = np.full((30, 2), 0.5)
        at.estimate(probabilities, sorting(lambda rows: [0] * len(rows)), 10, batch=5)
    for ids in (board.samples, board.ids, session.ids):
        with pytest.raises(BadInput, match=message):
            random.shuffle(ids)
    with pytest.raises(BadInput, match="of 8 ids or names"):
        board.models.append("new")


def test_a_query_that_an_oracle_writes_into_is_refused():
    def oracle(query):
        query.samples.sort()
        return Responses(query, np.ones(query.samples.shape))

    with pytest.raises(BadInput, match=r"test_user_calls.py, line \d+, would write into an array"):
        ask_checked(oracle, Query(np.array([[3, 1, 2]])))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, list, lambda x: x.copy()])
def test_copies_of_a_read_only_list_are_lists(copied):
    names = ReadOnlyList(["b", "a"])
    mine = copied(names)
    mine.sort()
    assert mine == ["a", "b"] and names == ["b", "a"]
    assert type(mine) is type(pickle.loads(pickle.dumps(names))) is list
    assert np.arange(3)[ReadOnlyList([2, 0])].tolist() == [2, 0]
