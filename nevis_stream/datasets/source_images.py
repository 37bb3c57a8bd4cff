"""Images of a raw data set, opened only when needed: in a file, a box of one, or an array."""

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from PIL import Image

from nevis_stream.datasets.decoding import WHITE, Colour, decode
from nevis_stream.storage.reading import read_bytes


class SourceImage(Protocol):
    """One image of a raw data set.

    Attributes:
      name: what an error message calls it.
    """

    name: str

    def open(self) -> Image.Image:
        """Returns the decoded image, in mode L or RGB.

        Its `format` is that of the file only if these are the file's own pixels.

        Raises:
          BadInput: it cannot be decoded.
        """
        ...

    def encode(self) -> bytes | None:
        """Returns the bytes of its file, or None where it is no file of its own."""
        ...


@dataclass(frozen=True, slots=True)
class FileImage(SourceImage):
    """An image in a file of its own."""

    path: Path

    @property
    def name(self) -> str:
        """What an error message calls it."""
        return str(self.path)

    def open(self) -> Image.Image:
        return decode(self.path, self.name).image

    def encode(self) -> bytes | None:
        return read_bytes(self.path)


@dataclass(frozen=True, slots=True)
class BytesImage(SourceImage):
    """An image whose file is held in memory, and the colour behind its transparent pixels."""

    data: bytes
    name: str
    background: Colour = WHITE

    def open(self) -> Image.Image:
        return decode(io.BytesIO(self.data), self.name, self.background).image

    def encode(self) -> bytes | None:
        return self.data


@dataclass(frozen=True, slots=True)
class Crop(SourceImage):
    """A box of an image file, cut to the image.

    Attributes:
      path: the file.
      box: left, top, right, bottom in pixels, before an EXIF orientation is applied.
      annotation: the place that gives the box, for error messages.
    """

    path: Path
    box: tuple[int, int, int, int]
    annotation: str

    @property
    def name(self) -> str:
        """What an error message calls it."""
        return f"{self.annotation}, image {self.path}"

    def open(self) -> Image.Image:
        """Returns the piece of the image.

        Raises:
          BadInput: the image cannot be decoded, or the box contains nothing of it.
        """
        return decode(self.path, self.name, box=self.box).image

    def encode(self) -> bytes | None:
        return None


@dataclass(frozen=True, slots=True)
class PixelImage(SourceImage):
    """Pixels that a function returns: uint8[h, w] or [h, w, 3]."""

    pixels: Callable[[], np.ndarray]
    name: str

    def open(self) -> Image.Image:
        return Image.fromarray(np.ascontiguousarray(self.pixels()))

    def encode(self) -> bytes | None:
        return None


def rows_of(array: np.ndarray, name: str) -> list[PixelImage]:
    """Returns one image for each entry of uint8[n, h, w(, c)]; a single channel is dropped."""
    if array.ndim == 4 and array.shape[3] == 1:
        array = array[..., 0]
    return [PixelImage(lambda i=i: array[i], f"{name}[{i}]") for i in range(len(array))]
