"""A data set at a glance: counts, histograms and a contact sheet.

The histograms are those of classes and of resolutions.
"""

import io
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from PIL import Image

from nevis_stream.datasets.dataset import SINGLE_LABEL, Samples
from nevis_stream.storage import write_file

_BUCKETS = (16, 32, 64, 128, 256, 512, 1024, 4096)
TILE = 64  # pixels
COLUMNS = 12
MOST_CLASSES = 24


def count_classes(splits: Mapping[str, Samples], kind: str, classes: int) -> dict[str, np.ndarray]:
    """Returns int[classes] by split: how many samples have each class id."""
    if kind == SINGLE_LABEL:
        return {
            name: np.bincount(samples.labels, minlength=classes) for name, samples in splits.items()
        }
    return {name: samples.labels.sum(axis=0, dtype=int) for name, samples in splits.items()}


def count_resolutions(splits: Mapping[str, Samples]) -> list[tuple[str, int]]:
    """Returns how many images of all splits have a longer side in each range of pixels.

    Empty ranges are left out.
    """
    sides = np.concatenate(
        [np.asarray(samples.images.sizes).max(axis=1) for samples in splits.values()]
    )
    places = np.searchsorted(_BUCKETS, sides)
    edges = ("1", *(str(edge + 1) for edge in _BUCKETS))
    names = [f"{low}–{high}" for low, high in zip(edges, _BUCKETS, strict=False)] + [
        f"{edges[-1]} or more"
    ]
    return [
        (name, int(count))
        for name, count in zip(names, np.bincount(places, minlength=len(names)), strict=True)
        if count
    ]


def write_contact_sheet(splits: Mapping[str, Samples], kind: str, classes: int, path: Path) -> None:
    """Writes a PNG: one row of train images for each of the first 24 classes.

    They are squeezed to squares.
    """
    samples = splits["train"]
    rows = []
    for number in range(min(classes, MOST_CLASSES)):
        has = samples.labels == number if kind == SINGLE_LABEL else samples.labels[:, number] == 1
        tiles = [_tile(samples.images[int(i)]) for i in np.flatnonzero(has)[:COLUMNS]]
        blank = np.full((TILE, TILE, 3), 255, np.uint8)
        rows.append(np.concatenate([*tiles, *[blank] * (COLUMNS - len(tiles))], axis=1))
    with io.BytesIO() as buffer:
        Image.fromarray(np.concatenate(rows)).save(buffer, "PNG", optimize=True)
        write_file(path, buffer.getvalue())


def _tile(pixels: np.ndarray) -> np.ndarray:
    inside = TILE - 2
    tile = np.full((TILE, TILE, 3), 255, np.uint8)
    tile[1:-1, 1:-1] = np.asarray(
        Image.fromarray(pixels).resize((inside, inside), Image.Resampling.BILINEAR)
    )
    return tile
