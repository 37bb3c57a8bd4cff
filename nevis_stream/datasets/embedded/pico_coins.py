"""pico_coins: how many coins? 48x48 grey, 5 classes (class id = number of coins - 1).

Real: the coins, 24 Greek coins from Pompeii in scikit-image's sample image coins. Derived: the
scene, in which one to five coins, resized and turned at random, lie apart from each other on a
rendered ground (a grey slope with noise). The coins of the image's first three rows are in train,
the six of its last row in test. The same coin occurs in many images of its part.
"""

import functools

import numpy as np
from PIL import Image

from nevis_stream.datasets.dataset import SINGLE_LABEL, DataSet, make_dataset
from nevis_stream.datasets.embedded import drawing, patches, sources
from nevis_stream.datasets.images import ArrayImages

VERSION = 1
SIZE = 48
MOST = 5
EACH = {"train": 90, "test": 40}  # of every number of coins

# Centre x, centre y and radius of every coin, by hand, in pixels.
COINS = {
    "train": (
        (44, 54, 21), (100, 56, 19), (156, 51, 23), (216, 51, 23), (276, 53, 20), (334, 44, 29),
        (46, 124, 20), (103, 126, 18), (154, 127, 18), (206, 124, 19), (271, 119, 24),
        (336, 125, 19),
        (44, 197, 18), (102, 196, 21), (155, 198, 19), (213, 193, 23), (274, 194, 21),
        (347, 187, 31),
    ),
    "test": (
        (46, 260, 27), (114, 266, 21), (173, 261, 27), (244, 264, 24), (301, 264, 24),
        (358, 268, 22),
    ),
}  # fmt: skip


def boxes() -> dict[str, list[patches.Box]]:
    """Returns the box around every coin of each part."""
    return {
        part: [patches.Box("coins", y - r, x - r, 2 * r + 1, 2 * r + 1) for x, y, r in coins]
        for part, coins in COINS.items()
    }


def _places(count: int, rng: np.random.RandomState) -> list[tuple[int, int, int]]:
    """Draws (top, left, diameter) of coins that do not touch each other or the border."""
    placed: list[tuple[int, int, int]] = []
    while len(placed) < count:
        size = int(rng.randint(10, 15))
        top, left = (int(v) for v in rng.randint(1, SIZE - size, 2))
        if all(
            (2 * top + size - 2 * t - s) ** 2 + (2 * left + size - 2 * x - s) ** 2
            > (size + s + 4) ** 2
            for t, x, s in placed
        ):
            placed.append((top, left, size))
    return placed


@functools.cache
def _disc(size: int) -> np.ndarray:
    disc = drawing.regular_polygon(32, size / 2 - 0.3) + size / 2
    return drawing.polygon_mask(size, [(disc, True)])


def _scene(coins: list[Image.Image], count: int, rng: np.random.RandomState) -> np.ndarray:
    slope = rng.randint(-12, 13, 2)
    rows, columns = np.mgrid[:SIZE, :SIZE]
    ground = rng.randint(35, 65) + (rows * slope[0] + columns * slope[1]) // SIZE
    scene = ground + rng.randint(-8, 9, (SIZE, SIZE))
    for top, left, size in _places(count, rng):
        coin = coins[rng.randint(len(coins))].rotate(
            float(rng.uniform(0, 360)), Image.Resampling.BILINEAR
        )
        coin = np.asarray(coin.resize((size, size), Image.Resampling.BILINEAR))
        spot = np.s_[top : top + size, left : left + size]
        scene[spot] = drawing.blend(_disc(size), coin, scene[spot])
    return np.clip(scene, 0, 255).astype(np.uint8)


def build() -> DataSet:
    """Returns the data set: uint8[450, 48, 48] train, uint8[200, 48, 48] test, 5 classes."""
    rng = np.random.RandomState(2019)
    photograph = sources.image("coins", grey=True)
    parts = {}
    for part, around in boxes().items():
        coins = [Image.fromarray(box.cut(photograph)) for box in around]
        counts = np.repeat(np.arange(1, MOST + 1), EACH[part])
        pixels = np.stack([_scene(coins, count, rng) for count in counts])
        parts[part] = ArrayImages(pixels, "pico_coins"), counts - 1
    return make_dataset("pico_coins", SINGLE_LABEL, parts, MOST)
