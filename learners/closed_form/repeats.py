"""Recognising an earlier data set from its pictures, whatever the task is called.

Of each task the state keeps a sketch: the smallest hashes of its training pictures. Two data sets
with most of their pictures in common have most of their sketches in common (Broder 1997), so a new
task is compared with each earlier one at a fixed cost. The pictures themselves are compared only
with the task whose sketch fits.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from nevis_stream.learner import Context
from nevis_stream.streams.task import SINGLE_LABEL, LabelledImages, TaskView

SKETCH = 64
_SHARE = 0.9  # of a sketch, and of the pictures, that must be the same


def sketch(images: np.ndarray) -> np.ndarray:
    """Returns uint64[up to SKETCH]: the smallest of the pictures' hashes, each once.

    Args:
      images: uint64[n], from `hashes`.
    """
    return np.unique(images)[:SKETCH]


def hashes(split: LabelledImages) -> np.ndarray:
    """Returns uint64[n]: the first 8 bytes of the sha256 of every picture's pixels."""
    digests = np.ascontiguousarray(split.images.pixel_hashes(), "S32")
    return digests.view(np.uint8).reshape(-1, 32)[:, :8].copy().view("<u8").ravel()


def find(
    task: TaskView, own: np.ndarray, sketches: Mapping[str, np.ndarray], ctx: Context
) -> tuple[str, np.ndarray] | None:
    """Returns an earlier task with these pictures and classes, and where it has each class.

    Args:
      task: the current task.
      own: uint64[n], the hashes of its training pictures.
      sketches: those of earlier tasks by task id.
      ctx: charged for the comparisons: those of hashes, as integers.

    Returns:
      The task id and int[classes], for each class of this task its number in the earlier one; None
      where no task has the pictures, or none divides them in the same way.
    """
    current = sketch(own)
    for task_id, earlier in sketches.items():
        ctx.charge(len(current) + len(earlier))
        common = np.intersect1d(current, earlier)
        if len(common) < _SHARE * max(len(current), len(earlier)):
            continue
        if task_id not in ctx.past_tasks:  # its predictor is no longer kept
            continue
        classes = _classes(task, own, ctx.task(task_id), ctx)
        if classes is not None:
            return task_id, classes
    return None


def _classes(task: TaskView, own: np.ndarray, earlier: TaskView, ctx: Context) -> np.ndarray | None:
    """Returns the earlier task's number of each class; None where the classes do not correspond."""
    if task.kind != earlier.kind:
        return None
    others = hashes(earlier.train)
    ctx.charge(len(own) + len(others))
    rows = _once(own), _once(others)
    _, here, there = np.intersect1d(own[rows[0]], others[rows[1]], return_indices=True)
    if len(here) < _SHARE * max(len(rows[0]), len(rows[1])):
        return None
    members = [
        _members(view, view.train.labels[places])
        for view, places in ((task, rows[0][here]), (earlier, rows[1][there]))
    ]
    numbers: dict[bytes, list[int]] = {}
    for number, column in enumerate(members[1].T):
        numbers.setdefault(column.tobytes(), []).append(number)
    found = []
    for column in members[0].T:
        same = numbers.get(column.tobytes())
        if not same:
            return None
        found.append(same.pop(0))  # of classes without a picture any will do
    return np.asarray(found)


def _once(values: np.ndarray) -> np.ndarray:
    """Returns the places of the values that occur once."""
    _, places, counts = np.unique(values, return_index=True, return_counts=True)
    return places[counts == 1]


def _members(task: TaskView, labels: np.ndarray) -> np.ndarray:
    """Returns uint8[n, classes]: which pictures are in each class."""
    if task.kind == SINGLE_LABEL:
        return np.eye(task.num_classes, dtype=np.uint8)[labels]
    return np.asarray(labels, np.uint8)


def permuted(tree: Mapping[str, Any], classes: np.ndarray) -> dict[str, Any]:
    """Returns an earlier predictor's tree with its classes in another order.

    Args:
      tree: of a predictor of `closed_form`.
      classes: int[classes], the earlier number of each class.
    """
    order = {
        "coefficients": np.asarray(tree["coefficients"])[:, classes],
        "means": np.asarray(tree["means"])[classes],
    }
    return dict(tree) | order
