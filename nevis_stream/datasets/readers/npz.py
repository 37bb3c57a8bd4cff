"""Arrays in one .npz: `images_PART` and `labels_PART`, or `images` and `labels` for one part."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from nevis_stream.datasets.choices import Choices
from nevis_stream.datasets.class_ids import check_names, read_arrays, similar_names
from nevis_stream.datasets.dataset import DataSet, make_dataset
from nevis_stream.datasets.images import ArrayImages
from nevis_stream.datasets.reading import Found, LeftOut
from nevis_stream.errors import BadInput
from nevis_stream.storage.npz import read_npz

DESCRIPTION = (
    "an .npz with images_train, labels_train, images_test, labels_test (or images, labels)"
)

PARTS = ("train", "val", "valid", "validation", "dev", "test")
# how Keras and MedMNIST call them
_NAMINGS = (
    ("x_PART, y_PART", "x_{part}", "y_{part}"),
    ("PART_images, PART_labels", "{part}_images", "{part}_labels"),
)


def accepts(path: Path) -> bool:
    """Whether `path` is an .npz file."""
    return path.is_file() and path.suffix == ".npz"


def read(path: Path, dataset_id: str, choices: Choices) -> DataSet:
    """Reads images uint8[n, height, width(, channels)] and labels.

    The labels are int[n], or 0/1 [n, labels] for multi label. An array `classes` of text names the
    classes. Without arrays of these names, those of Keras (x_train, y_train, …) or of MedMNIST
    (train_images, train_labels, …) are read.
    """
    arrays, naming = _canonical(path, read_npz(path))
    parts, used = {}, {"classes"}
    for name, images in arrays.items():
        if name != "images" and not name.startswith("images_"):
            continue
        part = name.removeprefix("images").removeprefix("_") or "all"
        labels_name = name.replace("images", "labels", 1)
        labels = arrays.get(labels_name)
        if labels is None:
            raise BadInput(f"{path}: has {name!r} but no {labels_name!r}.")
        parts[part] = ArrayImages(images, f"{path}[{name}]", choices.ground()), labels
        used |= {name, labels_name}
    if not parts:
        raise BadInput(
            f"{path}: contains {', '.join(arrays) or 'nothing'}; expected {DESCRIPTION}. Also read:"
            f" {' and '.join(text for text, *_ in _NAMINGS)}."
        )
    labels = {part: np.asarray(ids) for part, (_, ids) in parts.items()}
    kind, labels = read_arrays(labels, str(path), choices.kind)
    parts = {part: (images, labels[part]) for part, (images, _) in parts.items()}
    others = [name for name in arrays if name not in used]
    names = _class_names(path, arrays.get("classes"))
    found = Found(
        names,
        labels=naming,
        left_out=[LeftOut("arrays of other names", len(others), others[0])] if others else [],
        notes=similar_names(names),
    )
    number = choices.num_classes or len(names) or None
    return make_dataset(dataset_id, kind, parts, number, str(path), choices, found)


def _canonical(
    path: Path, arrays: Mapping[str, np.ndarray]
) -> tuple[Mapping[str, np.ndarray], str]:
    """Returns arrays with the names of this project, and a word for what they were called.

    Raises:
      BadInput: names of two kinds.
    """
    if any(name == "images" or name.startswith("images_") for name in arrays):
        return arrays, "arrays"
    found = {}
    for text, image, label in _NAMINGS:
        pairs = {
            part: (name, label.format(part=part))
            for part in PARTS
            for name in [image.format(part=part)]
            if name in arrays
        }
        if pairs:
            found[text] = pairs
    if len(found) > 1:
        raise BadInput(
            f"{path}: has arrays of two namings, {' and '.join(found)}; leave out those of one."
        )
    for text, pairs in found.items():
        new = {
            name: (kind, part)
            for part, pair in pairs.items()
            for kind, name in zip(("images", "labels"), pair, strict=True)
        }
        for name in new:
            if name not in arrays:
                raise BadInput(f"{path}: has no {name!r} beside its images ({text}).")
        renamed = {
            "_".join(new[name]) if name in new else name: array for name, array in arrays.items()
        }
        return renamed, f"arrays {text}"
    return arrays, "arrays"


def _class_names(path: Path, classes) -> list[str]:
    if classes is None:
        return []
    if classes.ndim != 1 or classes.dtype.kind not in "US":
        raise BadInput(f"{path}: 'classes' must be texts, one for each class.")
    names = [name.decode() if isinstance(name, bytes) else str(name) for name in classes.tolist()]
    check_names(names, f"{path}[classes]")
    return names
