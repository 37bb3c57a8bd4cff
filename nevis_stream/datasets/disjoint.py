"""Data sets without the images that an earlier task has: NEVIS'22 removes duplicates, so that
splits and tasks are disjoint (section 3.2)."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from nevis_stream.datasets.dataset import Samples
from nevis_stream.datasets.overlap import TESTED
from nevis_stream.errors import BadInput, plural
from nevis_stream.vocabulary import SPLITS

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
