"""Images of prepared data, read from array_record files or from a memory-mapped array.

The views that training needs (all images at one size) are computed once and kept as memory-mapped
arrays in the folder `derived`, where later processes find them; they need not fit in memory. The
CRC-32 of each row, uint32[n], follows such an array, where numpy does not look. These are compared
with what is read: a small array whole, when it is first used; of a large one the rows in use.
"""

import functools
import hashlib
import io
import mmap
import os
import warnings
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from nevis_stream import catalogue
from nevis_stream.datasets.decoding import explain_viewers, open_image
from nevis_stream.datasets.images import Images, get_view_shape, hash_pixels, make_view
from nevis_stream.errors import BadInput, DataWarning, describe_installation
from nevis_stream.storage import make_temporary
from nevis_stream.storage.reading import clear_faults, load_array, read_json
from nevis_stream.user_calls import protect
from nevis_stream.user_code import Untrusted

SUFFIX = "-v2.npy"
"""End of the names of such files; those of version 1 had no checksums."""


def write_array(path: Path, rows: Iterable[np.ndarray], shape: tuple[int, ...]) -> None:
    """Writes and syncs an array of bytes, uint8[shape], row by row."""
    sums = np.empty(shape[0], "<u4")
    # not memory-mapped, so that a full disk raises an error instead of a signal
    with open(path, "wb") as file:
        header = {"descr": "|u1", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        for number, row in enumerate(rows):
            sums[number] = zlib.crc32(row)
            file.write(row.data)
        file.write(sums.tobytes())
        file.flush()
        os.fsync(file.fileno())


def open_array(path: Path) -> np.memmap | None:
    """Maps an array; None if the file is not one with checksums, or not whole."""
    try:
        array = load_array(path)
        if not isinstance(array, np.memmap):
            return None
        whole = array.offset + array.nbytes + 4 * len(array) == path.stat().st_size
        return array if whole and array.dtype == np.uint8 and array.ndim > 1 else None
    except (ValueError, EOFError, AttributeError, FileNotFoundError):
        return None


def find_changed_rows(array: np.memmap, rows: np.ndarray, content: np.ndarray) -> np.ndarray:
    """Returns those of some rows whose bytes are not those that were written.

    Args:
      array: the result of `open_array`.
      rows: int[m] indices.
      content: uint8[m, …], the rows as they were read.
    """
    place = array.offset + array.nbytes
    sums = np.memmap(str(array.filename), "<u4", "r", offset=place, shape=(len(array),))
    found = np.array([zlib.crc32(row) for row in content], np.uint32)
    return rows[found != sums[rows]]


def is_intact(array: np.memmap) -> bool:
    """Returns whether every row is as it was written."""
    return not len(find_changed_rows(array, np.arange(len(array)), array))


def find_array_problems(folder: Path) -> list[str]:
    """Returns a line for each array of a folder that has changed since it was written."""
    lines = []
    for path in sorted(folder.glob(f"[!.]*{SUFFIX}")):
        array = open_array(path)
        if array is None or not is_intact(array):
            lines.append(f"{path}: has changed since it was written; delete it")
    return lines


_WITHOUT_SUMS = "-v1.npy"  # derived arrays of earlier versions
_RESIDENT = 2**26  # bytes of a derived array that may stay in the memory of the process


def advise_preparing(file: Path) -> str:
    """Returns what to do if a file of prepared data, ORIGIN/DATASET/VERSION/FILE, is damaged."""
    *_, origin, dataset_id, _, _ = "", "", *file.absolute().parts
    if origin == "local" and dataset_id not in catalogue.read_shared_files():
        return f"Import it again: python -m launch.data import FILE --task={dataset_id}."
    return f"Prepare {dataset_id!r} again with --force."


@dataclass(frozen=True)
class RawImages:
    """All images of a split in a memory-mapped .npy, uint8[n, h, w] or uint8[n, h, w, 3].

    Attributes:
      path: the file.
    """

    path: Path

    def __post_init__(self):
        self.pixels  # noqa: B018 - a file that cannot be read is an error now

    def __getstate__(self) -> dict:
        """Returns the path, from which another process maps the file again."""
        return {"path": self.path}

    @functools.cached_property
    def pixels(self) -> np.ndarray:
        """The array.

        Raises:
          BadInput: the file cannot be read.
        """
        try:
            return load_array(self.path)
        except (OSError, ValueError, EOFError) as error:
            raise BadInput(
                f"{self.path}: cannot be read ({error}). {advise_preparing(self.path)}"
            ) from None

    def image(self, position: int) -> Image.Image:
        """Returns an image in RGB, by its position in the split."""
        return Image.fromarray(np.asarray(self.pixels[position])).convert("RGB")


@dataclass(frozen=True)
class RecordImages:
    """All images of a split in array_record files that TFDS wrote, decoded on access.

    Attributes:
      folder: that of the prepared data set.
      split: name of the split.
      remedy: the command that prepares the data set again, if an earlier version stored files as
        they were, turned or transparent ones too; else empty.
    """

    folder: Path
    split: str
    remedy: str = ""

    def __getstate__(self) -> dict:
        """Returns the attributes, from which another process opens the files again."""
        return {"folder": self.folder, "split": self.split, "remedy": self.remedy}

    @functools.cached_property
    def _records(self):
        return _open_source(self.folder, self.split)

    def image(self, position: int) -> Image.Image:
        """Returns an image in RGB, by its position in the split.

        Raises:
          BadInput: the record cannot be read, or an earlier version stored it otherwise.
        """
        try:
            encoded = self._records[position]["image"]
            # the preparation has stored what is shown
            image = open_image(io.BytesIO(encoded), f"record {position}")
            if self.remedy and (otherwise := explain_viewers(image)):
                raise BadInput(
                    f"{self.folder}, {self.split}, record {position}: {otherwise}, which an earlier"
                    f" version did not apply when it prepared these data: {self.remedy}"
                )
            return image.convert("RGB")
        except BadInput:
            raise
        except Exception as error:
            raise BadInput(
                f"{self.folder}, {self.split}, record {position}: cannot be read ({error}). See:"
                " python -m launch.data verify"
            ) from None


class PreparedImages(Images):
    """The images of a prepared split, or some of them.

    Args:
      source: reads an image by its position in the split.
      tensors: facts about the images of the split, as `prepared.read_tensors` returns them.
      key: identifies the split and its content in the names of derived arrays.
      derived: folder of derived arrays.
      chosen: positions in the split; None for all.
    """

    def __init__(
        self,
        source: RawImages | RecordImages,
        tensors: Mapping[str, np.ndarray],
        key: str,
        derived: Path,
        chosen: np.ndarray | None = None,
    ):
        super().__init__()
        self._source, self._key, self._folder, self._chosen = source, key, derived, chosen
        self._compared: set[tuple[str, int]] = set()  # (view, size) of derived arrays
        self._tensors = {name: protect(tensors[name]) for name in ("sizes", "sha256", "dhash")}

    def __getstate__(self) -> dict:
        """Returns the state for another process, which compares derived arrays itself."""
        return {**super().__getstate__(), "_compared": set()}

    def __len__(self) -> int:
        return len(self.sizes)

    def _facts(self, name: str) -> np.ndarray:
        tensor = self._tensors[name]
        return tensor if self._chosen is None else tensor[self._chosen]

    @property
    def sizes(self) -> np.ndarray:
        """int32[n, 2]: height and width of every image, in pixels."""
        return self._facts("sizes")

    def content_hashes(self) -> list[bytes]:
        """Returns the 32-byte sha256 of every image's pixels."""
        return [row.tobytes() for row in self._facts("sha256")]

    def pixel_hashes(self) -> np.ndarray:
        """Returns S32[n]: sha256 of every image's pixels; no image is read."""
        return np.ascontiguousarray(self._facts("sha256")).view("S32").ravel()

    def dhashes(self) -> np.ndarray:
        """Returns uint64[n]: every image's perceptual hash; no image is read."""
        return self._facts("dhash")

    def _open(self, index: int) -> Image.Image:
        if not 0 <= index < len(self):
            raise IndexError(index)
        position = int(index if self._chosen is None else self._chosen[index])
        image = self._source.image(position)
        # array_record has checksums of its own
        recorded = self._tensors["sha256"][position].tobytes()
        if isinstance(self._source, RawImages) and hash_pixels(image) != recorded:
            raise BadInput(
                f"{self._source.path}: image {position} has changed since it was prepared."
                f" {advise_preparing(self._source.path)} See: python -m launch.data verify"
            )
        return image

    def __getitem__(self, index: int) -> np.ndarray:
        return np.asarray(self._open(index))

    def take(self, indices: np.ndarray) -> "PreparedImages":
        """Returns the images at `indices`, in that order; nothing is read."""
        chosen = np.asarray(indices) if self._chosen is None else self._chosen[indices]
        return PreparedImages(self._source, self._tensors, self._key, self._folder, chosen)

    def resized_rows(self, size: int, rows: np.ndarray) -> np.ndarray:
        """uint8[m, size, size, 3]: some rows of `resized`.

        Those of a large array do not stay in the memory of the process: all rows, read in batches,
        would fill it. They remain in the cache of the operating system.
        """
        if len(self) * 3 * size**2 <= _RESIDENT:
            return np.array(self.resized(size)[rows], subok=False)
        derived: Any = super()._derive("resized", size)
        chosen = np.array(derived[rows], subok=False)
        if len(find_changed_rows(derived, np.asarray(rows), chosen)):
            raise BadInput(
                f"{derived.filename}: has changed since it was written. Delete it, and start the"
                " same command again: it is computed again."
            )
        if hasattr(mmap, "MADV_DONTNEED"):
            vars(derived)["_mmap"].madvise(mmap.MADV_DONTNEED)
        return chosen

    def _derive(self, view: str, size: int) -> np.ndarray:
        """Returns a derived array, all of which is compared with its checksums once."""
        derived: Any = super()._derive(view, size)
        with self._lock:
            if (view, size) not in self._compared:
                if not is_intact(derived):
                    warnings.warn(
                        f"{derived.filename}: has changed since it was written, so it is computed"
                        " again. The disk may be failing: python -m launch.data verify",
                        DataWarning,
                        stacklevel=3,
                    )
                    Path(derived.filename).unlink(missing_ok=True)
                    self._derived[view, size] = self._make_view(view, size)
                self._compared.add((view, size))
            return self._derived[view, size]

    def _make_view(self, view: str, size: int) -> np.ndarray:
        """Opens the derived array, or computes it.

        Each process first writes to a file of its own, so that two may do so at the same time.
        """
        part = (
            ""
            if self._chosen is None
            else "-" + hashlib.sha256(self._chosen.astype("<i8").tobytes()).hexdigest()[:12]
        )
        path = self._folder / f"{self._key}{part}-{view}-{size}{SUFFIX}"
        shape = (len(self), *get_view_shape(view, size))
        derived = open_array(path)
        if derived is not None and derived.shape == shape:
            return derived
        path.parent.mkdir(parents=True, exist_ok=True)
        with clear_faults(path), make_temporary(path) as new:
            rows = (make_view(self._open(index), view, size) for index in range(len(self)))
            write_array(new, rows, shape)
            os.replace(new, path)
        path.with_name(path.name.replace(SUFFIX, _WITHOUT_SUMS)).unlink(missing_ok=True)
        return load_array(path)


@functools.lru_cache(maxsize=16)
def _open_source(folder: Path, split: str):
    try:
        import tensorflow_datasets as tfds
    except ImportError:
        raise BadInput(
            f"{folder}: reading single images needs TFDS: {describe_installation('data')}"
            " (derived arrays need no TFDS)."
        ) from None
    builder = open_builder(folder)
    return builder.as_data_source(split, decoders={"image": tfds.decode.SkipDecoding()})


FEATURES = "features.json"
_CLASS_KEYS = ("pythonClassName", "python_class_name", "type")
_TFDS_CLASSES = "tensorflow_datasets.core.features."


def open_builder(folder: Path) -> Any:
    """Returns TFDS's builder of a prepared directory.

    Raises:
      Untrusted: features.json names a class that is not TFDS's; TFDS would import its module.
      BadInput: features.json cannot be read.
    """
    _check_classes(folder / FEATURES)
    import tensorflow_datasets as tfds

    return tfds.builder_from_directory(folder)


def _check_classes(path: Path) -> None:
    try:
        waiting = [read_json(path)]
    except (OSError, ValueError) as error:
        raise BadInput(f"{path}: cannot be read ({error}). Prepare the data set again.") from None
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            for key in _CLASS_KEYS:
                name = value.get(key)
                if isinstance(name, str) and not name.startswith(_TFDS_CLASSES):
                    raise Untrusted(
                        f"{path}: names the class {name!r}, which is not one of TFDS's; its module"
                        " would be imported. Data sets with features of their own cannot be read."
                    )
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
