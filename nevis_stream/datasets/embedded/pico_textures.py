"""pico_textures: which surface does a patch show? 24x24 grey, 8 classes.

Real: patches of scikit-image's sample images brick, grass, gravel, moon, hubble_deep_field (stars),
page (print), text (handwriting) and retina (blood vessels; shrunk three times). Derived: every
patch is turned by a random quarter turn and brought to the same mean and spread, so that brightness
does not give the class away; patches without contrast are left out. Train is cut from the upper
70% of every image, test from the lowest 30% (page and text: left and right), with 8 pixels
between; no two patches overlap. But train and test show the same wall, meadow or sheet of paper.
"""

import functools

import numpy as np

from nevis_stream.datasets.dataset import SINGLE_LABEL, DataSet, make_dataset
from nevis_stream.datasets.embedded import patches, sources
from nevis_stream.datasets.images import ArrayImages

VERSION = 1
CLASSES = ("brick", "grass", "gravel", "moon", "hubble", "page", "text", "retina")
SIZE = 24
MOST = {"train": 72, "test": 32}
LEAST_SPREAD = {"brick": 12, "moon": 6, "hubble": 12, "page": 18, "text": 12, "retina": 4}


@functools.cache
def surface(name: str) -> np.ndarray:
    """Returns one class's whole image, uint8[height, width], read-only."""
    return sources.image(name, grey=True, shrink=3 if name == "retina" else 1)


def _usable(name: str, box: patches.Box) -> bool:
    patch = box.cut(surface(name))
    if name == "retina" and patch.min() < 30:  # beyond the round field of view
        return False
    return patch.std() >= LEAST_SPREAD.get(name, 0)


def boxes() -> dict[str, list[patches.Box]]:
    """Returns the boxes that each part is cut from, in the order of its samples."""
    rng = np.random.RandomState(1998)
    chosen = {}
    for part, most in MOST.items():
        chosen[part] = []
        for name in CLASSES:
            tiles = patches.grid(patches.region(name, surface(name).shape, part), SIZE)
            chosen[part] += patches.draw([t for t in tiles if _usable(name, t)], most, rng)
    return chosen


def build() -> DataSet:
    """Returns the data set: uint8[n, 24, 24] in train and test, 8 classes."""
    rng = np.random.RandomState(1999)
    parts = {}
    for part, chosen in boxes().items():
        cut = [patches.turn(box.cut(surface(box.image)), rng) for box in chosen]
        pixels = np.stack([patches.level(patch, 128, 48) for patch in cut])
        labels = np.array([CLASSES.index(box.image) for box in chosen])
        parts[part] = ArrayImages(pixels, "pico_textures"), labels
    return make_dataset("pico_textures", SINGLE_LABEL, parts, len(CLASSES))
