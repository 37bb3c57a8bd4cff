"""A learner that reaches for the future, for test labels or for another split gets an error;
nothing of them is in reach.
"""

import gc
import types
from dataclasses import dataclass

import numpy as np
import pytest

from nevis_stream.errors import LeakError
from nevis_stream.runner import run
from tests import toy


def probing(in_train=lambda task, ctx: None, in_predict=lambda images, ctx: None):
    """A toy learner that does something more in train or predict."""

    @dataclass(frozen=True)
    class Probing(toy.ToyLearner):
        def train(self, task, state, ctx):
            in_train(task, ctx)
            return super().train(task, state, ctx)

        def predict(self, predictor, images, ctx):
            in_predict(images, ctx)
            return super().predict(predictor, images, ctx)

    return Probing()


@pytest.mark.parametrize(
    ("probe", "message"),
    [
        (lambda task, ctx: task.test, "task 'alpha': the test split belongs to the runner"),
        (lambda task, ctx: task.dev_test, "task 'alpha': the dev_test split belongs to the runner"),
        (
            lambda task, ctx: task.dataset_id,
            "a task has no 'dataset_id'; a learner may know: task_id, year",
        ),
        (lambda task, ctx: task.train.ids, "'ids'"),
        (lambda task, ctx: ctx.predictor("beta"), "unknown past task 'beta'"),
        (lambda task, ctx: ctx.predictor("alpha"), "unknown past task 'alpha'"),
        (lambda task, ctx: ctx.task("beta"), "unknown past task 'beta'"),
        (lambda task, ctx: ctx.task("alpha"), "unknown past task 'alpha'"),
    ],
)
def test_training_reaches_only_train_and_dev(tmp_path, probe, message):
    with pytest.raises((LeakError, AttributeError), match=message):
        run(probing(in_train=probe), toy.stream(), tmp_path)


def test_test_labels_cannot_be_read_while_predicting(tmp_path):
    for name in ("labels", "ids"):
        with pytest.raises(AttributeError, match=name):
            run(
                probing(in_predict=lambda images, ctx, name=name: getattr(images, name)),
                toy.stream(),
                tmp_path / name,
            )


def test_predicting_reaches_no_earlier_predictor(tmp_path):
    def probe(images, ctx):
        assert ctx.past_tasks == ()

    run(probing(in_predict=probe), toy.stream(), tmp_path)


def reachable(*roots):
    """Everything that attributes, items and containers lead to from `roots`; code is not followed
    into its module.
    """
    seen, todo = {}, list(roots)
    while todo:
        thing = todo.pop()
        if id(thing) in seen or isinstance(
            thing, type | types.ModuleType | types.FunctionType | types.MethodType
        ):
            continue
        seen[id(thing)] = thing
        todo += gc.get_referents(thing)
    return seen.values()


def test_nothing_of_other_splits_or_later_tasks_is_in_reach(tmp_path):
    """Also when the learner goes through private attributes (but not into functions' closures:
    Python hides nothing).
    """
    stream = toy.stream()
    hidden = {
        task.task_id: {split: stream.splits(task)[split].labels for split in ("dev_test", "test")}
        for task in stream.tasks
    }
    looked = []

    def no_labels(things):
        arrays = [thing for thing in things if isinstance(thing, np.ndarray)]
        for of_task in hidden.values():
            for labels in of_task.values():
                assert not any(np.shares_memory(array, labels) for array in arrays)
                assert not any(
                    array.shape == labels.shape and np.array_equal(array, labels)
                    for array in arrays
                )

    def in_train(task, ctx):
        things = reachable(task, ctx)
        no_labels(things)
        later = {t.task_id for t in stream.tasks[len(ctx.past_tasks) + 1 :]}
        words = {thing for thing in things if isinstance(thing, str)}
        assert not words & later
        looked.append(task.task_id)

    def in_predict(images, ctx):
        no_labels(reachable(images, ctx))
        looked.append("predict")

    run(probing(in_train, in_predict), stream, tmp_path)
    assert len(looked) == 8
