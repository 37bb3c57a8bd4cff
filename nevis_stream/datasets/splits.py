"""The four splits of a data set: train, dev, dev_test and test, made once and the same everywhere.

| source parts              | train           | dev             | dev_test        | test       |
|---------------------------|-----------------|-----------------|-----------------|------------|
| all                       | 56% of all      | 12% of all      | 12% of all      | 20% of all |
| train, test               | 70% of train    | 15% of train    | 15% of train    | test       |
| train, dev, test          | 80% of train    | 20% of train    | dev             | test       |
| train, dev (by choice)    | 64% of train    | 16% of train    | dev             | 20% of train |
| train, dev, dev_test, test| train           | dev             | dev_test        | test       |

Fractions, and that an official dev part becomes dev_test while dev is split from train, are those
of NEVIS'22's reference code. That code draws a split for each sample; here the sizes are exact.
"""

import hashlib
import warnings
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from nevis_stream.datasets.dataset import SINGLE_LABEL, DataSet, Samples
from nevis_stream.errors import BadInput, DataWarning
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
    rule = _rule(dataset.dataset_id, dataset.parts)
    samples_by_split = {}
    for part, percentages in rule.items():
        samples = dataset.parts[part]
        if len(percentages) == 1:
            samples_by_split |= dict.fromkeys(percentages, samples)
            continue
        positions = _positions(
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
    rule = rule or _rule(dataset_id, present)
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
            divided = _positions(
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
        name: positions[np.argsort(_hashes(names[positions]), kind="stable")]
        for name, positions in joined.items()
    }


def _rule(dataset_id: str, parts: Iterable[str]) -> Mapping[str, Mapping[str, int]]:
    rule = _RULES.get(frozenset(parts))
    if rule is None:
        valid = "; ".join(", ".join(sorted(parts)) for parts in _RULES)
        present = ", ".join(sorted(parts)) or "(none)"
        raise BadInput(f"{dataset_id}: has the parts {present}. Valid sets of parts: {valid}.")
    return rule


def _hashes(ids: np.ndarray) -> np.ndarray:
    return np.asarray(
        [hashlib.sha256(sample_id.encode()).digest() for sample_id in ids.tolist()], "S32"
    )


def sizes(n: int, percentages: Mapping[str, int]) -> dict[str, int]:
    """Returns whole sizes that add up to n, each less than 1 from its exact share.

    The largest remainders are rounded up; of several equal ones, the first in `percentages`.
    """
    size = {name: n * share // 100 for name, share in percentages.items()}
    by_remainder = sorted(percentages, key=lambda name: -(n * percentages[name] % 100))
    for name in by_remainder[: n - sum(size.values())]:
        size[name] += 1
    return size


def _positions(
    dataset_id: str,
    part: str,
    ids: np.ndarray,
    percentages: Mapping[str, int],
    may_be_empty: bool = False,
) -> dict[str, np.ndarray]:
    n = len(ids)
    split_sizes = sizes(n, percentages)
    empty = [name for name, size in split_sizes.items() if size == 0]
    if empty and not may_be_empty:
        least = next(k for k in range(n + 1, 1000) if all(sizes(k, percentages).values()))
        raise BadInput(
            f"{dataset_id}: part {part!r} has n = {n} samples, which leaves split "
            f"{', '.join(empty)} empty; it needs at least {least}."
        )
    order = np.argsort(_hashes(ids), kind="stable")
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
