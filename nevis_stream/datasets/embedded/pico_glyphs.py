"""pico_glyphs: which capital letter is it? 28x28 grey, 10 classes (A to J).

Rendered: letters A to J of the TrueType fonts that matplotlib carries, white on black, turned by up
to 10 degrees, moved and resized at random. Train uses the DejaVu families (sans, mono and serif, in
four styles each), test uses STIX and Computer Modern: no font, family or maker is in both. A dev
split drawn from train has train's fonts, and is therefore easier than test.
"""

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from nevis_stream.datasets.dataset import SINGLE_LABEL, DataSet, make_dataset
from nevis_stream.datasets.embedded import sources
from nevis_stream.datasets.images import ArrayImages

VERSION = 1
LETTERS = "ABCDEFGHIJ"
SIZE = 28
SCALE = 2  # letters are drawn this much larger, then averaged down
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
DRAWS = {"train": 5, "test": 3}  # of every letter in every font


def _render(letter: str, font: ImageFont.FreeTypeFont, rng: np.random.RandomState) -> np.ndarray:
    side = SIZE * SCALE
    canvas = Image.new("L", (side, side), 0)
    left, top, right, bottom = font.getbbox(letter)
    shift_x, shift_y = rng.randint(-SCALE, SCALE + 1, 2)
    corner = (side - left - right) // 2 + shift_x, (side - top - bottom) // 2 + shift_y
    ImageDraw.Draw(canvas).text(corner, letter, fill=255, font=font)
    turned = canvas.rotate(float(rng.uniform(-10, 10)), Image.Resampling.BILINEAR)
    return np.asarray(turned.reduce(SCALE))


def _letters(font_name: str, draws: int, rng: np.random.RandomState) -> list[np.ndarray]:
    path = str(sources.find("matplotlib", f"{sources.FONT_FOLDER}/{font_name}.ttf"))
    rendered = []
    for _ in range(draws):
        points = int(rng.randint(19, 26)) * SCALE
        # The basic layout needs no shaping library, whose version would matter.
        font = ImageFont.truetype(path, points, layout_engine=ImageFont.Layout.BASIC)
        rendered += [_render(letter, font, rng) for letter in LETTERS]
    return rendered


def build() -> DataSet:
    """Returns the data set: uint8[600, 28, 28] train, uint8[270, 28, 28] test, 10 classes."""
    rng = np.random.RandomState(2016)
    parts = {}
    for part, fonts in FONTS.items():
        pixels = np.stack([glyph for f in fonts for glyph in _letters(f, DRAWS[part], rng)])
        labels = np.tile(np.arange(len(LETTERS)), len(fonts) * DRAWS[part])
        parts[part] = ArrayImages(pixels, "pico_glyphs"), labels
    return make_dataset("pico_glyphs", SINGLE_LABEL, parts, len(LETTERS))
