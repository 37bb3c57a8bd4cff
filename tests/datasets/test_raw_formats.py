"""Every reader of a raw layout, on files written here by hand, without the rows of the
catalogue.
"""

import gzip
import json
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from nevis_stream.datasets import raw_formats
from nevis_stream.datasets.raw_formats import FileTree
from nevis_stream.errors import BadInput


@pytest.fixture
def put(tmp_path):
    """Writes a file of text, bytes or pixels below the folder that is read."""

    def write(name, content):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, np.ndarray):
            Image.fromarray(content).save(path)
        else:
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def grey(value, side=3):
    return np.full((side, side), value, np.uint8)


def read(folder, **options):
    return raw_formats.read(FileTree(folder), {"read": [options]})


def short(examples):
    """(part, label, value of the top left pixel) of each example."""
    pixels = [np.asarray(example.image.open().convert("L"))[0, 0] for example in examples]
    return [(e.part, e.label, int(value)) for e, value in zip(examples, pixels, strict=True)]


def test_paths(tmp_path, put):
    for number, name in enumerate(
        ["train/cat/1.png", "train/dog/2.png", "test/cat/3.png", "test/cat/masks/4.png", "x.txt"]
    ):
        put(name, grey(number * 10) if name.endswith("png") else "no image")
    pattern = r"(?P<part>train|test)/(?P<label>\w+)/.*\.png"
    result = read(
        tmp_path,
        reader="paths",
        pattern=pattern,
        skip="masks",
        parts={"train": "train", "test": "dev"},
        aliases={"dog": "wolf"},
    )
    assert short(result) == [("dev", "cat", 20), ("train", "cat", 0), ("train", "wolf", 10)]
    numbered = read(
        tmp_path,
        reader="paths",
        pattern=r"\w+/(?P<label>\w+)/(?P<part>\d)\.png",
        parts_by_number={"dev": [2], "test": "rest"},
    )
    assert [e.part for e in numbered] == ["dev", "test", "test"]


def test_paths_cuts_tiles(tmp_path, put):
    put("D1.png", np.arange(49, dtype=np.uint8).reshape(7, 7))
    tiles = read(tmp_path, reader="paths", pattern=r"D(?P<label>\d)\.png", tiles=3)
    assert [np.asarray(e.image.open())[0, 0] for e in tiles] == [0, 2, 4, 14, 16, 18, 28, 30, 32]
    assert {e.image.open().size for e in tiles} == {(2, 2)}
    assert (
        len(read(tmp_path, reader="paths", pattern=r"D(?P<label>\d)\.png", tiles=3, slivers=True))
        == 16
    )


def test_table(tmp_path, put):
    for number in range(3):
        put(f"images/a{number}.png", grey(number))
    put("train.csv", "name;width;class\r\na0;3;5\r\na2;3;7\r\n")
    put("list.txt", "a1 big cat\n")
    result = read(
        tmp_path, reader="table", tables=[{"file": "train.csv", "part": "train"}], delimiter=";", header=True,  # noqa: E501
        image="images/{name}.png", label="{class}",
    )  # fmt: skip
    assert short(result) == [("train", "5", 0), ("train", "7", 2)]
    result = read(
        tmp_path, reader="table", tables=[{"file": "list.txt", "part": "test"}], delimiter=" ", columns=2,  # noqa: E501
        image="images/{0}.png", label="{1}",
    )  # fmt: skip
    assert short(result) == [("test", "big cat", 1)]
    with pytest.raises(BadInput, match=r"'clas'.*'class'"):
        read(
            tmp_path,
            reader="table",
            tables=[{"file": "train.csv", "part": "train"}],
            delimiter=";",
            header=True,
            image="{name}",
            label="{clas}",
        )


def test_table_joins_and_marks(tmp_path, put):
    for number in (1, 2):
        put(f"{number}.png", grey(number))
    put("a.txt", "2\nname x y\n1.png 1 -1\n2.png 1 1\n")
    put("b.txt", "1.png 0\n2.png 1\n")
    options = {
        "reader": "table", "join": True, "skip_lines": [2, 0], "tables": [{"files": ["a.txt", "b.txt"]}], "delimiter": " ",  # noqa: E501
        "image": "{0}", "marks": [1, 2], "part": "{3}", "parts": {"0": "train", "1": "test"},
    }  # fmt: skip
    assert short(read(tmp_path, **options)) == [("test", {0, 1}, 2), ("train", {0}, 1)]
    put("b.txt", "1.png 0\n")
    with pytest.raises(BadInput, match=r"b.txt: no line for '2.png', which is in a.txt"):
        read(tmp_path, **options)


def test_companion_files_and_scores(tmp_path, put):
    put("a/1.png", grey(1)), put("a/1.txt", "3 4\n5 6\n\n")
    put("a/2.png", grey(2)), put("a/2.txt", "")
    pattern = r"a/(?P<name>\d)\.png"
    result = read(
        tmp_path, reader="companion", pattern=pattern, companion="a/{name}.txt", measure="lines"
    )
    assert short(result) == [("all", 2.0, 1), ("all", 0.0, 2)]
    info = np.empty((1, 1), object)
    info[0, 0] = {"location": np.ones((4, 2)), "number": 4}
    for name in ("1", "2"):
        savemat(tmp_path / f"a/{name}.mat", {"image_info": info})
    result = read(
        tmp_path, reader="companion", pattern=pattern, companion="a/{name}.mat", measure="locations"
    )
    assert [e.label for e in result] == [4.0, 4.0]
    put("raw/x.sdt", bytes(range(6))), put("raw/x.lxyr", " 2 10 10 3\n 1 20 20 3\n")
    result = read(
        tmp_path,
        reader="companion",
        pattern=r"raw/(?P<name>x)\.sdt",
        companion="raw/{name}.lxyr",
        measure="definite",
        raw=[2, 3],
    )
    assert short(result) == [("all", 1, 0)] and result[0].image.open().size == (3, 2)
    (
        put("s/I02_01.bmp", grey(20)),
        put("s/i01_02.bmp", grey(12)),
        put("s/I01_01.bmp", grey(11)),
        put("s.txt", "0.5\n0.25\n1\n"),
    )
    result = read(
        tmp_path, reader="score_list", pattern=r"s/[iI](?P<a>\d+)_(?P<b>\d+)\.bmp", scores="s.txt"
    )
    assert sorted(short(result), key=lambda e: e[2]) == [
        ("all", 0.5, 11),
        ("all", 0.25, 12),
        ("all", 1.0, 20),
    ]
    put("s.txt", "0.5\n")
    with pytest.raises(BadInput, match="1 scores for 3 images"):
        read(
            tmp_path,
            reader="score_list",
            pattern=r"s/[iI](?P<a>\d+)_(?P<b>\d+)\.bmp",
            scores="s.txt",
        )


def test_poses(tmp_path, put):
    for frame, degrees in enumerate((-40, -10, 10, 40)):
        c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
        put(f"0{frame + 1}/f{frame}.png", grey(frame))
        put(f"0{frame + 1}/f{frame}.txt", f"{c} {-s} 0 \n{s} {c} 0 \n0 0 1 \n\n1 2 3 \n")
    pattern = r"(?P<subject>\d+)/f(?P<frame>\d)\.png"
    result = read(
        tmp_path,
        reader="poses",
        pattern=pattern,
        companion="{subject}/f{frame}.txt",
        bins=2,
        subjects={"test": [4]},
    )
    labels = [e.label for e in sorted(result, key=lambda e: e.key)]
    # roll: two bins of equal mass
    assert [0 in label for label in labels] == [True, True, False, False]
    assert [e.part for e in sorted(result, key=lambda e: e.key)] == [
        "train",
        "train",
        "train",
        "test",
    ]


def test_matlab_lists_records_counts_and_arrays(tmp_path, put):
    for number in (1, 2, 3, 4):
        put(f"im{number:02d}.png", grey(number))
    savemat(tmp_path / "set.mat", {"trn": [[1, 4]], "tst": [[2, 3]]})
    savemat(tmp_path / "labels.mat", {"labels": [[7, 8, 9, 7]]})
    parts = {"train": "set.mat:trn", "test": "set.mat:tst"}
    result = read(
        tmp_path,
        reader="mat_lists",
        images="im{id:02d}.png",
        parts=parts,
        labels="labels.mat:labels",
    )
    assert short(result) == [("test", 7, 2), ("test", 8, 3), ("train", 6, 1), ("train", 6, 4)]
    assert [
        e.label
        for e in read(tmp_path, reader="mat_lists", images="im{id:02d}.png", parts=parts, block=2)
    ] == [0, 1, 0, 1]
    with pytest.raises(BadInput, match=r"set.mat: .*'trnn'.*'trn'"):
        read(
            tmp_path,
            reader="mat_lists",
            images="im{id:02d}.png",
            parts={"train": "set.mat:trnn"},
            block=2,
        )
    records = np.zeros((1, 2), [("path", object), ("class", object), ("test", object)])
    records[0, 0], records[0, 1] = ("im01.png", 3, 0), ("im02.png", 1, 1)
    savemat(tmp_path / "annos.mat", {"annotations": records})
    fields = {"image": "path", "label": "class", "part": "test"}
    result = read(
        tmp_path, reader="mat_records", tables=[{"file": "annos.mat", "key": "annotations"}], fields=fields, image="{image}",  # noqa: E501
        parts={"0": "train", "1": "test"},
    )  # fmt: skip
    assert short(result) == [("test", 0, 2), ("train", 2, 1)]
    savemat(tmp_path / "gt.mat", {"count": np.asarray([[5], [6], [7], [8]])})
    result = read(
        tmp_path,
        reader="mat_counts",
        images="im{id:02d}.png",
        counts="gt.mat:count",
        parts={"train": [1, 2], "test": [3, 4]},
    )
    assert short(result) == [
        ("test", 7.0, 3),
        ("test", 8.0, 4),
        ("train", 5.0, 1),
        ("train", 6.0, 2),
    ]
    pixels = np.arange(2 * 2 * 3 * 2, dtype=np.uint8).reshape(2, 2, 3, 2)
    savemat(tmp_path / "svhn.mat", {"X": pixels, "y": [[10], [3]]})
    sets = [{"file": "svhn.mat", "part": "train", "images": "X", "labels": "y"}]
    result = read(tmp_path, reader="mat_arrays", sets=sets, layout="hwcn", modulo=10)
    assert [e.label for e in result] == [0, 3]
    assert (np.asarray(result[1].image.open()) == pixels[..., 1]).all()


def test_voc(tmp_path, put):
    put("R/JPEGImages/1.jpg", grey(9, 8)), put("R/ImageSets/Main/train.txt", "1\n")
    box = "<bndbox><xmin>1</xmin><ymin>2</ymin><xmax>5.4</xmax><ymax>8</ymax></bndbox>"
    person = (
        f"<object><name>person</name>{box}<actions><run>1</run><jump>0</jump></actions></object>"
    )
    put(
        "R/Annotations/1.xml", f"<annotation>{person}<object><name>dog</name></object></annotation>"
    )
    sets = [{"part": "train", "root": "R", "list": "ImageSets/Main/train.txt"}]
    (result,) = read(tmp_path, reader="voc_objects", images="JPEGImages/{id}.jpg", sets=sets)
    assert (result.part, result.label) == ("train", {"person", "dog"})
    (result,) = read(tmp_path, reader="voc_actions", root="R", list="ImageSets/Main/train.txt")
    assert result.label == {"run"} and result.image.open().size == (4, 6)
    (
        put("R/cat_train.txt", "1  1\n"),
        put("R/dog_train.txt", "1 -1\n"),
        put("R/ape_train.txt", "1 1\n"),
    )
    sets = [{"part": "train", "root": "R", "lists": r"(?P<label>\w+)_train\.txt"}]
    (result,) = read(
        tmp_path, reader="voc_lists", images="JPEGImages/{id}.jpg", sets=sets, kind="last"
    )
    assert result.label == "cat"
    (result,) = read(
        tmp_path, reader="voc_lists", images="JPEGImages/{id}.jpg", sets=sets, kind="all"
    )
    assert result.label == {"cat", "ape"}
    put("R/Annotations/1.xml", "<annotation><object>")
    with pytest.raises(BadInput, match=r"1.xml: "):
        read(tmp_path, reader="voc_actions", root="R", list="ImageSets/Main/train.txt")


def test_coco(tmp_path, put):
    put("im/7.png", np.arange(100, dtype=np.uint8).reshape(10, 10))
    boxes = [
        {"id": 1, "image_id": 7, "bbox": [2, 3, 4, 5], "category_id": 9},
        {"id": 2, "image_id": 7, "bbox": [0, 0, 1, 9], "category_id": 8},
    ]
    content = {
        "images": [{"id": 7, "file_name": "7.png"}],
        "annotations": boxes,
        "categories": [{"id": 8, "name": "a"}, {"id": 9, "name": "b"}],
    }
    put("a.json", json.dumps(content))
    sets = [{"part": "train", "images": "im/{file_name}", "annotations": "a.json"}]
    (result,) = read(tmp_path, reader="coco", sets=sets, crop=True, min_side=2)
    assert (
        result.label == 8
        and np.asarray(result.image.open())[0, 0] == 32
        and result.image.open().size == (4, 5)
    )
    (result,) = read(tmp_path, reader="coco", sets=sets)
    assert result.label == "a"  # of several annotations the last
    put("a.json", "{")
    with pytest.raises(BadInput, match="a.json: .*COCO"):
        read(tmp_path, reader="coco", sets=sets)


def test_numbers(tmp_path, put):
    put("a.txt", "1 2 3 4 5 6 7 8 3\n9 2 3 4 5 6 7 8 1\n")
    result = read(
        tmp_path,
        reader="pixel_rows",
        tables=[{"file": "a.txt", "part": "train"}],
        shape=[2, 2, 2],
        keep_channels=1,
        first=1,
    )
    assert short(result) == [("train", 2, 1), ("train", 0, 9)]
    assert np.asarray(result[0].image.open()).tolist() == [[1, 3], [5, 7]]
    put("b.txt", "1.0 0.0 0 0 1\n")
    (result,) = read(
        tmp_path,
        reader="pixel_rows",
        tables=[{"file": "b.txt", "part": "all"}],
        shape=[1, 2, 1],
        scale=255,
        one_hot=3,
    )
    assert result.label == 2 and np.asarray(result.image.open()).tolist() == [[255, 0]]
    with pytest.raises(BadInput, match="rows of 5 numbers; .*4 pixels and 3 for the class"):
        read(
            tmp_path,
            reader="pixel_rows",
            tables=[{"file": "b.txt", "part": "all"}],
            shape=[2, 2, 1],
            one_hot=3,
        )
    put("c.txt", "2 1:-1 2:1 4:0\n")
    (result,) = read(
        tmp_path,
        reader="libsvm",
        tables=[{"file": "c.txt", "part": "all"}],
        shape=[2, 2],
        range=[-1, 1],
        first=1,
    )
    assert result.label == 1 and np.asarray(result.image.open()).tolist() == [[0, 255], [128, 128]]


def test_idx(tmp_path, put):
    pixels = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    put("i", b"\0\0\x08\x03" + struct.pack(">3I", 2, 2, 3) + pixels.tobytes())
    put("l", b"\0\0\x08\x01" + struct.pack(">I", 2) + bytes([4, 7]))
    pairs = [{"part": "test", "images": "i", "labels": "l"}]
    result = read(tmp_path, reader="idx", pairs=pairs)
    assert (
        short(result) == [("test", 4, 0), ("test", 7, 6)]
        and (np.asarray(result[1].image.open()) == pixels[1]).all()
    )
    result = read(tmp_path, reader="idx", pairs=pairs, transpose=True)
    assert (np.asarray(result[1].image.open()) == pixels[1].T).all()
    put("i", (tmp_path / "i").read_bytes()[:-1])
    with pytest.raises(BadInput, match="11 bytes of data; 12 .*Is it truncated"):
        read(tmp_path, reader="idx", pairs=pairs)


def test_rotation_depends_on_the_number_alone(tmp_path, put):
    pixels = np.random.RandomState(0).randint(0, 255, (4, 9, 9), dtype=np.uint8)
    put("i", b"\0\0\x08\x03" + struct.pack(">3I", 4, 9, 9) + pixels.tobytes())
    put("l", b"\0\0\x08\x01" + struct.pack(">I", 4) + bytes(4))
    pairs = [{"part": "test", "images": "i", "labels": "l", "rotate": True}]
    first, second = (
        [np.asarray(e.image.open()).tolist() for e in read(tmp_path, reader="idx", pairs=pairs)]
        for _ in range(2)
    )
    assert first == second and first != pixels.tolist()


def test_cifar(tmp_path, put):
    planes = np.zeros((2, 3, 32, 32), np.uint8)
    planes[0, 0], planes[1, 2, 0, 5] = 200, 77
    put("b1", pickle.dumps({b"data": planes.reshape(2, -1), b"labels": [3, 1]}, protocol=2))
    result = read(
        tmp_path, reader="cifar", batches=[{"part": "train", "file": "b*"}], labels="labels"
    )
    assert [e.label for e in result] == [3, 1]
    assert np.asarray(result[0].image.open())[4, 4].tolist() == [200, 0, 0]
    assert np.asarray(result[1].image.open())[0, 5].tolist() == [0, 0, 77]


class Evil:
    def __reduce__(self):
        return print, ("run",)


def test_a_pickle_cannot_run_programs(tmp_path, put, capsys):
    put("b1", pickle.dumps({b"data": Evil()}))
    with pytest.raises(BadInput, match="b1: .*CIFAR.*asks for [a-z_.]*print"):
        read(tmp_path, reader="cifar", batches=[{"part": "train", "file": "b1"}], labels="labels")
    assert capsys.readouterr().out == ""


def test_stl_gnt_norb_and_hdf5(tmp_path, put):
    image = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)  # height, width, channels
    put("X.bin", image.transpose(2, 1, 0).tobytes()), put("y.bin", bytes([5]))
    sets = [{"part": "train", "images": "X.bin", "labels": "y.bin"}]
    (result,) = read(tmp_path, reader="stl", sets=sets, shape=[2, 4, 3], first=1)
    assert result.label == 4 and (np.asarray(result.image.open()) == image).all()

    record = struct.pack("<I2sHH", 10 + 6, "啊".encode("gb2312"), 3, 2) + bytes(
        [255, 0, 255, 255, 255, 254]
    )
    put("w.gnt", record * 2)
    result = read(tmp_path, reader="gnt", sets=[{"part": "test", "files": "*.gnt"}])
    assert (
        len(result) == 2
        and result[0].label == "b0a1"
        and np.asarray(result[1].image.open()).tolist() == [[0, 255, 0], [0, 0, 1]]
    )
    put("w.gnt", record[:-1])
    with pytest.raises(BadInput, match="the record at byte 0 has length 16"):
        read(tmp_path, reader="gnt", sets=[{"part": "test", "files": "*.gnt"}])

    pairs = np.arange(3 * 2 * 2 * 2, dtype=np.uint8).reshape(3, 2, 2, 2)
    put("n-dat.mat", struct.pack("<iI4I", 0x1E3D4C55, 4, 3, 2, 2, 2) + pairs.tobytes())
    put(
        "n-cat.mat",
        struct.pack("<iI3I", 0x1E3D4C54, 1, 3, 1, 1) + np.asarray([4, 0, 2], "<i4").tobytes(),
    )
    put(
        "n-info.mat",
        struct.pack("<iI3I", 0x1E3D4C54, 2, 3, 4, 1)
        + np.asarray([[6, 0, 0, 0], [7, 0, 0, 0], [4, 0, 0, 0]], "<i4").tobytes(),
    )
    result = read(
        tmp_path,
        reader="norb",
        sets=[{"stem": "n", "part": "train", "parts_by_instance": {"dev": [4], "dev_test": [6]}}],
    )
    assert short(result) == [("dev", 2, 16), ("dev_test", 4, 0), ("train", 0, 8)]

    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "p.hdf5", "w") as file:
        file["images"], file["labels"] = np.asarray([[[[1, 2, 3]]]], np.uint8), [7]
    options = {
        "reader": "hdf5",
        "sets": [{"part": "train", "file": "p.hdf5"}],
        "images": "images",
        "labels": "labels",
    }
    (result,) = read(tmp_path, **options, first=1, channels="bgr")
    assert result.label == 6 and np.asarray(result.image.open()).tolist() == [[[3, 2, 1]]]
    put("q.hdf5", b"no hdf5")
    with pytest.raises(BadInput, match="q.hdf5: .*HDF5"):
        read(tmp_path, **(options | {"sets": [{"part": "train", "file": "q.hdf5"}]}))


def test_attributes(tmp_path, put):
    (
        put("R/classes.txt", "     1\tox\n     2\tseal\n"),
        put("R/predicate-matrix-binary.txt", "1 0 1\n0 1 1\n"),
    )
    put("R/trainclasses.txt", "seal\n"), put("R/testclasses.txt", "ox\n")
    put("R/JPEGImages/ox/a.jpg", grey(1, 8)), put("R/JPEGImages/seal/b.jpg", grey(2, 8))
    result = read(tmp_path, reader="predicates", root="R")
    assert [(e.part, e.label) for e in result] == [("test", {0, 2}), ("train", {1, 2})]

    put("R/benchmark/saiapr_tc-12/00/labels.txt", "25 1 3\n25 2 9\n26 1 4\n")
    for number in (25, 26):
        put(f"R/benchmark/saiapr_tc-12/00/images/{number}.jpg", grey(number, 8))
    (tmp_path / "R/matlab").mkdir()
    savemat(tmp_path / "R/matlab/training.mat", {"training": [[25]]})
    savemat(tmp_path / "R/matlab/validation.mat", {"validation": [[99]]})
    (result,) = read(tmp_path, reader="regions", root="R", keep="all")
    assert result.label == {2, 8}
    (result,) = read(tmp_path, reader="regions", root="R", keep="last")
    assert result.label == {8}

    (
        put("val_01.jpg", grey(1, 8)),
        put("val_02.jpg", grey(2, 8)),
        put("kit/ILSVRC2012_validation_ground_truth.txt", "2\n1\n"),
    )
    synsets = np.zeros((2, 1), [("ILSVRC2012_ID", object), ("WNID", object)])
    synsets[0, 0], synsets[1, 0] = (1, "n01"), (2, "n02")
    savemat(tmp_path / "kit/meta.mat", {"synsets": synsets})
    result = read(
        tmp_path,
        reader="imagenet_validation",
        images="val_{number:02d}.jpg",
        devkit="kit",
        part="test",
    )
    assert [e.label for e in result] == ["n02", "n01"]


def test_every_reader_is_tested_here():
    text = Path(__file__).read_text()
    assert [
        name
        for name in raw_formats.READERS
        if f'reader="{name}"' not in text and f'"reader": "{name}"' not in text
    ] == []


def test_nothing_found_is_an_error_that_says_what_was_expected(tmp_path, put):
    put("other.txt", gzip.compress(b"x"))
    with pytest.raises(
        BadInput,
        match=r"reader 'paths' found no image; check .* right archive\. Expected: pattern = ",
    ):
        read(tmp_path, reader="paths", pattern=r"(?P<label>\w+)/.*\.png")
