"""Pixels in files of arrays: idx, CIFAR's batches, STL, GNT, NORB and HDF5; and pixels as text:
rows of numbers with the label among them, and libsvm's `label index:value …`.
"""

import dataclasses
import io
import math
import pickle
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nevis_stream.datasets.files import Example, FileTree
from nevis_stream.datasets.images import SourceImage, split_array
from nevis_stream.errors import BadInput, describe_installation
from nevis_stream.storage.reading import LARGEST_ARRAYS, read_bytes

_NORB_TYPES = {0x1E3D4C55: np.uint8, 0x1E3D4C54: np.int32}


def number_examples(
    part: str, images: Sequence[SourceImage], labels: np.ndarray, path: Path, prefix: str = ""
) -> Iterator[Example]:
    """Yields the images of a file with their class ids; their keys are a prefix and their numbers.

    Raises:
      BadInput: there are more or fewer labels than images.
    """
    if len(images) != len(labels):
        raise BadInput(f"{path}: {len(images)} images but {len(labels)} labels.")
    for number, (image, label) in enumerate(zip(images, labels, strict=True)):
        yield Example(part, f"{prefix}{number:08d}", image, int(label))


def read_idx_images(
    tree: FileTree, *, pairs: Sequence[Mapping[str, Any]], transpose: bool = False
) -> Iterator[Example]:
    """Reads idx-ubyte files.

    Args:
      tree: the folder.
      pairs: {part, images, labels}; with `rotate` every image is turned by a whole number
        of degrees, drawn with its position as seed.
      transpose: whether rows and columns are exchanged.
    """
    for pair in pairs:
        path = tree.path(pair["images"])
        pixels, labels = read_idx(path), read_idx(tree.path(pair["labels"]))
        pixels = np.swapaxes(pixels, 1, 2) if transpose else pixels
        images = split_array(pixels, str(path))
        if pair.get("rotate"):
            salt = len(pair["part"])
            images = [_turn(image, [99999, number, salt]) for number, image in enumerate(images)]
        yield from number_examples(pair["part"], images, labels, path)


def _turn(image: SourceImage, seed: Sequence[int]) -> SourceImage:
    """Returns an image turned by an angle that is drawn from a seed."""

    def pixels() -> np.ndarray:
        from scipy.ndimage import rotate

        angle = int(np.random.RandomState(seed).randint(360))
        return rotate(np.asarray(image.open()), angle, reshape=False)

    return SourceImage(pixels, image.name)


def read_idx(path: Path) -> np.ndarray:
    """Returns the uint8 array of an idx file.

    Raises:
      BadInput: another format, or a truncated file.
    """
    data = read_bytes(path, LARGEST_ARRAYS)
    if len(data) < 4 or data[:3] != b"\0\0\x08":
        raise BadInput(f"{path}: is not an idx file of bytes.")
    start = 4 + 4 * data[3]
    shape = struct.unpack(f">{data[3]}I", data[4:start])
    if len(data) - start != math.prod(shape):
        raise BadInput(
            f"{path}: holds {len(data) - start} bytes of data; {math.prod(shape)} are expected. Is"
            " it truncated?"
        )
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)


class _ArraysOnly(pickle.Unpickler):
    """Refuses every name but those of numpy arrays: a pickle can otherwise run any program."""

    _ALLOWED = {
        (module, name)
        for module in ("numpy.core.multiarray", "numpy._core.multiarray", "numpy")
        for name in ("_reconstruct", "ndarray", "dtype", "scalar")
    } | {("_codecs", "encode")}

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self._ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)


def read_cifar(
    tree: FileTree, *, batches: Sequence[Mapping[str, str]], labels: str
) -> Iterator[Example]:
    """Reads CIFAR's pickled batches: data uint8[n, 3072] (planes of red, green, blue), and labels.

    Args:
      tree: the folder.
      batches: {part, file}.
      labels: key of the class ids.
    """
    for entry in batches:
        for name in tree.some(entry["file"]):
            path = tree.root / name
            try:
                content = _ArraysOnly(
                    io.BytesIO(read_bytes(path, LARGEST_ARRAYS)), encoding="bytes"
                ).load()
                pixels = content[b"data"].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
                ids = np.asarray(content[labels.encode()])
            except Exception as error:
                raise BadInput(f"{path}: cannot be read as a CIFAR batch ({error!r}).") from None
            images = split_array(pixels, str(path))
            yield from number_examples(entry["part"], images, ids, path, f"{name}#")


def read_stl(
    tree: FileTree, *, sets: Sequence[Mapping[str, str]], shape: Sequence[int], first: int = 0
) -> Iterator[Example]:
    """Reads bytes by channel, column, row, and labels of a byte each.

    Args:
      tree: the folder.
      sets: {part, images, labels}.
      shape: height, width, channels.
      first: what the file has for class 0.
    """
    height, width, channels = shape
    for entry in sets:
        path = tree.path(entry["images"])
        data = np.fromfile(path, np.uint8)
        if data.size % math.prod(shape):
            raise BadInput(
                f"{path}: {data.size} bytes are not a whole number of {height}×{width}×{channels}"
                " images."
            )
        pixels = data.reshape(-1, channels, width, height).transpose(0, 3, 2, 1)
        labels = np.fromfile(tree.path(entry["labels"]), np.uint8).astype(int) - first
        yield from number_examples(entry["part"], split_array(pixels, str(path)), labels, path)


def read_gnt(tree: FileTree, *, sets: Sequence[Mapping[str, str]]) -> Iterator[Example]:
    """Reads GNT records: length, GB2312 code, width, height, pixels.

    The background of 255 is inverted.

    Args:
      tree: the folder.
      sets: {part, files}.
    """
    for entry in sets:
        for name in tree.some(entry["files"]):
            path, offset = tree.root / name, 0
            data = read_bytes(path, LARGEST_ARRAYS)
            while offset < len(data):
                if offset + 10 > len(data):
                    raise BadInput(f"{path}: is truncated at byte {offset}.")
                length, code, width, height = struct.unpack_from("<I2sHH", data, offset)
                if length != 10 + width * height or offset + length > len(data):
                    raise BadInput(
                        f"{path}: the record at byte {offset} has length {length};"
                        f" {10 + width * height} expected."
                    )
                image = SourceImage(
                    lambda p=path, o=offset + 10, h=height, w=width: _bitmap(p, o, h, w),
                    f"{path}@{offset}",
                )
                yield Example(entry["part"], f"{name}#{offset:012d}", image, code.hex())
                offset += length


def _bitmap(path: Path, offset: int, height: int, width: int) -> np.ndarray:
    return 255 - np.fromfile(path, np.uint8, height * width, offset=offset).reshape(height, width)


def read_norb_images(tree: FileTree, *, sets: Sequence[Mapping[str, Any]]) -> Iterator[Example]:
    """Reads small NORB: the first image of each stereo pair.

    Args:
      tree: the folder.
      sets: {stem, part, parts_by_instance}: instances that go to other parts.
    """
    for entry in sets:
        path = tree.path(f"{entry['stem']}-dat.mat")
        pixels = read_norb(path)[:, 0]
        labels, info = (
            read_norb(tree.path(f"{entry['stem']}-{name}.mat")) for name in ("cat", "info")
        )
        parts = {
            n: part for part, numbers in entry.get("parts_by_instance", {}).items() for n in numbers
        }
        examples = number_examples(entry["part"], split_array(pixels, str(path)), labels, path)
        for example, about in zip(examples, info, strict=True):
            yield dataclasses.replace(example, part=parts.get(int(about[0]), entry["part"]))


def read_norb(path: Path) -> np.ndarray:
    """Returns the array of a file in NORB's binary matrix format.

    Raises:
      BadInput: another format, or a truncated file.
    """
    data = read_bytes(path, LARGEST_ARRAYS)
    magic, rank = struct.unpack_from("<iI", data) if len(data) >= 20 else (0, 0)
    if magic not in _NORB_TYPES or rank > 8:
        raise BadInput(f"{path}: is not a matrix in NORB's format.")
    shape = struct.unpack_from(f"<{rank}I", data, 8)
    start, kind = 8 + 4 * max(rank, 3), np.dtype(_NORB_TYPES[magic])
    if len(data) - start != math.prod(shape) * kind.itemsize:
        raise BadInput(
            f"{path}: holds {len(data) - start} bytes of data; {math.prod(shape) * kind.itemsize}"
            " are expected."
        )
    return np.frombuffer(data, kind, offset=start).reshape(shape)


def read_hdf5(
    tree: FileTree,
    *,
    sets: Sequence[Mapping[str, str]],
    images: str,
    labels: str,
    first: int = 0,
    channels: str = "rgb",
) -> Iterator[Example]:
    """Reads arrays of HDF5 files; images are read one by one.

    Args:
      tree: the folder.
      sets: {part, file} with `labels_file` where the labels have one of their own.
      images: key of uint8[n, h, w, c].
      labels: key of the class ids.
      first: what the file has for class 0.
      channels: "rgb" or "bgr".
    """
    try:
        import h5py
    except ImportError:
        raise BadInput(
            f"h5py is needed to read HDF5 files: {describe_installation('data')}."
        ) from None
    for entry in sets:
        for name in tree.some(entry["file"]):
            path = tree.root / name
            try:
                pixels = h5py.File(path)[images]
                ids = np.asarray(
                    h5py.File(tree.path(entry.get("labels_file", name)))[labels]
                ).reshape(-1)
            except (OSError, KeyError) as error:
                raise BadInput(
                    f"{path}: cannot be read as HDF5 with {images!r} and {labels!r} ({error})."
                ) from None
            rows = [_row(pixels, index, channels, path) for index in range(len(pixels))]
            yield from number_examples(
                entry["part"], rows, ids.astype(int) - first, path, f"{name}#"
            )


def _row(pixels: Any, index: int, channels: str, path: Path) -> SourceImage:
    order = slice(None, None, -1) if channels == "bgr" else slice(None)
    return SourceImage(
        lambda: np.asarray(pixels[index])[..., order].astype(np.uint8), f"{path}[{index}]"
    )


def read_pixel_rows(
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
      label: column of the class id; it comes after the pixels.
      first: what the file has for class 0.
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
        yield from number_examples(entry["part"], split_array(pixels, str(path)), labels, path)


def _numbers(path: Path, delimiter: str | None, header: bool) -> np.ndarray:
    try:
        return np.loadtxt(path, delimiter=delimiter, skiprows=int(header), ndmin=2)
    except ValueError as error:
        raise BadInput(f"{path}: its lines are not rows of numbers ({error}).") from None


def read_libsvm(
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
      first: what the file has for class 0.
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
        images = split_array(pixels.reshape(-1, *shape), str(path))
        yield from number_examples(entry["part"], images, labels.astype(int) - first, path)
