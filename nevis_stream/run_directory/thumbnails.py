"""Rows of a task's images, for people to see."""

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from nevis_stream.datasets.images import Images
from nevis_stream.storage import write_file

COUNT = 12
SIDE = 48
_GAP = 2


def write_thumbnails(path: Path, images: Images) -> None:
    """Writes a PNG of up to 12 images, evenly spaced, unless the file exists."""
    if path.exists():
        return
    picked = np.unique(np.linspace(0, len(images) - 1, min(COUNT, len(images))).astype(int))
    write_file(path, strip(images, picked))


def strip(images: Images, picked: Sequence[int]) -> bytes:
    """Returns a PNG of the picked images in a row, each within 48x48 pixels."""
    row = Image.new("RGB", (len(picked) * (SIDE + _GAP) - _GAP, SIDE), "white")
    for position, index in enumerate(picked):
        image = Image.fromarray(images[index])
        image = image.resize(_fit(image.size), Image.Resampling.BICUBIC)
        left = position * (SIDE + _GAP) + (SIDE - image.width) // 2
        row.paste(image, (left, (SIDE - image.height) // 2))
    with io.BytesIO() as buffer:
        row.save(buffer, "PNG")
        return buffer.getvalue()


def _fit(size: tuple[int, int]) -> tuple[int, int]:
    scale = SIDE / max(size)
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))
