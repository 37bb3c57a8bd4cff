"""Folders, zips and arrays as their publishers and owners lay them out: what is understood, what
is left out, and what is refused with its readings and the choice.
"""

import os
import unicodedata
import zipfile

import numpy as np
import pytest
from PIL import Image

import nevis_stream
from nevis_stream.datasets.arrangement import arrange
from nevis_stream.datasets.dataset import make_dataset
from nevis_stream.datasets.files import FileTree, walk
from nevis_stream.datasets.images import ArrayImages
from nevis_stream.datasets.readers import read
from nevis_stream.datasets.reading import Choices, Reading
from nevis_stream.datasets.splits import divide
from nevis_stream.errors import BadInput

pytestmark = pytest.mark.filterwarnings("ignore::nevis_stream.errors.DataWarning")
DOGS_AND_CATS = ("cat/1.png", "cat/2.png", "dog/1.png", "dog/2.png")
CATS_AND_MASKS = ("cat/1.png", "cat/1_mask.png", "dog/2.png")


def below(*tops, names=DOGS_AND_CATS):
    return [f"{top}/{name}" for top in tops for name in names]


def folder(root, *names):
    """Writes a different image for each name that looks like one, else an empty file."""
    for number, name in enumerate(names):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix in (".png", ".jpg"):
            Image.new("RGB", (2, 2), (number, 0, 0)).save(path)
        else:
            path.write_text("")
    return root


def understood(dataset):
    """Returns the numbers of images by part, the classes, and the numbers left out by reason."""
    counts = {part: len(samples) for part, samples in dataset.parts.items()}
    assert dict(dataset.reading.parts) == counts
    assert tuple(dataset.reading.classes) == dataset.class_names
    left = {each.reason.partition(" that")[0]: each.count for each in dataset.reading.left_out}
    return counts, list(dataset.class_names), left


CATS, TWO, BOTH = ["cat", "dog"], {"train": 4, "test": 4}, {"train": 4, "dev": 4, "test": 4}
BESIDE, OUTSIDE = "images beside the class folders", "images in folders beside the parts"
LAYOUTS = {
    "class folders": (DOGS_AND_CATS, {"all": 4}, CATS, {}),
    "a folder around them": (below("a/pets"), {"all": 4}, CATS, {}),
    "Train and Test": (below("Train", "Test"), TWO, CATS, {}),
    "training and testing": (below("training", "TESTING"), TWO, CATS, {}),
    "val": (below("train", "val", "test"), BOTH, CATS, {}),
    "Roboflow": (
        [*below("train", "valid", "test"), "README.roboflow.txt"],
        BOTH,
        CATS,
        {"files": 1},
    ),
    "Intel scenes": (
        [*below("seg_train/seg_train", "seg_test/seg_test"), "seg_pred/seg_pred/5.jpg"],
        TWO,
        CATS,
        {OUTSIDE: 1},
    ),
    "X-ray images": (
        [
            *[
                f"xray/{p}/{c}/1.png"
                for p in ("train", "val", "test")
                for c in ("NORMAL", "PNEUMONIA")
            ],
            "xray/__MACOSX/train/NORMAL/._1.png",
            "xray/train/.DS_Store",
        ],
        {"train": 2, "dev": 2, "test": 2},
        ["NORMAL", "PNEUMONIA"],
        {"images": 1},
    ),
    "textures": (
        ["dtd/images/banded/1.jpg", "dtd/images/dotted/1.jpg", "dtd/labels/train1.txt"],
        {"all": 2},
        ["banded", "dotted"],
        {"files": 1},
    ),
    "Caltech": (
        [
            *below("caltech-101/101_ObjectCategories"),
            "caltech-101/Annotations/cat/annotation_0001.mat",
        ],
        {"all": 4},
        CATS,
        {"files": 1},
    ),
    "fruit": (below("fruits-360/Training", "fruits-360/Test"), TWO, CATS, {}),
    "train_images": (below("train_images", "test_images"), TWO, CATS, {}),
    "checkpoints": (
        [*DOGS_AND_CATS, "cat/.ipynb_checkpoints/1-checkpoint.png", "dog/@eaDir/1.png/S.jpg"],
        {"all": 4},
        CATS,
        {"images": 2},
    ),
    "loose images": ([*DOGS_AND_CATS, "x0.png", "x1.png"], {"all": 4}, CATS, {BESIDE: 2}),
    "a class called train": (
        ["train/1.png", "train/2.png", "car/1.png", "bus/1.png"],
        {"all": 4},
        ["bus", "car", "train"],
        {},
    ),
    "classes with such a word": (
        ["bullet_train/1.png", "test_tube/1.png"],
        {"all": 2},
        ["bullet_train", "test_tube"],
        {},
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("form", ["folder", "zip"])
def test_published_layouts(tmp_path, layout, form, capsys):
    names, *expected = LAYOUTS[layout]
    path = folder(tmp_path / "data", *names)
    if form == "zip":
        with zipfile.ZipFile(tmp_path / "data.zip", "w") as archive:
            for name in names:
                archive.write(path / name, name)
        path = tmp_path / "data.zip"
    dataset = read(path, "own")
    assert understood(dataset) == tuple(expected)
    for part in dataset.parts.values():
        for name, label in zip(part.names, part.labels, strict=True):
            assert dataset.class_names[label] in name.split("/") and name in names
    said = capsys.readouterr().err.splitlines()
    assert said[:2] in ([], dataset.reading.lines("own")[:2])  # once in a process
    assert Reading.from_json(dataset.reading.to_json()).lines("own") == dataset.reading.lines("own")


NESTED = [f"{part}/{name}/1.png" for part in ("train", "test") for name in ("a/x", "a/y", "b/x")]
REFUSED = {
    "val without test": (
        below("train", "val"),
        r"has 'train' and 'val', but no test part. .*parts=val=test .*drawn from 'train'.*val=dev",
    ),
    "nested": (
        NESTED,
        r"for example t\w+/a/x/1.png. .* 2 classes \(a, b\), .* 3 \(a/x, a/y, b/x\)."
        " Choose class_level=top .*class_level=deepest",
    ),
    "alphabets": (
        ["images_background/Greek/c01/1.png", "images_evaluation/Roman/c01/1.png"],
        r"2 classes \(images_background, images_evaluation\), .* 2 \(images_background/Greek/c01",
    ),
    "parts below the classes": (
        ["cat/train/1.png", "cat/test/1.png", "dog/train/1.png"],
        "They are called like parts: those come first",
    ),
    "test images without labels": (
        [*below("train"), "test/1.png", "test/2.png"],
        r"'test' contains images and no class folder. .*parts=none.*parts=train=all",
    ),
    "test images in a folder": (
        [*below("set/Train"), "set/Test/images/1.png"],
        r"part 'test' \(images\) are no classes of part 'train' \(cat, dog\).*parts=Train=all",
    ),
    "images only": (["train/1.png", "test/1.png"], "called like parts .*parts=none"),
    "train only": (below("train"), r"called like parts \(train\).*not complete.*parts=train=all"),
    "no train": (below("val", "test"), r"called like parts \(test, val\), but .* not complete"),
    "two of a part": (
        below("train", "Training", "test"),
        "'Training' and 'train' are both called like the part 'train'.*joins them",
    ),
    "perhaps vehicles": (
        ["train/steam/1.png", "test/crash/1.png", "car/1.png"],
        "folders are called like parts .*If they are classes: parts=none",
    ),
    "no folder": (["1.png", "2.png"], "contains no class folder with an image"),
    "one class": (["cat/1.png"], "has the only class folder 'cat'"),
}


@pytest.mark.parametrize("layout", REFUSED)
def test_layouts_with_two_readings_are_refused(tmp_path, layout):
    names, message = REFUSED[layout]
    with pytest.raises(BadInput, match=message):
        read(folder(tmp_path, *names), "own")


@pytest.mark.parametrize(
    ("names", "choice", "counts", "classes"),
    [
        (below("train", "val"), {"parts": "val=test"}, TWO, CATS),
        (below("train", "val"), {"parts": "val=dev"}, {"train": 4, "dev": 4}, CATS),
        (NESTED, {"class_level": "top"}, {"train": 3, "test": 3}, ["a", "b"]),
        (NESTED, {"class_level": "deepest"}, {"train": 3, "test": 3}, ["a/x", "a/y", "b/x"]),
        ([*below("train"), "test/1.png"], {"parts": "train=all"}, {"all": 4}, CATS),
        (["train/1.png", "test/1.png"], {"parts": "none"}, {"all": 2}, ["test", "train"]),
        (
            below("train", "Training", "test"),
            {"parts": "train=train,Training=train"},
            {"train": 8, "test": 4},
            CATS,
        ),
        (below("A", "B"), {"parts": "A=train,B=test"}, TWO, CATS),
        (below("images", "masks"), {"leave_out": "masks"}, {"all": 4}, CATS),
        ([*CATS_AND_MASKS, "nan/1.png"], {"leave_out": "*_mask.*"}, {"all": 3}, [*CATS, "nan"]),
    ],
)
def test_a_choice_settles_it_and_is_kept(tmp_path, names, choice, counts, classes):
    dataset = read(folder(tmp_path, *names), "own", Choices(**choice))
    assert understood(dataset)[:2] == (counts, classes)
    assert dict(dataset.reading.choices) == choice
    ((name, value),) = choice.items()
    assert dataset.reading.understood.endswith(f"as chosen: {name}={value}")


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ("vla=test", "'vla'.*'val'"),
        ("val=exam", "'exam'.*all, dev"),
        ("val", "write NAME=PART"),
    ],
)
def test_a_wrong_choice_names_the_valid_ones(tmp_path, parts, message):
    with pytest.raises(BadInput, match=message):
        read(folder(tmp_path, *below("train", "val")), "own", Choices(parts=parts))


def test_masks_are_named_and_left_out_by_choice(tmp_path):
    covid = [f"{c}/{f}/{i}.png" for c in CATS for f in ("images", "masks") for i in (1, 2)]
    root = folder(tmp_path / "covid", *covid)
    with pytest.raises(BadInput, match=r"4 images are called like masks .*leave_out=masks .*top"):
        read(root, "own")
    with pytest.raises(BadInput, match=r"leave_out: no folder and no image is called 'mask'"):
        read(root, "own", Choices(leave_out="mask"))
    assert "like masks" in read(root, "own", Choices(class_level="top")).reading.notes[0]
    dataset = read(root, "own", Choices(class_level="top", leave_out="masks"))
    assert understood(dataset)[:2] == ({"all": 4}, CATS) and not dataset.reading.notes
    assert "images that leave_out names: 4 (cat/masks/1.png, …)" in dataset.reading.not_used
    beside = read(folder(tmp_path / "beside", *CATS_AND_MASKS), "own")
    assert "cat/1_mask.png; to leave them out, choose leave_out=*_mask.*" in beside.reading.notes[0]
    faces = read(folder(tmp_path / "faces", "with_mask/with_mask_1.png", "no/no_1.png"), "own")
    assert not faces.reading.notes


def test_a_dev_part_leaves_the_test_part_to_train(tmp_path):
    names = [f"{part}/{c}/{i}.png" for part in ("train", "val") for c in "ab" for i in range(20)]
    splits = divide(read(folder(tmp_path, *names), "own", Choices(parts="val=dev")))
    sizes = {name: len(samples) for name, samples in splits.items()}
    assert sizes == {"train": 26, "dev": 6, "dev_test": 40, "test": 8}
    assert all(name.startswith("val/") for name in splits["dev_test"].names)
    assert all(name.startswith("train/") for name in splits["test"].names)


def test_links_are_followed_once_and_cycles_refused(tmp_path):
    root = folder(tmp_path / "data", *DOGS_AND_CATS)
    (root / "cat" / "more").symlink_to(folder(tmp_path / "more", "3.png", "4.png"))
    with pytest.raises(BadInput, match="class folders contain folders of images.*cat/more/3.png"):
        read(root, "own")
    dataset = read(root, "own", Choices(class_level="top"))
    assert understood(dataset)[0] == {"all": 6}
    (root / "dog" / "again").symlink_to(tmp_path / "more")
    with pytest.raises(BadInput, match="is the same file as .* through a link"):
        read(root, "own", Choices(class_level="top"))
    (root / "dog" / "again").unlink()
    (root / "dog" / "round").symlink_to(root)
    for reader in (lambda: read(root, "own"), lambda: FileTree(root).names):
        with pytest.raises(BadInput, match=r"dog/round: is a link to a folder that contains it"):
            reader()


def test_a_pipe_called_like_an_image_is_refused_and_never_opened(tmp_path):
    root = folder(tmp_path, *DOGS_AND_CATS)
    os.mkfifo(root / "cat" / "notes")
    (root / "cat" / "gone").symlink_to(tmp_path / "nowhere")
    assert understood(read(root, "own"))[2] == {"links": 2}
    assert "cat/notes" not in FileTree(root).names
    (root / "dog" / "itself").symlink_to(root / "dog" / "itself")
    assert understood(read(root, "own"))[2] == {"links": 3}
    assert "dog/itself" not in FileTree(root).names
    os.mkfifo(root / "cat" / "9.png")
    with pytest.raises(BadInput, match=r"9\.png: is a named pipe, not a file"):
        read(root, "own")
    (root / "cat" / "9.png").unlink()
    (root / "cat" / "9.png").symlink_to(tmp_path / "nowhere")
    with pytest.raises(BadInput, match=r"9\.png: is a link that leads nowhere"):
        read(root, "own")


def test_names_are_compared_in_one_form(tmp_path):
    forms = [unicodedata.normalize(form, "Müsli") for form in ("NFC", "NFD")]
    names = [f"train/{forms[0]}/1.png", f"test/{forms[1]}/1.png", "train/tea/1.png"]
    assert understood(read(folder(tmp_path, *names), "own"))[1] == [forms[0], "tea"]


def arrays(*parts):
    images = np.arange(4 * 12, dtype=np.uint8).reshape(4, 2, 2, 3)
    return {f"images_{part}": images for part in parts} | {
        f"labels_{part}": np.asarray([0, 1, 0, 1]) for part in parts
    }


def test_parts_of_arrays_have_the_same_names(tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, **arrays("Training", "valid", "TEST"), classes=["cat", "dog"], note=[1])
    assert understood(read(path, "own")) == (BOTH, CATS, {"arrays of other names": 1})
    np.savez(path, **arrays("train", "val"))
    with pytest.raises(BadInput, match="has 'train' and 'val', but no test part"):
        read(path, "own")
    assert set(read(path, "own", Choices(parts="val=test")).parts) == {"train", "test"}
    np.savez(path, **arrays("train", "extra", "test"))
    with pytest.raises(BadInput, match=r"'extra'.*parts=extra=train"):
        read(path, "own")
    joined = read(path, "own", Choices(parts="extra=train,train=train"))
    assert len(joined.parts["train"]) == 8 and joined.parts["train"].ids[-1] == "own/train/7"


def test_data_sets_made_in_python_have_them_too(capsys):
    images = ArrayImages(arrays("all")["images_all"])
    parts = {"train": (images, [0, 1, 0, 1]), "val": (images, [0, 1, 0, 1])}
    with pytest.raises(BadInput, match="has 'train' and 'val', but no test part"):
        make_dataset("python", "single_label", parts)
    dataset = make_dataset("python", "single_label", parts, choices=Choices(parts="val=test"))
    assert set(dataset.parts) == {"train", "test"}
    assert "python: understood as 8 images (train 4, test 4)" in capsys.readouterr().err


def test_parts_and_folders_of_a_zip_with_labels(tmp_path):
    root = folder(tmp_path / "z", "a.png", "b.png", "c.png", "d.png", "notes.txt")
    rows = "path,split,label\na.png,Training,0\nb.png,Training,1\nc.png,validation,1\n"
    with zipfile.ZipFile(tmp_path / "z.zip", "w") as archive:
        for path in root.iterdir():
            archive.write(path, f"data/{path.name}")
        archive.writestr("data/labels.csv", rows)
        archive.writestr("data/classes.txt", "cat\ndog\n")
        archive.writestr("__MACOSX/data/._a.png", b"")
    with pytest.raises(BadInput, match="has 'Training' and 'validation', but no test part"):
        read(tmp_path / "z.zip", "own")
    dataset = read(tmp_path / "z.zip", "own", Choices(parts="validation=test"))
    assert understood(dataset) == (
        {"train": 2, "test": 1},
        CATS,
        {"images": 1, "files": 1},
    )
    assert list(dataset.parts["test"].names) == ["c.png"]
    assert "labels.csv does not list: 1 (data/d.png)" in dataset.reading.not_used


def test_a_walk_is_in_the_order_of_folders(tmp_path):
    names = ["a/2.png", "a/b/1.png", "a-b/1.png"]
    found = walk(folder(tmp_path, *names, ".git/x.png"))
    assert (found.files, found.folders) == (names, ["a", "a/b", "a-b"])
    assert found.hidden == [".git/x.png"]


def test_what_python_reads_takes_the_choices_as_arguments(tmp_path, capsys):
    picture = Image.new("RGB", (4, 4))
    for part in ("train", "val"):
        for name in ("cat", "dog"):
            for number in range(15):
                file = tmp_path / "pets" / part / name / f"{number}.png"
                file.parent.mkdir(parents=True, exist_ok=True)
                picture.save(file)
    with pytest.raises(BadInput, match="parts=val=test .*an argument of read_dataset in Python"):
        nevis_stream.read_dataset(tmp_path / "pets", "pets")
    capsys.readouterr()
    dataset = nevis_stream.read_dataset(str(tmp_path / "pets"), "pets", parts="val=test")
    assert {name: len(part) for name, part in dataset.parts.items()} == {"train": 30, "test": 30}
    assert "60 images (train 30, test 30) of 2 classes (cat, dog)" in capsys.readouterr().err
    with pytest.raises(BadInput, match="dataset_id is 'a b'"):
        nevis_stream.read_dataset(tmp_path / "pets", "a b")


def test_equal_folders_in_all_top_folders_may_be_parts():
    names = [f"fold{fold}/{name}/1.png" for fold in (0, 1) for name in ("cat", "dog")]
    with pytest.raises(BadInput, match=r"parts=fold0=train,fold1=test.*class_level=top"):
        arrange("here", names, (), Choices())
    with pytest.raises(BadInput) as refused:
        arrange("here", [*names, "fold2/owl/1.png"], (), Choices())
    assert "fold0=train" not in str(refused.value)
