"""Facts that the provenance of samples gives: data set, group, and the range of their scores."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from nevis_stream.errors import BadInput
from nevis_stream.queries.samples import SampleFacts

RANGE = ("low", "high")  # samples with these have scores in this range, not outcomes
OUTCOME_RANGE = (0.0, 1.0)
METRIC, DIRECTION, HASH = "metric", "higher_is_better", "hash"
UNBOUNDED = "unbounded"  # true: the metric has no bounds; `low` and `high` are only a scale
HIGHER, LOWER = "higher is better", "lower is better"
# the data set, and a group of samples in it: the first of these names that the provenance has
DATASET, GROUP = ("dataset", "dataset_id"), ("category", "subject", "class")


def value_range(provenance: Mapping[str, Any]) -> tuple[float, float]:
    """Returns the range of samples' values: 0 to 1 unless their provenance states another.

    Raises:
      BadInput: one end is missing, or they are not two finite numbers, the lower one first.
    """
    if not any(name in provenance for name in RANGE):
        return OUTCOME_RANGE
    low, high = (provenance.get(name) for name in RANGE)
    are_numbers = all(isinstance(end, (int, float)) and np.isfinite(end) for end in (low, high))
    if not are_numbers or low >= high:
        raise BadInput(
            f"a range of scores from low = {low} to high = {high}: two finite numbers are expected,"
            " the lower one first."
        )
    return float(low), float(high)


def range_text(provenance: Mapping[str, Any]) -> str:
    """Returns the range of samples' values, for people."""
    low, high = value_range(provenance)
    scale = " (a scale: the metric has no bounds)" if provenance.get(UNBOUNDED) else ""
    return f"{low:g} to {high:g}{scale}"


def direction(provenance: Mapping[str, Any]) -> str:
    """Returns whether higher or lower values of samples are better; "" if it is not stated."""
    if (higher := provenance.get(DIRECTION)) is None:
        return ""
    return HIGHER if higher else LOWER


def dataset(provenance: Mapping[str, Any]) -> str:
    """Returns the data set that samples belong to; "" if it is unknown."""
    return _first(provenance, DATASET)


def facts(
    provenances: Sequence[Mapping[str, Any]],
    features: np.ndarray | None = None,
    weights: Mapping[str, float] | None = None,
) -> SampleFacts:
    """Returns the facts about n samples that their provenance gives.

    Args:
      provenances: of each sample.
      features: float32[n, d] or None; used only if every sample has them (no NaN).
      weights: by data set.
    """
    # samples that were added together share one provenance, which is read once
    kinds = {id(each): each for each in provenances}
    place = {kind: row for row, kind in enumerate(kinds)}
    rows = np.array([place[id(each)] for each in provenances], np.int64)

    def read_each(read: Callable[[Mapping[str, Any]], Any]) -> np.ndarray | None:
        """Returns what is read of each sample; None if there is nothing."""
        values = [read(each) for each in kinds.values()]
        return np.array(values)[rows] if any(values) else None

    low = high = None
    if any(RANGE[0] in each for each in kinds.values()):
        low, high = (
            np.array([value_range(each)[end] for each in kinds.values()], np.float32)[rows]
            for end in (0, 1)
        )
    return SampleFacts(
        len(provenances),
        None if features is None or np.isnan(features).any() else features,
        dataset=read_each(dataset),
        group=read_each(lambda each: _first(each, GROUP)),
        low=low,
        high=high,
        lower=read_each(lambda each: direction(each) == LOWER),
        unbounded=read_each(lambda each: bool(each.get(UNBOUNDED))),
        dataset_weights=weights,
    )


def with_prompts(
    known: SampleFacts,
    provenances: Sequence[Mapping[str, Any]],
    ids: Callable[[], Sequence[str]],
) -> SampleFacts:
    """Returns facts with the metric and the prompt of each column, if a prompt has several metrics:
    their columns are called PROMPT#METRIC, or the first one PROMPT.
    """
    metrics = [str(each.get(METRIC) or "") for each in provenances]
    if len(set(metrics)) < 2:
        return known
    prompts = [name.removesuffix(f"#{of}") for name, of in zip(ids(), metrics, strict=True)]
    place = {name: number for number, name in enumerate(dict.fromkeys(prompts))}
    if len(place) == len(prompts):
        return known
    prompt = np.array([place[name] for name in prompts], np.int64)
    return dataclasses.replace(known, metric=np.array(metrics), prompt=prompt)


def _first(provenance: Mapping[str, Any], names: Sequence[str]) -> str:
    return str(next((provenance[name] for name in names if name in provenance), ""))
