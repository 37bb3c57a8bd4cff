"""Test images that were in a learner's training data, and data sets without the images that an
earlier task has.

Copies within one task are leaks; copies in the training data of an earlier task are overlaps.
NEVIS'22 removes duplicates, so that splits and tasks are disjoint (section 3.2).
"""

import contextlib
import csv
import dataclasses
import hashlib
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nevis_stream.datasets.dataset import Samples
from nevis_stream.datasets.prepared import derived_directory
from nevis_stream.errors import BadInput, StorageFull, plural
from nevis_stream.progress import SILENT, Progress
from nevis_stream.storage import write_file
from nevis_stream.storage.reading import read_bytes
from nevis_stream.vocabulary import SPLITS

TRAINING = ("train", "dev")
TESTED = ("dev_test", "test")
_SCHEMA = "v2"  # of the cached tables, whose last line is the checksum of the others


@dataclass(frozen=True)
class Overlap:
    """The images in a test split of a task that an earlier task has in its training data.

    Attributes:
      task_id: the later task.
      split: its split, "test" or "dev_test".
      earlier: the earlier task.
      exact: number of images of the split whose pixels an image of the earlier task's train or dev
        split has too.
      near: number of its other images whose perceptual hash such an image has.
      samples: size of the split.
    """

    task_id: str
    split: str
    earlier: str
    exact: int
    near: int
    samples: int


def count_leaks(splits: Mapping[str, Samples], split: str) -> int:
    """Counts the images of `split` that the train or dev split of the same data set contains."""
    training = np.concatenate([splits[name].images.pixel_hashes() for name in TRAINING])
    return int(np.isin(splits[split].images.pixel_hashes(), training).sum())


def find_overlaps(
    tasks: Sequence[tuple[str, str]],
    splits_of: Callable[[str], Mapping[str, Samples]],
    progress: Progress = SILENT,
) -> list[Overlap]:
    """Returns the overlaps of every task's dev_test and test splits with earlier training data.

    Training data are the train and dev splits.

    Args:
      tasks: (task_id, dataset_id) in stream order; only the first task of a data set counts, since
        its repeats overlap intentionally.
      splits_of: returns the splits of a data set.
      progress: is told the stages.
    """
    first: dict[str, str] = {}
    for task_id, dataset_id in tasks:
        first.setdefault(dataset_id, task_id)
    exact_hashes, near_hashes = [], []
    for number, dataset_id in enumerate(first):
        progress.stage("hash images", number, len(first))
        splits = splits_of(dataset_id)
        images = [splits[name].images for name in (*TRAINING, *TESTED)]
        exact_hashes += [part.pixel_hashes() for part in images]
        near_hashes += [part.dhashes() for part in images]
    numbered = iter(_number(exact_hashes))  # comparing integers is faster than comparing 32 bytes
    perceptual = iter(near_hashes)
    earlier: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    overlaps = []
    for number, task_id in enumerate(first.values()):
        progress.stage("compare tasks", number, len(first))
        exact = dict(zip((*TRAINING, *TESTED), numbered, strict=False))
        near = dict(zip((*TRAINING, *TESTED), perceptual, strict=False))
        for split in TESTED:
            for earlier_task, (their_exact, their_near) in earlier.items():
                same = np.isin(exact[split], their_exact)
                similar = np.isin(near[split], their_near) & (near[split] != 0) & ~same
                if same.any() or similar.any():
                    counts = int(same.sum()), int(similar.sum()), len(same)
                    overlaps.append(Overlap(task_id, split, earlier_task, *counts))
        earlier[task_id] = tuple(
            np.unique(np.concatenate([hashes[name] for name in TRAINING]))
            for hashes in (exact, near)
        )
    return overlaps


def _number(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Returns the arrays with each distinct value replaced by an integer."""
    numbers = np.unique(np.concatenate(arrays), return_inverse=True)[1]
    return np.split(numbers, np.cumsum([len(array) for array in arrays])[:-1])


def cached_overlaps(
    digest: str,
    tasks: Sequence[tuple[str, str]],
    splits_of: Callable[[str], Mapping[str, Samples]],
    progress: Progress = SILENT,
) -> list[Overlap]:
    """Returns the result of `find_overlaps`, which is kept in the folder of derived files.

    Args:
      digest: digest of the stream, which changes with its rows and images.
      tasks, splits_of, progress: as in `find_overlaps`.
    """
    path = derived_directory() / f"overlap-{digest}-{_SCHEMA}.csv"
    try:
        text, _, digest = read_bytes(path).decode().rstrip().rpartition("\n")
        if digest != _digest(f"{text}\n"):
            raise ValueError("has changed since it was written")
        return from_csv(text)
    except (OSError, ValueError, TypeError):
        overlaps = find_overlaps(tasks, splits_of, progress)
    with contextlib.suppress(OSError, StorageFull):  # a folder that cannot be written to
        text = to_csv(overlaps)
        write_file(path, f"{text}{_digest(text)}\n".encode())
    return overlaps


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def to_csv(overlaps: Sequence[Overlap]) -> str:
    """Returns a table with one row for each overlap."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([field.name for field in dataclasses.fields(Overlap)])
    writer.writerows(dataclasses.astuple(overlap) for overlap in overlaps)
    return text.getvalue()


def from_csv(text: str) -> list[Overlap]:
    """Reads a table that `to_csv` wrote.

    Raises:
      ValueError, TypeError: it is another table.
    """
    rows = csv.DictReader(io.StringIO(text))
    if rows.fieldnames != [field.name for field in dataclasses.fields(Overlap)]:
        raise ValueError("not a table of overlaps")
    counts = ("exact", "near", "samples")
    return [Overlap(**row | {name: int(row[name]) for name in counts}) for row in rows]


Splits = Mapping[str, Samples]


def disjoint(
    tasks: Sequence[tuple[str, str]], splits_of: Callable[[str], Splits]
) -> tuple[dict[str, Splits], list[str]]:
    """Returns the splits of each data set without the images, by exact pixels, that any split of an
    earlier task's data set has, and a line for each data set that loses some.

    A repeat of a data set has the splits of its first task: it repeats them intentionally. Copies
    in one data set stay; preparing it removes them.

    Args:
      tasks: (task_id, dataset_id) in stream order.
      splits_of: returns the splits of a data set.

    Raises:
      BadInput: a dev_test or test split would lose more than half of its images, or another split
        all of them.
    """
    kept: dict[str, Splits] = {}
    lines, earlier = [], np.empty(0, "S32")
    for task_id, dataset_id in tasks:
        if dataset_id in kept:
            continue
        splits = splits_of(dataset_id)
        hashes = {name: splits[name].images.pixel_hashes() for name in SPLITS}
        copied = {name: np.isin(hashes[name], earlier) for name in SPLITS}
        for name, copies in copied.items():
            gone, n = int(copies.sum()), len(copies)
            if 2 * gone > n if name in TESTED else gone == n > 0:
                raise BadInput(
                    f"task {task_id!r}: {gone} of {n} images of its {name} split are copies of"
                    " images of earlier tasks, so too few would be left of it. Leave one of these"
                    " tasks out (nevis-stream data overlap lists them), or use the stream without"
                    " +disjoint."
                )
        lost = {name: int(copies.sum()) for name, copies in copied.items() if copies.any()}
        if lost:
            parts = ", ".join(
                f"{count} of {len(copied[name])} in {name}" for name, count in lost.items()
            )
            lines.append(f"{task_id}: {plural(sum(lost.values()), 'image')} left out ({parts})")
        kept[dataset_id] = {
            name: splits[name].take(np.flatnonzero(~copied[name])) if name in lost else splits[name]
            for name in splits
        }
        earlier = np.unique(np.concatenate([earlier, *hashes.values()]))
    return kept, lines
