"""Exact and near duplicates: hashes that stay the same where they should, and the rule of which
copy is kept.
"""

import io

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from skimage import data

from nevis_stream.datasets.dataset import Samples
from nevis_stream.datasets.images import (
    ArrayImages,
    EncodedImages,
    JoinedImages,
    SourceImage,
    compute_dhashes,
)
from nevis_stream.datasets.preparation.content import (
    PRIORITY,
    choose_duplicates,
    count_near_duplicates,
    examine,
)
from nevis_stream.datasets.splits import find_cached_overlaps, find_overlaps

COFFEE = Image.fromarray(data.astronaut()).resize((120, 90))


def dhash(image):
    return int(compute_dhashes(examine(image).thumbnail[None])[0])


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
    assert dhash(Image.new("RGB", (30, 30), "red")) == 0  # flat images are near nothing


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["train", "dev", "test", "all"]), st.integers(0, 5), st.integers(0, 2)
        ),
        min_size=1,
    )
)
def test_one_copy_stays_where_it_is_judged_last(samples):
    parts, images, labels = (np.asarray(column) for column in zip(*samples, strict=True))
    hashes = np.asarray([b"image %d" % number for number in images], object)
    stays, counts = choose_duplicates(parts, hashes, labels)
    rank = [*PRIORITY, "train", "all"]
    for number in set(images.tolist()):
        copies = np.flatnonzero(images == number)
        (remaining,) = copies[stays[copies]]
        best = min(min(rank.index(p), len(PRIORITY)) for p in parts[copies].tolist())
        assert min(rank.index(parts[remaining]), len(PRIORITY)) == best
        assert remaining == min(
            i for i in copies if min(rank.index(parts[i]), len(PRIORITY)) == best
        )
    assert counts["within_parts"] + counts["across_parts"] == len(samples) - stays.sum()


def test_near_duplicates_of_train_are_counted():
    values = {
        "train": np.asarray([0, 5, 6], np.uint64),
        "dev": np.asarray([0, 5], np.uint64),
        "test": np.asarray([7], np.uint64),
    }
    assert count_near_duplicates(values) == {"dev": 1, "test": 0}


def shades(text):
    """Samples of flat grey images, the grey levels given."""
    levels = np.asarray([int(word) for word in text.split()], np.uint8)
    images = ArrayImages(np.tile(levels[:, None, None], (1, 9, 9)))
    return Samples(images, np.zeros(len(levels), np.int32), [f"x/all/{i}" for i in levels])


def test_overlap_names_the_later_task_and_the_earlier_one():
    content = {
        "a": {"train": "1 2", "dev": "3", "dev_test": "4", "test": "5"},
        "b": {"train": "6", "dev": "7", "dev_test": "3", "test": "1 2 9"},
    }
    splits = {
        name: {split: shades(text) for split, text in of_set.items()}
        for name, of_set in content.items()
    }
    result = find_overlaps([("a", "a"), ("b", "b"), ("a_2", "a")], splits.__getitem__)
    assert [(o.task_id, o.split, o.earlier, o.exact, o.samples) for o in result] == [
        ("b", "dev_test", "a", 1, 1),
        ("b", "test", "a", 2, 3),
    ]


def test_overlaps_are_computed_once_and_a_damaged_table_again(tmp_path, monkeypatch):
    monkeypatch.setenv("NEVIS_STREAM_DATA", str(tmp_path))
    splits = {"train": shades("1"), "dev": shades("2"), "dev_test": shades("3")}
    sets = {"a": splits | {"test": shades("4")}, "b": splits | {"test": shades("1 5")}}
    tasks = [("a", "a"), ("b", "b")]
    asked = []

    def splits_of(name):
        asked.append(name)
        return sets[name]

    first = find_cached_overlaps("0123", tasks, splits_of)
    assert first and asked == ["a", "b"]
    assert find_cached_overlaps("0123", tasks, splits_of) == first and len(asked) == 2
    (table,) = (tmp_path / "derived").glob("overlap-*")
    sound = table.read_text()
    for damaged in (sound[:-3] + "x", sound.replace(",1,", ",2,", 1), sound[: len(sound) // 2], ""):
        assert damaged != sound
        asked.clear()
        table.write_text(damaged)
        assert find_cached_overlaps("0123", tasks, splits_of) == first and len(asked) == 2
    assert table.read_text() == sound


def test_the_same_pixels_have_one_hash_in_every_container(tmp_path):
    grey = np.random.RandomState(0).randint(0, 255, (3, 9, 7), dtype=np.uint8)
    files = []
    for format_ in ("png", "bmp"):
        for pixels in grey:
            file = io.BytesIO()
            Image.fromarray(np.repeat(pixels[..., None], 3, 2)).save(file, format_)
            files.append(file.getvalue())
    encoded = EncodedImages(map(SourceImage, files))
    expected = ArrayImages(grey).pixel_hashes()
    assert len(set(expected.tolist())) == 3
    opaque = np.repeat(grey[..., None], 4, 3)
    opaque[..., 3] = 255
    for images in (ArrayImages(opaque), encoded.take(np.arange(3, 6))):
        assert np.array_equal(images.pixel_hashes(), expected)
        assert np.array_equal(images.dhashes(), ArrayImages(grey).dhashes())
    joined = JoinedImages([encoded.take(np.arange(2)), ArrayImages(grey[2:])])
    assert np.array_equal(joined.pixel_hashes(), expected)
