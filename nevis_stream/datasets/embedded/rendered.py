"""Data sets that are rendered: shapes, letters, and real coins on a rendered ground.

Everything is drawn larger and averaged down, which gives soft edges. Rendered pixels may differ
between versions of Pillow and FreeType; within one installation they are the same at every call.
"""

import functools
from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from nevis_stream.datasets.dataset import SINGLE_LABEL, DataSet, make_dataset
from nevis_stream.datasets.embedded.packaged import FONT_FOLDER, find, read_image
from nevis_stream.datasets.embedded.patches import Box
from nevis_stream.datasets.images import ArrayImages

SCALE = 4  # polygons are drawn this much larger, then averaged down


def draw_polygons(size: int, layers: Sequence[tuple[np.ndarray, bool]]) -> np.ndarray:
    """Draws filled polygons one upon the other.

    Args:
      size: side of the result, in pixels.
      layers: of each, the corners as float[corners, 2] of (x, y) in pixels of the result, and
        whether it fills or clears.

    Returns:
      uint8[size, size], 255 where filled.
    """
    canvas = Image.new("L", (size * SCALE, size * SCALE), 0)
    pencil = ImageDraw.Draw(canvas)
    for corners, fills in layers:
        points = np.rint(corners * SCALE).astype(int)
        pencil.polygon([tuple(point) for point in points.tolist()], fill=255 if fills else 0)
    return np.asarray(canvas.reduce(SCALE))


def make_regular_polygon(corners: int, radius: float = 1.0) -> np.ndarray:
    """Returns float[corners, 2]: (x, y) of a regular polygon about the origin, the first on top."""
    angles = 2 * np.pi * np.arange(corners) / corners
    return radius * np.stack([np.sin(angles), -np.cos(angles)], axis=1)


def make_rotation(degrees: float) -> np.ndarray:
    """Returns float[2, 2]: the matrix that turns row vectors (x, y) by an angle."""
    cos, sin = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    return np.array([[cos, sin], [-sin, cos]])


def blend(mask: np.ndarray, ink: np.ndarray | int, paper: np.ndarray | int) -> np.ndarray:
    """Returns uint8 pixels: `ink` where the mask is 255, `paper` where it is 0, a mixture between.

    Args:
      mask: uint8[height, width].
      ink, paper: grey levels, or integer[height, width] of them.
    """
    share = mask.astype(np.int64)
    return ((share * ink + (255 - share) * paper + 127) // 255).clip(0, 255).astype(np.uint8)


SHAPE_SIZE = 28
SHAPES_EACH = {"train": 50, "test": 20}  # of every class


def _make_star() -> np.ndarray:
    points = make_regular_polygon(10)
    points[1::2] *= 0.42
    return points


def _make_heart() -> np.ndarray:
    t = np.linspace(0, 2 * np.pi, 40, endpoint=False)
    x = 16 * np.sin(t) ** 3
    y = 13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t)
    return np.stack([x, -y - 2], axis=1) / 15.5


def _make_outline(*corners: tuple[float, float]) -> np.ndarray:
    return np.array(corners)


_PLUS = _make_outline(
    (-0.3, -0.9), (0.3, -0.9), (0.3, -0.3), (0.9, -0.3), (0.9, 0.3), (0.3, 0.3),
    (0.3, 0.9), (-0.3, 0.9), (-0.3, 0.3), (-0.9, 0.3), (-0.9, -0.3), (-0.3, -0.3),
)  # fmt: skip
_ARROW = _make_outline(
    (0, -1),
    (0.75, -0.15),
    (0.28, -0.15),
    (0.28, 0.95),
    (-0.28, 0.95),
    (-0.28, -0.15),
    (-0.75, -0.15),
)
_CORNER = _make_outline(
    (-0.8, -0.9), (-0.25, -0.9), (-0.25, 0.35), (0.8, 0.35), (0.8, 0.9), (-0.8, 0.9)
)
_DISC = make_regular_polygon(36, 0.9)

# Outlines in a square from -1 to 1; True fills, False clears.
SHAPES = {
    "disc": [(_DISC, True)],
    "ring": [(_DISC, True), (make_regular_polygon(36, 0.5), False)],
    "crescent": [(_DISC, True), (make_regular_polygon(36, 0.75) + (0.45, 0), False)],
    "triangle": [(make_regular_polygon(3), True)],
    "square": [(make_regular_polygon(4, 1.05), True)],
    "star": [(_make_star(), True)],
    "plus": [(_PLUS, True)],
    "arrow": [(_ARROW, True)],
    "heart": [(_make_heart(), True)],
    "corner": [(_CORNER, True)],
}


def _render_shape(name: str, rng: np.random.RandomState) -> np.ndarray:
    stretch = np.diag(rng.uniform(0.8, 1.1, 2))
    matrix = make_rotation(rng.uniform(0, 360)) @ stretch @ make_rotation(rng.uniform(0, 360))
    matrix = matrix * rng.uniform(7.0, 11.0)
    centre = SHAPE_SIZE / 2 + rng.uniform(-2, 2, 2)
    mask = draw_polygons(SHAPE_SIZE, [(c @ matrix + centre, fills) for c, fills in SHAPES[name]])
    dark, light = rng.randint(0, 90), rng.randint(165, 256)
    ink, paper = (light, dark) if rng.randint(2) else (dark, light)
    noise = rng.randint(-12, 13, (SHAPE_SIZE, SHAPE_SIZE))
    return np.clip(blend(mask, ink, paper) + noise, 0, 255).astype(np.uint8)


def build_shapes() -> DataSet:
    """pico_shapes: which shape is it? uint8[500, 28, 28] train, uint8[200, 28, 28] test, 10
    classes.

    Rendered, nothing is real: one filled outline on a plain ground, at a random place, size, angle
    (any), stretch and pair of grey levels (light on dark or dark on light), with a little noise.
    Train and test are separate draws.
    """
    rng = np.random.RandomState(2001)
    parts = {}
    for part, count in SHAPES_EACH.items():
        pixels = np.stack([_render_shape(name, rng) for name in SHAPES for _ in range(count)])
        parts[part] = ArrayImages(pixels, "pico_shapes"), np.repeat(np.arange(len(SHAPES)), count)
    return make_dataset("pico_shapes", SINGLE_LABEL, parts, len(SHAPES))


LETTERS = "ABCDEFGHIJ"
LETTER_SIZE = 28
LETTER_SCALE = 2  # letters are drawn this much larger, then averaged down
FONTS = {
    "train": (
        "DejaVuSans", "DejaVuSans-Bold", "DejaVuSans-Oblique", "DejaVuSans-BoldOblique",
        "DejaVuSansMono", "DejaVuSansMono-Bold", "DejaVuSansMono-Oblique",
        "DejaVuSansMono-BoldOblique",
        "DejaVuSerif", "DejaVuSerif-Bold", "DejaVuSerif-Italic", "DejaVuSerif-BoldItalic",
    ),
    "test": (
        "STIXGeneral", "STIXGeneralBol", "STIXGeneralItalic", "STIXGeneralBolIta",
        "cmr10", "cmb10", "cmss10", "cmtt10", "cmti10",
    ),
}  # fmt: skip
GLYPHS_EACH = {"train": 5, "test": 3}  # of every letter in every font


def _render_glyph(
    letter: str, font: ImageFont.FreeTypeFont, rng: np.random.RandomState
) -> np.ndarray:
    side = LETTER_SIZE * LETTER_SCALE
    canvas = Image.new("L", (side, side), 0)
    left, top, right, bottom = font.getbbox(letter)
    shift_x, shift_y = rng.randint(-LETTER_SCALE, LETTER_SCALE + 1, 2)
    corner = (side - left - right) // 2 + shift_x, (side - top - bottom) // 2 + shift_y
    ImageDraw.Draw(canvas).text(corner, letter, fill=255, font=font)
    turned = canvas.rotate(float(rng.uniform(-10, 10)), Image.Resampling.BILINEAR)
    return np.asarray(turned.reduce(LETTER_SCALE))


def _render_letters(font_name: str, draws: int, rng: np.random.RandomState) -> list[np.ndarray]:
    path = str(find("matplotlib", f"{FONT_FOLDER}/{font_name}.ttf"))
    rendered = []
    for _ in range(draws):
        points = int(rng.randint(19, 26)) * LETTER_SCALE
        # The basic layout needs no shaping library, whose version would matter.
        font = ImageFont.truetype(path, points, layout_engine=ImageFont.Layout.BASIC)
        rendered += [_render_glyph(letter, font, rng) for letter in LETTERS]
    return rendered


def build_glyphs() -> DataSet:
    """pico_glyphs: which capital letter is it? uint8[600, 28, 28] train, uint8[270, 28, 28] test,
    10 classes (A to J).

    Rendered: letters A to J of the TrueType fonts that matplotlib carries, white on black, turned
    by up to 10 degrees, moved and resized at random. Train uses the DejaVu families (sans, mono and
    serif, in four styles each), test uses STIX and Computer Modern: no font, family or maker is in
    both. A dev split drawn from train has train's fonts, and is therefore easier than test.
    """
    rng = np.random.RandomState(2016)
    parts = {}
    for part, fonts in FONTS.items():
        pixels = np.stack(
            [glyph for f in fonts for glyph in _render_letters(f, GLYPHS_EACH[part], rng)]
        )
        labels = np.tile(np.arange(len(LETTERS)), len(fonts) * GLYPHS_EACH[part])
        parts[part] = ArrayImages(pixels, "pico_glyphs"), labels
    return make_dataset("pico_glyphs", SINGLE_LABEL, parts, len(LETTERS))


GROUND_SIZE = 48
MOST_COINS = 5
SCENES_EACH = {"train": 90, "test": 40}  # of every number of coins

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


def find_coin_boxes() -> dict[str, list[Box]]:
    """Returns the box around every coin of each part."""
    return {
        part: [Box("coins", y - r, x - r, 2 * r + 1, 2 * r + 1) for x, y, r in coins]
        for part, coins in COINS.items()
    }


def _place_coins(count: int, rng: np.random.RandomState) -> list[tuple[int, int, int]]:
    """Draws (top, left, diameter) of coins that do not touch each other or the border."""
    placed: list[tuple[int, int, int]] = []
    while len(placed) < count:
        size = int(rng.randint(10, 15))
        top, left = (int(v) for v in rng.randint(1, GROUND_SIZE - size, 2))
        if all(
            (2 * top + size - 2 * t - s) ** 2 + (2 * left + size - 2 * x - s) ** 2
            > (size + s + 4) ** 2
            for t, x, s in placed
        ):
            placed.append((top, left, size))
    return placed


@functools.cache
def _render_disc(size: int) -> np.ndarray:
    disc = make_regular_polygon(32, size / 2 - 0.3) + size / 2
    return draw_polygons(size, [(disc, True)])


def _render_coins(coins: list[Image.Image], count: int, rng: np.random.RandomState) -> np.ndarray:
    slope = rng.randint(-12, 13, 2)
    rows, columns = np.mgrid[:GROUND_SIZE, :GROUND_SIZE]
    ground = rng.randint(35, 65) + (rows * slope[0] + columns * slope[1]) // GROUND_SIZE
    scene = ground + rng.randint(-8, 9, (GROUND_SIZE, GROUND_SIZE))
    for top, left, size in _place_coins(count, rng):
        coin = coins[rng.randint(len(coins))].rotate(
            float(rng.uniform(0, 360)), Image.Resampling.BILINEAR
        )
        coin = np.asarray(coin.resize((size, size), Image.Resampling.BILINEAR))
        spot = np.s_[top : top + size, left : left + size]
        scene[spot] = blend(_render_disc(size), coin, scene[spot])
    return np.clip(scene, 0, 255).astype(np.uint8)


def build_coins() -> DataSet:
    """pico_coins: how many coins? uint8[450, 48, 48] train, uint8[200, 48, 48] test, 5 classes
    (class id = number of coins - 1).

    Real: the coins, 24 Greek coins from Pompeii in scikit-image's sample image coins. Derived: the
    scene, in which one to five coins, resized and turned at random, lie apart from each other on a
    rendered ground (a grey slope with noise). The coins of the image's first three rows are in
    train, the six of its last row in test. The same coin occurs in many images of its part.
    """
    rng = np.random.RandomState(2019)
    photograph = read_image("coins", grey=True)
    parts = {}
    for part, around in find_coin_boxes().items():
        coins = [Image.fromarray(box.cut(photograph)) for box in around]
        counts = np.repeat(np.arange(1, MOST_COINS + 1), SCENES_EACH[part])
        pixels = np.stack([_render_coins(coins, count, rng) for count in counts])
        parts[part] = ArrayImages(pixels, "pico_coins"), counts - 1
    return make_dataset("pico_coins", SINGLE_LABEL, parts, MOST_COINS)
