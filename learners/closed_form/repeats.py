"""Recognises an earlier data set by its images, independent of the task's name.

The state keeps a sketch of each task: the smallest hashes of its training images. Two data sets
that share most of their images share most of their sketches (Broder 1997), so comparing a new task
with an earlier one has a fixed cost. The images themselves are compared only if the sketches match.
A data set that is divided anew, under another id, is not recognised: its train split has other
images, and the earlier one may contain what is now tested.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from nevis_stream.learner import Context
from nevis_stream.streams.task import SINGLE_LABEL, LabelledImages, TaskView

SKETCH = 64
_SHARE = 0.9  # share of a sketch, and of the images, that must be the same


def sketch_hashes(image_hashes: np.ndarray) -> np.ndarray:
    """Returns uint64[up to SKETCH]: the smallest hashes, without duplicates.

    Args:
      image_hashes: uint64[n], from `hash_images`.
    """
    return np.unique(image_hashes)[:SKETCH]


def hash_images(split: LabelledImages) -> np.ndarray:
    """Returns uint64[n]: the first 8 bytes of the sha256 of each image's pixels."""
    digests = np.ascontiguousarray(split.images.pixel_hashes(), "S32")
    return digests.view(np.uint8).reshape(-1, 32)[:, :8].copy().view("<u8").ravel()


def find(
    task: TaskView, image_hashes: np.ndarray, sketches: Mapping[str, np.ndarray], ctx: Context
) -> tuple[str, np.ndarray] | None:
    """Returns an earlier task with the same images and classes, and its numbers of the classes.

    Args:
      task: the current task.
      image_hashes: uint64[n], the hashes of its training images.
      sketches: the sketches of earlier tasks by task id.
      ctx: the comparisons of hashes are charged to it.

    Returns:
      The task id and int[classes], the number that each class of this task has in the earlier one;
      None if no earlier task has the same images with the same classes.
    """
    current = sketch_hashes(image_hashes)
    for task_id, earlier in sketches.items():
        ctx.charge(len(current) + len(earlier))
        common = np.intersect1d(current, earlier)
        if len(common) < _SHARE * max(len(current), len(earlier)):
            continue
        if task_id not in ctx.past_tasks:  # its predictor is no longer kept
            continue
        classes = _classes(task, image_hashes, ctx.task(task_id), ctx)
        if classes is not None:
            return task_id, classes
    return None


def _classes(
    task: TaskView, image_hashes: np.ndarray, earlier: TaskView, ctx: Context
) -> np.ndarray | None:
    """Returns the earlier task's number of each class; None if the classes do not correspond."""
    if task.kind != earlier.kind:
        return None
    earlier_hashes = hash_images(earlier.train)
    ctx.charge(len(image_hashes) + len(earlier_hashes))
    all_members = _members(task), _members(earlier)
    rows = _clear(image_hashes, all_members[0]), _clear(earlier_hashes, all_members[1])
    _, first, second = np.intersect1d(
        image_hashes[rows[0]], earlier_hashes[rows[1]], return_indices=True
    )
    if len(first) < _SHARE * max(len(rows[0]), len(rows[1]), 1):
        return None
    members = all_members[0][rows[0][first]], all_members[1][rows[1][second]]
    for shared, everything in zip(members, all_members, strict=True):
        if (everything.any(0) & ~shared.any(0)).any():  # no shared image tells which class it is
            return None
    numbers: dict[bytes, list[int]] = {}
    for number, column in enumerate(members[1].T):
        numbers.setdefault(column.tobytes(), []).append(number)
    classes = []
    for column in members[0].T:
        candidates = numbers.get(column.tobytes())
        if not candidates:
            return None
        classes.append(candidates.pop(0))  # classes without images are interchangeable
    return np.asarray(classes)


def _clear(image_hashes: np.ndarray, members: np.ndarray) -> np.ndarray:
    """Returns the position of one copy of each image all of whose copies have the same labels."""
    _, first, copy_of = np.unique(image_hashes, return_index=True, return_inverse=True)
    differs = (members != members[first][copy_of]).any(1)
    return np.delete(first, copy_of[differs])


def _members(task: TaskView) -> np.ndarray:
    """Returns uint8[n, classes]: which training images are in each class."""
    if task.kind == SINGLE_LABEL:
        return np.eye(task.num_classes, dtype=np.uint8)[task.train.labels]
    return np.asarray(task.train.labels, np.uint8)


def permute(tree: Mapping[str, Any], classes: np.ndarray) -> dict[str, Any]:
    """Returns an earlier predictor's tree with its classes in another order.

    Args:
      tree: the tree of a predictor of `closed_form` or `frontier`.
      classes: int[classes], the earlier number of each class.
    """
    order = {
        "coefficients": np.asarray(tree["coefficients"])[:, classes],
        "means": np.asarray(tree["means"])[classes],
    }
    if "network" in tree:
        earlier = np.asarray(tree["network"]["classes"])
        order["network"] = dict(tree["network"]) | {"classes": earlier[classes]}
    return dict(tree) | order
