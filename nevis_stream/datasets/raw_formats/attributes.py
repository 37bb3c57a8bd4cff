"""Labels in tables of their own: attributes of classes, of regions, ImageNet's validation."""

from collections.abc import Iterator

import numpy as np

from nevis_stream.datasets.images import SourceImage
from nevis_stream.datasets.raw_formats.matlab import load
from nevis_stream.datasets.raw_formats.tree import Example, FileTree, fill, look_up
from nevis_stream.errors import BadInput


def predicates(tree: FileTree, *, root: str) -> Iterator[Example]:
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


def regions(tree: FileTree, *, root: str, keep: str) -> Iterator[Example]:
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


def imagenet_validation(
    tree: FileTree, *, images: str, devkit: str, part: str
) -> Iterator[Example]:
    """Reads ImageNet's validation images.

    Their classes are in the development kit, by its own numbers.

    Args:
      tree: the folder.
      images: template of an image's name, with `{number:08d}`.
      devkit: the kit's folder `data`.
      part: where the images come from.
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
