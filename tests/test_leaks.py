"""A learner that reaches for the future, for test labels or for another split gets an error;
nothing of them is in reach.
"""

import gc
import re
import types
import warnings
import zipfile
from dataclasses import dataclass

import numpy as np
import pytest
from PIL import Image

from nevis_stream.errors import DataWarning, LeakError
from nevis_stream.report.build import write_report
from nevis_stream.run_directory.records import TrainRecord
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
        (lambda task, ctx: ctx.predictor("beta"), "no predictor for it: .*'beta'"),
        (lambda task, ctx: ctx.predictor("alpha"), "no predictor for it: .*'alpha'"),
        (lambda task, ctx: ctx.task("beta"), "its data are not available: .*'beta'"),
        (lambda task, ctx: ctx.task("alpha"), "its data are not available: .*'alpha'"),
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


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    """A stream whose files have copies: within a task, and in the training part of an earlier
    one; stored in other formats.
    """
    folder = tmp_path_factory.mktemp("copied")
    pixels = np.random.RandomState(0).randint(0, 255, (80, 9, 9, 3), dtype=np.uint8)
    labels = np.arange(80) % 2
    # ten test images of "own" are training images of it, which go to train, dev or dev_test
    test = np.concatenate([pixels[:10], pixels[60:70]])
    save_zip(folder / "own.zip", pixels[:60], test)
    later = {"images_train": 255 - pixels[:60], "images_test": pixels[:40]}
    np.savez(folder / "later.npz", **later, labels_train=labels[:60], labels_test=labels[:40])
    (folder / "s.csv").write_text(
        "order,year,task_id,dataset_id,meta_split,path\n1,2001,own,own,train,own.zip\n"
        "2,2002,later,later,test,later.npz\n3,2003,own_2,own,test,own.zip\n"
    )
    return str(folder / "s.csv")


@pytest.fixture(scope="module")
def leaky(copied, tmp_path_factory):
    """A run on it, the warnings, how many copies each task has, and the row of `overlap.csv` for
    the images of the later task in the earlier one.
    """
    run_dir = tmp_path_factory.mktemp("leaky") / "run"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DataWarning)
        ledger = run(toy.ToyLearner(), copied, run_dir)
    counts = {r.task_id: r.to_json().get("n_leaked", "absent") for r in ledger.of_kind(TrainRecord)}
    rows = (run_dir / "overlap.csv").read_text().splitlines()
    return types.SimpleNamespace(
        run_dir=run_dir,
        warnings=[str(each.message) for each in caught],
        counts=counts,
        rows=rows,
        shared=[row.split(",") for row in rows if row.startswith("later,test,own,")],
    )


def test_images_tested_on_after_training_on_copies_are_warned_of_once_a_task(leaky):
    message = r"task 'own(_2)?': \d of 20 images of its test split are exact copies"
    assert any(re.search(message, each) for each in leaky.warnings)
    assert len([each for each in leaky.warnings if "exact copies" in each]) == 2  # own and own_2


def test_images_tested_on_after_training_on_copies_are_counted(leaky):
    counts = leaky.counts
    assert 5 <= counts["own"] == counts["own_2"] <= 10 and counts["later"] == "absent"


def test_copies_in_an_earlier_task_are_in_a_table_and_those_in_the_same_data_set_are_not(leaky):
    assert len(leaky.shared) == 1 and 30 <= int(leaky.shared[0][3]) <= 40
    assert not [row for row in leaky.rows if row.startswith("own_2")]


def test_a_report_shows_copies(leaky, tmp_path):
    page = write_report([leaky.run_dir], tmp_path / "report").read_text()
    assert f"own: {leaky.counts['own']} of 20 images are exact copies" in page
    assert f"{leaky.counts['own']} leaked" in page
    assert f"later: of 40 test images {leaky.shared[0][3]} are in the train or dev" in page


def test_a_run_that_predicts_a_split_without_copies_warns_of_none(copied, tmp_path):
    """In meta_train that is the dev_test split."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        developed = run(toy.ToyLearner(), copied, tmp_path / "dev", protocol="meta_train")
    assert not any("n_leaked" in record.to_json() for record in developed.records)


def save_zip(path, train, test):
    """A zip with labels.csv of PNG images in the training part and BMP images in the test
    part.
    """
    lines = ["path,split,label"]
    with zipfile.ZipFile(path, "w") as archive:
        for part, images, suffix in (("train", train, "png"), ("test", test, "bmp")):
            for i, image in enumerate(images):
                with archive.open(f"{part}/{i}.{suffix}", "w") as file:
                    Image.fromarray(image).save(file, suffix)
                lines.append(f"{part}/{i}.{suffix},{part},{i % 2}")
        archive.writestr("labels.csv", "\n".join(lines))
