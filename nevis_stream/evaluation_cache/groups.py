"""Groups of a cache's models: the models of one run, and runs that have copies of each other's
models.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np

from nevis_stream.evaluation_cache import EvaluationCache

COPIES = 0.5  # two groups are one if at least this share of either's models are copies


def groups_of(
    cache: EvaluationCache, models: Sequence[str], outcomes: Iterable[np.ndarray]
) -> list[str] | None:
    """Returns each model's group: its run, or its `group` in an imported file; None if each model
    is a group of its own.

    Copies are in one group: in cross-validation, a copy of a model that is left out would be known,
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
    names = join([group or model for group, model in zip(groups, models, strict=True)], outcomes)
    return names if any(groups) or len(set(names)) < len(names) else None


def kind_of_groups(cache: EvaluationCache) -> str:
    """Returns what the groups of a cache's models are: "runs", or "groups" of an imported file."""
    return "runs" if any("run" in facts for facts in cache.models().values()) else "groups"


def join(groups: Sequence[str], outcomes: Iterable[np.ndarray]) -> list[str]:
    """Returns the groups; two of them get one name if one has copies of at least half of the
    other's models.

    Args:
      groups: of m models.
      outcomes: m rows, equal for copies.
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

    for (first_group, second_group), copies in shared.items():
        if copies >= COPIES * min(sizes[first_group], sizes[second_group]):
            low, high = sorted((first(first_group), first(second_group)))
            names[high] = low
    return [first(group) for group in groups]
