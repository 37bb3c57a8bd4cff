"""Patches from disjoint regions of an image.

Term: a *box* is a rectangle of one image. An image that is shared by train and test is divided
once, by `region`, in the same way for every data set that uses it: so no test patch of one data set
is a train patch of another. Patches of one part are laid side by side without overlap, so that a
later division of train is honest too.
"""

from dataclasses import dataclass

import numpy as np

TEST_SHARE = 0.30
GAP = 8  # pixels between the train and the test region


@dataclass(frozen=True)
class Box:
    """A rectangle of an image: `height` x `width` pixels whose first pixel is (top, left)."""

    image: str
    top: int
    left: int
    height: int
    width: int

    def cut(self, pixels: np.ndarray) -> np.ndarray:
        """Returns the box's part of an image's pixels [height, width, ...]."""
        return pixels[self.top : self.top + self.height, self.left : self.left + self.width]

    def overlaps(self, other: "Box") -> bool:
        """Returns whether the two boxes share a pixel of the same image."""
        return (
            self.image == other.image
            and self.top < other.top + other.height
            and other.top < self.top + self.height
            and self.left < other.left + other.width
            and other.left < self.left + self.width
        )


def region(image: str, shape: tuple[int, ...], part: str) -> Box:
    """Returns the part of an image that belongs to "train" or to "test".

    Test is the lowest 30% of an image, or the rightmost 30% where it is more than 1.5 times as
    wide as tall.

    Args:
      image: name of the image.
      shape: height and width of the whole image, then anything.
      part: "train" or "test".
    """
    height, width = shape[:2]
    if width > 1.5 * height:
        line = width - round(TEST_SHARE * width)
        if part == "test":
            return Box(image, 0, line, height, width - line)
        return Box(image, 0, 0, height, line - GAP)
    line = height - round(TEST_SHARE * height)
    if part == "test":
        return Box(image, line, 0, height - line, width)
    return Box(image, 0, 0, line - GAP, width)


def grid(box: Box, size: int) -> list[Box]:
    """Returns the squares of side `size` that tile a box, row by row; a remainder is left out."""
    return [
        Box(box.image, top, left, size, size)
        for top in range(box.top, box.top + box.height - size + 1, size)
        for left in range(box.left, box.left + box.width - size + 1, size)
    ]


def shelves(box: Box, smallest: int, largest: int, rng: np.random.RandomState) -> list[Box]:
    """Returns boxes of many sizes that fill a box in rows without overlap.

    Args:
      box: what to fill.
      smallest, largest: bounds of the boxes' sides, in pixels, both included.
      rng: draws the height of every row and every box's width.
    """
    boxes, top, bottom = [], box.top, box.top + box.height
    while bottom - top >= smallest:
        height = min(rng.randint(smallest, largest + 1), bottom - top)
        left, right = box.left, box.left + box.width
        while right - left >= smallest:
            width = min(rng.randint(smallest, largest + 1), right - left)
            boxes.append(Box(box.image, top, left, height, width))
            left += width
        top += height
    return boxes


def draw(items: list, most: int, rng: np.random.RandomState) -> list:
    """Returns at most `most` of the items, in a random order."""
    return [items[i] for i in rng.permutation(len(items))[:most]]


def turn(patch: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
    """Returns the patch rotated by a random quarter turn and perhaps mirrored."""
    patch = np.rot90(patch, rng.randint(4))
    return patch[:, ::-1] if rng.randint(2) else patch


def level(patch: np.ndarray, mean: float, deviation: float) -> np.ndarray:
    """Returns a grey patch with a given mean and spread, so that brightness carries no label.

    Args:
      patch: uint8[height, width].
      mean, deviation: wanted grey level and spread, before clipping to 0..255.
    """
    whole = patch.astype(np.int64)
    centre = whole.sum() / whole.size
    spread = max((whole**2).sum() / whole.size - centre**2, 1.0) ** 0.5
    return np.clip(np.rint((whole - centre) / spread * deviation + mean), 0, 255).astype(np.uint8)
