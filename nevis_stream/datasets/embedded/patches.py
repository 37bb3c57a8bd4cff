"""Data sets of patches: cut from disjoint regions of images that packages carry.

Term: a *box* is a rectangle of one image. An image that is shared by train and test is divided
once, by `find_region`, in the same way for every data set that uses it: so no test patch of one
data set is a train patch of another. Patches of one part are laid side by side without overlap, so
that a later division of train is honest too; only the pieces of mosaics may overlap.
"""

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from nevis_stream.datasets.dataset import MULTI_LABEL, SINGLE_LABEL, DataSet, make_dataset
from nevis_stream.datasets.embedded.packaged import read_image
from nevis_stream.datasets.images import ArrayImages, EncodedImages, SourceImage

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


def find_region(image: str, shape: tuple[int, ...], part: str) -> Box:
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


def tile_box(box: Box, size: int) -> list[Box]:
    """Returns the squares of side `size` that tile a box, row by row; a remainder is left out."""
    return [
        Box(box.image, top, left, size, size)
        for top in range(box.top, box.top + box.height - size + 1, size)
        for left in range(box.left, box.left + box.width - size + 1, size)
    ]


def fill_with_boxes(box: Box, smallest: int, largest: int, rng: np.random.RandomState) -> list[Box]:
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


def standardise_grey(patch: np.ndarray, mean: float, deviation: float) -> np.ndarray:
    """Returns a grey patch with a given mean and spread, so that brightness carries no label.

    Args:
      patch: uint8[height, width].
      mean, deviation: wanted grey level and spread, before clipping to 0..255.
    """
    whole = patch.astype(np.int64)
    centre = whole.sum() / whole.size
    spread = max((whole**2).sum() / whole.size - centre**2, 1.0) ** 0.5
    return np.clip(np.rint((whole - centre) / spread * deviation + mean), 0, 255).astype(np.uint8)


def encode(pixels: np.ndarray) -> bytes:
    """Returns an image as the bytes of a PGM or PPM file, which depend on no compressor's version.

    Args:
      pixels: uint8[height, width] or uint8[height, width, 3].
    """
    kind = b"P5" if pixels.ndim == 2 else b"P6"
    return kind + b" %d %d 255\n" % (pixels.shape[1], pixels.shape[0]) + pixels.tobytes()


def _encode_all(name: str, patches: Iterable[np.ndarray]) -> EncodedImages:
    files = map(encode, patches)
    return EncodedImages(SourceImage(file, f"{name}/{i}") for i, file in enumerate(files))


LabelledBoxes = dict[str, list[tuple[Box, int]]]
"""By part: what its samples are cut from, and their class ids."""


@functools.cache
def read_surface(name: str) -> np.ndarray:
    """Returns a whole image in grey, uint8[height, width]; the retina shrunk three times."""
    return read_image(name, grey=True, shrink=3 if name == "retina" else 1)


def _build_levelled(name: str, boxes: LabelledBoxes, classes: int, seed: int) -> DataSet:
    """Returns the data set of grey patches that are turned at random and brought to one level."""
    rng = np.random.RandomState(seed)
    parts = {}
    for part, pairs in boxes.items():
        cut = [
            standardise_grey(turn(box.cut(read_surface(box.image)), rng), 128, 48)
            for box, _ in pairs
        ]
        parts[part] = ArrayImages(np.stack(cut), name), np.array([label for _, label in pairs])
    return make_dataset(name, SINGLE_LABEL, parts, classes)


TEXTURES = ("brick", "grass", "gravel", "moon", "hubble", "page", "text", "retina")
TEXTURES_EACH = {"train": 72, "test": 32}
LEAST_SPREAD = {"brick": 12, "moon": 6, "hubble": 12, "page": 18, "text": 12, "retina": 4}


def label_textures() -> LabelledBoxes:
    """Returns the boxes of pico_textures, 24x24; those without contrast are left out."""
    rng = np.random.RandomState(1998)
    chosen: LabelledBoxes = {part: [] for part in TEXTURES_EACH}
    for part, most in TEXTURES_EACH.items():
        for label, name in enumerate(TEXTURES):
            tiles = tile_box(find_region(name, read_surface(name).shape, part), 24)
            usable = [tile for tile in tiles if _has_texture(tile)]
            chosen[part] += [(tile, label) for tile in draw(usable, most, rng)]
    return chosen


def _has_texture(box: Box) -> bool:
    patch = box.cut(read_surface(box.image))
    if box.image == "retina" and patch.min() < 30:  # beyond the round field of view
        return False
    return patch.std() >= LEAST_SPREAD.get(box.image, 0)


def build_textures() -> DataSet:
    """pico_textures: which surface does a patch show? uint8[n, 24, 24], 8 classes.

    Real: patches of scikit-image's sample images brick, grass, gravel, moon, hubble_deep_field
    (stars), page (print), text (handwriting) and retina (blood vessels; shrunk three times).
    Derived: every patch is turned by a random quarter turn and brought to the same mean and spread,
    so that brightness does not give the class away; patches without contrast are left out. Train is
    cut from the upper 70% of every image, test from the lowest 30% (page and text: left and right),
    with 8 pixels between; no two patches overlap. But train and test show the same wall, meadow or
    sheet of paper.
    """
    return _build_levelled("pico_textures", label_textures(), len(TEXTURES), 1999)


TISSUE_SHARES = ((0.0, 0.03), (0.15, 0.85), (0.97, 1.0))  # gland pixels: stroma, border, gland
TISSUE_EACH = {"train": 90, "test": 60}  # of every class
EMPTY_GLASS = 5  # grey levels; flatter patches are empty glass
WINDOW = 17


def _find_gland() -> np.ndarray:
    """Returns bool[height, width]: where the smoothed colour is brown."""
    colour = read_image("ihc").astype(np.int64)
    excess = np.pad(colour[..., 0] - colour[..., 2], WINDOW // 2, mode="edge")
    sums = np.pad(excess.cumsum(0).cumsum(1), ((1, 0), (1, 0)))
    w = WINDOW
    return sums[w:, w:] - sums[:-w, w:] - sums[w:, :-w] + sums[:-w, :-w] > 20 * w * w


@functools.cache
def label_tissue() -> LabelledBoxes:
    """Returns the boxes of pico_tissue, 20x20."""
    gland, rng = _find_gland(), np.random.RandomState(2021)
    chosen: LabelledBoxes = {part: [] for part in TISSUE_EACH}
    for part, most in TISSUE_EACH.items():
        tiles = tile_box(find_region("ihc", gland.shape, part), 20)
        tiles = [tile for tile in tiles if tile.cut(read_surface("ihc")).std() >= EMPTY_GLASS]
        for label, (least, greatest) in enumerate(TISSUE_SHARES):
            fit = [tile for tile in tiles if least <= tile.cut(gland).mean() <= greatest]
            chosen[part] += [(tile, label) for tile in draw(fit, most, rng)]
    return chosen


def build_tissue() -> DataSet:
    """pico_tissue: stroma, border or gland? uint8[n, 20, 20], 3 classes.

    Real: patches of scikit-image's sample image ihc, colonic glands stained brown (FHL2 by DAB) and
    counterstained blue. Derived: the labels, from the colour by a rule and not by a pathologist;
    the images are then made grey and brought to the same mean and spread, so that the label has to
    be read from the structure. The rule: a pixel is gland where red exceeds blue by 20 levels in
    the mean over the 17x17 pixels about it; a patch is stroma up to 3% of such pixels, gland from
    97%, border from 15 to 85%, and left out between. Train is cut from the upper 70% of the image,
    test from the lowest 30%, with 8 pixels between, without overlap; both show the same specimen.
    """
    return _build_levelled("pico_tissue", label_tissue(), len(TISSUE_SHARES), 2022)


SURFACES = ("brick", "grass", "gravel", "moon", "hubble", "page")
MOSAICS = {"train": 420, "test": 180}
SMALLEST_PIECE, LARGEST_PIECE = 22, 32


def _draw_pieces(part: str, rng: np.random.RandomState) -> list[Box]:
    """Draws the four boxes of one mosaic, row by row; every box fits its place in the grid."""
    kinds = rng.permutation(len(SURFACES))[: rng.randint(1, 4)]
    cells = rng.permutation(np.resize(kinds, 4))  # each of the kinds at least once
    heights = rng.randint(SMALLEST_PIECE, LARGEST_PIECE + 1, 2)
    widths = rng.randint(SMALLEST_PIECE, LARGEST_PIECE + 1, 2)
    pieces = []
    for cell, kind in enumerate(cells):
        name = SURFACES[kind]
        height, width = int(heights[cell // 2]), int(widths[cell % 2])
        whole = find_region(name, read_surface(name).shape, part)
        top = whole.top + rng.randint(whole.height - height + 1)
        left = whole.left + rng.randint(whole.width - width + 1)
        pieces.append(Box(name, top, left, height, width))
    return pieces


def plan_mosaics() -> Iterator[tuple[str, list[list[Box]]]]:
    """Yields each part of pico_mosaic with the four boxes of every mosaic."""
    rng = np.random.RandomState(2010)
    for part, count in MOSAICS.items():
        yield part, [_draw_pieces(part, rng) for _ in range(count)]


def _make_mosaic(pieces: list[Box], rng: np.random.RandomState) -> np.ndarray:
    cut = []
    for box in pieces:
        patch = box.cut(read_surface(box.image))
        patch = patch[:: rng.choice((-1, 1)), :: rng.choice((-1, 1))]
        cut.append(standardise_grey(patch, rng.randint(100, 156), rng.randint(30, 51)))
    return np.block([cut[:2], cut[2:]])


def build_mosaic() -> DataSet:
    """pico_mosaic: which surfaces occur in a mosaic? 420 train and 180 test images, grey, sides of
    44 to 64 pixels; uint8[n, 6] labels.

    Real: the surfaces, from six of the images of pico_textures. Derived: the mosaic of two by two
    pieces, its grid line drawn at random, each piece mirrored at random and given a brightness
    and contrast of its own; one to three surfaces occur. Train and test pieces come from the same
    regions as those of pico_textures. Pieces of one part may overlap each other, so a dev split
    that is drawn from train is somewhat easier than test.
    """
    rng = np.random.RandomState(2011)
    parts = {}
    for part, plan in plan_mosaics():
        images = _encode_all(f"pico_mosaic/{part}", (_make_mosaic(four, rng) for four in plan))
        shown = [{box.image for box in four} for four in plan]
        labels = np.array([[name in names for name in SURFACES] for names in shown], np.uint8)
        parts[part] = images, labels
    return make_dataset("pico_mosaic", MULTI_LABEL, parts, len(SURFACES))


SCENES = (
    "sky", "foliage", "building", "petals", "fur", "wood", "ceramic", "fabric", "machine", "floor"
)  # fmt: skip
SCENES_EACH = {"train": 44, "test": 20}  # of every class

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
def label_scenes() -> LabelledBoxes:
    """Returns the boxes of pico_scenes, with sides of 18 to 44 pixels."""
    rng = np.random.RandomState(2020)
    chosen: LabelledBoxes = {part: [] for part in SCENES_EACH}
    for part, most in SCENES_EACH.items():
        for label, name in enumerate(SCENES):
            filled = []
            for in_part, shows, image, top, left, bottom, right in AREAS:
                if (in_part, shows) == (part, name):
                    area = Box(image, top, left, bottom - top, right - left)
                    filled += fill_with_boxes(area, 18, 44, rng)
            chosen[part] += [(box, label) for box in draw(filled, most, rng)]
    return chosen


def build_scenes() -> DataSet:
    """pico_scenes: what does a piece of a photograph show? RGB, sides of 18 to 44 pixels, 10
    classes.

    Real: pieces of photographs that scikit-learn, scikit-image and matplotlib carry. The label is
    that of the area that the piece was cut from; the areas were outlined by hand for this project
    (`AREAS`), roughly, as rectangles. Pieces have random sizes and never overlap. Train and test
    areas are disjoint, and where a class is in two photographs, or in two places of one, they
    differ in place; but most classes come from one photograph.
    """
    photographs = {name: read_image(name) for name in sorted({area[2] for area in AREAS})}
    parts = {}
    for part, pairs in label_scenes().items():
        cut = (box.cut(photographs[box.image]) for box, _ in pairs)
        labels = np.array([label for _, label in pairs])
        parts[part] = _encode_all(f"pico_scenes/{part}", cut), labels
    return make_dataset("pico_scenes", SINGLE_LABEL, parts, len(SCENES))
