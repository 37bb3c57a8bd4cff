"""The interface of a rule, and rules by name."""

import functools
import hashlib
import importlib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from nevis_stream.dynamic_benchmarks import rules
from nevis_stream.dynamic_evaluation.registry import scanned
from nevis_stream.errors import BadInput, unknown

UNMISSED = 1e-6
"""Weight of a sample that a rule wants only when the others are used up."""


@dataclass(frozen=True)
class PoolState:
    """What a rule knows of n samples.

    Attributes:
      ids: n sample ids.
      dataset_ids: str[n], the data set of each.
      wrong: float32[s, n]: whether each of the s models (in a hierarchical design also votes of
        models) on whose errors the round builds was wrong, the latest last; in multi-label tasks
        the share of labels that were wrong.
      confidence: float32[s, n]: the probability that they gave to the true answer.
      collected: bool[n]: already in the training set.
      cache: folder of evaluation caches, or empty.
    """

    ids: np.ndarray
    dataset_ids: np.ndarray
    wrong: np.ndarray
    confidence: np.ndarray
    collected: np.ndarray
    cache: str = ""

    def __len__(self) -> int:
        return len(self.ids)


class Rule(Protocol):
    """Says where the next round collects.

    Attributes:
      about: one line for people.
      sees_labels: whether it uses `wrong` or `confidence`, for which the labels of all candidates
        must be known; they are charged.
    """

    about: str
    sees_labels: bool

    def weights(self, candidates: PoolState) -> np.ndarray:
        """Returns float[n], 0 or more: samples that are not collected yet are drawn one after the
        other with probabilities in proportion; 0 is never drawn.
        """
        ...


@functools.cache
def registry() -> Mapping[str, Rule]:
    """Returns all rules by name."""
    return scanned(rules, "RULE")


def get(name: str) -> Rule:
    """Returns the rule of this name; or of module:ATTRIBUTE, one's own.

    Raises:
      BadInput: there is no such rule, or it lacks a part of the interface.
    """
    module, colon, attribute = name.partition(":")
    if not colon:
        if name not in registry():
            raise BadInput(f"{unknown('rule', name, registry())} Or module:ATTRIBUTE, your own.")
        return registry()[name]
    try:
        rule = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise BadInput(f"rule {name!r}: cannot be imported ({error}).") from None
    rule = rule() if isinstance(rule, type) else rule
    for part in ("about", "sees_labels", "weights"):
        if not hasattr(rule, part):
            raise BadInput(f"rule {name!r}: lacks {part!r}; see docs/dynamic-benchmarks.md.")
    return rule


def identity(name: str) -> str:
    """Returns the rule's name; of one's own rule with the digest of its source, so that a changed
    rule makes another stream."""
    if ":" not in name:
        return name
    source = inspect.getsource(type(get(name)))
    return f"{name} ({hashlib.sha256(source.encode()).hexdigest()[:8]})"


def draw(
    name: str, rule: Rule, candidates: PoolState, count: int, generator: np.random.Generator
) -> np.ndarray:
    """Returns int64[k] indices of candidates to collect, k = `count` or as many as have a weight.

    Args:
      name: of the rule and the round, for messages.
      rule, candidates: as above.
      count: samples wanted.
      generator: of the draw.

    Raises:
      BadInput: the rule raises, returns something else than weights, or no sample that is not
        collected yet has a weight.
    """
    try:
        weights = np.asarray(rule.weights(candidates), np.float64)
    except BadInput:
        raise
    except Exception as error:
        raise BadInput(f"{name}: it raised {type(error).__name__}: {error}") from error
    if weights.shape != (len(candidates),):
        raise BadInput(
            f"{name}: it returned an array of shape {weights.shape}; {len(candidates)} candidates"
            f" need ({len(candidates)},)."
        )
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise BadInput(f"{name}: it returned a weight that is negative or not finite.")
    if not weights.any():
        raise BadInput(f"{name}: it returned no sample: all weights are 0.")
    open_weights = np.where(candidates.collected, 0, weights)
    if not open_weights.any():
        wanted = int((weights > 0).sum())
        raise BadInput(
            f"{name}: the {wanted} sample{'s' * (wanted != 1)} to which it gives a weight were"
            " collected before, so the round has nothing to add. Give weights to other samples,"
            " or use fewer rounds or more candidates."
        )
    with np.errstate(divide="ignore"):
        # the smallest of exponential times with these rates: a draw without replacement
        times = generator.exponential(size=len(weights)) / open_weights
    order = np.argsort(times, kind="stable")
    return np.sort(order[: min(count, int((open_weights > 0).sum()))])
