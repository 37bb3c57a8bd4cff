"""Images: a read-only sequence of images, which may have different sizes.

`ArrayImages` holds one uint8 array, `EncodedImages` image files (`SourceImage`), which it decodes
on access. A learner reads either in four ways, all uint8 RGB:

* `images[i]`: one image, `[height, width, 3]`;
* `images.resized(size)`: all images resized to `[n, size, size, 3]`, ignoring their aspect ratio;
  with `images.sizes`, crops can be drawn in the geometry of the original;
  `images.resized_rows(size, rows)` returns some of them;
* `images.banded(size)`: the same as `[n, size, 3, size]`, the layout that cropping by matrix
  products needs;
* `images.center_cropped(size)`: the central square of side min(height, width), resized (the paper's
  evaluation view).

Duplicates are found by hashes: exact ones by the sha256 of the pixels, near ones by a perceptual
hash.
"""

import hashlib
import io
import itertools
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from nevis_stream.datasets import decoding
from nevis_stream.datasets.decoding import WHITE, Colour
from nevis_stream.errors import BadInput
from nevis_stream.storage.reading import read_bytes
from nevis_stream.user_calls import protect

_DHASH_SIZE = (9, 8)
_LEAST_BITS = 6  # flatter images have no hash: all of them would be near each other


def hash_pixels(image: Image.Image | np.ndarray) -> bytes:
    """Returns the 32-byte sha256 of the decoded pixels.

    Grey images stored as RGB have that of the grey ones.

    Args:
      image: a decoded image, or uint8[height, width(, 1 or 3)].
    """
    if isinstance(image, Image.Image):
        image = np.asarray(image if image.mode == "L" else image.convert("RGB"))
    if image.ndim == 3:
        first = image[..., 0]
        if all((first == image[..., i]).all() for i in range(1, image.shape[2])):
            image = first
    digest = hashlib.sha256(repr(image.shape).encode())
    digest.update(np.ascontiguousarray(image))
    return digest.digest()


def make_thumbnail(image: Image.Image) -> np.ndarray:
    """Returns uint8[8, 9], the image in grey: what `compute_dhashes` needs."""
    grey = image if image.mode == "L" else image.convert("L")
    return np.asarray(grey.resize(_DHASH_SIZE, Image.Resampling.BILINEAR))


def compute_dhashes(thumbnails: np.ndarray) -> np.ndarray:
    """Returns the difference hash of each image or of its mirror image, whichever is smaller.

    0 for a flat image.

    Each bit says whether a pixel of the thumbnail is brighter than its left neighbour.

    Args:
      thumbnails: uint8[n, 8, 9].

    Returns:
      uint64[n], the same for a mirrored, slightly scaled or recompressed image.
    """
    rising, falling = (
        thumbnails[:, :, 1:] > thumbnails[:, :, :-1],
        thumbnails[:, :, :-1] > thumbnails[:, :, 1:],
    )
    straight, mirrored = (
        np.packbits(bits.reshape(-1, 64), axis=1, bitorder="little").view("<u8")[:, 0]
        for bits in (rising, falling[:, :, ::-1])
    )
    flat = np.minimum(rising.sum((1, 2)), falling.sum((1, 2))) < _LEAST_BITS
    return np.where(flat, np.uint64(0), np.minimum(straight, mirrored)).astype(np.uint64)


@dataclass(frozen=True, slots=True)
class SourceImage:
    """One image, opened only when needed.

    Attributes:
      content: its file; the bytes of a file; or a function that returns its pixels, uint8[h, w] or
        [h, w, 3].
      title: what an error message calls it, if that is not the path of its file.
      background: behind transparent pixels.
      box: the piece of the file that it is, as `decoding.decode` takes it.
    """

    content: Path | bytes | Callable[[], np.ndarray]
    title: str = ""
    background: Colour = WHITE
    box: tuple[int, int, int, int] | None = None

    @property
    def name(self) -> str:
        """What an error message calls it."""
        return self.title or str(self.content)

    def decode(self) -> decoding.Decoded:
        """Returns the image, in mode L or RGB, and what was done with its pixels.

        Its `format` is that of the file only if these are the file's own pixels.

        Raises:
          BadInput: it cannot be decoded, or the box contains nothing of it.
        """
        if callable(self.content):
            return decoding.Decoded(Image.fromarray(np.ascontiguousarray(self.content())), ())
        file = io.BytesIO(self.content) if isinstance(self.content, bytes) else self.content
        return decoding.decode(file, self.name, self.background, self.box)

    def open(self) -> Image.Image:
        """Returns the decoded image, as `decode` does."""
        return self.decode().image

    def read_file(self) -> bytes | None:
        """Returns the bytes of its file, or None where it is no file of its own."""
        if callable(self.content) or self.box:
            return None
        return self.content if isinstance(self.content, bytes) else read_bytes(self.content)


def split_array(array: np.ndarray, name: str) -> list[SourceImage]:
    """Returns one image for each entry of uint8[n, h, w(, c)]; a single channel is dropped."""
    if array.ndim == 4 and array.shape[3] == 1:
        array = array[..., 0]
    return [SourceImage(lambda i=i: array[i], f"{name}[{i}]") for i in range(len(array))]


class Images(Sequence[np.ndarray]):
    """Base of the image containers, which have a length, an integer index, and `take`.

    Attributes:
      notes: sentences on what was done with the pixels of files, for people.
    """

    notes: Sequence[str] = ()

    def __init__(self):
        self._derived: dict[tuple[str, int], np.ndarray] = {}
        self._lock = threading.Lock()  # so that trials in several threads compute a view once

    def __getstate__(self) -> dict:
        """Returns what is pickled: the images, without the views that were computed from them."""
        return {
            name: value for name, value in vars(self).items() if name not in ("_derived", "_lock")
        }

    def __setstate__(self, state: dict) -> None:
        Images.__init__(self)
        vars(self).update(state)

    def __iter__(self):
        return (self[index] for index in range(len(self)))

    @property
    @abstractmethod
    def sizes(self) -> np.ndarray:
        """Height and width of every image, in pixels: int32[n, 2]."""

    @abstractmethod
    def take(self, indices: np.ndarray) -> "Images":
        """Returns the images at `indices`, in that order."""

    @abstractmethod
    def content_hashes(self) -> list[bytes]:
        """Returns one 32-byte sha256 for each image's stored content."""

    def pixel_hashes(self) -> np.ndarray:
        """Returns S32[n]: sha256 of every image's pixels, however they are stored."""
        return np.asarray([hash_pixels(image) for image in self], "S32")

    def dhashes(self) -> np.ndarray:
        """Returns uint64[n]: every image's perceptual hash (`images.compute_dhashes`)."""
        return compute_dhashes(np.stack([make_thumbnail(self._open(i)) for i in range(len(self))]))

    def _open(self, index: int) -> Image.Image:
        return Image.fromarray(self[index])

    def resized(self, size: int) -> np.ndarray:
        """uint8[n, size, size, 3]: every whole image resized to a square, antialiased."""
        return self._derive("resized", size)

    def resized_rows(self, size: int, rows: np.ndarray) -> np.ndarray:
        """uint8[m, size, size, 3]: some rows of `resized`, for int[m] `rows`."""
        return self.resized(size)[rows]

    def banded(self, size: int) -> np.ndarray:
        """uint8[n, size, 3, size]: as `resized`, but a row has one colour after another."""
        return self._derive("banded", size)

    def center_cropped(self, size: int) -> np.ndarray:
        """uint8[n, size, size, 3]: the central square of every image, resized.

        Bilinear, antialiased.
        """
        return self._derive("center_cropped", size)

    def _derive(self, view: str, size: int) -> np.ndarray:
        """Computes a view once and keeps it for as long as the container lives."""
        with self._lock:
            if (view, size) not in self._derived:
                self._derived[view, size] = self._make_view(view, size)
            return self._derived[view, size]

    def _make_view(self, view: str, size: int) -> np.ndarray:
        out = np.empty((len(self), *get_view_shape(view, size)), np.uint8)
        for i in range(len(self)):
            out[i] = make_view(self._open(i), view, size)
        return protect(out)


def get_view_shape(view: str, size: int) -> tuple[int, int, int]:
    """Returns the shape of one image in a view."""
    return (size, 3, size) if view == "banded" else (size, size, 3)


def make_view(image: Image.Image, view: str, size: int) -> np.ndarray:
    """Returns an image as a view: uint8 of `get_view_shape`.

    Args:
      image: the image.
      view: name of the method of `Images`: "resized", "banded" or "center_cropped".
      size: side of the view in pixels.
    """
    if view == "center_cropped":
        width, height = image.size
        side = min(height, width)
        left, top = (width - side) // 2, (height - side) // 2
        image = image.crop((left, top, left + side, top + side))
    if image.size != (size, size):
        image = image.resize((size, size), Image.Resampling.BILINEAR)
    pixels = np.asarray(image)
    return np.ascontiguousarray(pixels.transpose(0, 2, 1)) if view == "banded" else pixels


class ArrayImages(Images):
    """Images of one size in one array.

    Args:
      array: uint8 (or bool: black and white) [n, height, width, channels] or [n, height, width];
        channels 1 (grey), 3 (RGB) or 4 (RGB and opacity: composited on the background).
      origin: name of the file, for error messages.
      background: behind transparent pixels.

    Raises:
      BadInput: wrong dtype, rank or number of channels.

    Its `notes` say whether pixels were composited.
    """

    def __init__(self, array: np.ndarray, origin: str = "array", background: Colour = WHITE):
        super().__init__()
        if array.dtype == bool:
            array = array.astype(np.uint8) * 255
        if array.dtype != np.uint8:
            raise BadInput(
                f"{origin}: images must be uint8 (0..255), not {array.dtype}, whose range is"
                f" unknown (here {_range(array)}). Scale them: numpy.round(images * (255 / white))"
                ".astype('uint8'), where white is the value of white."
            )
        if array.ndim == 3:
            array = array[..., None]
        if array.ndim != 4:
            raise BadInput(
                f"{origin}: images must have shape [n, height, width, channels], not {array.shape}."
            )
        if array.shape[3] not in (1, 3, 4):
            raise BadInput(
                f"{origin}: images have {array.shape[3]} channels; valid: 1 (grey), 3 (RGB), 4"
                f" (RGBA).{_channels_first(array)}"
            )
        if 0 in array.shape[1:3]:
            raise BadInput(
                f"{origin}: images of {array.shape[1]}×{array.shape[2]} pixels are empty."
            )
        if array.shape[3] == 4:
            if (array[..., 3] < 255).any():
                self.notes = [
                    f"{origin}: the fourth channel is opacity, composited on the background,"
                    f" {decoding.name_colour(background)}."
                ]
                array = np.stack([decoding.flatten(pixels, background) for pixels in array])
            array = array[..., :3]
        self._array = protect(array)
        self._origin = origin

    def __len__(self) -> int:
        return len(self._array)

    def __getitem__(self, index: int) -> np.ndarray:
        image = self._array[index]
        return np.repeat(image, 3, axis=2) if image.shape[2] == 1 else image

    @property
    def sizes(self) -> np.ndarray:
        return np.tile(np.asarray(self._array.shape[1:3], np.int32), (len(self), 1))

    def take(self, indices: np.ndarray) -> "ArrayImages":
        return ArrayImages(self._array[indices], self._origin)

    def pixel_hashes(self) -> np.ndarray:
        return np.asarray([hash_pixels(image) for image in self._array], "S32")

    def content_hashes(self) -> list[bytes]:
        shape = repr(self._array.shape[1:]).encode()
        return [hashlib.sha256(shape + row.tobytes()).digest() for row in self._array]


def to_images(images: Any, origin: str = "array", background: Colour = WHITE) -> Images:
    """Returns images as people have them in a container.

    Args:
      images: `Images`; an array as `ArrayImages` takes it, of NumPy or of what NumPy can read; or
        an iterable of PIL images and of arrays [height, width(, channels)], in any sizes.
      origin: what a message calls them.
      background: behind transparent pixels.

    Raises:
      BadInput: as `ArrayImages`, or one of them is no image.
    """
    if isinstance(images, Images):
        return images
    if hasattr(images, "__array__"):
        return ArrayImages(np.asarray(images), origin, background)
    pixels = []
    for place, image in enumerate(images):
        name = f"{origin}[{place}]"
        if isinstance(image, Image.Image):
            image = np.asarray(decoding.convert(image, name, background))
        elif not hasattr(image, "__array__"):
            raise BadInput(
                f"{name}: is of type {type(image).__name__}; an image is a PIL image or an array"
                " [height, width] or [height, width, channels]."
            )
        pixels.append((name, np.asarray(image)))
    groups = itertools.groupby(pixels, lambda pair: (pair[1].shape, pair[1].dtype))
    parts: list[Images] = []
    for _, group in groups:
        names, arrays = zip(*group, strict=True)
        parts.append(ArrayImages(np.stack(arrays), names[0], background))
    if not parts:
        return ArrayImages(np.zeros((0, 1, 1), np.uint8), origin)
    return parts[0] if len(parts) == 1 else JoinedImages(parts)


def _range(array: np.ndarray) -> str:
    if array.dtype.kind not in "iuf" or not array.size:
        return "no numbers"
    return f"{array.min()} to {array.max()}"


def _channels_first(array: np.ndarray) -> str:
    """Returns what to do with images whose channels seem to come before height and width."""
    if array.shape[1] not in (1, 3, 4):
        return ""
    return f" Do channels come first in {array.shape}? numpy.moveaxis(images, 1, -1) moves them."


class JoinedImages(Images):
    """The images of several containers, one after the other.

    Args:
      parts: the containers, at least one.
    """

    def __init__(self, parts: Sequence[Images]):
        super().__init__()
        self._parts = list(parts)
        self._ends = np.cumsum([len(part) for part in self._parts])

    def __len__(self) -> int:
        return int(self._ends[-1])

    def _place(self, index: int) -> tuple[Images, int]:
        """Returns the container of an image, and its index there."""
        index = range(len(self))[index]
        part = int(np.searchsorted(self._ends, index, side="right"))
        return self._parts[part], index - int(self._ends[part]) + len(self._parts[part])

    def __getitem__(self, index: int) -> np.ndarray:
        part, place = self._place(index)
        return part[place]

    @property
    def sizes(self) -> np.ndarray:
        return np.concatenate([part.sizes for part in self._parts])

    def take(self, indices: np.ndarray) -> "JoinedImages":
        places = map(self._place, indices)
        return JoinedImages([part.take(np.asarray([place])) for part, place in places])

    def content_hashes(self) -> list[bytes]:
        return [digest for part in self._parts for digest in part.content_hashes()]

    def pixel_hashes(self) -> np.ndarray:
        return np.concatenate([part.pixel_hashes() for part in self._parts])

    def dhashes(self) -> np.ndarray:
        return np.concatenate([part.dhashes() for part in self._parts])

    def _make_view(self, view: str, size: int) -> np.ndarray:
        out = np.concatenate([part._derive(view, size) for part in self._parts])
        return protect(out)


class EncodedImages(Images):
    """Images kept as their files (PNG, JPEG, GIF, …) and decoded on access.

    Args:
      images: the bytes of each image's file, or its path: then it is read on access, since a folder
        of photographs may be larger than memory.
      decoded: sizes int32[n, 2] and pixel hashes S32[n], if they are known; None decodes every
        file once, which finds the corrupt ones.

    Raises:
      BadInput: a file cannot be decoded, or has pixels of unknown range; the message names the
        file.

    Its `notes` say what was done with the pixels of how many files (`decoding.CHANGES`).
    """

    def __init__(
        self,
        images: Iterable[SourceImage],
        decoded: tuple[np.ndarray, np.ndarray] | None = None,
    ):
        super().__init__()
        self._images = list(images)
        self._sizes, self._pixel_hashes = map(protect, decoded or self._decode_all())

    def _decode_all(self) -> tuple[np.ndarray, np.ndarray]:
        sizes = np.empty((len(self._images), 2), np.int32)
        hashes = np.empty(len(self._images), "S32")
        changes = []
        for i, source in enumerate(self._images):
            decoded = source.decode()
            sizes[i] = decoded.image.height, decoded.image.width
            hashes[i] = hash_pixels(decoded.image)
            changes.append((source.name, decoded.changes))
        if self._images:
            self.notes = decoding.summarise_changes(changes, self._images[0].background)
        return sizes, hashes

    def __len__(self) -> int:
        return len(self._images)

    def _open(self, index: int) -> Image.Image:
        return self._images[index].open().convert("RGB")

    def __getitem__(self, index: int) -> np.ndarray:
        return np.asarray(self._open(index))

    @property
    def sizes(self) -> np.ndarray:
        return self._sizes

    def take(self, indices: np.ndarray) -> "EncodedImages":
        images = [self._images[i] for i in indices]
        return EncodedImages(images, (self._sizes[indices], self._pixel_hashes[indices]))

    def source(self, index: int) -> SourceImage:
        """Returns an image with its file."""
        return self._images[index]

    def content_hashes(self) -> list[bytes]:
        """Returns one 32-byte sha256 for each file, and the background where it is not white."""
        hashes = []
        for source in self._images:
            content = source.read_file()
            assert content is not None, "encoded images have files of their own"
            ground = b"" if source.background == WHITE else bytes(source.background)
            hashes.append(hashlib.sha256(content + ground).digest())
        return hashes

    def pixel_hashes(self) -> np.ndarray:
        return self._pixel_hashes
