"""Opens data sets in TFDS's format without running code that they name."""

from pathlib import Path
from typing import Any

from nevis_stream.errors import BadInput
from nevis_stream.storage.reading import read_json
from nevis_stream.user_code import Untrusted

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
