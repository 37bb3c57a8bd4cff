"""The one place where image files are opened: a file becomes what a viewer shows, or is refused.

| in the file                                | becomes                                                 |
|--------------------------------------------|---------------------------------------------------------|
| an EXIF orientation                        | the image turned or mirrored as it says                 |
| transparency: alpha, palette, tRNS         | composited on a background, white unless another is chosen |
| 16-bit grey                                | 8 bits, by the full range of the type: 65535 becomes 255  |
| bilevel                                    | grey 0 and 255                                          |
| palette, CMYK, YCbCr, LAB, 16-bit colours  | RGB                                                     |
| several frames or pages                    | the first                                               |
| floating-point or 32-bit integer pixels    | refused: their range is unknown                         |

Embedded colour profiles are not applied, except that LAB is converted to sRGB.
"""  # noqa: E501

import functools
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from PIL import Image, ImageColor, UnidentifiedImageError

from nevis_stream.errors import BadInput, DataWarning

# `open_image` warns of large images instead, with the name of the file; damaged EXIF and MPO
# blocks are common in photographs, and a viewer shows those as they are
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)
warnings.filterwarnings("ignore", "Corrupt EXIF data", UserWarning)
warnings.filterwarnings("ignore", "Image appears to be a malformed MPO file", UserWarning)

# Without EPS, PDF and WMF, for which Pillow starts other programs or draws; formats that are
# recognised by few bytes come last
FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "AVIF", "BMP", "TIFF", "JPEG2000", "PPM", "QOI")
FORMATS += ("SUN", "SGI", "DIB", "XPM", "XBM", "PCX", "TGA")
"""Pillow's names of the formats that are read."""
WHITE = (255, 255, 255)
Colour = tuple[int, int, int]

TURNED = "turned as its EXIF orientation says"
TRANSPARENT = "transparent, composited on the background"
SCALED = "16-bit grey image, scaled to 8 bits (65535 becomes 255)"
DARK = (
    "nearly black, since none of its 16-bit values is above 4095; if it has 12 bits, multiply them"
    " by 16 and save it again"
)
CONVERTED = "in other colours than RGB (CMYK, YCbCr or LAB), converted"
FRAMES = "has several frames, of which only the first is used"
CHANGES = (TURNED, TRANSPARENT, SCALED, DARK, CONVERTED, FRAMES)
"""What may be done with the pixels of a file, as a message says it after the file's name."""

_ORIENTATION = 0x0112
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_BITS, _PHOTOMETRIC, _MIN_IS_WHITE = 258, 262, 0  # of TIFF
_GREY_STEPS = {"L;2": 85, "L;4": 17}  # from 2 and 4 bits to 8
_COLOUR_SPACES = ("CMYK", "YCbCr", "LAB", "HSV")


@dataclass(frozen=True)
class Decoded:
    """A decoded image.

    Attributes:
      image: in mode L or RGB. Its `format` is that of the file if these are the very pixels that
        any reader of the file gets, else None.
      changes: what was done, of `CHANGES`.
    """

    image: Image.Image
    changes: tuple[str, ...] = ()


@functools.cache
def list_formats() -> tuple[str, ...]:
    """Returns those of `FORMATS` that the installed Pillow knows."""
    Image.init()
    return tuple(name for name in FORMATS if name in Image.OPEN)


@functools.cache
def list_suffixes() -> frozenset[str]:
    """Returns the endings of the names of image files that are read, in lower case: ".png", …"""
    read = {*list_formats(), "MPO"}  # which is opened as JPEG
    extensions = Image.registered_extensions()
    return frozenset(suffix for suffix, name in extensions.items() if name in read)


def parse_colour(text: str) -> Colour:
    """Returns red, green and blue, 0 to 255, of a colour: "white", "#ff0000", …; white if empty.

    Raises:
      BadInput: it is no colour, or a transparent one.
    """
    try:
        red, green, blue = ImageColor.getrgb(text.strip() or "white")
    except ValueError:
        raise BadInput(
            f"background {text!r} is not a colour; valid: a name such as white, black or grey, or"
            " #rrggbb."
        ) from None
    return red, green, blue


def open_image(source: BinaryIO | Path, name: str) -> Image.Image:
    """Opens an image file without decoding it, and warns if it has very many pixels.

    Raises:
      Exception: what Pillow raises for a file that is not an image, or has far too many pixels.
    """
    image = Image.open(source, formats=list_formats())
    pixels = image.width * image.height
    if Image.MAX_IMAGE_PIXELS and pixels > Image.MAX_IMAGE_PIXELS:
        warnings.warn(
            f"{name}: {image.width}×{image.height} pixels take {pixels * 3 // 10**6:,} MB when"
            " decoded. If the image should not be that large, remove it: it may be a decompression"
            " bomb.",
            DataWarning,
            stacklevel=1,  # the same place for all callers, so that a file gives one warning
        )
    return image


def explain_viewers(image: Image.Image) -> str:
    """Returns why a viewer shows other pixels than an opened file stores; empty if it does not."""
    if _find_turn(image) is not None:
        return "has an orientation"
    return "is transparent" if image.has_transparency_data else ""


def decode(
    source: BinaryIO | Path,
    name: str,
    background: Colour = WHITE,
    box: tuple[int, int, int, int] | None = None,
) -> Decoded:
    """Decodes an image file as the module's table says.

    Args:
      source: the file.
      name: what an error message calls it.
      background: behind transparent pixels.
      box: left, top, right, bottom of the piece that is wanted, cut to the image; in the pixels as
        they are stored, before an orientation is applied: so are the boxes of published
        annotations.

    Raises:
      BadInput: no image, a damaged one, pixels whose range is unknown, or a box that contains none.
    """
    try:
        image = open_image(source, name)
        frames = getattr(image, "n_frames", 1)
        # before the pixels are read: then Pillow turns a TIFF itself and drops its orientation
        turn = _find_turn(image) if image.format == "TIFF" else None
        _scale_clear_colour(image)
        image.load()
        mode = image.mode
        piece = image if box is None else image.crop(_cut_box(box, image, name))
        eight = _scale_to_8_bits(piece, image, name)
        flat, transparent = _flatten(eight, background)
        to_turn = turn is None and (turn := _find_turn(image)) is not None
        turned = flat.transpose(turn) if to_turn else flat
    except BadInput:
        raise
    except Exception as error:
        why = error
        if isinstance(error, UnidentifiedImageError):
            why = f"of no format, or with no kind of pixels, that is read: {', '.join(FORMATS)}"
        raise BadInput(
            f"{name}: cannot be read as an image ({why}). Replace the file, or leave it out."
        ) from None
    done = {
        TURNED: turn is not None,
        TRANSPARENT: transparent,
        SCALED: mode.startswith("I"),
        DARK: mode.startswith("I")
        and image.getextrema()[1] < 2**12
        and 12 not in _read_bits(image),
        CONVERTED: mode in _COLOUR_SPACES,
        FRAMES: frames > 1,
    }
    return Decoded(turned, tuple(change for change, is_done in done.items() if is_done))


def convert(image: Image.Image, name: str, background: Colour = WHITE) -> Image.Image:
    """Returns an opened image in mode L or RGB, as a viewer shows it.

    Args:
      image: the image, of any mode.
      name: what an error message calls it.
      background: behind transparent pixels.

    Raises:
      BadInput: its pixels have an unknown range.
    """
    turn = _find_turn(image)
    flat, _ = _flatten(_scale_to_8_bits(image, image, name), background)
    return flat if turn is None else flat.transpose(turn)


def _cut_box(
    box: tuple[int, int, int, int], image: Image.Image, name: str
) -> tuple[int, int, int, int]:
    left, top, right, bottom = box
    width, height = image.size
    cut = max(0, left), max(0, top), min(right, width), min(bottom, height)
    if cut[0] >= cut[2] or cut[1] >= cut[3]:
        raise BadInput(
            f"{name}: the box from ({left}, {top}) to ({right}, {bottom}) is empty, or outside of"
            f" the image of {width}×{height} pixels. Correct the annotation, or remove it."
        )
    return cut


def _find_turn(image: Image.Image) -> Image.Transpose | None:
    """Returns how an image must be turned; None for one that is upright, or says nothing."""
    try:
        return _TURNS.get(image.getexif().get(_ORIENTATION, 1))
    except Exception:  # a damaged block: whatever its parser raises, a viewer shows the image
        return None


def _scale_clear_colour(image: Image.Image) -> None:
    """Gives the transparent colour of a PNG 8 bits, as Pillow gives its pixels."""
    clear = image.info.get("transparency")
    tiles = getattr(image, "tile", None)  # of an image that is read from a file
    if image.format != "PNG" or clear is None or not tiles:
        return
    stored = tiles[0].args
    if stored in _GREY_STEPS:
        image.info["transparency"] = clear * _GREY_STEPS[stored]
    elif stored == "RGB;16B":
        image.info["transparency"] = tuple(value >> 8 for value in clear)


def _flatten(image: Image.Image, background: Colour) -> tuple[Image.Image, bool]:
    """Returns an image in L or RGB, and whether any pixel was transparent."""
    grey = image.mode in ("1", "L", "LA", "La")
    transparent = False
    if image.has_transparency_data:
        if image.mode in ("La", "RGBa"):  # premultiplied
            image = image.convert("LA" if grey else "RGBA")
        image = image.convert("RGBA")
        transparent = image.getextrema()[3][0] < 255
        if transparent:
            ground = Image.new("RGBA", image.size, (*background, 255))
            image = Image.alpha_composite(ground, image)
            grey = grey and len(set(background)) == 1
        return image.getchannel(0) if grey else image.convert("RGB"), transparent
    if image.mode in ("L", "RGB"):
        return image, transparent
    return image.convert("L" if grey else "RGB"), transparent


def flatten(pixels: np.ndarray, background: Colour = WHITE) -> np.ndarray:
    """Returns uint8[h, w, 3]: pixels uint8[h, w, 4] (RGBA) composited on a background."""
    return np.asarray(_flatten(Image.fromarray(np.ascontiguousarray(pixels)), background)[0])


def _read_bits(file: Image.Image) -> tuple[int, ...]:
    """Returns the bits of each channel, as a TIFF says; empty for other formats."""
    return getattr(file, "tag_v2", {}).get(_BITS, ())


def _scale_to_8_bits(image: Image.Image, file: Image.Image, name: str) -> Image.Image:
    """Returns a decoded image with 8 bits per channel.

    Pillow's `convert` clips 16-bit grey values at 255 instead of scaling them, which makes nearly
    every such image white.

    Args:
      image: the image, or a piece of it.
      file: the image as it was opened, with the facts of its format.
      name: of the file, for the message.

    Raises:
      BadInput: floating-point pixels, or integers of more than 16 bits, whose range is unknown.
    """
    if image.mode == "F":
        raise BadInput(
            f"{name}: its pixels are floating-point numbers (mode F), whose range is unknown. Save"
            " it as an 8-bit or 16-bit image."
        )
    if not image.mode.startswith("I"):
        return image
    values = np.asarray(image).astype(np.int64)
    tags = getattr(file, "tag_v2", {})
    most = 2**12 - 1 if 12 in _read_bits(file) else 2**16 - 1
    # Pillow opens 16-bit PNG and PNM as mode I too, with the range of 16 bits
    known = image.mode != "I" or file.format in ("PNG", "PPM")
    if not known or values.min(initial=0) < 0 or values.max(initial=0) > most:
        raise BadInput(
            f"{name}: its pixels are integers from {values.min()} to {values.max()} of unknown"
            f" range (mode {image.mode}); valid: 8 bits, or 16 bits (0 to {most}). Save it as an"
            " 8-bit or 16-bit image."
        )
    grey = ((values * 255 + most // 2) // most).astype(np.uint8)
    if tags.get(_PHOTOMETRIC) == _MIN_IS_WHITE:
        grey = 255 - grey
    scaled = Image.fromarray(grey)
    if (clear := file.info.get("transparency")) is not None:
        scaled.putalpha(Image.fromarray(np.where(values == clear, 0, 255).astype(np.uint8)))
    return scaled


def mention_others(names: Sequence[str]) -> str:
    """Returns the end of a message about several files of which it names the first; "" for one."""
    return f"; the same holds for {len(names) - 1} more" if len(names) > 1 else ""


def name_colour(background: Colour) -> str:
    """Returns a colour as a person would write it.

    >>> name_colour((255, 255, 255)), name_colour((7, 7, 7))
    ('white', '#070707')
    """
    return "white" if background == WHITE else "#{:02x}{:02x}{:02x}".format(*background)


def summarise_changes(
    changes: Iterable[tuple[str, Sequence[str]]], background: Colour = WHITE
) -> list[str]:
    """Returns one line for each kind of change: an example, and how many more there are.

    Args:
      changes: pairs of a file's name and the changes of its pixels.
      background: behind transparent pixels.
    """
    by_change: dict[str, list[str]] = {}
    for name, of_file in changes:
        for change in of_file:
            by_change.setdefault(change, []).append(name)
    said = {TRANSPARENT: f"{TRANSPARENT}, {name_colour(background)}"}
    return [
        f"{by_change[change][0]}: {said.get(change, change)}{mention_others(by_change[change])}."
        for change in CHANGES
        if change in by_change
    ]
