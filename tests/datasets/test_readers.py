"""A user's files: what can be read, and the message for what cannot."""

import io
import warnings
import zipfile

import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from nevis_stream.datasets.dataset import make_dataset
from nevis_stream.datasets.images import (
    ArrayImages,
    EncodedImages,
    JoinedImages,
    SourceImage,
    hash_pixels,
)
from nevis_stream.datasets.readers import read
from nevis_stream.datasets.reading import Choices
from nevis_stream.datasets.splits import divide
from nevis_stream.errors import BadInput, DataWarning

RANDOM = np.random.RandomState(0)


def pixels(*shape):
    return RANDOM.randint(256, size=shape).astype(np.uint8)


def encoded(mode="RGB", size=(7, 5), format="PNG"):
    with io.BytesIO() as buffer:
        Image.fromarray(pixels(size[1], size[0], 3)).convert(mode).save(buffer, format)
        return buffer.getvalue()


def npz(path, **arrays):
    np.savez(path, **arrays)
    return path


def archive(path, labels="path,split,label\na.png,train,0\nb.png,test,1\n", **files):
    with zipfile.ZipFile(path, "w") as out:
        if labels is not None:
            out.writestr("labels.csv", labels)
        for name, data in ({"a.png": encoded(), "b.png": encoded()} | files).items():
            out.writestr(name, data)
    return path


def test_npz_keeps_images_labels_and_ids(tmp_path):
    images, labels = pixels(6, 4, 5), np.asarray([0, 1, 2, 0, 1, 2])
    path = npz(
        tmp_path / "x.npz",
        images_train=images,
        labels_train=labels,
        images_test=images[:2],
        labels_test=labels[:2],
    )
    dataset = read(path, "x")
    assert (dataset.kind, dataset.num_classes, set(dataset.parts)) == (
        "single_label",
        3,
        {"train", "test"},
    )
    assert (dataset.parts["train"].images[3] == images[3][..., None]).all()
    assert list(dataset.parts["test"].ids) == ["x/test/0", "x/test/1"]
    assert dataset.parts["train"].labels.dtype == np.int32
    matrix = npz(tmp_path / "m.npz", images=images, labels=np.tri(6, dtype=int))
    multi = read(matrix, "m")
    assert (multi.kind, multi.num_classes, set(multi.parts)) == ("multi_label", 6, {"all"})


def test_a_folder_a_class(tmp_path):
    for part, name, mode, format in (
        ("train", "b", "RGB", "PNG"),
        ("train", "a", "L", "JPEG"),
        ("test", "a", "P", "GIF"),
        ("test", "c", "RGBA", "PNG"),
    ):
        folder = tmp_path / part / name
        folder.mkdir(parents=True)
        (folder / f"1.{format.lower()}").write_bytes(encoded(mode, format=format))
    (tmp_path / "train" / "a" / "notes.txt").write_text("x")
    (tmp_path / "train" / "a" / ".hidden").write_text("x")
    with pytest.warns(DataWarning):
        dataset = read(tmp_path, "f")
    assert dataset.reading.not_used == "left out: files that are no images: 1 (train/a/notes.txt)"
    assert dataset.num_classes == 3
    assert dataset.parts["train"].labels.tolist() == [0, 1] and dataset.parts[
        "test"
    ].labels.tolist() == [0, 2]
    assert all(
        part.images[i].shape == (5, 7, 3) for part in dataset.parts.values() for i in range(2)
    )


def sixteen_bit(path, values):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.asarray(values, np.uint16)).save(path)


@pytest.mark.parametrize("part", ["a/0.png", "a/0.tif"])
def test_16_bit_images_are_scaled_by_the_range_of_the_type(tmp_path, part):
    values = [[0, 257, 32768], [40000, 65278, 65535]]
    for name in (part, part.replace("0", "1"), "b/0.png"):
        sixteen_bit(tmp_path / name, values)
    images = read(tmp_path, "x").parts["all"].images
    (message,) = images.notes
    assert str(tmp_path / part) in message and "16-bit grey image" in message
    assert "65535 becomes 255" in message and "the same holds for 2 more" in message
    assert images[0][..., 0].tolist() == [[0, 1, 128], [156, 254, 255]]
    opened = SourceImage(tmp_path / part).open()
    assert opened.mode == "L" and (np.asarray(opened) == images[0][..., 0]).all()
    assert images.pixel_hashes()[0] == hash_pixels(opened)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.zeros((3, 4), np.float32), r"0\.tif: its pixels are floating-point .*mode F"),
        (
            np.full((3, 4), 70000, np.int32),
            r"0\.tif: its pixels are integers from 70000 to 70000",
        ),
    ],
)
def test_pixels_of_an_unknown_range_are_refused(tmp_path, values, message):
    for name in "ab":
        (tmp_path / name).mkdir()
        Image.fromarray(values).save(tmp_path / name / "0.tif")
    with pytest.raises(BadInput, match=message):
        read(tmp_path, "x")
    with pytest.raises(BadInput, match=message):
        SourceImage(tmp_path / "a" / "0.tif").open()


def test_folders_with_few_images_are_warned_of(tmp_path):
    for part, name, images in (("train", "a", 2), ("train", "b", 1), ("test", "a", 3)):
        folder = tmp_path / part / name
        folder.mkdir(parents=True)
        for index in range(images):
            (folder / f"{index}.png").write_bytes(encoded())
    (tmp_path / "train" / "c").mkdir()
    frames = [Image.fromarray(pixels(4, 4, 3)) for _ in range(3)]
    frames[0].save(tmp_path / "train" / "b" / "x.gif", save_all=True, append_images=frames[1:])
    with pytest.warns(DataWarning) as warned:
        notes = read(tmp_path, "x").reading.notes
    text = "\n".join([*notes, *(str(w.message) for w in warned)])
    assert "x.gif: has several frames, of which only the first is used." in text
    assert f"{tmp_path}: no image in 1 ('c') of the 3 class folders" in text
    assert f"{tmp_path}, part test: 3 images, but none of 1 ('b') of the 3 classes" in text
    assert f"{tmp_path}, part test: only 3 test images" in text


def test_a_zip_with_several_labels_an_image(tmp_path):
    labels = "path,split,label\na.png,train,0 2\nb.png,test,\n"
    path = archive(tmp_path / "z.zip", labels, **{"a.png": encoded(size=(3, 9))})
    dataset = read(path, "z", Choices(kind="multi_label", num_classes=3))
    assert dataset.kind == "multi_label"
    assert dataset.parts["train"].labels.tolist() == [[1, 0, 1]] and dataset.parts[
        "test"
    ].labels.tolist() == [[0, 0, 0]]
    assert dataset.parts["train"].images.sizes.tolist() == [[9, 3]]
    named = archive(tmp_path / "n.zip", **{"classes.txt": b"x\ny\nz\n"})
    assert read(named, "n").num_classes == 3


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (
            {"images": pixels(3, 4, 4), "labels": [0, 1, -1]},
            ", part 'all', sample 2: label -1 is out of range; valid: whole numbers from 0",
        ),
        (
            {"images": pixels(3, 4, 4), "labels": [0.0, 1, 2]},
            "labels of part 'all' are float64; they must be integers",
        ),
        ({"images": pixels(3, 4, 4), "labels": [0, 1]}, "part 'all' has 3 images but 2 labels"),
        ({"images": pixels(0, 4, 4), "labels": np.zeros(0, int)}, "part 'all' is empty"),
        (
            {"images": pixels(3, 4, 4, 2), "labels": [0, 1, 2]},
            r"images have 2 channels; valid: 1 \(grey\), 3",
        ),
        ({"images": np.zeros((3, 4, 4)), "labels": [0, 1, 2]}, "images must be uint8"),
        ({"images": pixels(3, 4), "labels": [0, 1, 2]}, r"images must have shape \[n, height"),
        ({"images": pixels(3, 4, 4)}, "has 'images' but no 'labels'"),
        ({"x": pixels(3, 4, 4)}, "contains x; expected an .npz with"),
        ({"images": pixels(3, 4, 4), "labels": [[0, 2], [1, 0], [0, 0]]}, "must be 0 or 1"),
        (
            {"images": np.asarray([{}, {}]), "labels": [0, 1]},
            "allow_pickle",
        ),
    ],
)
def test_a_wrong_npz_is_named(tmp_path, arrays, message):
    with pytest.raises(BadInput, match=rf"x\.npz.*{message}"):
        read(npz(tmp_path / "x.npz", **arrays), "x")


def test_a_label_beyond_the_rows_classes_is_named(tmp_path):
    path = npz(tmp_path / "x.npz", images=pixels(3, 4, 4), labels=[0, 1, 5])
    with pytest.raises(
        BadInput, match=r"part 'all', sample 2: label 5 is out of range; valid: 0\.\.2"
    ):
        read(path, "x", Choices(kind="single_label", num_classes=3))


def test_truncated_files_are_named(tmp_path):
    for path in (
        npz(tmp_path / "x.npz", images=pixels(3, 9, 9), labels=[0, 1, 2]),
        archive(tmp_path / "z.zip"),
    ):
        path.write_bytes(path.read_bytes()[:-40])
        with pytest.raises(BadInput, match=f"{path.name}: "):
            read(path, "x")


def test_a_repeated_path_in_a_zip_is_refused(tmp_path):
    for split, part in (("test", "'test'"), ("train", "'train'")):
        labels = f"path,split,label\na.png,train,0\nb.png,test,1\na.png,{split},0\n"
        message = (
            r"z\.zip, labels\.csv, line 4: 'a\.png' is in part "
            rf"{part} here and in part 'train' in line 2\. List every image once"
        )
        with pytest.raises(BadInput, match=message):
            read(archive(tmp_path / "z.zip", labels), "z")


def test_a_link_to_an_image_of_another_part_is_refused(tmp_path):
    for part in ("train", "test"):
        (tmp_path / part / "a").mkdir(parents=True)
    (tmp_path / "train/b").mkdir()
    (tmp_path / "train/a/1.png").write_bytes(encoded())
    (tmp_path / "test/a/9.png").symlink_to(tmp_path / "train/a/1.png")
    with pytest.raises(BadInput, match=r"1\.png.* is the same file as .*9\.png.*a link|9\.png: is"):
        read(tmp_path, "f")


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_an_image_bomb_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 30)
    (tmp_path / "bomb.png").write_bytes(encoded(size=(7, 5)))
    with pytest.warns(DataWarning, match=r"z\.zip:a\.png: 7×5 pixels .* decompression bomb"):
        EncodedImages([SourceImage(encoded(size=(7, 5)), "z.zip:a.png")])
    with pytest.warns(DataWarning, match=r"bomb\.png: 7×5 pixels"):
        SourceImage(tmp_path / "bomb.png").open()
    with pytest.raises(BadInput, match=r"b\.png: .*Image size .*exceeds"):
        EncodedImages([SourceImage(encoded(size=(9, 9)), "b.png")])


@pytest.mark.parametrize(
    ("labels", "files", "message"),
    [
        (None, {}, "has no labels.csv and no class folder"),
        ("path,label\na.png,0\n", {}, "labels.csv, line 1: has no column split"),
        ("path,split,label\n", {}, "labels.csv: has no row"),
        ("path,split,label\nc.png,train,0\n", {}, "line 2: no file 'c.png' in the archive"),
        ("path,split,label\na.png,,0\n", {}, "line 2: split is empty; it is all for every image"),
        ("path,split,label\na.png,train,dog\n", {}, "has labels of 1 classes"),
        ("path,split,label\na.png,train\n", {}, "line 2: has 2 cells, the first line has 3"),
        (
            "path,split,label\na.png,train,0\nb.png,train,-1\n",
            {},
            "line 3: label -1 is out of range",
        ),
        (
            "path,split,label\na.png,train,7\n",
            {"classes.txt": b"x\ny\n"},
            r"label 7 is out of range; valid: 0\.\.1",
        ),
    ],
)
def test_a_wrong_zip_is_named(tmp_path, labels, files, message):
    with pytest.raises(BadInput, match=rf"z\.zip.*{message}"):
        read(archive(tmp_path / "z.zip", labels, **files), "z", Choices(kind="single_label"))


@pytest.mark.parametrize(
    "data",
    [
        b"garbage",
        encoded(size=(60, 60))[:-500],
        encoded(size=(60, 60), format="JPEG")[:-300],
    ],
)
def test_a_corrupt_image_is_named(tmp_path, data):
    with pytest.raises(BadInput, match=r"z\.zip:a\.png: cannot be read as an image"):
        read(archive(tmp_path / "z.zip", **{"a.png": data}), "z")


def test_paths_and_formats_that_are_not_there(tmp_path):
    with pytest.raises(BadInput, match=r"x\.npz: no such file or directory \(data set 'x'\)"):
        read(tmp_path / "x.npz", "x")
    (tmp_path / "x.tar").write_bytes(b"")
    with pytest.raises(
        BadInput,
        match=r"x\.tar: not a format that can be read. Valid: a directory.*; an \.npz .*; a \.zip",
    ):
        read(tmp_path / "x.tar", "x")
    (tmp_path / "empty" / "train").mkdir(parents=True)
    with pytest.raises(BadInput, match="contains no class folder"):
        read(tmp_path / "empty", "x")
    (tmp_path / "empty" / "a").mkdir()
    (tmp_path / "empty" / "a" / "1.png").write_bytes(encoded())
    (tmp_path / "empty" / "train").rmdir()
    with pytest.raises(BadInput, match="has the only class folder 'a', and a task needs two"):
        read(tmp_path / "empty", "x")


def test_a_class_seen_only_in_test_and_images_of_one_pixel_are_warned_of(tmp_path):
    images, labels = pixels(40, 1, 1), np.arange(40) % 2
    path = npz(
        tmp_path / "x.npz",
        images_train=images,
        labels_train=labels,
        images_test=images,
        labels_test=labels + 1,
    )
    with pytest.warns(DataWarning) as warned:
        splits = divide(read(path, "x"))
    text = " ".join(str(w.message) for w in warned)
    assert "1×1" in text and "2" in text and "train" in text
    assert splits["train"].images.resized(4).shape == (28, 4, 4, 3)


def test_a_split_that_would_be_empty_is_named(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        path = npz(tmp_path / "x.npz", images=pixels(3, 4, 4), labels=[0, 1, 1])
        with pytest.raises(BadInput, match=r"x.*(dev|empty)"):
            divide(read(path, "x"))


@pytest.mark.parametrize("kind", ["array", "encoded", "joined"])
def test_views_are_pillows(kind):
    shapes = [(6, 9, 3)] * 3 if kind == "array" else [(6, 9, 3), (12, 4, 3), (5, 5, 3)]
    pictures = [pixels(*shape) for shape in shapes]
    if kind == "array":
        images = ArrayImages(np.stack(pictures))
    else:
        files = []
        for picture in pictures:
            with io.BytesIO() as buffer:
                Image.fromarray(picture).save(buffer, "PNG")
                files.append(buffer.getvalue())
        images = EncodedImages(map(SourceImage, files, "abc"))
    if kind == "joined":
        images = JoinedImages(
            [
                images.take(np.arange(1)),
                ArrayImages(pictures[1][None]),
                images.take(np.asarray([2])),
            ]
        )
    assert images.sizes.tolist() == [list(picture.shape[:2]) for picture in pictures]
    for i, picture in enumerate(pictures):
        height, width = picture.shape[:2]
        side = min(height, width)
        top, left = (height - side) // 2, (width - side) // 2
        square = Image.fromarray(picture[top : top + side, left : left + side])
        expected = np.asarray(square.resize((4, 4), Image.Resampling.BILINEAR))
        assert np.abs(images.center_cropped(4)[i].astype(int) - expected).max() <= 1
        whole = np.asarray(Image.fromarray(picture).resize((4, 4), Image.Resampling.BILINEAR))
        assert (images.resized(4)[i] == whole).all()
    assert images.resized(4) is images.resized(4)
    assert not images.resized(4).flags.writeable
    taken = images.take(np.asarray([2, 0]))
    assert (taken[0] == pictures[2]).all() and (taken.resized(4)[1] == images.resized(4)[0]).all()


def test_a_csv_that_is_not_utf_8_is_refused(tmp_path):
    labels = "path,split,label\né.png,train,0\n".encode("latin-1")
    message = r"labels\.csv, line 2: is not UTF-8 text .*; save it as UTF-8"
    with pytest.raises(BadInput, match=message):
        read(archive(tmp_path / "z.zip", labels), "z")


def arrays_of(naming, parts=("train", "test")):
    random = np.random.default_rng(0)
    arrays = {}
    for place, part in enumerate(parts):
        count = 6 - 2 * place
        images, labels = (name.format(part=part) for name in naming)
        arrays[images] = random.integers(255, size=(count, 4, 4, 3)).astype(np.uint8)
        arrays[labels] = (np.arange(count) % 2)[:, None]
    return arrays


@pytest.mark.parametrize("naming", [("x_{part}", "y_{part}"), ("{part}_images", "{part}_labels")])
def test_arrays_are_read_by_the_names_of_keras_and_of_medmnist(naming, tmp_path):
    arrays = arrays_of(naming)
    dataset = read(npz(tmp_path / "a.npz", **arrays, more=np.zeros(2)), "a")
    ours = read(npz(tmp_path / "b.npz", **arrays_of(("images_{part}", "labels_{part}"))), "a")
    for part in ("train", "test"):
        assert (dataset.parts[part].images[1] == ours.parts[part].images[1]).all()
        assert dataset.parts[part].labels.tolist() == ours.parts[part].labels.tolist()
    assert dataset.reading.not_used == "left out: arrays of other names: 1 (more)"
    assert "by arrays " in dataset.reading.understood and "PART" in dataset.reading.understood
    del arrays[naming[1].format(part="test")]
    with pytest.raises(BadInput, match=f"has no '{naming[1].format(part='test')}' beside"):
        read(npz(tmp_path / "c.npz", **arrays), "c")


def test_arrays_are_called_so_in_any_case(tmp_path):
    images, labels = np.zeros((8, 4, 4), np.uint8), np.arange(8) % 2
    names = {"X_train": images, "y_train": labels, "X_testing": images, "y_testing": labels}
    assert set(read(npz(tmp_path / "a.npz", **names), "a").parts) == {"train", "test"}
    with pytest.raises(BadInput, match="has both 'X_train' and 'x_train'; leave one"):
        read(npz(tmp_path / "b.npz", **names, x_train=images), "b")


def test_arrays_of_two_namings_and_of_none_are_refused(tmp_path):
    both = arrays_of(("x_{part}", "y_{part}")) | arrays_of(("{part}_images", "{part}_labels"))
    with pytest.raises(BadInput, match="has arrays of two namings, x_PART, y_PART and PART_images"):
        read(npz(tmp_path / "a.npz", **both), "a")
    with pytest.raises(BadInput, match=r"contains data, targets; .*Also read: x_PART, y_PART and"):
        read(npz(tmp_path / "b.npz", data=np.zeros((2, 4, 4)), targets=np.zeros(2, int)), "b")


def test_a_zip_of_windows_and_one_with_a_name_twice(tmp_path):
    """Backslashes between folders, as old programs write them."""
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        for k in range(4):
            archive.writestr(f"all\\{'ab'[k % 2]}\\{k}.png", encoded("RGB"))
    assert read(tmp_path / "x.zip", "x").class_names == ("a", "b")
    with zipfile.ZipFile(tmp_path / "x.zip", "a") as archive:
        archive.writestr("all/a/0.png", encoded("L"))
    with pytest.raises(BadInput, match="has 2 members called 'all/a/0.png'"):
        read(tmp_path / "x.zip", "x")


def test_a_table_of_windows_and_a_spreadsheet_is_read(tmp_path):
    """Backslashes in paths, and columns in other letters."""
    found = []
    for name, head, slash in (("a", "path,split,label", "/"), ("b", "Path;Split;LABEL", "\\")):
        lines = [f"img{slash}{k}.png,all,{k % 2}" for k in range(4)]
        rows = [line.replace(",", ";") if ";" in head else line for line in lines]
        with zipfile.ZipFile(tmp_path / f"{name}.zip", "w") as archive:
            archive.writestr("labels.csv", "\n".join([head, *rows]))
            for k in range(4):
                archive.writestr(f"img/{k}.png", encoded("RGB"))
        found.append(read(tmp_path / f"{name}.zip", "x").parts["all"])
    assert found[0].names == found[1].names == [f"img/{k}.png" for k in range(4)]
    assert found[0].labels.tolist() == found[1].labels.tolist() == [0, 1, 0, 1]


class Pairs:
    """As a data set of torchvision: a length, an index that has no end, PIL images."""

    def __init__(self, images, labels):
        self.images, self.labels = images, labels

    def __len__(self):
        return len(self.images)

    def __getitem__(self, place):
        return self.images[place % len(self)], self.labels[place % len(self)]


def test_images_as_people_have_them_give_one_data_set():
    grey, labels = pixels(12, 6, 5), np.arange(12) % 2
    pil = [Image.fromarray(each) for each in grey]
    given = {
        "array": (grey, labels),
        "channel": (grey[..., None], labels),
        "jax": (jnp.asarray(grey), jnp.asarray(labels)),
        "PIL": (pil, labels.tolist()),
        "rows": (list(grey), labels),
        "torchvision": Pairs(pil, labels.tolist()),
        "generator": zip(pil, labels, strict=True),
    }
    fingerprints = {
        name: make_dataset("a", "single_label", {"all": each}).fingerprint()
        for name, each in given.items()
    }
    assert len(set(fingerprints.values())) == 1, fingerprints


def test_images_of_several_sizes_and_modes_are_shown_as_files_are(tmp_path):
    small, large = Image.fromarray(pixels(4, 4, 4)), Image.fromarray(pixels(6, 9, 3))
    turned = Image.Exif()
    turned[0x0112] = 6
    large.save(tmp_path / "large.png", exif=turned)
    dataset = make_dataset(
        "a",
        "single_label",
        {"all": ([small, Image.open(tmp_path / "large.png"), small.convert("P")], [0, 1, 1])},
    )
    images = dataset.parts["all"].images
    assert images.sizes.tolist() == [[4, 4], [9, 6], [4, 4]]
    from_file = EncodedImages([SourceImage(tmp_path / "large.png")])
    assert (images[1] == from_file[0]).all()
    assert images.take(np.array([2, 0])).sizes.tolist() == [[4, 4], [4, 4]]


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (
            ([3, 4], [0, 1]),
            r"a, part 'all'\[0\]: is of type int; an image is a PIL image or an array",
        ),
        ([Image.new("L", (3, 3))] * 3, "part 'all': give .images, labels., or what yields pairs"),
        (7, "part 'all': give .images, labels., or what yields pairs"),
        ((pixels(3, 4, 4), [0, 1]), "has 3 images but 2 labels"),
        ((pixels(2, 4, 4) / 255, [0, 1]), "images must be uint8"),
    ],
)
def test_what_is_no_images_is_refused_in_one_sentence(samples, message):
    with pytest.raises(BadInput, match=message):
        make_dataset("a", "single_label", {"all": samples})
