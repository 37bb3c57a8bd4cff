"""Rendering and encoding: soft masks of polygons, rotated glyph-like layers, and images as bytes.

Everything is drawn `SCALE` times larger and averaged down, which gives soft edges. Rendered pixels
may differ between versions of Pillow and FreeType; within one installation they are the same at
every call.
"""

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw

SCALE = 4


def polygon_mask(size: int, layers: Sequence[tuple[np.ndarray, bool]]) -> np.ndarray:
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


def regular_polygon(corners: int, radius: float = 1.0) -> np.ndarray:
    """Returns float[corners, 2]: (x, y) of a regular polygon about the origin, the first on top."""
    angles = 2 * np.pi * np.arange(corners) / corners
    return radius * np.stack([np.sin(angles), -np.cos(angles)], axis=1)


def rotation(degrees: float) -> np.ndarray:
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


def encode(pixels: np.ndarray) -> bytes:
    """Returns an image as the bytes of a PGM or PPM file, which depend on no compressor's version.

    Args:
      pixels: uint8[height, width] or uint8[height, width, 3].
    """
    kind = b"P5" if pixels.ndim == 2 else b"P6"
    return kind + b" %d %d 255\n" % (pixels.shape[1], pixels.shape[0]) + pixels.tobytes()
