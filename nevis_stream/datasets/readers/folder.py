"""A directory with one folder of images per class, below `train/` and `test/` or directly."""

import warnings
from pathlib import Path

import numpy as np

from nevis_stream.datasets.choices import Choices
from nevis_stream.datasets.dataset import SINGLE_LABEL, DataSet, make_dataset
from nevis_stream.datasets.decoding import suffixes
from nevis_stream.datasets.images import EncodedImages
from nevis_stream.errors import BadInput, DataWarning
from nevis_stream.vocabulary import SPLITS

DESCRIPTION = (
    "a directory with one folder of images per class (below train/ and test/, or directly)"
)
_FEW_TEST_IMAGES = 10  # with fewer, the error has steps of more than a tenth


def accepts(path: Path) -> bool:
    """Whether `path` is a directory."""
    return path.is_dir()


def read(path: Path, dataset_id: str, choices: Choices) -> DataSet:
    """Reads the images; class ids follow the sorted folder names of all parts together."""
    if choices.kind not in ("", SINGLE_LABEL):
        raise BadInput(
            f"{path}: a directory of class folders is single_label, but the task is {choices.kind}."
        )
    folders = _visible_folders(path)
    named = [folder for folder in folders if folder.name in SPLITS]
    roots = (
        {folder.name: folder for folder in named}
        if "train" in {f.name for f in named}
        else {"all": path}
    )
    classes = sorted({folder.name for root in roots.values() for folder in _visible_folders(root)})
    if not classes:
        raise BadInput(f"{path}: contains no class folder; expected {DESCRIPTION}.")
    if len(classes) == 1:
        raise BadInput(
            f"{path}: has the only class folder {classes[0]!r}, and a task needs two classes or"
            f" more; expected {DESCRIPTION}."
        )
    first: dict[Path, Path] = {}
    parts = {part: _read_part(root, classes, first, choices) for part, root in roots.items()}
    dataset = make_dataset(
        dataset_id, SINGLE_LABEL, parts, choices.num_classes or len(classes), origin=str(path)
    )
    _warn_of_few_images(roots, classes, {part: labels for part, (_, labels) in parts.items()})
    return dataset


def _warn_of_few_images(
    roots: dict[str, Path], classes: list[str], labels: dict[str, np.ndarray]
) -> None:
    """Warns of classes that have no image, or none in the test part, and of a small test part.

    Args:
      roots: folder of each part.
      classes: names of the classes, in the order of their ids.
      labels: int32[n], class ids of the images of each part.
    """
    counts = {
        part: np.bincount(of_part, minlength=len(classes)) for part, of_part in labels.items()
    }
    present = sum(counts.values()) > 0
    if empty := [name for name, any_image in zip(classes, present, strict=True) if not any_image]:
        _warn(f"{_root(roots)}: no image in {_listed(empty)} of the {len(classes)} class folders.")
    if "test" not in roots:
        return
    images, of_class = len(labels["test"]), counts["test"]
    missing = [classes[i] for i in np.flatnonzero(present & (of_class == 0))]
    if missing:
        _warn(
            f"{roots['test']}: {images} images, but none of {_listed(missing)} of the"
            f" {len(classes)} classes. The test error says nothing about those."
        )
    if images < _FEW_TEST_IMAGES:
        _warn(
            f"{roots['test']}: only {images} test images, so that one image changes the error by"
            f" {1 / images:.2f}. Add more."
        )


def _root(roots: dict[str, Path]) -> Path:
    return roots["all"] if "all" in roots else next(iter(roots.values())).parent


def _listed(names: list[str]) -> str:
    """Returns how many classes there are, and the names of the first ten."""
    more = ", …" if len(names) > 10 else ""
    return f"{len(names)} ({', '.join(map(repr, names[:10]))}{more})"


def _warn(message: str) -> None:
    warnings.warn(message, DataWarning, stacklevel=4)


def _visible_folders(path: Path) -> list[Path]:
    return sorted(
        child for child in path.iterdir() if child.is_dir() and not child.name.startswith(".")
    )


def _read_part(
    root: Path, classes: list[str], first: dict[Path, Path], choices: Choices
) -> tuple[EncodedImages, np.ndarray]:
    """Reads a part; `first` has the path under which each file was met, links resolved."""
    files, labels, ignored = [], [], []
    for folder in _visible_folders(root):
        for file in sorted(folder.rglob("*")):
            if file.is_dir() or file.name.startswith("."):
                continue
            if file.suffix.lower() in suffixes():
                before = first.setdefault(file.resolve(), file)
                if before != file:
                    raise BadInput(
                        f"{file}: is the same file as {before}, through a link. An image belongs"
                        " to one class of one part: remove one of the two."
                    )
                files.append(file)
                labels.append(classes.index(folder.name))
            else:
                ignored.append(file)
    if ignored:
        warnings.warn(
            f"{ignored[0]}: not an image file; {len(ignored)} such file(s) left out.",
            DataWarning,
            stacklevel=2,
        )
    images = EncodedImages(
        [f.read_bytes() for f in files], [str(f) for f in files], background=choices.ground()
    )
    return images, np.asarray(labels, np.int32)
