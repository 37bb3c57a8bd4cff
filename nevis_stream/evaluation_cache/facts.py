"""Facts about samples and models: what the provenance of samples states (data set, group, metric,
range of the scores), and what files state (features of samples, columns about models).
"""

import dataclasses
import hashlib
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nevis_stream.errors import BadInput, unknown
from nevis_stream.queries.samples import SampleFacts
from nevis_stream.storage.reading import read_npz

if TYPE_CHECKING:
    from nevis_stream.evaluation_cache.evaluation_cache import EvaluationCache

RANGE = ("low", "high")  # samples with these have scores in this range, not outcomes
OUTCOME_RANGE = (0.0, 1.0)
METRIC, DIRECTION, HASH = "metric", "higher_is_better", "hash"
RUN = "run"  # in a model's provenance: see `name_run`; an absolute path in earlier versions
UNBOUNDED = "unbounded"  # true: the metric has no bounds; `low` and `high` are only a scale
HIGHER, LOWER = "higher is better", "lower is better"
# the data set, and a group of samples in it: the first of these names that the provenance has
DATASET, GROUP = ("dataset", "dataset_id"), ("category", "subject", "class")


def find_repeat(ids: Sequence[str]) -> str | None:
    """Returns the first id that occurs twice, or None."""
    seen: set[str] = set()
    for text in ids:
        if text in seen:
            return text
        seen.add(text)
    return None


def read_range(provenance: Mapping[str, Any]) -> tuple[float, float]:
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


def format_range(provenance: Mapping[str, Any]) -> str:
    """Returns the range of samples' values, for people."""
    low, high = read_range(provenance)
    scale = " (a scale: the metric has no bounds)" if provenance.get(UNBOUNDED) else ""
    return f"{low:g} to {high:g}{scale}"


def describe_direction(provenance: Mapping[str, Any]) -> str:
    """Returns whether higher or lower values of samples are better; "" if it is not stated."""
    if (higher := provenance.get(DIRECTION)) is None:
        return ""
    return HIGHER if higher else LOWER


def get_dataset(provenance: Mapping[str, Any]) -> str:
    """Returns the data set that samples belong to; "" if it is unknown."""
    return _find_first(provenance, DATASET)


def have_one_mean(provenances: Iterable[Mapping[str, Any]]) -> bool:
    """Returns whether samples agree in direction and range, and have one metric each."""
    provenances = list(provenances)
    kinds = {(*read_range(each), describe_direction(each) == LOWER) for each in provenances}
    metrics = {(get_dataset(each), each.get(METRIC)) for each in provenances}
    return len(kinds) <= 1 and len(metrics) <= len({dataset for dataset, _ in metrics})


def select_used_weights(
    weights: Mapping[str, float] | None, provenances: Sequence[Mapping[str, Any]]
) -> Mapping[str, float] | None:
    """Returns the weights of data sets; None where there are none, or where the samples have no
    common mean that could be weighted.

    Raises:
      BadInput: some data sets have a weight and others none.
    """
    if not weights or not have_one_mean(provenances):
        return None
    if missing := sorted({get_dataset(each) for each in provenances} - set(weights)):
        if "" in missing:
            raise BadInput(
                f"the data sets {', '.join(sorted(weights))} have weights in the mean, but some"
                " samples have no data set: give a column `dataset`."
            )
        raise BadInput(
            f"the data sets {', '.join(sorted(weights))} have weights in the mean, but not"
            f" {', '.join(map(repr, missing))}: give each one a weight when you import them"
            " (--dataset_weights; equal: all the same)."
        )
    return weights


def collect_facts(
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
        """Returns what `read` returns for each sample, [n]; None if that is always empty."""
        values = [read(each) for each in kinds.values()]
        return np.array(values)[rows] if any(values) else None

    low = high = None
    if any(RANGE[0] in each for each in kinds.values()):
        low, high = (
            np.array([read_range(each)[end] for each in kinds.values()], np.float32)[rows]
            for end in (0, 1)
        )
    return SampleFacts(
        len(provenances),
        None if features is None or np.isnan(features).any() else features,
        dataset=read_each(get_dataset),
        group=read_each(lambda each: _find_first(each, GROUP)),
        low=low,
        high=high,
        lower=read_each(lambda each: describe_direction(each) == LOWER),
        unbounded=read_each(lambda each: bool(each.get(UNBOUNDED))),
        dataset_weights=weights,
    )


def add_prompts(
    facts: SampleFacts,
    provenances: Sequence[Mapping[str, Any]],
    ids: Callable[[], Sequence[str]],
) -> SampleFacts:
    """Returns facts with the metric and the prompt of each column, if a prompt has several metrics;
    else the facts as they are. Their columns are called PROMPT#METRIC, or the first one PROMPT.

    Args:
      facts: about n samples.
      provenances: of each sample.
      ids: returns the samples' ids; only called where samples have different metrics.
    """
    metrics = [str(each.get(METRIC) or "") for each in provenances]
    if len(set(metrics)) < 2:
        return facts
    prompts = [name.removesuffix(f"#{of}") for name, of in zip(ids(), metrics, strict=True)]
    place = {name: number for number, name in enumerate(dict.fromkeys(prompts))}
    if len(place) == len(prompts):
        return facts
    prompt = np.array([place[name] for name in prompts], np.int64)
    return dataclasses.replace(facts, metric=np.array(metrics), prompt=prompt)


def _find_first(provenance: Mapping[str, Any], names: Sequence[str]) -> str:
    return str(next((provenance[name] for name in names if name in provenance), ""))


def read_features(path: str | Path, samples: list[str]) -> tuple[np.ndarray, list[str]]:
    """Reads features from an npz file: `features`, float[k, d], of the samples `samples`, str[k];
    without `samples`, of all samples in their order.

    Returns:
      float32[n, d], NaN for a sample without features; and lines for people, on the order of rows
      without ids and on samples without features.

    Raises:
      BadInput: there is no such array, its number of rows is wrong, a sample is unknown, or there
        are no ids where the order of rows is uncertain.
    """
    arrays, path = read_npz(Path(path), ("features", "samples")), Path(path)
    if "features" not in arrays:
        raise BadInput(f"{path}: needs the array `features`, float[samples, d].")
    ids = [str(sample) for sample in arrays["samples"]] if "samples" in arrays else samples
    features = check_features(path, arrays["features"], ids)
    if (name := find_repeat(ids)) is not None:
        raise BadInput(f"{path}: sample {name!r} occurs twice.")
    columns = {sample: column for column, sample in enumerate(samples)}
    by_sample = np.full((len(samples), features.shape[1]), np.nan, np.float32)
    for sample, row in zip(ids, features, strict=True):
        if sample not in columns:
            raise BadInput(f"{path}: {unknown('sample', sample, samples)}")
        if np.isnan(row).any():
            raise BadInput(f"{path}: features of sample {sample!r}: not all are finite.")
        by_sample[columns[sample]] = row
    lines = []
    if "samples" not in arrays and samples:
        by_number = sorted(samples, key=make_natural_sort_key)
        if samples != by_number and samples == sorted(samples):
            pairs = zip(samples, by_number, strict=True)
            here, there = next(pair for pair in pairs if pair[0] != pair[1])
            raise BadInput(
                f"{path}: has no ids, and the samples have two orders: {here!r} or {there!r} may"
                " come first, so a row could be another sample's. Add an array `samples` with the"
                " id of each row."
            )
        ends = ", ".join(samples[:2] if len(samples) < 3 else [*samples[:2], "…", samples[-1]])
        lines = [f"{path.name} has no ids (`samples`): its rows are taken in the order {ends}"]
    return by_sample, lines + remark_on_features(by_sample)


def make_natural_sort_key(name: str) -> list[tuple[int, str]]:
    """Returns a key that sorts as file managers do: numbers by value, capitals as small letters."""
    parts = re.split(r"(\d+)", name.casefold())
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def check_features(path: Path, features: np.ndarray, samples: Sequence[str]) -> np.ndarray:
    """Returns features of samples as float32[n, d]; a row of NaN is a sample without features.

    Raises:
      BadInput: they are not numbers, their shape is wrong, or a row is partly NaN or infinite.
    """
    if features.dtype.kind not in "biuf":
        raise BadInput(f"{path}: `features` has type {features.dtype}; numbers are expected.")
    if features.ndim != 2 or len(features) != len(samples):
        raise BadInput(
            f"{path}: `features` has shape {features.shape}; [{len(samples)}, d] is expected, a row"
            " for each sample."
        )
    wrong = ~np.isfinite(features).all(axis=1) & ~np.isnan(features).all(axis=1)
    if wrong.any():
        name = samples[int(np.argmax(wrong))]
        raise BadInput(f"{path}: features of sample {name!r}: not all are finite.")
    return features.astype(np.float32)


def remark_on_features(features: np.ndarray) -> list[str]:
    """Returns a line for people if some samples of features, float32[n, d], have none."""
    lacking = int(np.isnan(features).any(axis=1).sum())
    if not lacking:
        return []
    return [
        f"{lacking:,} of {len(features):,} samples have no features; features are used only where"
        " every sample has them"
    ]


def list_groups(provenances: Iterable[Mapping[str, Any]]) -> list[str]:
    """Returns the group that the provenance of each model states, "" for none: its run, or its
    `group` in an imported file.
    """
    groups = [str(each.get("group") or each.get(RUN) or "") for each in provenances]
    if not all(map(os.path.isabs, filter(None, groups))):  # else all are of earlier versions
        groups = list(map(name_run, groups))
    return groups


def name_run(path: str) -> str:
    """Returns a name for a run directory, given its absolute path, that tells it from others and
    does not say where it is; such a name as it is.
    """
    if not os.path.isabs(path):
        return path
    return f"{Path(path).name}#{hashlib.sha256(path.encode()).hexdigest()[:8]}"


def name_groups(cache: "EvaluationCache") -> str:
    """Returns what the groups of a cache's models are: "runs", or "groups" of an imported file."""
    return "runs" if any(RUN in facts for facts in cache.models().values()) else "groups"
