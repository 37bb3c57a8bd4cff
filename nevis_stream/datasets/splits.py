"""The four splits of a data set: train, dev, dev_test and test, made once and the same everywhere;
and images that are in more than one of them, or in several tasks.

| source parts              | train           | dev             | dev_test        | test       |
|---------------------------|-----------------|-----------------|-----------------|------------|
| all                       | 56% of all      | 12% of all      | 12% of all      | 20% of all |
| train, test               | 70% of train    | 15% of train    | 15% of train    | test       |
| train, dev, test          | 80% of train    | 20% of train    | dev             | test       |
| train, dev (by choice)    | 64% of train    | 16% of train    | dev             | 20% of train |
| train, dev, dev_test, test| train           | dev             | dev_test        | test       |

Fractions, and that an official dev part becomes dev_test while dev is split from train, are those
of NEVIS'22's reference code. That code draws a split for each sample; here the sizes are exact.

Duplicates within one task are leaks; those in training data of an earlier task are overlaps.
NEVIS'22 removes duplicates, so that splits and tasks are disjoint (section 3.2).
"""

import contextlib
import dataclasses
import hashlib
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nevis_stream.catalogue import find_derived_directory
from nevis_stream.datasets.dataset import SINGLE_LABEL, DataSet, Samples
from nevis_stream.errors import BadInput, DataWarning, StorageFull, plural
from nevis_stream.progress import SILENT, Progress
from nevis_stream.storage import write_file
from nevis_stream.storage.reading import read_bytes
from nevis_stream.storage.tables import format_csv, parse_csv
from nevis_stream.vocabulary import SPLITS

# By the parts of the source: for each part, the percentage of it that goes to each split.
_RULES: Mapping[frozenset[str], Mapping[str, Mapping[str, int]]] = {
    frozenset(rule): rule
    for rule in (
        {"all": {"train": 56, "dev": 12, "dev_test": 12, "test": 20}},
        {"train": {"train": 70, "dev": 15, "dev_test": 15}, "test": {"test": 100}},
        {"train": {"train": 80, "dev": 20}, "dev": {"dev_test": 100}, "test": {"test": 100}},
        {"train": {"train": 64, "dev": 16, "test": 20}, "dev": {"dev_test": 100}},
        {split: {split: 100} for split in SPLITS},
    )
}


def divide(dataset: DataSet) -> dict[str, Samples]:
    """Returns the samples of train, dev, dev_test and test, each in the order of the source.

    Which samples go where depends on the sha256 of their ids alone, not on any random generator.

    Args:
      dataset: with the parts {all}, {train, test}, {train, dev, test}, {train, dev} or all four.

    Raises:
      BadInput: other parts, or so few samples that a split would be empty.

    Warns:
      DataWarning: classes of dev_test or test that never occur in train; images of 1×1 pixels.
    """
    rule = _find_rule(dataset.dataset_id, dataset.parts)
    samples_by_split = {}
    for part, percentages in rule.items():
        samples = dataset.parts[part]
        if len(percentages) == 1:
            samples_by_split |= dict.fromkeys(percentages, samples)
            continue
        positions = _divide_part(
            dataset.dataset_id, part, np.asarray(samples.ids, object), percentages
        )
        samples_by_split |= {
            name: samples.take(np.sort(chosen)) for name, chosen in positions.items()
        }
    splits = {name: samples_by_split[name] for name in SPLITS}
    _warn_of_unseen_classes(dataset, splits)
    _warn_of_single_pixels(dataset)
    return splits


def assign(
    dataset_id: str,
    parts: np.ndarray,
    ids: Sequence[str],
    rule: Mapping[str, Mapping[str, int]] | None = None,
    strata: np.ndarray | None = None,
) -> dict[str, np.ndarray]:
    """Divides samples as `divide` does, or by another rule if one is given.

    Args:
      dataset_id: named in errors.
      parts: str[n], the source part of each sample.
      ids: n sample ids.
      rule: by source part the percentage of it that goes to each split; None for the usual rule.
      strata: int[n]; if given, each stratum (class) is divided separately.

    Returns:
      int[k] positions of each split, in the order of the sha256 of the ids.

    Raises:
      BadInput: parts that the rule does not name, or an empty split.
    """
    present = set(parts.tolist())
    rule = rule or _find_rule(dataset_id, present)
    if set(rule) != present:
        raise BadInput(
            f"{dataset_id}: has the parts {', '.join(sorted(present))}; expected:"
            f" {', '.join(sorted(rule))}."
        )
    names = np.asarray(ids, object)
    pieces_by_split: dict[str, list[np.ndarray]] = {name: [] for name in SPLITS}
    for part, percentages in rule.items():
        of_part = np.flatnonzero(parts == part)
        groups = [of_part]
        if strata is not None and len(percentages) > 1:
            groups = [of_part[strata[of_part] == value] for value in np.unique(strata[of_part])]
        for group in groups:
            divided = _divide_part(
                dataset_id, part, names[group], percentages, may_be_empty=len(groups) > 1
            )
            for name, positions in divided.items():
                pieces_by_split[name].append(group[positions])
    joined = {
        name: np.concatenate(pieces or [np.zeros(0, int)])
        for name, pieces in pieces_by_split.items()
    }
    empty = [name for name, positions in joined.items() if not len(positions)]
    if empty:
        raise BadInput(f"{dataset_id}: split {', '.join(empty)} would be empty.")
    return {
        name: positions[np.argsort(_hash_ids(names[positions]), kind="stable")]
        for name, positions in joined.items()
    }


def _find_rule(dataset_id: str, parts: Iterable[str]) -> Mapping[str, Mapping[str, int]]:
    rule = _RULES.get(frozenset(parts))
    if rule is None:
        valid = "; ".join(", ".join(sorted(parts)) for parts in _RULES)
        present = ", ".join(sorted(parts)) or "(none)"
        raise BadInput(f"{dataset_id}: has the parts {present}. Valid sets of parts: {valid}.")
    return rule


def _hash_ids(ids: np.ndarray) -> np.ndarray:
    return np.asarray(
        [hashlib.sha256(sample_id.encode()).digest() for sample_id in ids.tolist()], "S32"
    )


def divide_proportionally(n: int, percentages: Mapping[str, int]) -> dict[str, int]:
    """Returns whole sizes that add up to n, each less than 1 from the exact one.

    The largest remainders are rounded up; of several equal ones, the first in `percentages`.
    """
    size = {name: n * percentage // 100 for name, percentage in percentages.items()}
    by_remainder = sorted(percentages, key=lambda name: -(n * percentages[name] % 100))
    for name in by_remainder[: n - sum(size.values())]:
        size[name] += 1
    return size


def _divide_part(
    dataset_id: str,
    part: str,
    ids: np.ndarray,
    percentages: Mapping[str, int],
    may_be_empty: bool = False,
) -> dict[str, np.ndarray]:
    n = len(ids)
    split_sizes = divide_proportionally(n, percentages)
    empty = [name for name, size in split_sizes.items() if size == 0]
    if empty and not may_be_empty:
        least = next(
            k for k in range(n + 1, 1000) if all(divide_proportionally(k, percentages).values())
        )
        raise BadInput(
            f"{dataset_id}: part {part!r} has n = {n} samples, which leaves split "
            f"{', '.join(empty)} empty; it needs at least {least}."
        )
    order = np.argsort(_hash_ids(ids), kind="stable")
    ends = np.cumsum(list(split_sizes.values()))[:-1]
    return dict(zip(split_sizes, np.split(order, ends), strict=True))


def _warn_of_unseen_classes(dataset: DataSet, splits: Mapping[str, Samples]) -> None:
    def present(name: str) -> set[int]:
        labels = splits[name].labels
        class_ids = labels if dataset.kind == SINGLE_LABEL else np.flatnonzero(labels.any(axis=0))
        return set(np.unique(class_ids).tolist())

    unseen = sorted((present("dev_test") | present("test")) - present("train"))
    if unseen:
        names = ", ".join(map(str, unseen[:20])) + (", …" if len(unseen) > 20 else "")
        warnings.warn(
            f"{dataset.dataset_id}: {len(unseen)} class(es) of dev_test or test have no sample in "
            f"train and cannot be learned: {names}.",
            DataWarning,
            stacklevel=3,
        )


def _warn_of_single_pixels(dataset: DataSet) -> None:
    for samples in dataset.parts.values():
        single = np.flatnonzero((samples.images.sizes == 1).all(axis=1))
        if len(single):
            warnings.warn(
                f"{dataset.dataset_id}: {len(single)} image(s) of 1×1 pixels, the first is "
                f"{samples.ids[single[0]]}; check the files.",
                DataWarning,
                stacklevel=3,
            )


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
    numbered = iter(
        _number_values(exact_hashes)
    )  # comparing integers is faster than comparing 32 bytes
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


def _number_values(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Returns the arrays with each distinct value replaced by an integer."""
    numbers = np.unique(np.concatenate(arrays), return_inverse=True)[1]
    return np.split(numbers, np.cumsum([len(array) for array in arrays])[:-1])


def find_cached_overlaps(
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
    path = find_derived_directory() / f"overlap-{digest}-{_SCHEMA}.csv"
    try:
        text, _, checksum = read_bytes(path).decode().rstrip().rpartition("\n")
        if checksum != _digest(f"{text}\n"):
            raise ValueError("has changed since it was written")
        counts = ("exact", "near", "samples")
        return [
            Overlap(**row | {name: int(row[name]) for name in counts}) for row in parse_csv(text)
        ]
    except (OSError, ValueError, KeyError, TypeError):
        overlaps = find_overlaps(tasks, splits_of, progress)
    with contextlib.suppress(OSError, StorageFull):  # a folder that cannot be written to
        text = format_overlaps(overlaps)
        write_file(path, f"{text}{_digest(text)}\n".encode())
    return overlaps


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def format_overlaps(overlaps: Sequence[Overlap]) -> str:
    """Returns a table as csv with one row for each overlap."""
    names = [field.name for field in dataclasses.fields(Overlap)]
    return format_csv(names, map(dataclasses.astuple, overlaps))


Splits = Mapping[str, Samples]


def remove_overlaps(
    tasks: Sequence[tuple[str, str]], splits_of: Callable[[str], Splits]
) -> tuple[dict[str, Splits], list[str]]:
    """Returns the splits of each data set without the images, by exact pixels, that any split of an
    earlier task's data set has, and a line for each data set that loses some.

    A repeat of a data set has the splits of its first task: it repeats them intentionally.
    Duplicates in one data set stay; preparing it removes them.

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
