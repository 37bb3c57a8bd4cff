"""A data set in memory: its parts as they come from the source, before any split is made; and the
checks of its class ids, which are from 0 without gaps.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nevis_stream.datasets.images import Images, JoinedImages, to_images
from nevis_stream.datasets.reading import Choices, Found, Reading, match_all_parts, say
from nevis_stream.errors import BadInput, unknown
from nevis_stream.storage.tables import shorten
from nevis_stream.user_calls import ReadOnly
from nevis_stream.vocabulary import MOST_CLASSES, TASK_KINDS

SINGLE_LABEL, MULTI_LABEL = TASK_KINDS
_SHOWN = 10  # ranges of ids, or names, in a message
_DECLARE = (
    "num_classes (a column of a stream csv, a flag of data import) or names (classes.txt in a zip,"
    " an array `classes` in an npz)"
)


@dataclass(frozen=True)
class Samples(ReadOnly):
    """Images with their labels and, for the runner only, their ids; all of them are read-only.

    Attributes:
      images: n images.
      labels: int32[n] class ids (single label) or uint8[n, classes] with 0 or 1 (multi label).
      ids: n sample ids, `dataset_id/source_part/index`.
      names: n names of files, as their publisher or owner calls them; empty where there are none.
    """

    images: Images
    labels: np.ndarray
    ids: Sequence[str]
    names: Sequence[str] = ()

    def __len__(self) -> int:
        return len(self.images)

    def take(self, indices: np.ndarray) -> "Samples":
        """Returns the samples at `indices`, in that order."""
        return Samples(
            self.images.take(indices),
            self.labels[indices],
            [self.ids[i] for i in indices],
            [self.names[i] for i in indices] if len(self.names) else (),
        )

    @classmethod
    def join(cls, parts: Sequence["Samples"]) -> "Samples":
        """Returns the samples of several parts, at least one, one part after the other."""
        if len(parts) == 1:
            return parts[0]
        labels = np.concatenate([part.labels for part in parts])
        return cls(
            JoinedImages([part.images for part in parts]),
            labels,
            [sample for part in parts for sample in part.ids],
            [name for part in parts for name in part.names]
            if all(len(part.names) for part in parts)
            else (),
        )


@dataclass(frozen=True)
class DataSet:
    """All samples of one data set by the part of the source that they came from.

    Attributes:
      dataset_id: name that starts every sample id.
      kind: "single_label" or "multi_label".
      num_classes: number of class ids; some may have no sample.
      parts: samples by source part: {"all"}, {"train", "test"}, or any further of {"dev",
        "dev_test"}.
      known_fingerprint: of prepared data, whose images need not be read for it.
      local: whether it was imported from a file of the user's instead of being made from the
        published files.
      class_names: what its files call each class, for people; empty where they name none.
      reading: what its files were understood as, where they were read.
    """

    dataset_id: str
    kind: str
    num_classes: int
    parts: Mapping[str, Samples]
    known_fingerprint: str | None = None
    local: bool = False
    class_names: tuple[str, ...] = ()
    reading: Reading | None = None

    def fingerprint(self) -> str:
        """Returns 64 hex digits that change when any pixel, label, id or part changes."""
        if self.known_fingerprint is not None:
            return self.known_fingerprint
        total = hashlib.sha256(f"{self.dataset_id}/{self.kind}/{self.num_classes}".encode())
        for name in sorted(self.parts):
            part = self.parts[name]
            total.update(f"/{name}/{len(part)}/".encode())
            total.update(b"".join(part.images.content_hashes()))
            total.update(np.ascontiguousarray(part.labels).tobytes())
            total.update("\n".join(part.ids).encode())
        return total.hexdigest()

    def with_offset(self, first: int) -> "DataSet":
        """Returns the samples with class ids from `first` on, behind classes without a sample; the
        classes have no names.
        """
        parts = {
            name: Samples(part.images, part.labels + np.int32(first), part.ids, part.names)
            for name, part in self.parts.items()
        }
        classes = first + self.num_classes
        return replace(self, num_classes=classes, parts=parts, class_names=())

    def with_classes(self, dataset_id: str, classes: Sequence[int]) -> "DataSet":
        """Returns the samples of some classes, numbered anew in the order given; sample ids stay.

        Raises:
          BadInput: the data set is multi-label, or a class has no sample in some part.
        """
        if self.kind != SINGLE_LABEL:
            raise BadInput(
                f"{self.dataset_id}: is multi-label; only single-label data sets can be split by"
                " class."
            )
        position = np.full(self.num_classes, -1)
        position[list(classes)] = np.arange(len(classes))
        parts = {}
        for name, samples in self.parts.items():
            labels = position[samples.labels]
            chosen = np.flatnonzero(labels >= 0)
            if not len(chosen):
                raise BadInput(
                    f"{self.dataset_id}: part {name!r} has no sample of the classes"
                    f" {list(classes)}."
                )
            subset = samples.take(chosen)
            parts[name] = Samples(
                subset.images, labels[chosen].astype(np.int32), subset.ids, subset.names
            )
        inherited = None
        if self.known_fingerprint is not None:
            inherited = hashlib.sha256(
                f"{self.known_fingerprint}/{list(classes)}".encode()
            ).hexdigest()
        names = tuple(self.class_names[i] for i in classes) if self.class_names else ()
        return DataSet(dataset_id, self.kind, len(classes), parts, inherited, self.local, names)


def make_dataset(
    dataset_id: str,
    kind: str,
    parts: Mapping[str, Any],
    num_classes: int | None = None,
    origin: str | None = None,
    choices: Choices | None = None,
    found: Found | None = None,
) -> DataSet:
    """Checks images and labels and joins them into a `DataSet`; prints what it understood.

    Args:
      dataset_id: name of the data set.
      kind: "single_label" or "multi_label".
      parts: samples by source part (all; train and test; and so on, or what else these are
        called): a pair of n images (an array uint8[n, height, width(, channels)], a list of PIL
        images or arrays, `Images`) and labels, integer[n] or, for multi label, 0/1 [n, classes];
        or anything that yields pairs of an image and its label, as a data set of torchvision.
      num_classes: number of classes; None: every class id from 0 to the largest has a sample.
      origin: file or builder named in error messages.
      choices: what was chosen for the reading; None: nothing.
      found: names of classes and files, and what was left out; None: nothing of this.

    Raises:
      BadInput: counts differ, a label is out of range or not an integer, ids have gaps, a part is
        empty, or parts have other names or more than one reading.
    """
    origin, choices, found = origin or dataset_id, choices or Choices(), found or Found()
    called = {name: name for name in parts}
    if not found.parts_known:
        called = match_all_parts(list(parts), choices.parts, origin)
    if kind not in TASK_KINDS:
        raise BadInput(f"{origin}: {unknown('kind', kind, TASK_KINDS)}")
    pairs = {
        name: _to_pair(samples, f"{origin}, part {name!r}", choices)
        for name, samples in parts.items()
    }
    checked = {}
    for name, (images, labels) in pairs.items():
        if len(images) != len(labels):
            raise BadInput(
                f"{origin}: part {name!r} has {len(images)} images but {len(labels)} labels."
            )
        if len(images) == 0:
            raise BadInput(
                f"{origin}: part {name!r} is empty; every part needs at least one sample."
            )
        if labels.dtype.kind not in "iub":
            raise BadInput(
                f"{origin}: labels of part {name!r} are {labels.dtype}; they must be integers,"
                " class ids from 0. names, ids = numpy.unique(labels, return_inverse=True) gives"
                " them, and in an npz an array `classes` keeps the names."
            )
        checked[name] = images, labels
    if kind == SINGLE_LABEL:
        for name, (_, labels) in checked.items():
            if labels.ndim != 1:
                raise BadInput(
                    f"{origin}: labels of part {name!r} have shape {labels.shape}, not [n]."
                )
        for name, (_, labels) in checked.items():
            wrong = np.flatnonzero((labels < 0) | (labels >= (num_classes or MOST_CLASSES)))
            for sample in wrong[:1]:
                place = f"{origin}, part {name!r}, sample {sample}"
                check_id(int(labels[sample]), num_classes, place)
        used = np.unique(np.concatenate([np.unique(labels) for _, labels in checked.values()]))
        classes = count_classes(map(int, used), num_classes, origin)
        dtype: type[np.integer] = np.int32
    else:
        widths = {labels.shape[1:] for _, labels in checked.values()}
        if len(widths) != 1 or len(next(iter(widths))) != 1:
            raise BadInput(
                f"{origin}: multi-label labels must have shape [n, classes] in every part, not"
                f" {widths}."
            )
        classes = next(iter(widths))[0]
        if num_classes not in (None, classes):
            raise BadInput(
                f"{origin}: labels have {classes} columns but the task has {num_classes} classes."
            )
        for name, (_, labels) in checked.items():
            if not np.isin(labels, (0, 1)).all():
                raise BadInput(f"{origin}: multi-label labels of part {name!r} must be 0 or 1.")
        dtype = np.uint8
    samples = {}
    for part in dict.fromkeys(called.values()):
        one = Samples.join(
            [
                Samples(images, labels.astype(dtype), (), found.file_names.get(name, ()))
                for name, (images, labels) in checked.items()
                if called[name] == part
            ]
        )
        ids = [f"{dataset_id}/{part}/{i}" for i in range(len(one))]
        samples[part] = Samples(one.images, one.labels, ids, one.names)
    names = tuple(found.class_names)
    if names:
        names += tuple(str(number) for number in range(len(names), classes))
    present = find_present_classes([one.labels for one in samples.values()], classes)
    empty = np.flatnonzero(~present).tolist()
    reading = Reading(
        {part: len(one) for part, one in samples.items()},
        kind,
        classes,
        names,
        found.labels,
        len(empty),
        tuple(found.left_out),
        (
            *found.notes,
            *_empty_classes(empty, names),
            *(note for images, _ in pairs.values() for note in images.notes),
        ),
        choices.given(),
    )
    say(dataset_id, reading)
    return DataSet(dataset_id, kind, classes, samples, class_names=names, reading=reading)


def _to_pair(samples: Any, origin: str, choices: Choices) -> tuple[Images, np.ndarray]:
    """Returns images and labels of a part as people have them.

    Raises:
      BadInput: it is neither a pair of both nor yields pairs.
    """
    if not (isinstance(samples, tuple) and len(samples) == 2):
        try:
            # data sets of torchvision have no iterator, and some of them no end by IndexError
            items = (
                [samples[place] for place in range(len(samples))]
                if hasattr(samples, "__getitem__") and hasattr(samples, "__len__")
                else list(samples)
            )
            samples = [image for image, _ in items], [label for _, label in items]
        except (TypeError, ValueError, KeyError) as error:
            raise BadInput(
                f"{origin}: give (images, labels), or what yields pairs of an image and its label;"
                f" not {type(samples).__name__} ({error})."
            ) from error
    images, labels = samples
    return to_images(images, origin, choices.ground()), np.asarray(labels)


def find_present_classes(labels: Sequence[np.ndarray], classes: int) -> np.ndarray:
    """Returns bool[classes]: which classes have a sample."""
    if labels[0].ndim == 1:
        return np.bincount(np.concatenate(labels), minlength=classes) > 0
    return np.any([of_part.any(axis=0) for of_part in labels], axis=0)


class IdsWithGaps(BadInput):
    """Some class ids have no sample, and nothing says that there are such classes."""


def check_id(number: int, declared: int | None, place: str) -> None:
    """Checks a class id.

    Args:
      number: the id.
      declared: the number of classes, or None if nothing declares it.
      place: what a message begins with.

    Raises:
      BadInput: it is negative, not one of the declared classes, or too large to be an id.
    """
    if number >= MOST_CLASSES:
        raise BadInput(
            f"{place}: label {shorten(str(number))} is too large for a class id; valid:"
            f" 0..{(declared or MOST_CLASSES) - 1}. Is it a date or the number of a file?"
        )
    if number < 0 or (declared and number >= declared):
        valid = f"0..{declared - 1}" if declared else "whole numbers from 0"
        raise BadInput(f"{place}: label {number} is out of range; valid: {valid}.")


def count_classes(found: Iterable[int], declared: int | None, origin: str) -> int:
    """Returns the number of classes.

    Args:
      found: the ids that have samples, none of them negative.
      declared: the number of classes, or None if nothing declares it.
      origin: named in messages.

    Raises:
      IdsWithGaps: nothing declares the number of classes, and an id below the largest has no
        sample.
    """
    ids = sorted(set(found))
    if declared:
        return declared
    classes = 1 + max(ids, default=0)
    if len(ids) < classes:
        have, missing = _ranges(ids), _ranges(sorted(set(range(classes)) - set(ids)))
        raise IdsWithGaps(
            f"{origin}: class ids are {have}; without a sample: {missing}. Ids start at 0 and have"
            f" no gaps: number the classes 0..{len(ids) - 1}. Or, if there are classes without"
            f" samples, declare them by {_DECLARE}."
        )
    return classes


def _empty_classes(ids: Sequence[int], names: Sequence[str]) -> list[str]:
    """Returns a sentence that names the classes without a sample, or none if all have one.

    >>> _empty_classes([1, 2], ["cat", "dog", "owl"]) + _empty_classes([3, 4, 5], [])
    ["no image is of class 'dog', 'owl'", 'no image is of class 3 to 5']
    """
    if not ids:
        return []
    return [
        f"no image is of class {list_names([names[i] for i in ids]) if names else _ranges(ids)}"
    ]


def list_names(names: Sequence[str]) -> str:
    """Returns names as text, the first ten of them."""
    return ", ".join(map(repr, names[:_SHOWN])) + (", …" if len(names) > _SHOWN else "")


def _ranges(ids: Sequence[int]) -> str:
    """Returns sorted numbers as text.

    >>> _ranges([0, 1, 2, 4, 6, 7])
    '0 to 2, 4, 6 to 7'
    """
    ranges: list[list[int]] = []
    for number in ids:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    texts = [f"{a} to {b}" if b > a else str(a) for a, b in ranges]
    more = [f"{len(texts) - _SHOWN} more ranges"] if len(texts) > _SHOWN else []
    return ", ".join(texts[:_SHOWN] + more)
