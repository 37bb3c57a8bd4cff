"""What labels of a user's file mean: ids, names, or an error with the place."""

import struct
import unicodedata
import zipfile

import numpy as np
import pytest
from PIL import Image

from nevis_stream import catalogue
from nevis_stream.datasets import sources
from nevis_stream.datasets.class_ids import read_arrays, read_cells
from nevis_stream.datasets.dataset import IdsWithGaps, make_dataset
from nevis_stream.datasets.images import ArrayImages
from nevis_stream.datasets.preparation import prepare, unpack
from nevis_stream.datasets.readers import read
from nevis_stream.datasets.reading import Choices
from nevis_stream.errors import BadInput
from nevis_stream.storage.reading import read_npz
from nevis_stream.storage.tables import note_similar_names
from tests.datasets.test_decoding import saved

IMAGE = saved(Image.fromarray(np.zeros((4, 4, 3), np.uint8)))
HEAD = "path,split,label\n"


def cells(*texts, kind="", names=(), num_classes=None):
    places = [(f"labels.csv, line {line}", text) for line, text in enumerate(texts, start=2)]
    return read_cells(places, "x.zip", kind, names, num_classes)


def archive(path, labels, classes=None, method=zipfile.ZIP_STORED):
    rows = labels if isinstance(labels, bytes) else labels.encode()
    with zipfile.ZipFile(path, "w", method) as out:
        out.writestr("labels.csv", rows)
        if classes is not None:
            out.writestr("classes.txt", classes)
        for number in range(6):
            out.writestr(f"{number}.png", IMAGE)
    return path


def rows(*labels):
    return HEAD + "".join(f"{i}.png,all,{label}\n" for i, label in enumerate(labels))


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        (["0", "", "1"], {}, "line 3: has no label. Fill in .*kind=multi_label"),
        (["0", " ", "1"], {"kind": "single_label"}, "line 3: has no label"),
        (["0 1", "", "1"], {}, "line 3: has no label"),
        (["cat", "cat|dog", "dog"], {}, r"line 3: label 'cat\|dog' may be .* 'cat', 'dog' of one"),
        (["cat", "dog, cat", "dog"], {"kind": "multi_label"}, "line 3: label 'dog, cat' may be"),
        (["cat", "nan", "dog"], {}, "line 3: label 'nan' is what programs write .* classes.txt"),
        (["0", "1", " NaN "], {}, "line 4: label 'NaN' is what programs write"),
        (["cat", "dog", "None"], {}, "line 4: label 'None' is what programs write"),
        (["cat dog", "dog nan"], {"kind": "multi_label"}, "line 3: label 'nan' is what"),
        (["0", "0 1"], {"kind": "single_label"}, "line 3: 2 labels in a single_label task"),
        (["0", "20230101"], {}, "line 3: label 20230101 is too large .* a date"),
        (["0", str(10**9)], {}, f"line 3: label {10**9} is too large"),
        (["0", "1" + "0" * 30], {}, "line 3: label 10+ is too large"),
        (["0", "1" + "0" * 5000], {}, "line 3: label 10{59}… is too large"),
        (["0", "1000000"], {"num_classes": 3}, r"line 3: label 1000000 is .*; valid: 0\.\.2"),
        (["0", "3"], {"num_classes": 3}, r"line 3: label 3 is out of range; valid: 0\.\.2"),
        (["0", "-1"], {}, "line 3: label -1 is out of range; valid: whole numbers from 0"),
        (["1", "2"], {"names": ["1", "2", "3"]}, "line 2: label '1' may be the class of that name"),
        (["3", "17", "90"], {}, "ids are 3, 17, 90; without a sample: 0 to 2, 4 to 16, 18 to 89"),
        (["1", "2", "3"], {}, r"ids are 1 to 3; without a sample: 0\. .*number the classes 0\.\.2"),
        (["0 1", "4"], {}, "without a sample: 2 to 3"),
        (["cat", "3"], {}, "line 2: label 'cat' is a name, but '3' in line 3 is a number"),
        (["0.0", "1.0"], {}, "line 2: label '0.0' is a number, but not a whole one"),
        (["0", "1,5"], {}, "line 3: label '1,5' is a number, but not a whole one"),
        (["0", "1e3"], {}, "line 3: label '1e3' is a number"),
        (["cat", "cat"], {}, r"labels of 1 classes \('cat'\), but two or more are needed"),
        (["cat", "dog"], {"num_classes": 3}, r"labels of 2 classes \('cat', 'dog'\), but 3"),
        (["cat", "cow"], {"names": ["cat", "dog"]}, "line 3: label 'cow' is not one of the 2"),
        (["0"], {"names": ["cat"], "num_classes": 2}, "names of 1 classes, but the .* is 2"),
    ],
)
def test_a_label_that_may_mean_two_things_is_refused(texts, options, message):
    with pytest.raises(BadInput, match=message):
        cells(*texts, **options)


def test_ids_and_names():
    one = cells("2", "0", "1")
    assert (one.ids, one.kind, one.num_classes) == ([[2], [0], [1]], "single_label", 3)
    several = cells("0 2", "1", " 2 1 ")
    assert (several.ids, several.kind) == ([[0, 2], [1], [2, 1]], "multi_label")
    assert cells("0", "", "1", kind="multi_label").ids == [[0], [], [1]]
    padded = cells("00", "02", "01")
    assert padded.ids == [[0], [2], [1]] and padded.class_names == []
    declared = cells("3", "17", num_classes=100)
    assert declared.ids == [[3], [17]] and declared.num_classes == 100
    named = cells("1", "1", names=["cat", "dog", "owl"])
    assert named.num_classes == 3 and named.class_names == ["cat", "dog", "owl"]
    words = cells("dog", "golden retriever", "dog")
    assert words.ids == [[0], [1], [0]] and words.class_names == ["dog", "golden retriever"]
    assert cells("owl", "cat", names=["owl", "cat", "dog"]).ids == [[0], [1]]
    both = cells("cat dog", "", "dog", kind="multi_label")
    assert both.ids == [[0, 1], [], [1]] and both.class_names == ["cat", "dog"]


def test_names_that_are_nearly_the_same_are_kept_apart_and_named():
    numbers = cells("01", "1", "2")
    assert numbers.class_names == ["01", "1", "2"] and numbers.ids == [[0], [1], [2]]
    assert (
        numbers.notes == note_similar_names(["01", "1", "2"]) and "'01' and '1'" in numbers.notes[0]
    )
    words = cells("cat", "Cat ", "dog")
    assert words.class_names == ["Cat ", "cat", "dog"] and "'Cat ' and 'cat'" in words.notes[0]
    assert cells("cat", "dog").notes == []


@pytest.mark.parametrize(
    ("labels", "kind", "expected"),
    [
        ([[0], [1], [2]], "", ("single_label", [0, 1, 2])),
        ([[0], [1], [1]], "multi_label", ("multi_label", [[0], [1], [1]])),
        ([[1, 0], [0, 1]], "single_label", ("single_label", [0, 1])),
        ([[1, 0], [0, 1]], "multi_label", ("multi_label", [[1, 0], [0, 1]])),
        ([[1, 0], [1, 1]], "", ("multi_label", [[1, 0], [1, 1]])),
        ([[1, 0], [0, 0]], "", ("multi_label", [[1, 0], [0, 0]])),
        ([1, 0], "", ("single_label", [1, 0])),
    ],
)
def test_the_kind_of_arrays(labels, kind, expected):
    found, arrays = read_arrays({"all": np.asarray(labels)}, "x.npz", kind)
    assert (found, arrays["all"].tolist()) == expected


def test_one_label_in_every_row_of_a_matrix_is_refused():
    one = np.eye(3, dtype=int)
    with pytest.raises(BadInput, match="x.npz: every row .* exactly one 1: .* kind=single_label, "):
        read_arrays({"train": one, "test": one}, "x.npz")
    kind, _ = read_arrays({"train": one, "test": np.tri(3, dtype=int)}, "x.npz")
    assert kind == "multi_label"


def test_arrays_with_large_ids_and_gaps(tmp_path):
    images, path = np.zeros((3, 2, 2), np.uint8), tmp_path / "x.npz"
    for label in (20230101, 10**9, 2**40):
        np.savez(path, images=images, labels=[0, 1, label])
        with pytest.raises(BadInput, match=f"part 'all', sample 2: label {label} is too large"):
            read(path, "x")
    np.savez(path, images=images, labels=[[1], [2], [3]])
    with pytest.raises(IdsWithGaps, match="x.npz: class ids are 1 to 3; without a sample: 0"):
        read(path, "x")
    dataset = read(path, "x", Choices(num_classes=5))
    assert (dataset.kind, dataset.num_classes) == ("single_label", 5)
    assert dataset.parts["all"].labels.tolist() == [1, 2, 3]
    with pytest.raises(IdsWithGaps):
        make_dataset("x", "single_label", {"all": (ArrayImages(images), np.asarray([0, 0, 2]))})
    # a class that one part lacks is no gap
    np.savez(path, images_train=images, labels_train=[0, 2, 2])
    np.savez(
        path, images_train=images, labels_train=[0, 2, 2], images_test=images, labels_test=[1, 1, 1]
    )
    assert read(path, "x").num_classes == 3


def test_names_are_compared_in_one_form(tmp_path):
    """A Mac writes the names of files with é as two letters, a keyboard as one."""
    one, two = (unicodedata.normalize(form, "é") for form in ("NFC", "NFD"))
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as out:
        for number in range(4):
            out.writestr(f"{two}{number}.png", IMAGE)
        lines = [f"{one}{i}.png,all,{name}\n" for i, name in enumerate([one, two, "b", "b"])]
        out.writestr("labels.csv", HEAD + "".join(lines))
    dataset = read(tmp_path / "x.zip", "x")
    assert list(dataset.class_names) == ["b", one]
    assert dataset.parts["all"].labels.tolist() == [1, 1, 0, 0]
    path = archive(tmp_path / "y.zip", rows(*[two, "b"] * 3), f"{one}\nb")
    assert read(path, "y").parts["all"].labels.tolist() == [0, 1] * 3
    with pytest.raises(BadInput, match="is in line 1 already"):
        read(archive(tmp_path / "z.zip", rows(0, 1, 0, 1, 0, 1), f"{one}\n{two}"), "z")
    images = np.zeros((4, 4, 4), np.uint8)
    for classes, message in {
        (one, two): "is in line 1 already",
        (b"a", b"\xe9"): "not UTF-8",
    }.items():
        np.savez(tmp_path / "x.npz", images=images, labels=[0, 1, 0, 1], classes=np.array(classes))
        with pytest.raises(BadInput, match=message):
            read(tmp_path / "x.npz", "x")


def test_the_catalogue_declares_classes_without_samples(tmp_path, monkeypatch):
    monkeypatch.setenv("NEVIS_STREAM_DATA", str(tmp_path / "data"))
    pixels = np.random.RandomState(0).randint(256, size=(60, 4, 4)).astype(np.uint8)
    np.savez(tmp_path / "x.npz", images=pixels, labels=np.where(np.arange(60) % 7 == 5, 6, 0))
    with pytest.raises(IdsWithGaps):
        prepare.import_file(tmp_path / "x.npz", "mine", form="raw")
    prepare.import_file(tmp_path / "x.npz", "landsat", form="raw")
    dataset = sources.load("landsat", "local:landsat")
    assert dataset.num_classes == int(catalogue.read_shared_files()["landsat"]["num_classes"]) == 7


def test_a_zip_with_names_or_declared_classes(tmp_path):
    named = archive(tmp_path / "a.zip", rows("cat", "dog", "cat"))
    assert read(named, "a").parts["all"].labels.tolist() == [0, 1, 0]
    declared = archive(tmp_path / "b.zip", rows(0, 2), "\ufeffcat\r\ndog\r\nowl\r\n\r\n")
    assert read(declared, "b").num_classes == 3  # neither the mark nor the empty line is a class
    for text, message in (
        ("cat\n\ndog\n", "classes.txt, line 2: is empty"),
        ("cat\ndog\ncat\n", "classes.txt, line 3: 'cat' is in line 1 already"),
        (b"caf\xe9\ndog\n", "classes.txt, line 1: is not UTF-8 text"),
    ):
        with pytest.raises(BadInput, match=message):
            read(archive(tmp_path / "c.zip", rows(0, 1), text), "c")
    with pytest.raises(BadInput, match=r"labels\.csv, line 3: has 1 cell, the first line has 3"):
        read(archive(tmp_path / "d.zip", HEAD + "0.png,all,0\n1.png\n"), "d")
    with pytest.raises(BadInput, match=r"d\.zip, labels\.csv, line 3: has no label"):
        read(archive(tmp_path / "d.zip", rows(0, "", 1)), "d")


@pytest.mark.parametrize(
    "text",
    [
        rows(0, 1).encode("utf-8-sig"),
        rows(0, 1).encode("utf-16"),
        rows(0, 1).replace(",", ";").encode(),
        rows(0, 1).replace(",", "\t").replace("\n", "\r\n").encode(),
        rows(0, 1).replace("\n", "\r").encode(),
        (rows(0, 1).replace("\n", ",,\n") + ",,,\n\n").encode(),
        b'"path","split","label"\n"0.png","all","0"\n"1.png","all","1"\n',
    ],
)
def test_a_table_as_spreadsheets_save_it(tmp_path, text):
    dataset = read(archive(tmp_path / "x.zip", text), "x")
    assert dataset.parts["all"].labels.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD.encode() + b"0.png,all,\x00\n", "labels.csv, line 2: contains a NUL byte"),
        (rows(0, 1).encode("utf-16-le"), "line 1: contains a NUL byte"),
        (HEAD + '0.png,all,0\n"1.png,all,1\n2.png,all,1\n', "line 3: is not csv .*not closed"),
        (HEAD + f"0.png,all,0\n1.png,{'x' * 140_000},1\n", "line 3: is not csv .*limit"),
        (HEAD + "0.png,all,0,5\n", "line 2: has 4 cells, the first line has 3"),
        (HEAD.replace("split", "label"), "line 1: has no column split"),
        ("path,split,label,label\n", "line 1: has several columns 'label'"),
    ],
)
def test_a_table_that_cannot_be_read_is_named_with_the_line(tmp_path, text, message):
    with pytest.raises(BadInput, match=message):
        read(archive(tmp_path / "x.zip", text), "x")


def changed(path, flag=0, method=None):
    """Marks the first member as encrypted, or as compressed with another method."""
    data = bytearray(path.read_bytes())
    for signature, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = data.index(signature) + place
        data[at] |= flag
        if method is not None:
            data[at + 2 : at + 4] = struct.pack("<H", method)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"flag": 1}, "is encrypted"),
        ({"method": 9}, "compressed with Deflate64 .method 9."),
        ({"method": 93}, "compressed with Zstandard"),
        ({"method": 77}, "compressed with an unknown method .method 77."),
    ],
)
def test_an_archive_that_cannot_be_unpacked_here_says_what_to_do(tmp_path, options, message):
    message = rf"its member .* {message}.*Unpack the archive and zip its files again"
    path = changed(archive(tmp_path / "x.zip", rows(0, 1)), **options)
    with pytest.raises(BadInput, match=rf"x\.zip: {message}"):
        read(path, "x")
    with pytest.raises(BadInput, match=rf"x\.zip: {message}"):
        unpack.unpack(path, tmp_path / "out")
    with zipfile.ZipFile(tmp_path / "outer.zip", "w") as outer:
        outer.write(path, "inner.zip")
    unpack.unpack(tmp_path / "outer.zip", tmp_path / "work")
    with pytest.raises(BadInput, match=rf"inner\.zip: {message}"):
        unpack.unpack_nested(tmp_path / "work", ["outer/inner.zip"])
    np.savez_compressed(tmp_path / "y.npz", images=np.zeros((2, 2, 2), np.uint8), labels=[0, 1])
    with pytest.raises(BadInput, match=rf"y\.npz: {message}"):
        read_npz(changed(tmp_path / "y.npz", **options))


def test_a_decimal_comma_is_no_name_and_a_comma_may_be_one():
    with pytest.raises(BadInput, match="line 2: label '0,0' is a number.*not 1.0 or 1,0"):
        cells("0,0", "1,0")
    assert cells(".", ",", "a").class_names == [",", ".", "a"]


def test_labels_of_text_say_how_they_become_ids():
    images = ArrayImages(np.zeros((4, 4, 4), np.uint8))
    with pytest.raises(BadInput, match="are <U3; they must be integers.*return_inverse=True"):
        make_dataset("x", "single_label", {"all": (images, np.asarray(["cat", "dog"] * 2))})
