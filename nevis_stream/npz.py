"""Reads .npz files that people bring."""

import zipfile
from collections.abc import Collection
from pathlib import Path

import numpy as np

from nevis_stream.errors import BadInput


def read_npz(path: Path, names: Collection[str] | None = None) -> dict[str, np.ndarray]:
    """Returns the arrays of a file, those of `names` that it has, or all.

    Raises:
      BadInput: there is no such file, it is no archive of arrays, it is cut short, or it holds Python objects.
    """
    if not path.is_file():
        raise BadInput(f"{path}: there is no such file.")
    try:
        if not zipfile.is_zipfile(path):  # NumPy would take it for a pickle, and say so
            raise ValueError("it is no zip archive, or only the beginning of one")
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files if names is None or name in names}
    except (OSError, EOFError, ValueError, zipfile.BadZipFile) as error:
        raise BadInput(f"{path}: cannot be read as an .npz of plain arrays ({error}).") from None
