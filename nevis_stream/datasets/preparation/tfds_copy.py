"""Data sets that TFDS has already prepared on this machine, which need no download.

Copies in a random-access format (array_record) are read as they are; TFDS's usual one (tfrecord)
needs TensorFlow, and where that is not installed the copy is left alone.
"""

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from nevis_stream import catalogue
from nevis_stream.datasets.dataset import MULTI_LABEL
from nevis_stream.datasets.images import SourceImage
from nevis_stream.datasets.raw_formats.tree import Example
from nevis_stream.datasets.tfds_builder import open_builder
from nevis_stream.errors import BadInput

PARTS = {"train": "train", "validation": "dev", "test": "test"}


def newest_copy(dataset_id: str) -> Path | None:
    """Returns the newest usable copy of a data set, or None.

    Copies are below TFDS_DATA_DIR, by default ~/tensorflow_datasets.
    """
    layout = catalogue.file_layouts()[dataset_id]
    name = catalogue.nevis22_datasets().get(dataset_id, {}).get("tfds_name", "")
    if not name or "tfds" not in layout or find_spec("tensorflow_datasets") is None:
        return None
    root = Path(os.environ.get("TFDS_DATA_DIR") or Path.home() / "tensorflow_datasets") / name
    versions = sorted(
        root.glob("*.*.*/dataset_info.json"), key=lambda path: _version(path.parent.name)
    )
    if not versions:
        return None
    newest = versions[-1].parent
    readable = list(newest.glob("*.array_record-*")) or find_spec("tensorflow")
    return newest if readable else None


def _version(name: str) -> tuple[int, ...]:
    return tuple(int(number) for number in name.split(".") if number.isdigit())


def examples(dataset_id: str, copy: Path, work: Path) -> list[Example]:
    """Returns the examples of a copy.

    Encoded images are written into `work`, so that memory holds none of them.

    The layout's `tfds` says `parts` (by TFDS's split), the feature `label`, and whether images
    are `transposed`.

    Raises:
      BadInput: the copy lacks a split or a feature that the layout names.
    """
    import tensorflow_datasets as tfds

    options = catalogue.file_layouts()[dataset_id]["tfds"]
    kind = catalogue.nevis22_datasets()[dataset_id]["kind"]
    parts = options.get("parts", PARTS)
    builder = open_builder(copy)
    splits = [split for split in builder.info.splits if split in parts]
    if set(parts.values()) & {"train", "test"} - {parts[split] for split in splits}:
        raise BadInput(
            f"{copy}: has the splits {', '.join(builder.info.splits)}; {', '.join(parts)} are"
            " needed."
        )
    result = []
    for split in splits:
        folder = work / "tfds" / split
        folder.mkdir(parents=True, exist_ok=True)
        for index, record in enumerate(_records(tfds, builder, split)):
            path = folder / f"{index:08d}"
            path.write_bytes(record["image"])
            image = SourceImage(path)
            if options.get("transposed"):
                image = SourceImage(
                    lambda p=image: np.swapaxes(np.asarray(p.open()), 0, 1), str(path)
                )
            label = _label(record, options.get("label", "label"), kind, copy)
            result.append(Example(parts[split], f"{index:08d}", image, label))
    return result


def _records(tfds: Any, builder: Any, split: str) -> Iterator[dict]:
    decoders = {"image": tfds.decode.SkipDecoding()}
    if list(Path(builder.data_dir).glob("*.array_record-*")):
        yield from builder.as_data_source(split, decoders=decoders)
    else:
        yield from tfds.as_numpy(
            builder.as_dataset(split=split, decoders=decoders, shuffle_files=False)
        )


def _label(record: dict, feature: str, kind: str, copy: Path) -> Any:
    if feature not in record:
        raise BadInput(f"{copy}: its records have {', '.join(record)}, no {feature!r}.")
    value = record[feature]
    if isinstance(value, dict):  # attributes, in the order of their names
        return frozenset(number for number, name in enumerate(sorted(value)) if value[name])
    return frozenset(int(label) for label in value) if kind == MULTI_LABEL else int(value)
