"""The data set that images in class folders make, wherever these are: on disk or in an archive."""

import warnings
from collections.abc import Callable, Sequence

import numpy as np

from nevis_stream.datasets.arrangement import Arrangement
from nevis_stream.datasets.choices import Choices
from nevis_stream.datasets.dataset import SINGLE_LABEL, DataSet, make_dataset
from nevis_stream.datasets.images import Images
from nevis_stream.datasets.reading import Found, LeftOut
from nevis_stream.errors import BadInput, DataWarning
from nevis_stream.storage.names import similar_names

_FEW_TEST_IMAGES = 10  # with fewer, the error has steps of more than a tenth


def make_from_arrangement(
    origin: str,
    dataset_id: str,
    arranged: Arrangement,
    choices: Choices,
    read_images: Callable[[list[str]], Images],
    left_out: Sequence[LeftOut],
) -> DataSet:
    """Returns the data set of arranged images; class ids follow the sorted names of the classes.

    Args:
      origin: the folder or archive, named in errors.
      dataset_id: name of the data set.
      arranged: where the images belong.
      choices: what was chosen.
      read_images: returns the images of some names.
      left_out: what was left out besides the images that belong nowhere.

    Raises:
      BadInput: a multi-label task, fewer than two classes, or images that cannot be read.

    Warns:
      DataWarning: classes without an image, or without one in the test part; a small test part.
    """
    if choices.kind not in ("", SINGLE_LABEL):
        raise BadInput(
            f"{origin}: a directory of class folders is single_label, but the task is"
            f" {choices.kind}."
        )
    classes = arranged.classes
    if len(classes) == 1:
        raise BadInput(
            f"{origin}: has the only class folder {classes[0]!r}, and a task needs two classes or"
            " more, with a folder of images for each."
        )
    ids = {name: number for number, name in enumerate(classes)}
    labels = {
        part: np.asarray([ids[label] for _, label in images], np.int32)
        for part, images in arranged.images.items()
    }
    _warn_of_few_images(origin, classes, labels)
    names = {part: [name for name, _ in images] for part, images in arranged.images.items()}
    return make_dataset(
        dataset_id,
        SINGLE_LABEL,
        {part: (read_images(names[part]), labels[part]) for part in labels},
        choices.num_classes or len(classes),
        origin,
        choices,
        Found(
            classes,
            names,
            "class folders",
            [*arranged.left_out, *left_out],
            [*similar_names(classes), *arranged.notes],
            parts_known=True,
        ),
    )


def _warn_of_few_images(origin: str, classes: Sequence[str], labels: dict[str, np.ndarray]) -> None:
    """Warns of classes that have no image, or none in the test part, and of a small test part.

    Args:
      origin: the folder or archive.
      classes: names of the classes, in the order of their ids.
      labels: int32[n], class ids of the images of each part.
    """
    counts = {
        part: np.bincount(of_part, minlength=len(classes)) for part, of_part in labels.items()
    }
    present = sum(counts.values()) > 0
    if empty := [name for name, any_image in zip(classes, present, strict=True) if not any_image]:
        _warn(f"{origin}: no image in {_list(empty)} of the {len(classes)} class folders.")
    if "test" not in labels:
        return
    images, of_class = len(labels["test"]), counts["test"]
    missing = [classes[i] for i in np.flatnonzero(present & (of_class == 0)).tolist()]
    if missing:
        _warn(
            f"{origin}, part test: {images} images, but none of {_list(missing)} of the"
            f" {len(classes)} classes. The test error says nothing about those."
        )
    if images < _FEW_TEST_IMAGES:
        _warn(
            f"{origin}, part test: only {images} test images, so that one image changes the error"
            f" by {1 / max(images, 1):.2f}. Add more."
        )


def _list(names: list[str]) -> str:
    """Returns how many classes there are, and the names of the first ten."""
    more = ", …" if len(names) > 10 else ""
    return f"{len(names)} ({', '.join(map(repr, names[:10]))}{more})"


def _warn(message: str) -> None:
    warnings.warn(message, DataWarning, stacklevel=4)
