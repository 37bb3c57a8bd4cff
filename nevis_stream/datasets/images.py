"""Images: a read-only sequence of images, which may have different sizes.

`ArrayImages` holds one uint8 array, `EncodedImages` the bytes of image files, which it decodes on
access. A learner reads either in four ways, all uint8 RGB:

* `images[i]`: one image, `[height, width, 3]`;
* `images.resized(size)`: all images resized to `[n, size, size, 3]`, ignoring their aspect ratio;
  with `images.sizes`, crops can be drawn in the geometry of the original;
  `images.resized_rows(size, rows)` returns some of them;
* `images.banded(size)`: the same as `[n, size, 3, size]`, the layout that cropping by matrix
  products needs;
* `images.center_cropped(size)`: the central square of side min(height, width), resized (the paper's
  evaluation view).
"""

import hashlib
import io
import threading
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
from PIL import Image, UnidentifiedImageError

from nevis_stream.datasets import duplicates
from nevis_stream.errors import BadInput, DataWarning

# `open_image` warns instead, with the name of the file
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)


_MOST_16 = 2**16 - 1  # the largest 16-bit value


class Images(Sequence):
    """Base of the image containers, which have a length, an integer index, and `take`."""

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
    def sizes(self) -> np.ndarray:
        """int32[n, 2]: height and width of every image, in pixels."""
        raise NotImplementedError

    def take(self, indices: np.ndarray) -> "Images":
        """Returns the images at `indices`, in that order."""
        raise NotImplementedError

    def content_hashes(self) -> list[bytes]:
        """Returns one 32-byte sha256 for each image's stored content."""
        raise NotImplementedError

    def pixel_hashes(self) -> np.ndarray:
        """Returns S32[n]: sha256 of every image's pixels, however they are stored."""
        return np.asarray([duplicates.pixel_hash(image) for image in self], "S32")

    def dhashes(self) -> np.ndarray:
        """Returns uint64[n]: every image's perceptual hash (`duplicates.dhashes`)."""
        return duplicates.dhashes(
            np.stack([duplicates.hash_thumbnail(self._opened(i)) for i in range(len(self))])
        )

    def _opened(self, index: int) -> Image.Image:
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
        out = np.empty((len(self), *view_shape(view, size)), np.uint8)
        for i in range(len(self)):
            out[i] = view_of(self._opened(i), view, size)
        out.setflags(write=False)
        return out


def view_shape(view: str, size: int) -> tuple[int, int, int]:
    """Returns the shape of one image in a view."""
    return (size, 3, size) if view == "banded" else (size, size, 3)


def view_of(image: Image.Image, view: str, size: int) -> np.ndarray:
    """Returns an image as a view: uint8 of `view_shape`.

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
      array: uint8[n, height, width, channels] or uint8[n, height, width]; channels 1 (grey), 3
        (RGB) or 4 (RGBA).
      origin: name of the file, for error messages.

    Raises:
      BadInput: wrong dtype, rank or number of channels.
    """

    def __init__(self, array: np.ndarray, origin: str = "array"):
        super().__init__()
        if array.dtype != np.uint8:
            raise BadInput(f"{origin}: images must be uint8 (0..255), not {array.dtype}.")
        if array.ndim == 3:
            array = array[..., None]
        if array.ndim != 4:
            raise BadInput(
                f"{origin}: images must have shape [n, height, width, channels], not {array.shape}."
            )
        if array.shape[3] not in (1, 3, 4):
            raise BadInput(
                f"{origin}: images have {array.shape[3]} channels; valid: 1 (grey), 3 (RGB), 4"
                " (RGBA)."
            )
        if 0 in array.shape[1:3]:
            raise BadInput(
                f"{origin}: images of {array.shape[1]}×{array.shape[2]} pixels are empty."
            )
        self._array = array
        self._origin = origin

    def __len__(self) -> int:
        return len(self._array)

    def __getitem__(self, index: int) -> np.ndarray:
        image = self._array[index]
        return np.repeat(image, 3, axis=2) if image.shape[2] == 1 else image[..., :3]

    @property
    def sizes(self) -> np.ndarray:
        return np.tile(np.asarray(self._array.shape[1:3], np.int32), (len(self), 1))

    def take(self, indices: np.ndarray) -> "ArrayImages":
        return ArrayImages(self._array[indices], self._origin)

    def pixel_hashes(self) -> np.ndarray:
        colours = self._array[..., :3]
        return np.asarray([duplicates.pixel_hash(image) for image in colours], "S32")

    def content_hashes(self) -> list[bytes]:
        shape = repr(self._array.shape[1:]).encode()
        return [hashlib.sha256(shape + row.tobytes()).digest() for row in self._array]


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
        out.setflags(write=False)
        return out


def open_image(source: BinaryIO | Path, name: str) -> Image.Image:
    """Opens an image file without decoding it, and warns if it has very many pixels.

    Raises:
      Exception: what Pillow raises for a file that is not an image, or has far too many pixels.
    """
    image = Image.open(source)
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


def eight_bits(image: Image.Image, name: str) -> Image.Image:
    """Returns a decoded image with 8 bits per channel.

    Pillow's `convert` clips 16-bit grey values at 255 instead of scaling them, which makes nearly
    every such image white.

    Args:
      image: in any mode; 16-bit grey (modes I;16, and I with values up to 65535) is scaled by the
        range of the type, 65535 to 255.
      name: of the file, for the message.

    Raises:
      BadInput: floating-point pixels, or integers of more than 16 bits, whose range is unknown.
    """
    if image.mode == "F":
        raise BadInput(
            f"{name}: its pixels are floating-point numbers (mode F), whose range is unknown. Save"
            " it as an 8-bit or 16-bit image."
        )
    if image.mode != "I" and not image.mode.startswith("I;16"):
        return image
    values = np.asarray(image).astype(np.int64)
    if values.min(initial=0) < 0 or values.max(initial=0) > _MOST_16:
        raise BadInput(
            f"{name}: its pixels are integers from {values.min()} to {values.max()} (mode"
            f" {image.mode}); valid: 8 bits, or 16 bits (0 to {_MOST_16}). Save it as an 8-bit or"
            " 16-bit image."
        )
    return Image.fromarray(((values * 255 + _MOST_16 // 2) // _MOST_16).astype(np.uint8))


class EncodedImages(Images):
    """Images kept as the bytes of their files (PNG, JPEG, GIF, …) and decoded on access.

    Args:
      files: the bytes of each image's file, or its path: then it is read on access, since a folder
        of photographs may be larger than memory.
      names: the name of each image, for error messages.
      decoded: sizes int32[n, 2] and pixel hashes S32[n], if they are known; None decodes every
        file once, which finds the corrupt ones.

    Raises:
      BadInput: a file cannot be decoded, has two channels, or floating-point pixels; the message
        names the file.

    Warns:
      DataWarning: 16-bit images, which are scaled to 8 bits, or animated ones.
    """

    def __init__(
        self,
        files: Sequence[bytes | Path],
        names: Sequence[str],
        decoded: tuple[np.ndarray, np.ndarray] | None = None,
    ):
        super().__init__()
        self._files = list(files)
        self._names = list(names)
        self._sizes, self._pixel_hashes = decoded or self._decode_all()

    def _content(self, index: int) -> bytes:
        file = self._files[index]
        return file if isinstance(file, bytes) else file.read_bytes()

    def _open(self, index: int) -> Image.Image:
        try:
            return open_image(io.BytesIO(self._content(index)), self._names[index])
        except Exception as error:
            raise self._corrupt(index, error) from error

    def _corrupt(self, index: int, error: Exception) -> BadInput:
        reason = "unknown format" if isinstance(error, UnidentifiedImageError) else error
        return BadInput(
            f"{self._names[index]}: cannot be read as an image ({reason}). "
            "Replace the file, or remove it (and its row, where a csv lists it)."
        )

    def _decode_all(self) -> tuple[np.ndarray, np.ndarray]:
        sizes = np.empty((len(self._files), 2), np.int32)
        hashes = np.empty(len(self._files), "S32")
        scaled: dict[str, list[str]] = {}
        animated = []
        for i in range(len(self._files)):
            image = self._open(i)
            if len(image.getbands()) == 2:
                raise BadInput(
                    f"{self._names[i]}: has 2 channels; valid: grey, RGB, RGBA or palette images."
                )
            try:
                image.load()
            except Exception as error:
                raise self._corrupt(i, error) from error
            if getattr(image, "n_frames", 1) > 1:
                animated.append(self._names[i])
            converted = eight_bits(image, self._names[i])
            if converted is not image:
                scaled.setdefault(image.mode, []).append(self._names[i])
            sizes[i] = image.height, image.width
            hashes[i] = duplicates.pixel_hash(converted)
        for mode, names in scaled.items():
            warnings.warn(
                f"{names[0]}: 16-bit grey image (mode {mode}), scaled to 8 bits (65535 becomes"
                f" 255){_and_others(names)}.",
                DataWarning,
                stacklevel=2,
            )
        if animated:
            warnings.warn(
                f"{animated[0]}: has several frames, of which only the first is"
                f" used{_and_others(animated)}.",
                DataWarning,
                stacklevel=2,
            )
        return sizes, hashes

    def __len__(self) -> int:
        return len(self._files)

    def _opened(self, index: int) -> Image.Image:
        image = self._open(index)
        try:
            image.load()
            return eight_bits(image, self._names[index]).convert("RGB")
        except BadInput:
            raise
        except Exception as error:
            raise self._corrupt(index, error) from error

    def __getitem__(self, index: int) -> np.ndarray:
        return np.asarray(self._opened(index))

    @property
    def sizes(self) -> np.ndarray:
        return self._sizes

    def take(self, indices: np.ndarray) -> "EncodedImages":
        return EncodedImages(
            [self._files[i] for i in indices],
            [self._names[i] for i in indices],
            (self._sizes[indices], self._pixel_hashes[indices]),
        )

    def file(self, index: int) -> tuple[bytes, str]:
        """Returns the bytes and the name of an image's file."""
        return self._content(index), self._names[index]

    def content_hashes(self) -> list[bytes]:
        return [hashlib.sha256(self._content(i)).digest() for i in range(len(self))]

    def pixel_hashes(self) -> np.ndarray:
        return self._pixel_hashes


def _and_others(names: Sequence[str]) -> str:
    """Returns how many files a warning that names the first is about."""
    return f"; the same holds for {len(names) - 1} more" if len(names) > 1 else ""
