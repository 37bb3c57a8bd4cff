"""Splits: exact, disjoint, complete, the same on every machine; messages and warnings."""

import re
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nevis_stream.datasets.dataset import MULTI_LABEL, SINGLE_LABEL, make_dataset
from nevis_stream.datasets.images import ArrayImages
from nevis_stream.datasets.splits import divide, divide_proportionally
from nevis_stream.errors import BadInput, DataWarning

SPLITS = ["train", "dev", "dev_test", "test"]
SOURCES = {
    "all": {"all": {"train": 56, "dev": 12, "dev_test": 12, "test": 20}},
    "train, test": {"train": {"train": 70, "dev": 15, "dev_test": 15}, "test": {"test": 100}},
    "train, dev, test": {
        "train": {"train": 80, "dev": 20},
        "dev": {"dev_test": 100},
        "test": {"test": 100},
    },
    "all four": {name: {name: 100} for name in SPLITS},
}


def dataset(counts, labels=None, side=2, kind=SINGLE_LABEL, name="toy"):
    """A data set whose first pixel numbers the samples of each part."""
    parts = {}
    for part, n in counts.items():
        pixels = np.zeros((n, side, side, 1), np.uint8)
        pixels[:, 0, 0, 0] = np.arange(n) % 256
        parts[part] = ArrayImages(pixels), (labels or {}).get(part, np.zeros(n, int))
    return make_dataset(name, kind, parts, num_classes=None if labels else 1)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(SOURCES)), st.lists(st.integers(10, 400), min_size=4, max_size=4))
def test_splits_are_exact_disjoint_complete_and_in_source_order(source, numbers):
    rule = SOURCES[source]
    toy = dataset(dict(zip(rule, numbers, strict=False)))
    splits = divide(toy)
    assert list(splits) == SPLITS
    for part, percentages in rule.items():
        ids = list(toy.parts[part].ids)
        results = []
        for name, share in percentages.items():
            split = splits[name]
            assert abs(len(split) - len(ids) * share / 100) < 1
            positions = [ids.index(i) for i in split.ids]
            assert positions == sorted(positions)
            for sample, position in enumerate(positions):
                assert split.images[sample][0, 0, 0] == position % 256
            results += split.ids
        assert sorted(results) == sorted(ids)


@given(st.integers(0, 10**6), st.sampled_from([(56, 12, 12, 20), (70, 15, 15), (80, 20), (100,)]))
def test_sizes_add_up_and_are_less_than_one_off(n, shares):
    results = divide_proportionally(n, dict(enumerate(shares)))
    assert sum(results.values()) == n
    assert all(abs(results[i] - n * share / 100) < 1 for i, share in enumerate(shares))


def test_splits_depend_on_the_ids_alone():
    first = divide(dataset({"all": 200}))
    labels = np.arange(200) % 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        other = divide(dataset({"all": 200}, {"all": labels}, side=5))
        renamed = divide(dataset({"all": 200}, name="other"))
    for name in SPLITS:
        assert list(first[name].ids) == list(other[name].ids)
    indices = {i.rpartition("/")[2] for i in first["test"].ids}
    assert indices != {i.rpartition("/")[2] for i in renamed["test"].ids}


def test_splits_are_these_on_every_machine():
    splits = divide(dataset({"all": 25}))
    indices = {name: [int(i.rpartition("/")[2]) for i in splits[name].ids] for name in SPLITS}
    assert indices == {
        "train": [0, 3, 5, 7, 8, 11, 12, 14, 16, 18, 21, 22, 23, 24],
        "dev": [9, 15, 19],
        "dev_test": [4, 6, 13],
        "test": [1, 2, 10, 17, 20],
    }


@pytest.mark.parametrize("parts", [{"train"}, {"all", "test"}, {"dev", "test"}])
def test_other_parts_are_refused_by_name(parts):
    with pytest.raises(BadInput, match=f"toy: has the parts {', '.join(sorted(parts))}. Valid"):
        divide(dataset(dict.fromkeys(parts, 50)))


@pytest.mark.parametrize("source", ["all", "train, test", "train, dev, test"])
def test_too_few_samples_say_how_many_are_needed(source):
    rule = SOURCES[source]
    part, percentages = next(iter(rule.items()))
    counts = dict.fromkeys(rule, 100)
    with pytest.raises(BadInput) as caught:
        divide(dataset({**counts, part: 2}))
    message = str(caught.value)
    assert re.search(rf"toy: part '{part}' has n = 2 samples.* split \w+.* empty", message)
    least = int(re.search(r"at least (\d+)", message)[1])
    splits = divide(dataset({**counts, part: least}))
    assert all(len(split) for split in splits.values())
    with pytest.raises(BadInput):
        divide(dataset({**counts, part: least - 1}))


def test_classes_that_train_never_shows_are_named():
    labels = {
        "train": np.zeros(20, int),
        "dev": np.array([0, 1, 3]),
        "dev_test": np.array([0, 1]),
        "test": np.array([0, 2, 2]),
    }
    toy = dataset({name: len(v) for name, v in labels.items()}, labels)
    with pytest.warns(DataWarning, match=r"toy: 2 class\(es\) of dev_test or test.*: 1, 2\.$"):
        divide(toy)


def test_labels_that_train_never_shows_are_named():
    labels = {
        "train": np.tile([1, 0, 1, 0], (20, 1)),
        "dev": np.tile([1, 1, 1, 0], (3, 1)),
        "dev_test": np.tile([1, 0, 0, 0], (3, 1)),
        "test": np.tile([1, 1, 1, 0], (3, 1)),
    }
    toy = dataset({name: len(v) for name, v in labels.items()}, labels, kind=MULTI_LABEL)
    with pytest.warns(DataWarning, match=r"1 class\(es\) .*: 1\.$"):
        divide(toy)


def test_single_pixels_are_pointed_out():
    with pytest.warns(DataWarning, match="toy: 50 .* 1×1 pixels.* toy/all/0"):
        divide(dataset({"all": 50}, side=1))


def test_kept_parts_are_the_same_objects():
    toy = dataset({"train": 100, "test": 7})
    assert divide(toy)["test"] is toy.parts["test"]
