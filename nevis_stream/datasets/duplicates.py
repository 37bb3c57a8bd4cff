"""Pictures that occur twice: exactly (sha256 of the decoded pixels), or nearly (a perceptual hash)."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from PIL import Image

_DHASH_SIZE = (9, 8)
_LEAST_BITS = 6  # flatter pictures have no hash: all of them would be near each other
_WEIGHTS = (1 << np.arange(64, dtype=np.uint64)).reshape(8, 8)
PRIORITY = ("test", "dev_test", "dev")  # of copies in several parts, the one that is judged last is kept


@dataclass(frozen=True)
class Facts:
    """What is known of a picture once it has been decoded.

    Attributes:
      height: pixels.
      width: pixels.
      sha256: of the decoded pixels; grey pictures stored as RGB have the hash of the grey ones.
      dhash: 64 bits that are the same for a mirrored, slightly scaled or recompressed picture; 0 where it is flat.
    """

    height: int
    width: int
    sha256: bytes
    dhash: int


def examine(picture: Image.Image) -> Facts:
    """Returns the hashes and the size of a decoded picture."""
    pixels = np.asarray(picture if picture.mode == "L" else picture.convert("RGB"))
    if pixels.ndim == 3 and (pixels[..., 0] == pixels[..., 1]).all() and (pixels[..., 0] == pixels[..., 2]).all():
        pixels = pixels[..., 0]
        picture = Image.fromarray(np.ascontiguousarray(pixels))
    digest = hashlib.sha256(repr(pixels.shape).encode())
    digest.update(np.ascontiguousarray(pixels))
    return Facts(pixels.shape[0], pixels.shape[1], digest.digest(), dhash(picture))


def dhash(picture: Image.Image) -> int:
    """Returns the difference hash of a picture and its mirror image, whichever is smaller; 0 for a flat picture.

    The picture is shrunk to 9×8 grey pixels; each bit says whether a pixel is brighter than its left neighbour.
    """
    grey = picture if picture.mode == "L" else picture.convert("L")
    small = np.asarray(grey.resize(_DHASH_SIZE, Image.Resampling.BILINEAR))
    rising, falling = small[:, 1:] > small[:, :-1], small[:, :-1] > small[:, 1:]
    if min(rising.sum(), falling.sum()) < _LEAST_BITS:
        return 0
    straight = int((rising * _WEIGHTS).sum(dtype=np.uint64))
    mirrored = int((falling[:, ::-1] * _WEIGHTS).sum(dtype=np.uint64))
    return min(straight, mirrored)


def exact(parts: np.ndarray, hashes: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, dict[str, int]]:
    """Chooses which of exact copies stay.

    Of copies in several source parts the one of the part that is judged last stays (test before dev_test before dev before
    the others), of copies in one part the first.

    Args:
      parts: str[n], the source part of each example.
      hashes: bytes[n], sha256 of the pixels.
      labels: [n] or [n, classes].

    Returns:
      bool[n], which stay; and counts: `within_parts`, `across_parts`, and `other_label` of those (copies whose labels differ).
    """
    rank = {part: number for number, part in enumerate(PRIORITY)}
    ranks = np.asarray([rank.get(part, len(PRIORITY)) for part in parts.tolist()])
    kept: dict[bytes, int] = {}
    stays = np.zeros(len(parts), bool)
    counts = {"within_parts": 0, "across_parts": 0, "other_label": 0}
    for index in np.argsort(ranks, kind="stable").tolist():
        first = kept.setdefault(hashes[index], index)
        if first == index:
            stays[index] = True
            continue
        counts["within_parts" if parts[first] == parts[index] else "across_parts"] += 1
        counts["other_label"] += int(np.any(labels[first] != labels[index]))
    return stays, counts


def near(dhashes: Mapping[str, np.ndarray]) -> dict[str, int]:
    """Counts samples of each split but train whose perceptual hash some training sample has too.

    Args:
      dhashes: uint64[n] by split.
    """
    train = np.unique(dhashes["train"])
    return {
        split: int((np.isin(values, train) & (values != 0)).sum()) for split, values in dhashes.items() if split != "train"
    }
