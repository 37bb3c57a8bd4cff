"""pico_tissue: stroma, border or gland? 20x20 grey, 3 classes.

Real: patches of scikit-image's sample image ihc, colonic glands stained brown (FHL2 by DAB) and
counterstained blue. Derived: the labels, from the colour by a rule and not by a pathologist; the
images are then made grey and brought to the same mean and spread, so that the label has to be
read from the structure. The rule: a pixel is gland where red exceeds blue by 20 levels in the mean
over the 17x17 pixels about it; a patch is stroma up to 3% of such pixels, gland from 97%, border
from 15 to 85%, and left out between. Train is cut from the upper 70% of the image, test from
the lowest 30%, with 8 pixels between, without overlap; both show the same specimen.
"""

import functools

import numpy as np

from nevis_stream.datasets.dataset import SINGLE_LABEL, DataSet, make_dataset
from nevis_stream.datasets.embedded import patches, sources
from nevis_stream.datasets.images import ArrayImages

VERSION = 1
CLASSES = ("stroma", "border", "gland")
SHARES = ((0.0, 0.03), (0.15, 0.85), (0.97, 1.0))  # gland pixels of a patch, by class
SIZE = 20
MOST = {"train": 90, "test": 60}  # of every class
LEAST_SPREAD = 5  # grey levels; flatter patches are empty glass
WINDOW = 17


def _gland() -> np.ndarray:
    """Returns bool[height, width]: where the smoothed colour is brown."""
    colour = sources.image("ihc").astype(np.int64)
    excess = np.pad(colour[..., 0] - colour[..., 2], WINDOW // 2, mode="edge")
    sums = np.pad(excess.cumsum(0).cumsum(1), ((1, 0), (1, 0)))
    w = WINDOW
    return sums[w:, w:] - sums[:-w, w:] - sums[w:, :-w] + sums[:-w, :-w] > 20 * w * w


@functools.cache
def _labelled() -> dict[str, list[tuple[patches.Box, int]]]:
    gland, grey = _gland(), sources.image("ihc", grey=True)
    rng = np.random.RandomState(2021)
    chosen = {}
    for part, most in MOST.items():
        tiles = patches.grid(patches.region("ihc", gland.shape, part), SIZE)
        tiles = [tile for tile in tiles if tile.cut(grey).std() >= LEAST_SPREAD]
        chosen[part] = []
        for label, (least, greatest) in enumerate(SHARES):
            fit = [tile for tile in tiles if least <= tile.cut(gland).mean() <= greatest]
            chosen[part] += [(tile, label) for tile in patches.draw(fit, most, rng)]
    return chosen


def boxes() -> dict[str, list[patches.Box]]:
    """Returns the boxes that each part is cut from, in the order of its samples."""
    return {part: [box for box, _ in pairs] for part, pairs in _labelled().items()}


def build() -> DataSet:
    """Returns the data set: uint8[n, 20, 20] in train and test, 3 classes."""
    rng = np.random.RandomState(2022)
    pixels = sources.image("ihc", grey=True)
    parts = {}
    for part, pairs in _labelled().items():
        cut = [patches.level(patches.turn(box.cut(pixels), rng), 128, 48) for box, _ in pairs]
        labels = np.array([label for _, label in pairs])
        parts[part] = ArrayImages(np.stack(cut), "pico_tissue"), labels
    return make_dataset("pico_tissue", SINGLE_LABEL, parts, len(CLASSES))
