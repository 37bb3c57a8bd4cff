"""Images of a raw data set, opened only when needed: in a file, a box of one, or an array."""

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from PIL import Image, UnidentifiedImageError

from nevis_stream.datasets.images import eight_bits, open_image
from nevis_stream.errors import BadInput


class SourceImage(Protocol):
    """One image of a raw data set.

    Attributes:
      name: what an error message calls it.
    """

    name: str

    def open(self) -> Image.Image:
        """Returns the decoded image.

        Raises:
          BadInput: it cannot be decoded.
        """
        ...

    def encoded(self) -> bytes | None:
        """Returns the bytes of its file, or None where it is no file of its own."""
        ...


def _decode(name: str, source) -> Image.Image:
    try:
        image = open_image(source, name)
        image.load()
    except Exception as error:
        why = "of no known format" if isinstance(error, UnidentifiedImageError) else error
        raise BadInput(
            f"{name}: cannot be read as an image ({why}). Replace the file, or fetch the archive"
            " again."
        ) from None
    if len(image.getbands()) == 2:
        image = image.convert(image.getbands()[0])
    return eight_bits(image, name)


@dataclass(frozen=True, slots=True)
class FileImage(SourceImage):
    """An image in a file of its own."""

    path: Path

    @property
    def name(self) -> str:
        """What an error message calls it."""
        return str(self.path)

    def open(self) -> Image.Image:
        return _decode(self.name, self.path)

    def encoded(self) -> bytes | None:
        return self.path.read_bytes()


@dataclass(frozen=True, slots=True)
class BytesImage(SourceImage):
    """An image whose file is held in memory."""

    data: bytes
    name: str

    def open(self) -> Image.Image:
        return _decode(self.name, io.BytesIO(self.data))

    def encoded(self) -> bytes | None:
        return self.data


@dataclass(frozen=True, slots=True)
class Crop(SourceImage):
    """A box of an image file: left, top, right, bottom in pixels, cut to the image."""

    path: Path
    box: tuple[int, int, int, int]

    @property
    def name(self) -> str:
        """What an error message calls it."""
        return f"{self.path}, box {self.box}"

    def open(self) -> Image.Image:
        image = _decode(str(self.path), self.path)
        left, top, right, bottom = self.box
        return image.crop(
            (max(0, left), max(0, top), min(right, image.width), min(bottom, image.height))
        )

    def encoded(self) -> bytes | None:
        return None


@dataclass(frozen=True, slots=True)
class PixelImage(SourceImage):
    """Pixels that a function returns: uint8[h, w] or [h, w, 3]."""

    pixels: Callable[[], np.ndarray]
    name: str

    def open(self) -> Image.Image:
        return Image.fromarray(np.ascontiguousarray(self.pixels()))

    def encoded(self) -> bytes | None:
        return None


def rows_of(array: np.ndarray, name: str) -> list[PixelImage]:
    """Returns one image for each entry of uint8[n, h, w(, c)]; a single channel is dropped."""
    if array.ndim == 4 and array.shape[3] == 1:
        array = array[..., 0]
    return [PixelImage(lambda i=i: array[i], f"{name}[{i}]") for i in range(len(array))]
