"""Images of prepared data: read from array_record or from a memory-mapped array.

What training asks for, all pictures at one size, is made once, kept as a memory-mapped array in the
folder `derived` and found there by later processes; it need not fit in memory.
"""

import functools
import hashlib
import io
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from PIL import Image

from nevis_stream.datasets.images import Images, view_of, view_shape
from nevis_stream.errors import BadInput
from nevis_stream.storage import TEMPORARY_PREFIX, clear_when_full

_SCHEMA = "v1"


class _Prepared(Images):
    """Pictures of a prepared split, or some of them.

    Args:
      tensors: what is known of the split's pictures, as `prepared.index` returns it.
      key: names the split and its content; derived arrays are found by it.
      derived: folder of derived arrays.
      chosen: positions in the split, or None for all.
    """

    def __init__(
        self,
        tensors: Mapping[str, np.ndarray],
        key: str,
        derived: Path,
        chosen: np.ndarray | None,
    ):
        super().__init__()
        self._tensors = {name: tensors[name] for name in ("sizes", "sha256", "dhash")}
        self._key, self._folder, self._chosen = key, derived, chosen

    def __len__(self) -> int:
        return len(self._known("sizes"))

    def _known(self, name: str) -> np.ndarray:
        tensor = self._tensors[name]
        return tensor if self._chosen is None else tensor[self._chosen]

    @property
    def sizes(self) -> np.ndarray:
        """int32[n, 2]: height and width of every picture, in pixels."""
        return self._known("sizes")

    def content_hashes(self) -> list[bytes]:
        """Returns one 32-byte sha256 for each picture's pixels."""
        return [row.tobytes() for row in self._known("sha256")]

    def pixel_hashes(self) -> np.ndarray:
        """Returns S32[n]: sha256 of every picture's pixels; no picture is read."""
        return np.ascontiguousarray(self._known("sha256")).view("S32").ravel()

    def dhashes(self) -> np.ndarray:
        """Returns uint64[n]: every picture's perceptual hash; no picture is read."""
        return self._known("dhash")

    def _at(self, index: int) -> int:
        if not 0 <= index < len(self):
            raise IndexError(index)
        return int(index if self._chosen is None else self._chosen[index])

    def _make_view(self, view: str, size: int) -> np.ndarray:
        """Opens the derived array, or makes it.

        It is made under a name of this process first, so that two may do so at once.
        """
        part = (
            ""
            if self._chosen is None
            else "-" + hashlib.sha256(self._chosen.astype("<i8").tobytes()).hexdigest()[:12]
        )
        path = self._folder / f"{self._key}{part}-{view}-{size}-{_SCHEMA}.npy"
        shape = (len(self), *view_shape(view, size))
        if path.is_file():
            try:
                derived = np.load(path, mmap_mode="r")
                if derived.shape == shape:
                    return derived
            except ValueError:
                pass  # no array: it is made again
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f"{TEMPORARY_PREFIX}{os.getpid()}-{path.name}")
        try:
            with clear_when_full(path):
                self._make(temporary, view, size, shape)
                os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
        return np.load(path, mmap_mode="r")

    def _make(self, path: Path, view: str, size: int, shape: tuple[int, ...]) -> None:
        # written, not mapped: a full disk is an error then and not a signal
        with open(path, "wb") as file:
            header = {"descr": "|u1", "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(file, header)
            for index in range(len(self)):
                file.write(view_of(self._picture(index), view, size).data)
            file.flush()
            os.fsync(file.fileno())


class RawImages(_Prepared):
    """Pictures of one shape in a memory-mapped .npy, uint8[n, h, w] or uint8[n, h, w, 3].

    Raises:
      BadInput: the file cannot be read.
    """

    def __init__(
        self,
        path: Path,
        tensors: Mapping[str, np.ndarray],
        key: str,
        derived: Path,
        chosen: np.ndarray | None = None,
    ):
        super().__init__(tensors, key, derived, chosen)
        self._path = path
        try:
            self._array = np.load(path, mmap_mode="r")
        except (OSError, ValueError) as error:
            raise BadInput(
                f"{path}: cannot be read ({error}). Prepare the data set again with --force."
            ) from None

    def __getstate__(self) -> dict:
        """The file's name instead of what is mapped."""
        return {name: value for name, value in super().__getstate__().items() if name != "_array"}

    def __setstate__(self, state: dict) -> None:
        super().__setstate__(state)
        self._array = np.load(self._path, mmap_mode="r")

    def __getitem__(self, index: int) -> np.ndarray:
        image = np.asarray(self._array[self._at(index)])
        return np.repeat(image[..., None], 3, axis=2) if image.ndim == 2 else image

    def take(self, indices: np.ndarray) -> "RawImages":
        """Returns the pictures at `indices`, in that order; nothing is read."""
        chosen = np.asarray(indices) if self._chosen is None else self._chosen[indices]
        return RawImages(self._path, self._tensors, self._key, self._folder, chosen)


class RecordImages(_Prepared):
    """Pictures in array_record files that TFDS wrote, decoded on access.

    Args:
      folder: of the prepared data set.
      split: its name.
    """

    def __init__(
        self,
        folder: Path,
        split: str,
        tensors: Mapping[str, np.ndarray],
        key: str,
        derived: Path,
        chosen: np.ndarray | None = None,
    ):
        super().__init__(tensors, key, derived, chosen)
        self._source, self._split = folder, split

    @functools.cached_property
    def _records(self):
        return _data_source(self._source, self._split)

    def _picture(self, index: int) -> Image.Image:
        position = self._at(index)
        try:
            picture = Image.open(io.BytesIO(self._records[position]["image"]))
            return picture.convert("RGB")
        except Exception as error:
            raise BadInput(
                f"{self._source}, {self._split}, record {position}: cannot be read ({error}). See:"
                " python -m launch.data verify"
            ) from None

    def __getitem__(self, index: int) -> np.ndarray:
        return np.asarray(self._picture(index))

    def take(self, indices: np.ndarray) -> "RecordImages":
        """Returns the pictures at `indices`, in that order; nothing is read."""
        chosen = np.asarray(indices) if self._chosen is None else self._chosen[indices]
        return RecordImages(
            self._source, self._split, self._tensors, self._key, self._folder, chosen
        )


@functools.lru_cache(maxsize=16)
def _data_source(folder: Path, split: str):
    try:
        import tensorflow_datasets as tfds
    except ImportError:
        raise BadInput(
            f"{folder}: reading single pictures needs TFDS: pip install 'nevis_stream[data]'"
            " (derived arrays do not)."
        ) from None
    builder = tfds.builder_from_directory(folder)
    return builder.as_data_source(split, decoders={"image": tfds.decode.SkipDecoding()})
