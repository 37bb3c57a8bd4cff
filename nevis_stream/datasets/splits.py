"""The four splits of a data set: train, dev, dev_test and test, made once and the same everywhere.

| source parts              | train           | dev             | dev_test        | test       |
|---------------------------|-----------------|-----------------|-----------------|------------|
| all                       | 56 % of all     | 12 % of all     | 12 % of all     | 20 % of all |
| train, test               | 70 % of train   | 15 % of train   | 15 % of train   | test       |
| train, dev, test          | 80 % of train   | 20 % of train   | dev             | test       |
| train, dev, dev_test, test | train          | dev             | dev_test        | test       |

Fractions, and that an official dev part becomes dev_test while dev is split from train, are those
of NEVIS'22's reference code. That code draws a split for each sample; here the sizes are exact.
"""

import hashlib
import warnings
from collections.abc import Mapping

import numpy as np

from nevis_stream.datasets.dataset import SINGLE_LABEL, DataSet, Samples
from nevis_stream.errors import BadInput, DataWarning

# By the parts of the source: for each part, the percentage of it that goes to each split.
_RULES: Mapping[frozenset[str], Mapping[str, Mapping[str, int]]] = {
    frozenset(rule): rule
    for rule in (
        {"all": {"train": 56, "dev": 12, "dev_test": 12, "test": 20}},
        {"train": {"train": 70, "dev": 15, "dev_test": 15}, "test": {"test": 100}},
        {"train": {"train": 80, "dev": 20}, "dev": {"dev_test": 100}, "test": {"test": 100}},
        {split: {split: 100} for split in ("train", "dev", "dev_test", "test")},
    )
}


def divide(dataset: DataSet) -> dict[str, Samples]:
    """Returns the samples of train, dev, dev_test and test, each in the order of the source.

    Which samples go where depends on the sha256 of their ids alone, not on any random generator.

    Args:
      dataset: with the parts {all}, {train, test}, {train, dev, test} or all four.

    Raises:
      BadInput: other parts, or so few samples that a split would be empty.

    Warns:
      DataWarning: classes of dev_test or test that never occur in train; pictures of 1×1 pixels.
    """
    rule = _RULES.get(frozenset(dataset.parts))
    if rule is None:
        valid = "; ".join(", ".join(sorted(parts)) for parts in _RULES)
        found = ", ".join(sorted(dataset.parts)) or "(none)"
        raise BadInput(
            f"{dataset.dataset_id}: has the parts {found}. Valid sets of parts: {valid}."
        )
    found = {}
    for part, percentages in rule.items():
        found |= _split(dataset.dataset_id, part, dataset.parts[part], percentages)
    splits = {name: found[name] for name in ("train", "dev", "dev_test", "test")}
    _warn_of_unseen_classes(dataset, splits)
    _warn_of_single_pixels(dataset)
    return splits


def sizes(n: int, percentages: Mapping[str, int]) -> dict[str, int]:
    """Returns whole sizes that add up to n, each less than 1 from its exact share.

    The largest remainders are rounded up; of equal ones, the first in `percentages`.
    """
    size = {name: n * share // 100 for name, share in percentages.items()}
    by_remainder = sorted(percentages, key=lambda name: -(n * percentages[name] % 100))
    for name in by_remainder[: n - sum(size.values())]:
        size[name] += 1
    return size


def _split(
    dataset_id: str, part: str, samples: Samples, percentages: Mapping[str, int]
) -> dict[str, Samples]:
    n = len(samples)
    wanted = sizes(n, percentages)
    empty = [name for name, size in wanted.items() if size == 0]
    if empty:
        least = next(k for k in range(n + 1, 1000) if all(sizes(k, percentages).values()))
        raise BadInput(
            f"{dataset_id}: part {part!r} has n = {n} samples, which leaves split "
            f"{', '.join(empty)} empty; it needs at least {least}."
        )
    if len(wanted) == 1:
        return dict.fromkeys(wanted, samples)
    keys = [hashlib.sha256(sample_id.encode()).digest() for sample_id in samples.ids]
    order = np.asarray(sorted(range(n), key=keys.__getitem__))
    ends = np.cumsum(list(wanted.values()))[:-1]
    return {
        name: samples.take(np.sort(indices))
        for name, indices in zip(wanted, np.split(order, ends), strict=True)
    }


def _warn_of_unseen_classes(dataset: DataSet, splits: Mapping[str, Samples]) -> None:
    def present(name: str) -> set[int]:
        labels = splits[name].labels
        found = labels if dataset.kind == SINGLE_LABEL else np.flatnonzero(labels.any(axis=0))
        return set(np.unique(found).tolist())

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
                f"{dataset.dataset_id}: {len(single)} picture(s) of 1×1 pixels, the first of them "
                f"{samples.ids[single[0]]}; are the files what they should be?",
                DataWarning,
                stacklevel=3,
            )
