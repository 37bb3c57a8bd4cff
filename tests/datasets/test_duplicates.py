"""Exact and near duplicates: hashes that stay the same where they should, and the rule of which
copy is kept.
"""

import io

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from skimage import data

from nevis_stream.datasets import overlap
from nevis_stream.datasets.duplicates import PRIORITY, dhashes, exact, examine, near

COFFEE = Image.fromarray(data.astronaut()).resize((120, 90))


def dhash(picture):
    return int(dhashes(examine(picture).thumbnail[None])[0])


def test_the_exact_hash_is_of_pixels_not_of_files():
    grey = COFFEE.convert("L")
    assert examine(grey).sha256 == examine(grey.convert("RGB")).sha256 != examine(COFFEE).sha256
    changed = np.array(COFFEE)
    changed[0, 0, 0] ^= 1
    assert examine(Image.fromarray(changed)).sha256 != examine(COFFEE).sha256
    flat = np.zeros((4, 6), np.uint8)
    assert (
        examine(Image.fromarray(flat)).sha256 != examine(Image.fromarray(flat.reshape(6, 4))).sha256
    )


def test_the_perceptual_hash_bears_mirroring_scaling_and_recompression():
    with io.BytesIO() as buffer:
        COFFEE.save(buffer, "JPEG", quality=80)
        again = Image.open(io.BytesIO(buffer.getvalue()))
        again.load()
    reference = dhash(COFFEE)
    assert dhash(COFFEE.transpose(Image.Transpose.FLIP_LEFT_RIGHT)) == reference != 0
    assert bin(dhash(COFFEE.resize((240, 180))) ^ reference).count("1") <= 4
    assert bin(dhash(again) ^ reference).count("1") <= 4
    assert bin(dhash(COFFEE.rotate(90)) ^ reference).count("1") > 8
    assert dhash(Image.new("RGB", (30, 30), "red")) == 0  # flat pictures are near nothing


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["train", "dev", "test", "all"]), st.integers(0, 5), st.integers(0, 2)
        ),
        min_size=1,
    )
)
def test_one_copy_stays_where_it_is_judged_last(samples):
    parts, pictures, labels = (np.asarray(column) for column in zip(*samples, strict=True))
    hashes = np.asarray([b"picture %d" % number for number in pictures], object)
    stays, counts = exact(parts, hashes, labels)
    rank = [*PRIORITY, "train", "all"]
    for number in set(pictures.tolist()):
        copies = np.flatnonzero(pictures == number)
        (kept,) = copies[stays[copies]]
        best = min(min(rank.index(p), len(PRIORITY)) for p in parts[copies].tolist())
        assert min(rank.index(parts[kept]), len(PRIORITY)) == best
        assert kept == min(i for i in copies if min(rank.index(parts[i]), len(PRIORITY)) == best)
    assert counts["within_parts"] + counts["across_parts"] == len(samples) - stays.sum()


def test_near_duplicates_of_train_are_counted():
    values = {
        "train": np.asarray([0, 5, 6], np.uint64),
        "dev": np.asarray([0, 5], np.uint64),
        "test": np.asarray([7], np.uint64),
    }
    assert near(values) == {"dev": 1, "test": 0}


def test_overlap_names_the_later_task_and_the_earlier_one():
    def word(text):
        return np.asarray([t.encode() for t in text.split()], "S32"), np.zeros(
            len(text.split()), np.uint64
        )

    content = {
        ("a", "train"): "1 2", ("a", "dev"): "3", ("a", "dev_test"): "4", ("a", "test"): "5",
        ("b", "train"): "6", ("b", "dev"): "7", ("b", "dev_test"): "3", ("b", "test"): "1 2 9",
    }  # fmt: skip
    tasks = [("a", "a"), ("b", "b"), ("a_2", "a")]
    found = overlap.find(tasks, lambda dataset, split: word(content[dataset, split]))
    assert [(o.task_id, o.split, o.earlier, o.exact, o.samples) for o in found] == [
        ("b", "dev_test", "a", 1, 1),
        ("b", "test", "a", 2, 3),
    ]
