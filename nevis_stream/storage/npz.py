"""Reads .npz files from users."""

import zipfile
import zlib
from collections.abc import Collection
from pathlib import Path

import numpy as np

from nevis_stream.errors import BadInput
from nevis_stream.storage.archives import check_zip


def read_npz(path: Path, names: Collection[str] | None = None) -> dict[str, np.ndarray]:
    """Returns the arrays of a file, or those of `names` that it has.

    Raises:
      BadInput: the file is missing, cannot be read, is not an archive of arrays, is cut short, or
        contains Python objects.
    """
    try:
        with open(path, "rb") as file:  # which says why it cannot
            if not zipfile.is_zipfile(file):  # NumPy would report a pickle
                raise ValueError("it is not a zip archive, or it is cut short")
        with zipfile.ZipFile(path) as archive:
            check_zip(archive, path)
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files if names is None or name in names}
    except FileNotFoundError:
        raise BadInput(f"{path}: no such file.") from None
    except (PermissionError, IsADirectoryError) as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}).") from None
    except BadInput:
        raise
    except (OSError, EOFError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise BadInput(f"{path}: cannot be read as an .npz of plain arrays ({error}).") from None
