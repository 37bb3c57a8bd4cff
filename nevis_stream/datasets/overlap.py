"""Pictures that stand in several tasks of a stream: later test images that an earlier task has
trained on.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nevis_stream.datasets.dataset import Samples
from nevis_stream.datasets.duplicates import dhashes, examine


@dataclass(frozen=True)
class Overlap:
    """A finding.

    Attributes:
      task_id: the later task.
      split: "test" or "dev_test" of it.
      earlier: the earlier task.
      exact: how many of the pictures stand, with the same pixels, in the earlier task's train or
        dev split.
      near: how many more have the perceptual hash of one of those.
      samples: size of the split.
    """

    task_id: str
    split: str
    earlier: str
    exact: int
    near: int
    samples: int


def hashes(samples: Samples) -> tuple[np.ndarray, np.ndarray]:
    """Returns S32[n] and uint64[n]: sha256 and perceptual hash of the pixels of every sample."""
    from PIL import Image

    facts = [examine(Image.fromarray(picture)) for picture in samples.images]
    return np.asarray([f.sha256 for f in facts], "S32"), dhashes(
        np.stack([f.thumbnail for f in facts])
    )


def find(
    tasks: Sequence[tuple[str, str]],
    hashes_of: Callable[[str, str], tuple[np.ndarray, np.ndarray]],
    progress: Callable[[str, int, int], None] = lambda stage, done, total: None,
) -> list[Overlap]:
    """Returns the overlaps of every task's dev_test and test splits with the train and dev splits
    of earlier data sets.

    Args:
      tasks: (task_id, dataset_id) in stream order; repeats of a data set overlap by intention and
        are left out.
      hashes_of: returns sha256 and perceptual hashes of a data set's split.
      progress: told how far it is.
    """
    seen: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    names: Mapping[str, str] = {}
    found = []
    for number, (task_id, dataset_id) in enumerate(tasks):
        progress("compare", number, len(tasks))
        if dataset_id in seen:
            continue
        for split in ("dev_test", "test"):
            exact, near = hashes_of(dataset_id, split)
            for earlier, (their_exact, their_near) in seen.items():
                same = np.isin(exact, their_exact)
                alike = np.isin(near, their_near) & (near != 0) & ~same
                if same.any() or alike.any():
                    found.append(
                        Overlap(
                            task_id,
                            split,
                            names[earlier],
                            int(same.sum()),
                            int(alike.sum()),
                            len(exact),
                        )
                    )
        pairs = [hashes_of(dataset_id, split) for split in ("train", "dev")]
        seen[dataset_id] = tuple(
            np.unique(np.concatenate(column)) for column in zip(*pairs, strict=True)
        )
        names = {**names, dataset_id: task_id}
    return found
