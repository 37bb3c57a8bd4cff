"""Arrays in one .npz: `images_PART` and `labels_PART`, or `images` and `labels` for one part."""

from pathlib import Path

from nevis_stream.datasets.choices import Choices
from nevis_stream.datasets.dataset import MULTI_LABEL, SINGLE_LABEL, DataSet, make_dataset
from nevis_stream.datasets.images import ArrayImages
from nevis_stream.datasets.reading import Found, LeftOut
from nevis_stream.errors import BadInput
from nevis_stream.storage.npz import read_npz

DESCRIPTION = (
    "an .npz with images_train, labels_train, images_test, labels_test (or images, labels)"
)


def accepts(path: Path) -> bool:
    """Whether `path` is an .npz file."""
    return path.is_file() and path.suffix == ".npz"


def read(path: Path, dataset_id: str, choices: Choices) -> DataSet:
    """Reads images uint8[n, height, width(, channels)] and labels.

    The labels are int[n], or 0/1 [n, labels] for multi label. An array `classes` of text names the
    classes.
    """
    arrays = read_npz(path)
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
            f"{path}: contains {', '.join(arrays) or 'nothing'}; expected {DESCRIPTION}."
        )
    matrix = next(iter(parts.values()))[1].ndim == 2
    kind = choices.kind or (MULTI_LABEL if matrix else SINGLE_LABEL)
    others = [name for name in arrays if name not in used]
    found = Found(
        _class_names(path, arrays.get("classes")),
        labels="arrays",
        left_out=[LeftOut("arrays of other names", len(others), others[0])] if others else [],
    )
    number = choices.num_classes or len(found.class_names) or None
    return make_dataset(dataset_id, kind, parts, number, str(path), choices, found)


def _class_names(path: Path, classes) -> list[str]:
    if classes is None:
        return []
    if classes.ndim != 1 or classes.dtype.kind not in "US":
        raise BadInput(f"{path}: 'classes' must be texts, one for each class.")
    return [name.decode() if isinstance(name, bytes) else str(name) for name in classes.tolist()]
