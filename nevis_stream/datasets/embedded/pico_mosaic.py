"""pico_mosaic: which surfaces occur in a mosaic?

Grey, sides of 44 to 64 pixels, 6 labels, multi-label.

Real: the surfaces, from six of the images of pico_textures. Derived: the mosaic of two by two
pieces, its grid line drawn at random, each piece turned and given a brightness and contrast of its
own; one to three surfaces occur. Train and test pieces come from the same regions as those of
pico_textures, `patches.region`. Pieces of one part may overlap each other, so a dev split that is
drawn from train is somewhat easier than test.
"""

from collections.abc import Iterator

import numpy as np

from nevis_stream.datasets.dataset import MULTI_LABEL, DataSet, make_dataset
from nevis_stream.datasets.embedded import drawing, patches
from nevis_stream.datasets.embedded.pico_textures import surface
from nevis_stream.datasets.images import EncodedImages, SourceImage

VERSION = 1
CLASSES = ("brick", "grass", "gravel", "moon", "hubble", "page")
COUNTS = {"train": 420, "test": 180}
SMALLEST, LARGEST = 22, 32


def _pieces(part: str, rng: np.random.RandomState) -> list[patches.Box]:
    """Draws the four boxes of one mosaic, row by row; every box fits its place in the grid."""
    kinds = rng.permutation(len(CLASSES))[: rng.randint(1, 4)]
    cells = rng.permutation(np.resize(kinds, 4))  # each of the kinds at least once
    heights = rng.randint(SMALLEST, LARGEST + 1, 2)
    widths = rng.randint(SMALLEST, LARGEST + 1, 2)
    pieces = []
    for cell, kind in enumerate(cells):
        name = CLASSES[kind]
        height, width = int(heights[cell // 2]), int(widths[cell % 2])
        whole = patches.region(name, surface(name).shape, part)
        top = whole.top + rng.randint(whole.height - height + 1)
        left = whole.left + rng.randint(whole.width - width + 1)
        pieces.append(patches.Box(name, top, left, height, width))
    return pieces


def _plans() -> Iterator[tuple[str, list[list[patches.Box]]]]:
    rng = np.random.RandomState(2010)
    for part, count in COUNTS.items():
        yield part, [_pieces(part, rng) for _ in range(count)]


def boxes() -> dict[str, list[patches.Box]]:
    """Returns the boxes that each part is cut from, four for every mosaic."""
    return {part: [box for four in plan for box in four] for part, plan in _plans()}


def _piece(box: patches.Box, rng: np.random.RandomState) -> np.ndarray:
    patch = box.cut(surface(box.image))
    patch = patch[:: rng.choice((-1, 1)), :: rng.choice((-1, 1))]
    return patches.level(patch, rng.randint(100, 156), rng.randint(30, 51))


def build() -> DataSet:
    """Returns the data set: 420 train and 180 test images, uint8[n, 6] labels."""
    rng = np.random.RandomState(2011)
    parts = {}
    for part, plan in _plans():
        files = []
        for four in plan:
            a, b, c, d = (_piece(box, rng) for box in four)
            files.append(drawing.encode(np.block([[a, b], [c, d]])))
        labels = np.array(
            [[name in {box.image for box in four} for name in CLASSES] for four in plan], np.uint8
        )
        images = (SourceImage(f, f"pico_mosaic/{part}/{i}") for i, f in enumerate(files))
        parts[part] = EncodedImages(images), labels
    return make_dataset("pico_mosaic", MULTI_LABEL, parts, len(CLASSES))
