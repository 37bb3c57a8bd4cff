"""pico_scenes: what does a piece of a photograph show?

Colour, sides of 18 to 44 pixels, 10 classes.

Real: pieces of photographs that scikit-learn, scikit-image and matplotlib carry. The label is that
of the area that the piece was cut from; the areas were outlined by hand for this project (`AREAS`),
roughly, as rectangles. Pieces have random sizes and never overlap. Train and test areas are
disjoint, and where a class is in two photographs, or in two places of one, they differ in place;
but most classes come from one photograph.
"""

import functools

import numpy as np

from nevis_stream.datasets.dataset import SINGLE_LABEL, DataSet, make_dataset
from nevis_stream.datasets.embedded import drawing, patches, sources
from nevis_stream.datasets.images import EncodedImages, SourceImage

VERSION = 1
CLASSES = (
    "sky", "foliage", "building", "petals", "fur", "wood", "ceramic", "fabric", "machine", "floor"
)  # fmt: skip
MOST = {"train": 44, "test": 20}  # of every class
SMALLEST, LARGEST = 18, 44

# Part, class, photograph, then top, left, bottom, right in pixels.
AREAS = (
    ("train", "sky", "china", 0, 330, 130, 560),
    ("train", "sky", "rocket", 0, 210, 330, 300),
    ("test", "sky", "china", 0, 0, 140, 90),
    ("test", "sky", "rocket", 0, 345, 330, 436),
    ("train", "foliage", "china", 330, 410, 427, 640),
    ("train", "foliage", "china", 160, 570, 328, 640),
    ("train", "foliage", "flower", 60, 0, 190, 140),
    ("test", "foliage", "china", 350, 50, 427, 195),
    ("test", "foliage", "flower", 195, 20, 280, 150),
    ("train", "building", "china", 112, 120, 240, 300),
    ("test", "building", "china", 252, 100, 340, 335),
    ("train", "petals", "flower", 105, 236, 228, 374),
    ("test", "petals", "flower", 236, 225, 330, 385),
    ("test", "petals", "flower", 398, 300, 427, 430),
    ("train", "fur", "chelsea", 5, 60, 85, 290),
    ("train", "fur", "chelsea", 85, 207, 157, 292),
    ("train", "fur", "chelsea", 86, 45, 150, 130),
    ("test", "fur", "chelsea", 160, 50, 270, 225),
    ("train", "wood", "coffee", 0, 490, 400, 600),
    ("train", "wood", "motorcycle", 0, 70, 105, 180),
    ("test", "wood", "coffee", 130, 0, 400, 72),
    ("test", "wood", "motorcycle", 115, 55, 190, 130),
    ("train", "ceramic", "coffee", 120, 105, 300, 175),
    ("train", "ceramic", "coffee", 20, 205, 95, 380),
    ("train", "ceramic", "coffee", 300, 150, 375, 310),
    ("test", "ceramic", "coffee", 130, 408, 300, 465),
    ("test", "ceramic", "coffee", 325, 315, 370, 420),
    ("train", "fabric", "astronaut", 250, 70, 345, 220),
    ("train", "fabric", "hopper", 0, 0, 300, 130),
    ("train", "fabric", "hopper", 370, 60, 470, 190),
    ("test", "fabric", "astronaut", 120, 5, 400, 50),
    ("test", "fabric", "astronaut", 400, 70, 470, 130),
    ("test", "fabric", "hopper", 400, 320, 480, 480),
    ("train", "machine", "motorcycle", 240, 130, 390, 480),
    ("test", "machine", "motorcycle", 260, 515, 440, 670),
    ("train", "floor", "motorcycle", 320, 0, 410, 115),
    ("train", "floor", "motorcycle", 410, 0, 500, 320),
    ("test", "floor", "motorcycle", 425, 350, 500, 512),
    ("test", "floor", "motorcycle", 452, 515, 500, 741),
)


@functools.cache
def _labelled() -> dict[str, list[tuple[patches.Box, int]]]:
    rng = np.random.RandomState(2020)
    chosen = {}
    for part, most in MOST.items():
        chosen[part] = []
        for label, name in enumerate(CLASSES):
            filled = []
            for in_part, shows, image, top, left, bottom, right in AREAS:
                if (in_part, shows) == (part, name):
                    area = patches.Box(image, top, left, bottom - top, right - left)
                    filled += patches.shelves(area, SMALLEST, LARGEST, rng)
            chosen[part] += [(box, label) for box in patches.draw(filled, most, rng)]
    return chosen


def boxes() -> dict[str, list[patches.Box]]:
    """Returns the boxes that each part is cut from, class by class, in the order of its samples."""
    return {part: [box for box, _ in pairs] for part, pairs in _labelled().items()}


def build() -> DataSet:
    """Returns the data set: RGB images of many sizes in train and test, 10 classes."""
    photographs = {name: sources.image(name) for name in sorted({area[2] for area in AREAS})}
    parts = {}
    for part, pairs in _labelled().items():
        files = [drawing.encode(box.cut(photographs[box.image])) for box, _ in pairs]
        images = (SourceImage(f, f"pico_scenes/{part}/{i}") for i, f in enumerate(files))
        parts[part] = EncodedImages(images), np.array([label for _, label in pairs])
    return make_dataset("pico_scenes", SINGLE_LABEL, parts, len(CLASSES))
