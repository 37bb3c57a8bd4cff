"""MATLAB files (.mat): lists of image numbers, records, counts of frames, arrays of pixels; and
labels in tables of their own: attributes of classes, of regions, ImageNet's validation.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nevis_stream.datasets.files import Example, FileTree, fill, look_up
from nevis_stream.datasets.images import SourceImage, split_array
from nevis_stream.datasets.raw_formats.pixels import number_examples
from nevis_stream.errors import BadInput, unknown


def load(path: Path, key: str) -> Any:
    """Returns one variable of a .mat file, structures as objects and single elements unpacked.

    Raises:
      BadInput: the file cannot be read or has no such variable.
    """
    from scipy.io import loadmat

    try:
        variables = loadmat(path, squeeze_me=True, struct_as_record=False)
    except Exception as error:
        raise BadInput(f"{path}: cannot be read as a .mat file ({error}).") from None
    if key not in variables:
        names = [name for name in variables if not name.startswith("__")]
        raise BadInput(f"{path}: {unknown('variable', key, names)}")
    return variables[key]


def _load(tree: FileTree, place: str) -> Any:
    file, _, key = place.rpartition(":")
    return load(tree.path(file), key)


def read_mat_lists(
    tree: FileTree,
    *,
    images: str,
    parts: Mapping[str, str],
    labels: str | None = None,
    block: int = 0,
) -> Iterator[Example]:
    """Reads images numbered from 1, with lists of the numbers of each part.

    Args:
      tree: the folder.
      images: template of an image's name, with `{id:05d}`.
      parts: FILE:VARIABLE of the numbers, by part.
      labels: FILE:VARIABLE of the class ids from 1, by number.
      block: without `labels`: how many successive numbers are a class.
    """
    classes = None if labels is None else np.atleast_1d(_load(tree, labels))
    for part, place in parts.items():
        for number in np.atleast_1d(_load(tree, place)).tolist():
            if classes is None:
                label = (number - 1) // block
            elif 1 <= number <= len(classes):
                label = int(classes[number - 1]) - 1
            else:
                raise BadInput(
                    f"{tree.root / place}: lists image {number}, but {labels} has the labels of"
                    f" {len(classes)} images."
                )
            name = fill(images, {"id": number})
            yield Example(part, name, SourceImage(tree.path(name)), label)


def read_mat_records(
    tree: FileTree,
    *,
    tables: Sequence[Mapping[str, Any]],
    fields: Mapping[str, str],
    image: str,
    parts: Mapping[str, str] | None = None,
) -> Iterator[Example]:
    """Reads records of images: an array of structures (`key`), or variables of equal length.

    Args:
      tree: the folder.
      tables: {file, key} or {file} or {files}, each with a `part` if the records do not have it.
      fields: names of the fields or variables for `image`, `label` (class ids from 1), `part`, or
        `scores` (n × labels: a label is present where its score is not 0).
      image: template of an image's name, with `{image}`.
      parts: part by what the field says.
    """
    for entry in tables:
        if "key" in entry:
            records = np.atleast_1d(_load(tree, f"{entry['file']}:{entry['key']}"))
            columns = {
                use: [getattr(record, name) for record in records] for use, name in fields.items()
            }
        else:
            files = [tree.path(file) for file in entry.get("files", [entry.get("file")])]
            columns = {use: _variable(files, name) for use, name in fields.items()}
        for index, value in enumerate(columns["image"]):
            name = fill(image, {"image": str(value)})
            part = (
                look_up(parts or {}, str(int(columns["part"][index])), f"{name}: part")
                if "part" in columns
                else entry["part"]
            )
            if "scores" in columns:
                label: Any = frozenset(
                    np.flatnonzero(np.atleast_1d(columns["scores"][index])).tolist()
                )
            else:
                label = int(columns["label"][index]) - 1
            yield Example(part, name, SourceImage(tree.path(name)), label)


def _variable(files: Sequence[Path], name: str) -> Any:
    from scipy.io import whosmat

    for file in files:
        if name in {variable for variable, _, _ in whosmat(file)}:
            return np.atleast_1d(load(file, name))
    raise BadInput(f"{', '.join(map(str, files))}: no variable {name!r}.")


def read_mat_counts(
    tree: FileTree, *, images: str, counts: str, parts: Mapping[str, Sequence[int]]
) -> Iterator[Example]:
    """Reads frames numbered from 1, each with a count as its score.

    Args:
      tree: the folder.
      images: template with `{id:06d}`.
      counts: FILE:VARIABLE.
      parts: first and last number of each part.
    """
    scores = np.atleast_1d(_load(tree, counts))
    for part, (first, last) in parts.items():
        for number in range(first, last + 1):
            name = fill(images, {"id": number})
            yield Example(part, name, SourceImage(tree.path(name)), float(scores[number - 1]))


def read_mat_arrays(
    tree: FileTree,
    *,
    sets: Sequence[Mapping[str, str]],
    layout: str,
    shape: Sequence[int] = (),
    scale: int = 1,
    transpose: bool = False,
    first: int = 0,
    modulo: int = 0,
) -> Iterator[Example]:
    """Reads images that are arrays.

    Args:
      tree: the folder.
      sets: {file, part, images, labels}: variables of a part.
      layout: "hwcn", or "rows" of pixels with a `shape`.
      shape: height and width.
      scale: factor to 0..255.
      transpose: whether rows and columns are exchanged.
      first: what the file has for class 0.
      modulo: instead of `first`: labels are taken modulo this (10 means digit 0).
    """
    for entry in sets:
        path = tree.path(entry["file"])
        pixels = np.asarray(load(path, entry["images"]))
        labels = np.atleast_1d(load(path, entry["labels"])).astype(int)
        pixels = np.moveaxis(pixels, -1, 0) if layout == "hwcn" else pixels.reshape(-1, *shape)
        pixels = (pixels * scale).astype(np.uint8)
        pixels = np.swapaxes(pixels, 1, 2) if transpose else pixels
        labels = labels % modulo if modulo else labels - first
        images = split_array(pixels, f"{path}:{entry['images']}")
        yield from number_examples(entry["part"], images, labels, path)


def read_predicates(tree: FileTree, *, root: str) -> Iterator[Example]:
    """Reads Animals with Attributes 2: every image has the attributes of its class.

    Unseen classes are the test part.

    Args:
      tree: the folder.
      root: folder with classes.txt, predicate-matrix-binary.txt, trainclasses.txt, testclasses.txt,
        JPEGImages.
    """
    classes = [line.split()[-1] for line in tree.lines(f"{root}/classes.txt")]
    matrix = np.asarray(
        [line.split() for line in tree.lines(f"{root}/predicate-matrix-binary.txt")], int
    )
    if len(matrix) != len(classes):
        raise BadInput(
            f"{tree.root / root}: {len(matrix)} rows of predicates for {len(classes)} classes."
        )
    attributes = {
        name: frozenset(np.flatnonzero(row).tolist())
        for name, row in zip(classes, matrix, strict=True)
    }
    parts = {
        line.strip(): part
        for part in ("train", "test")
        for line in tree.lines(f"{root}/{part}classes.txt")
    }
    for name in tree.matching(f"{root}/JPEGImages/*/*.jpg"):
        animal = name.split("/")[-2]
        part = look_up(parts, animal, f"{tree.root / name}: class")
        label = look_up(attributes, animal, f"{tree.root / name}: class")
        yield Example(part, name, SourceImage(tree.root / name), label)


def read_regions(tree: FileTree, *, root: str, keep: str) -> Iterator[Example]:
    """Reads segmented IAPR TC-12: the label ids from 1 of an image's regions.

    Only images of its training and validation lists.

    Args:
      tree: the folder.
      root: folder with `benchmark` and `matlab`.
      keep: "all" regions' labels, or those of the "last".
    """
    listed = set()
    for part in ("training", "validation"):
        listed |= set(
            np.atleast_1d(load(tree.one(f"{root}/matlab/**/{part}.mat"), part)).astype(int).tolist()
        )
    labels: dict[tuple[str, str], list[int]] = {}
    for name in tree.some(f"{root}/benchmark/saiapr_tc-12/*/labels.txt"):
        for line in tree.lines(name):
            image, _, label = line.split()[:3]
            if int(image) in listed:
                labels.setdefault((name.rpartition("/")[0], image), []).append(int(label) - 1)
    for (folder, image), label_ids in labels.items():
        path = tree.path(f"{folder}/images/{image}.jpg")
        yield Example(
            "all",
            f"{int(image):08d}",
            SourceImage(path),
            frozenset(label_ids if keep == "all" else label_ids[-1:]),
        )


def read_imagenet_validation(
    tree: FileTree, *, images: str, devkit: str, part: str
) -> Iterator[Example]:
    """Reads ImageNet's validation images.

    Their classes are in the development kit, by its own numbers.

    Args:
      tree: the folder.
      images: template of an image's name, with `{number:08d}`.
      devkit: the kit's folder `data`.
      part: the part of all images.
    """
    table = np.atleast_1d(load(tree.path(f"{devkit}/meta.mat"), "synsets"))
    synsets = {int(synset.ILSVRC2012_ID): synset.WNID for synset in table}
    for number, line in enumerate(
        tree.lines(f"{devkit}/ILSVRC2012_validation_ground_truth.txt"), start=1
    ):
        name = fill(images, {"number": number})
        place = f"{tree.root / devkit}, ground truth, line {number}: class"
        label = look_up(synsets, int(line), place)
        yield Example(part, name, SourceImage(tree.path(name)), label)
