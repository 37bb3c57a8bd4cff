"""Pixels as text: rows of numbers with the label among them, and libsvm's `label index:value …`."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from nevis_stream.datasets.images import rows_of
from nevis_stream.datasets.raw_formats.tree import Example, FileTree
from nevis_stream.errors import BadInput


def pixel_rows(
    tree: FileTree,
    *,
    tables: Sequence[Mapping[str, str]],
    shape: Sequence[int],
    delimiter: str = " ",
    header: bool = False,
    label: int = -1,
    first: int = 0,
    one_hot: int = 0,
    scale: int = 1,
    keep_channels: int = 0,
) -> Iterator[Example]:
    """Reads rows of numbers, one image per row.

    Args:
      tree: the folder.
      tables: {file, part}.
      shape: height, width, channels of the pixels, in their order in the row.
      delimiter: between numbers; a blank is any white space.
      header: whether the first line is a header, to be skipped.
      label: column of the class id.
      first: the id of class 0.
      one_hot: instead: the number of last columns that encode the class, one of them 1.
      scale: factor to 0..255.
      keep_channels: how many of the channels are kept; 0: all.
    """
    for entry in tables:
        path = tree.path(entry["file"])
        values = _numbers(path, None if delimiter == " " else delimiter, header)
        width = int(np.prod(shape))
        if values.shape[1] != width + (one_hot or 1):
            expected = f"{width} pixels and {one_hot or 1} for the class"
            raise BadInput(f"{path}: rows of {values.shape[1]} numbers; expected {expected}.")
        pixels = values[:, :width].reshape(-1, *shape)
        pixels = (pixels * scale).round().astype(np.uint8)[..., : keep_channels or shape[-1]]
        labels = (
            values[:, -one_hot:].argmax(axis=1) if one_hot else values[:, label].astype(int) - first
        )
        for index, image in enumerate(rows_of(pixels, str(path))):
            yield Example(entry["part"], f"{index:08d}", image, int(labels[index]))


def _numbers(path: Path, delimiter: str | None, header: bool) -> np.ndarray:
    try:
        return np.loadtxt(path, delimiter=delimiter, skiprows=int(header), ndmin=2)
    except ValueError as error:
        raise BadInput(f"{path}: its lines are not rows of numbers ({error}).") from None


def libsvm(
    tree: FileTree,
    *,
    tables: Sequence[Mapping[str, str]],
    shape: Sequence[int],
    range: Sequence[float],
    first: int = 0,
) -> Iterator[Example]:
    """Reads libsvm's text format.

    Args:
      tree: the folder.
      tables: {file, part}.
      shape: height and width.
      range: values that become 0 and 255.
      first: the id of class 0.
    """
    from sklearn.datasets import load_svmlight_file

    for entry in tables:
        path = tree.path(entry["file"])
        try:
            values, labels = load_svmlight_file(str(path), n_features=int(np.prod(shape)))
        except ValueError as error:
            raise BadInput(f"{path}: cannot be read as libsvm's text format ({error}).") from None
        low, high = range
        pixels = (
            ((values.toarray() - low) * (255 / (high - low))).round().clip(0, 255).astype(np.uint8)
        )
        for index, image in enumerate(rows_of(pixels.reshape(-1, *shape), str(path))):
            yield Example(entry["part"], f"{index:08d}", image, int(labels[index]) - first)
