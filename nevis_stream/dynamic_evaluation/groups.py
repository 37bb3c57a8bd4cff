"""Which models of a cache stand together: those of one run, and runs that hold copies of each
other's models.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np

from nevis_stream.dynamic_evaluation.cache import EvaluationCache

COPIES = 0.5  # share of a group's models that are another's, from which on they are one group


def groups_of(
    cache: EvaluationCache, models: Sequence[str], outcomes: Iterable[np.ndarray]
) -> list[str] | None:
    """Returns each model's group: its run, or its `group` in an imported file; None where each
    model is a group of its own.

    Models that say nothing of a group are one where they are copies of each other: known models
    that are all alike do not show how far estimates of another one are off. Runs of one seed
    often share models to the last bit (FT-prev's first task is Indep's). Such runs are one group:
    else copies of the models that play new ones would be known.

    Args:
      cache: where the models' provenance is.
      models: m ids.
      outcomes: uint8[m, n], theirs; or m rows in any form that is equal for equal models, read one
        at a time.
    """
    known = cache.models()
    facts = [known[model] for model in models]
    groups = [str(fact.get("group") or fact.get("run") or "") for fact in facts]
    names = joined([group or model for group, model in zip(groups, models, strict=True)], outcomes)
    return names if any(groups) or len(set(names)) < len(names) else None


def joined(groups: Sequence[str], outcomes: Iterable[np.ndarray]) -> list[str]:
    """Returns the groups, those under one name of which one holds copies of at least half of the
    other's models.

    Args:
      groups: of m models.
      outcomes: m rows; copies are equal ones.
    """
    holders: dict[bytes, set[str]] = defaultdict(set)
    sizes: Counter[str] = Counter()
    for group, row in zip(groups, outcomes, strict=True):
        sharing = holders[hashlib.sha256(np.ascontiguousarray(row)).digest()]
        if group not in sharing:  # a group's models that are all alike count once
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
