"""What the makers of archives share: tiny images that all differ, and archives of them."""

import gzip
import io
import tarfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image


@dataclass(frozen=True)
class Expected:
    """What must come out of an archive.

    Attributes:
      counts: number of samples by source part: all, train, dev, dev_test, test.
      classes: number of different class ids (or labels) that have samples.
    """

    counts: Mapping[str, int]
    classes: int


class DrawnImages:
    """Makes images that never repeat.

    `array(h, w, c)` gives uint8[h, w, c] (or [h, w] for c = 1), `file(suffix, h, w, c)` the bytes
    of an image file.
    """

    def __init__(self, seed: int = 0):
        self._random = np.random.RandomState(seed)

    def array(self, height: int = 8, width: int = 8, channels: int = 3) -> np.ndarray:
        """Returns random pixels."""
        shape = (height, width) if channels == 1 else (height, width, channels)
        return self._random.randint(0, 256, size=shape, dtype=np.uint8)

    def file(self, suffix: str, height: int = 8, width: int = 8, channels: int = 3) -> bytes:
        """Returns an image file: suffix png, jpg, jpeg, JPEG, gif, bmp, pgm, ppm, tif."""
        kinds = {"jpg": "JPEG", "jpeg": "JPEG", "pgm": "PPM", "tif": "TIFF"}
        with io.BytesIO() as buffer:
            Image.fromarray(self.array(height, width, channels)).save(
                buffer, kinds.get(suffix.lower(), suffix.upper())
            )
            return buffer.getvalue()


def write_zip(path: Path, members: Mapping[str, bytes]) -> None:
    """Writes a zip."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def tar_bytes(members: Mapping[str, bytes], mode: str = "w") -> bytes:
    """Returns a tar; mode "w:gz" compresses it."""
    with io.BytesIO() as buffer:
        with tarfile.open(fileobj=buffer, mode=mode) as archive:
            for name, data in members.items():
                info = tarfile.TarInfo(name)
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
        return buffer.getvalue()


def write_tar(path: Path, members: Mapping[str, bytes]) -> None:
    """Writes a .tar, .tar.gz or .tgz."""
    path.write_bytes(tar_bytes(members, "w" if path.suffix == ".tar" else "w:gz"))


def write_gz(path: Path, data: bytes) -> None:
    """Writes a .gz of one file."""
    path.write_bytes(gzip.compress(data, 1))


def idx(array: np.ndarray) -> bytes:
    """Returns a uint8 array as idx-ubyte."""
    header = bytes([0, 0, 8, array.ndim]) + b"".join(n.to_bytes(4, "big") for n in array.shape)
    return header + array.astype(np.uint8).tobytes()
