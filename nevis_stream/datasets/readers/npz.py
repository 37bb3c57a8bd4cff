"""Arrays in one .npz: `images_PART` and `labels_PART`, or `images` and `labels` for one part."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from nevis_stream.datasets.class_ids import check_names, read_arrays
from nevis_stream.datasets.dataset import DataSet, make_dataset
from nevis_stream.datasets.images import ArrayImages
from nevis_stream.datasets.reading import Choices, Found, LeftOut, match_parts
from nevis_stream.errors import BadInput
from nevis_stream.storage.reading import read_npz
from nevis_stream.storage.tables import normalise_name, note_similar_names

DESCRIPTION = (
    "an .npz with images_train, labels_train, images_test, labels_test (or images, labels)"
)

# how Keras and scikit-learn (X_train), and how MedMNIST call them
_NAMINGS = {
    "x_PART, y_PART": re.compile(r"(?P<what>[xy])_(?P<part>.+)", re.IGNORECASE),
    "PART_images, PART_labels": re.compile(r"(?P<part>.+)_(?P<what>images|labels)", re.IGNORECASE),
}
_IMAGES = ("x", "images")


def accepts(path: Path) -> bool:
    """Whether `path` is an .npz file."""
    return path.is_file() and path.suffix == ".npz"


def read(path: Path, dataset_id: str, choices: Choices) -> DataSet:
    """Reads images uint8[n, height, width(, channels)] and labels.

    The labels are int[n], or 0/1 [n, labels] for multi label. An array `classes` of text names the
    classes. Without arrays of these names, those of Keras and scikit-learn (x_train,
    y_train, …) or of MedMNIST (train_images, train_labels, …) are read, in capitals too.
    """
    choices.refuse_for_folders(str(path), "arrays have the labels")
    arrays, naming = _use_own_names(path, read_npz(path))
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
            f" {' and '.join(_NAMINGS)}."
        )
    labels = {part: np.asarray(ids) for part, (_, ids) in parts.items()}
    kind, labels = read_arrays(labels, str(path), choices.kind)
    parts = {part: (images, labels[part]) for part, (images, _) in parts.items()}
    others = [name for name in arrays if name not in used]
    names = _read_class_names(path, arrays.get("classes"))
    found = Found(
        names,
        labels=naming,
        left_out=[LeftOut("arrays of other names", len(others), others[0])] if others else [],
        notes=note_similar_names(names),
    )
    number = choices.num_classes or len(names) or None
    return make_dataset(dataset_id, kind, parts, number, str(path), choices, found)


def _use_own_names(
    path: Path, arrays: Mapping[str, np.ndarray]
) -> tuple[Mapping[str, np.ndarray], str]:
    """Returns arrays with the names of this project, and a word for what they were called.

    Raises:
      BadInput: names of two kinds.
    """
    if any(name == "images" or name.startswith("images_") for name in arrays):
        return arrays, "arrays"
    found = {text: pairs for text in _NAMINGS if (pairs := _match_pairs(path, arrays, text))}
    if len(found) > 1:
        raise BadInput(
            f"{path}: has arrays of two namings, {' and '.join(found)}; leave out those of one."
        )
    for text, pairs in found.items():
        new = {}
        for part, (images, labels) in pairs.items():
            new |= {images: f"images_{part}", labels: f"labels_{part}"}
        return {new.get(name, name): array for name, array in arrays.items()}, f"arrays {text}"
    return arrays, "arrays"


def _match_pairs(path: Path, arrays: Iterable[str], naming: str) -> dict[str, tuple[str, str]]:
    """Returns, by name of a part, the names of its images and labels in a naming."""
    matches = {name: match for name in arrays if (match := _NAMINGS[naming].fullmatch(name))}
    called = match_parts(match["part"] for match in matches.values())
    images: dict[str, str] = {}
    labels: dict[str, str] = {}
    for name, match in matches.items():
        part = match["part"].lower()
        if match["part"] not in called:
            continue
        names = images if match["what"].lower() in _IMAGES else labels
        if (before := names.setdefault(part, name)) != name:
            raise BadInput(f"{path}: has both {before!r} and {name!r}; leave one of them out.")
    for part in images:
        if part not in labels:
            expected = naming.partition(", ")[2].replace("PART", part)
            raise BadInput(f"{path}: has no {expected!r} beside its images ({naming}).")
    return {part: (name, labels[part]) for part, name in images.items()}


def _read_class_names(path: Path, classes) -> list[str]:
    if classes is None:
        return []
    if classes.ndim != 1 or classes.dtype.kind not in "US":
        raise BadInput(f"{path}: 'classes' must be texts, one for each class.")
    try:
        texts = np.char.decode(classes, "utf-8") if classes.dtype.kind == "S" else classes
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: 'classes' is not UTF-8 text ({error.reason}).") from None
    names = [normalise_name(text) for text in texts.tolist()]
    check_names(names, f"{path}[classes]")
    return names
