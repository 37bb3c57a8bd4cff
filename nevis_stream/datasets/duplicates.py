"""Images that occur twice: exactly (sha256 of the pixels), or nearly (a perceptual hash)."""

import hashlib
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from PIL import Image

_DHASH_SIZE = (9, 8)
_LEAST_BITS = 6  # flatter images have no hash: all of them would be near each other
# of copies in several parts, the one that is judged last is kept
PRIORITY = ("test", "dev_test", "dev")


class ImageFacts(NamedTuple):
    """What is known of an image once it has been decoded.

    Attributes:
      height: pixels.
      width: pixels.
      sha256: of the decoded pixels; grey images stored as RGB have the hash of the grey ones.
      thumbnail: uint8[8, 9] grey pixels, from which `dhashes` makes the perceptual hash.
    """

    height: int
    width: int
    sha256: bytes
    thumbnail: np.ndarray


def examine(image: Image.Image) -> ImageFacts:
    """Returns size, hash and thumbnail of a decoded image."""
    return ImageFacts(image.height, image.width, pixel_hash(image), hash_thumbnail(image))


def pixel_hash(image: Image.Image | np.ndarray) -> bytes:
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


def hash_thumbnail(image: Image.Image) -> np.ndarray:
    """Returns uint8[8, 9], the image in grey: what `dhashes` needs."""
    grey = image if image.mode == "L" else image.convert("L")
    return np.asarray(grey.resize(_DHASH_SIZE, Image.Resampling.BILINEAR))


def dhashes(thumbnails: np.ndarray) -> np.ndarray:
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


def exact(
    parts: np.ndarray, hashes: np.ndarray, labels: np.ndarray
) -> tuple[np.ndarray, dict[str, int]]:
    """Chooses which of exact copies stay.

    Of copies in several source parts the one of the part that is judged last stays (test before
    dev_test before dev before the others), of copies in one part the first.

    Args:
      parts: str[n], the source part of each example.
      hashes: bytes[n], sha256 of the pixels.
      labels: [n] or [n, classes].

    Returns:
      bool[n], which stay; and counts: `within_parts`, `across_parts`, and `other_label` of those
      (copies whose labels differ).
    """
    rank = {part: number for number, part in enumerate(PRIORITY)}
    ranks = np.asarray([rank.get(part, len(PRIORITY)) for part in parts.tolist()])
    first_by_hash: dict[bytes, int] = {}
    stays = np.zeros(len(parts), bool)
    counts = {"within_parts": 0, "across_parts": 0, "other_label": 0}
    for index in np.argsort(ranks, kind="stable").tolist():
        first = first_by_hash.setdefault(hashes[index], index)
        if first == index:
            stays[index] = True
            continue
        counts["within_parts" if parts[first] == parts[index] else "across_parts"] += 1
        counts["other_label"] += int(np.any(labels[first] != labels[index]))
    return stays, counts


def count_near(dhashes: Mapping[str, np.ndarray]) -> dict[str, int]:
    """Counts samples of each split but train whose perceptual hash some training sample has too.

    Args:
      dhashes: uint64[n] by split.
    """
    train = np.unique(dhashes["train"])
    return {
        split: int((np.isin(values, train) & (values != 0)).sum())
        for split, values in dhashes.items()
        if split != "train"
    }
