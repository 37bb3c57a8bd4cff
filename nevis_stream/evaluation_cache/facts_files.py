"""Facts about samples and models from files, and groups of a cache's models: the models of one run,
and runs that have copies of each other's models.
"""

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

from nevis_stream.errors import BadInput, unknown
from nevis_stream.evaluation_cache import EvaluationCache
from nevis_stream.evaluation_cache.entries import repeat
from nevis_stream.storage.reading import absence, read_npz
from nevis_stream.storage.tables import read_table

DUPLICATES = 0.5  # two groups are one if at least this fraction of either's models are duplicates


def groups_of(
    cache: EvaluationCache, models: Sequence[str], outcomes: Iterable[np.ndarray]
) -> list[str] | None:
    """Returns each model's group: its run, or its `group` in an imported file; None if each model
    is a group of its own.

    Duplicates are in one group: in cross-validation, that of a left-out model would be known,
    and its error too small. Runs of one seed often share models to the last bit (FT-prev's first
    task is Indep's).

    Args:
      cache: has the models' provenance.
      models: m ids.
      outcomes: of the models, uint8[m, n]; or m rows in any form that is equal for equal models,
        read one at a time.
    """
    provenances = cache.models()
    facts = [provenances[model] for model in models]
    groups = [str(fact.get("group") or fact.get("run") or "") for fact in facts]
    names = merge_groups(
        [group or model for group, model in zip(groups, models, strict=True)], outcomes
    )
    return names if any(groups) or len(set(names)) < len(names) else None


def kind_of_groups(cache: EvaluationCache) -> str:
    """Returns what the groups of a cache's models are: "runs", or "groups" of an imported file."""
    return "runs" if any("run" in facts for facts in cache.models().values()) else "groups"


def merge_groups(groups: Sequence[str], outcomes: Iterable[np.ndarray]) -> list[str]:
    """Returns the groups; two of them get one name if one has duplicates of at least half of
    the other's models.

    Args:
      groups: of m models.
      outcomes: m rows, equal for duplicates.
    """
    holders: dict[bytes, set[str]] = defaultdict(set)
    sizes: Counter[str] = Counter()
    for group, row in zip(groups, outcomes, strict=True):
        sharing = holders[hashlib.sha256(np.ascontiguousarray(row)).digest()]
        if group not in sharing:  # equal models of one group count once
            sharing.add(group)
            sizes[group] += 1
    shared = Counter(
        pair for sharing in holders.values() for pair in combinations(sorted(sharing), 2)
    )
    names = {group: group for group in groups}

    def first(group: str) -> str:
        while names[group] != group:
            group = names[group]
        return group

    for (first_group, second_group), count in shared.items():
        if count >= DUPLICATES * min(sizes[first_group], sizes[second_group]):
            low, high = sorted((first(first_group), first(second_group)))
            names[high] = low
    return [first(group) for group in groups]


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
    if (name := repeat(ids)) is not None:
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
        by_number = sorted(samples, key=natural_sort_key)
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
    return by_sample, lines + features_remark(by_sample)


def natural_sort_key(name: str) -> list[tuple[int, str]]:
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


def features_remark(features: np.ndarray) -> list[str]:
    """Returns a line for people if some samples of features, float32[n, d], have none."""
    lacking = int(np.isnan(features).any(axis=1).sum())
    if not lacking:
        return []
    return [
        f"{lacking:,} of {len(features):,} samples have no features; features are used only where"
        " every sample has them"
    ]


def read_model_facts(path: str | Path, models: list[str]) -> dict[str, np.ndarray]:
    """Reads facts about models from a csv file: the column `model`, and any others.

    Returns: by column, str[m] in the order of `models`; "" for a model that is not in the file.

    Raises:
      BadInput: the file cannot be read, has no column `model` or no other, or names a model twice.
    """
    path = Path(path)
    if not path.is_file():
        raise BadInput(f"{path}: {absence(path)}.")
    table = read_table(path, str(path), {"model": ""})
    names = table.columns
    rows = [dict(zip(names, cells, strict=True)) for _, cells in table.rows]
    if len(names) < 2:
        raise BadInput(f"{path}: needs the column `model` and at least one other.")
    if (name := repeat([row["model"] for row in rows])) is not None:
        raise BadInput(f"{path}: model {name!r} occurs twice.")
    by_model = {row["model"]: row for row in rows}
    if not by_model.keys() & set(models):
        raise BadInput(f"{path}: has facts about none of the {len(models)} models.")
    return {
        name: np.array([(by_model.get(model, {}).get(name) or "") for model in models], str)
        for name in names
        if name != "model"
    }
