"""A method's estimates of new models: every cell, each model's mean with its interval, and means by
data set and by group of samples.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from nevis_stream.array_types import Bool, Float
from nevis_stream.queries.matrix import is_observed
from nevis_stream.queries.oracle import NOT_STATED, Cost, Estimate, Responses
from nevis_stream.queries.samples import SampleFacts


@dataclass(frozen=True)
class Estimates:
    """A method's estimates of m new models on n samples.

    Attributes:
      values: float32[m, n], the expected value of each cell: P(right), or the score; for an asked
        cell, the answer.
      answers: the asked cells, their values and their cost.
      accuracy: float64[m], the (weighted) mean over all n samples; may differ from that of
        `values`.
      low, high: float64[m], 95% interval of the accuracy; NaN if there is none.
      reason: why there is no interval; empty if there is one.
      cost: of asking and of computing all this, including a fit that was made for it.
      holds_for: for whom each interval holds, m texts (see `oracle.Estimate`).
      notes: for people, on each estimate, m texts.
      others: float64[3, m], value, low and high of an estimate that holds for others, where it
        differs, else NaN; or None.
    """

    values: np.ndarray
    answers: Responses
    accuracy: np.ndarray
    low: np.ndarray
    high: np.ndarray
    reason: str = ""
    cost: Cost = Cost()
    holds_for: Sequence[str] = ()
    notes: Sequence[str] = ()
    others: np.ndarray | None = None

    @property
    def outcomes(self) -> np.ndarray:
        """uint8[m, n], predicted outcomes: 1 for an expected value of at least 0.5."""
        return (self.values >= 0.5).astype(np.uint8)

    @property
    def observed(self) -> np.ndarray:
        """bool[m, n], which cells were asked."""
        asked = np.zeros(self.values.shape, bool)
        np.put_along_axis(asked, self.answers.samples, True, axis=1)
        return asked

    def __len__(self) -> int:
        """Number of models."""
        return len(self.accuracy)

    def __iter__(self) -> Iterator[Estimate]:
        """Yields the estimate of each model."""
        return (self[model] for model in range(len(self)))

    def __getitem__(self, model: int) -> Estimate:
        """Returns the estimate of one model's mean; its cost is that of all models together."""
        asked = self.answers.samples.shape[1]
        value, low, high = (float(each[model]) for each in (self.accuracy, self.low, self.high))
        holds_for = self.holds_for[model] if self.holds_for else NOT_STATED
        note = self.notes[model] if self.notes else ""
        reason = self.reason if np.isnan(low) else ""
        others = np.full(3, np.nan) if self.others is None else self.others[:, model]
        other = None if np.isnan(others[0]) else tuple(others.tolist())
        return Estimate(
            value, low, high, reason, asked, self.cost, holds_for=holds_for, note=note, other=other
        )


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
