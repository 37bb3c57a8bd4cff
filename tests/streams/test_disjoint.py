"""`+disjoint`: no image of a later task is in an earlier one."""

import csv

import numpy as np
import pytest

from nevis_stream.datasets.splits import remove_overlaps
from nevis_stream.errors import BadInput, DataWarning
from nevis_stream.learners.nearest_class_mean import NearestClassMean
from nevis_stream.run_directory.records import TrainRecord
from nevis_stream.runner import run
from nevis_stream.streams.named_streams import load_stream
from nevis_stream.streams.rows import has_suffix, strip_suffixes
from nevis_stream.vocabulary import SPLITS


@pytest.fixture
def stream_csv(tmp_path):
    """Two data sets and a repeat of the first; 8 images of the second are in the first, moved to
    other parts."""
    random = np.random.default_rng(0)
    first, second = (random.integers(0, 255, (60, 6, 6, 3)).astype(np.uint8) for _ in range(2))
    second[:5], second[50:53] = first[55:60], first[:3]
    for name, images in (("first", first), ("second", second)):
        train, test = images[:40], images[40:]
        labels = np.arange(60) % 2
        np.savez(
            tmp_path / f"{name}.npz",
            images_train=train, labels_train=labels[:40], images_test=test, labels_test=labels[40:],
        )  # fmt: skip
    with open(tmp_path / "two.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["order", "year", "task_id", "dataset_id", "meta_split", "path"])
        for place, (task, data) in enumerate(
            (("first", "first"), ("second", "second"), ("first_2", "first")), start=1
        ):
            writer.writerow([place, 2000 + place, task, data, "test", f"{data}.npz"])
    return str(tmp_path / "two.csv")


def hashes(stream, task):
    splits = stream.splits(task)
    return {split: set(splits[split].images.pixel_hashes().tolist()) for split in SPLITS}


def test_the_copies_of_the_later_task_are_left_out(stream_csv, tmp_path):
    plain, cleaned = load_stream(stream_csv), load_stream(stream_csv + "+disjoint")
    with pytest.warns(DataWarning, match="second: 8 images left out .*3 of 20 in test"):
        digest = cleaned.digest
    assert digest.endswith("-disjoint") and not plain.digest.endswith("-disjoint")
    assert cleaned.name == "two+disjoint" and plain.name == "two"
    first, second, repeat = cleaned.tasks
    assert (
        set()
        .union(*hashes(cleaned, first).values())
        .isdisjoint(set().union(*hashes(cleaned, second).values()))
    )
    sizes = [sum(len(part) for part in cleaned.splits(task).values()) for task in cleaned.tasks]
    assert sizes == [60, 52, 60]  # a repeat stays whole
    assert len(cleaned.splits(second)["test"]) == 17 and len(plain.splits(second)["test"]) == 20
    # what is left is in its place, with its label
    before, after = plain.splits(plain.tasks[1])["test"], cleaned.splits(second)["test"]
    place = [before.ids.index(sample) for sample in after.ids]
    assert place == sorted(place) and (before.labels[place] == after.labels).all()
    assert sum(each.exact for each in plain.overlaps()) > 0 == len(cleaned.overlaps())
    ledger = run(NearestClassMean(resolution=4), cleaned, tmp_path / "run", tensorboard=False)
    assert ledger.complete and ledger.header.stream_digest == digest
    assert ledger.of_kind(TrainRecord)[1].n_train == len(cleaned.splits(second)["train"])


def test_a_test_split_of_which_half_would_be_lost_is_refused():
    random = np.random.default_rng(0)

    def splits_of(name):
        return parts[name]

    from tests.toy import blobs

    whole = blobs("a").parts["all"]
    quarters = np.array_split(random.permutation(60), 4)
    parts = {"a": {split: whole.take(rows) for split, rows in zip(SPLITS, quarters, strict=True)}}
    other = blobs("b", seed=5).parts["all"]
    parts["b"] = dict(parts["a"]) | {
        split: other.take(rows) for split, rows in zip(SPLITS, quarters, strict=True)
    }
    tasks = [("a", "a"), ("b", "b")]
    assert remove_overlaps(tasks, splits_of)[1] == []
    parts["b"]["test"] = whole.take(quarters[0])
    with pytest.raises(BadInput, match="task 'b': 15 of 15 images of its test split are copies"):
        remove_overlaps(tasks, splits_of)
    parts["b"]["test"], parts["b"]["train"] = other.take(quarters[3]), whole.take(quarters[3])
    with pytest.raises(BadInput, match="15 of 15 images of its train split"):
        remove_overlaps(tasks, splits_of)


def test_suffixes_in_any_order():
    for name in ("full+disjoint+partial", "full+partial+disjoint"):
        assert strip_suffixes(name) == "full"
        assert has_suffix(name, "+partial") and has_suffix(name, "+disjoint")
    assert not has_suffix("full+partial", "+disjoint")
    with pytest.raises(BadInput, match="'pico\\+disjont'.*pico_plus"):
        load_stream("pico+disjont")
    assert load_stream("pico+disjoint").digest.endswith("-disjoint")
