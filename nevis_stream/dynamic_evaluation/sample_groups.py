"""Means by data set and by group of samples."""

import dataclasses
from dataclasses import dataclass

import numpy as np

from nevis_stream.array_types import Bool, Float
from nevis_stream.queries.matrix import is_observed
from nevis_stream.queries.samples import SampleFacts


@dataclass(frozen=True)
class SampleGroup:
    """A data set, or a group of samples in it.

    Attributes:
      dataset: name of the data set; "" if it is unknown.
      group: name of the group; "" for all samples of the data set.
      samples: number of samples.
      low, high: the range of their scores.
      lower: whether lower values are better.
      means: float64[m], each model's mean over the known samples, in that range; NaN if no sample
        is known.
    """

    dataset: str
    group: str
    samples: int
    low: float
    high: float
    lower: bool
    means: np.ndarray

    @property
    def mean(self) -> float:
        """The mean over models; NaN if no sample is known."""
        return float(np.nanmean(self.means)) if np.isfinite(self.means).any() else float("nan")


def means_by_group(facts: SampleFacts, values: np.ndarray) -> list[SampleGroup]:
    """Returns the means of each data set, each followed by those of its groups; [] if the samples
    have neither.

    Args:
      facts: about n samples.
      values: [m, n] of outcomes or of scores in [0, 1], with holes.
    """
    if facts.dataset is None and facts.group is None:
        return []
    unnamed = np.full(facts.n, "")
    datasets, groups = (
        unnamed if names is None else names for names in (facts.dataset, facts.group)
    )
    values = np.where(is_observed(values), values, np.nan)
    means = []
    for dataset in dict.fromkeys(datasets.tolist()):
        members = datasets == dataset
        means.append(_group(facts, values, members, dataset, ""))
        for group in dict.fromkeys(groups[members].tolist()):
            if group:
                means.append(_group(facts, values, members & (groups == group), dataset, group))
    return means


def means_by_dataset(facts: SampleFacts, values: np.ndarray) -> list[SampleGroup]:
    """Returns the means of each data set; arguments as of `means_by_group`."""
    if facts.dataset is None:
        return []
    return means_by_group(dataclasses.replace(facts, group=None), values)


def _group(
    facts: SampleFacts,
    values: Float[np.ndarray, "models samples"],
    members: Bool[np.ndarray, " samples"],
    dataset: str,
    group: str,
) -> SampleGroup:
    low, high = (
        np.full(facts.n, default) if ends is None else ends
        for ends, default in ((facts.low, 0.0), (facts.high, 1.0))
    )
    ranges = set(zip(low[members].tolist(), high[members].tolist(), strict=True))
    first, last = ranges.pop() if len(ranges) == 1 else (0.0, 1.0)  # mixed ranges stay scaled
    part = values[:, members].astype(np.float64)
    known = ~np.isnan(part)
    means = np.divide(
        np.where(known, part, 0).sum(axis=1),
        known.sum(axis=1),
        out=np.full(len(part), np.nan),
        where=known.any(axis=1),
    )
    lower = facts.lower is not None and bool(facts.lower[members].all())
    means = first + means * (last - first)
    return SampleGroup(dataset, group, int(members.sum()), first, last, lower, means)
