"""Readers: one raw format per module, found by scanning this package.

A reader module has `DESCRIPTION` (one line for error messages), `accepts(path) -> bool` and
`read(path, dataset_id, choices) -> DataSet`: what nothing was chosen for is inferred.
"""

import functools
import importlib
import pkgutil
from pathlib import Path
from types import ModuleType

from nevis_stream.datasets.choices import Choices
from nevis_stream.datasets.dataset import DataSet
from nevis_stream.errors import BadInput


@functools.cache
def readers() -> tuple[ModuleType, ...]:
    """Returns the reader modules, by name."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return tuple(importlib.import_module(f"{__name__}.{name}") for name in names)


def read(path: Path, dataset_id: str, choices: Choices | None = None) -> DataSet:
    """Reads a file or directory with the first reader that accepts it.

    Args:
      path: the file or directory.
      dataset_id: the name that the sample ids will start with.
      choices: what was chosen; None: nothing.

    Raises:
      BadInput: it does not exist, no reader accepts it, or its content is wrong.
    """
    if not path.exists():
        raise BadInput(f"{path}: no such file or directory (data set {dataset_id!r}).")
    for reader in readers():
        if reader.accepts(path):
            return reader.read(path, dataset_id, choices or Choices())
    valid = "; ".join(reader.DESCRIPTION for reader in readers())
    raise BadInput(f"{path}: not a format that can be read. Valid: {valid}.")
