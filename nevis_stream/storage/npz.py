"""Reads .npz files from users."""

import tokenize
import zipfile
import zlib
from collections.abc import Collection
from pathlib import Path

import numpy as np

from nevis_stream.errors import BadInput
from nevis_stream.storage.archives import check_zip
from nevis_stream.storage.reading import open_file

# NumPy reads the header of an array as Python text, and allocates what it says
_UNREADABLE = (
    *(OSError, EOFError, ValueError, OverflowError, MemoryError, RecursionError),
    *(SyntaxError, tokenize.TokenError, zipfile.BadZipFile, zlib.error),
)


def read_npz(path: Path, names: Collection[str] | None = None) -> dict[str, np.ndarray]:
    """Returns the arrays of a file, or those of `names` that it has.

    Raises:
      BadInput: the file is missing, cannot be read, is not an archive of arrays, is cut short, or
        contains Python objects.
    """
    try:
        with open_file(path) as file:  # which says why it cannot
            if not zipfile.is_zipfile(file):  # NumPy would report a pickle
                raise ValueError("it is not a zip archive, or it is cut short")
        with zipfile.ZipFile(path) as archive:
            check_zip(archive, path)
        with np.load(path, allow_pickle=False) as file:
            chosen = [name for name in file.files if names is None or name in names]
            arrays = {name: file[name] for name in chosen}
        for name, array in arrays.items():
            if not isinstance(array, np.ndarray):
                raise ValueError(f"its member {name} is not an array")
        return arrays
    except FileNotFoundError:
        raise BadInput(f"{path}: no such file.") from None
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror or error}).") from None
    except BadInput:
        raise
    except _UNREADABLE as error:
        raise BadInput(f"{path}: cannot be read as an .npz of plain arrays ({error}).") from None
