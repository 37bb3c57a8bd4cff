"""The interface of a rule, and the draw of samples with its weights."""

from dataclasses import dataclass, fields
from typing import Any, Protocol

import numpy as np

from nevis_stream.errors import BadInput, plural

UNMISSED = 1e-6
"""Weight of a sample that a rule wants only when the others are used up."""


@dataclass(frozen=True)
class PoolState:
    """What a rule knows of n samples: copies, which cannot be written to.

    Attributes:
      ids: n sample ids.
      dataset_ids: str[n], the data set of each.
      wrong: float32[s, n]: whether each of the s models (in a hierarchical design also votes of
        models) on whose errors the round builds was wrong, the latest last; in multi-label tasks
        the share of labels that were wrong. None unless the rule has `sees_labels`.
      confidence: float64[s, n]: the probability that they gave to the true answer. None as `wrong`.
      collected: bool[n]: collected in an earlier round, so it is not drawn again.
      missed: float64[n], the share of known models in evaluation caches that miss the sample. None
        unless the rule has `needs_cache`.
    """

    ids: np.ndarray
    dataset_ids: np.ndarray
    wrong: Any  # np.ndarray where the rule has said that it needs it; so the two others
    confidence: Any
    collected: np.ndarray
    missed: Any = None

    def __post_init__(self):
        for each in fields(self):
            if (array := getattr(self, each.name)) is not None:
                copy = np.array(array)
                copy.flags.writeable = False
                object.__setattr__(self, each.name, copy)

    def __len__(self) -> int:
        return len(self.ids)


class Rule(Protocol):
    """Says where the next round collects.

    Attributes:
      about: one line for people.
      sees_labels: whether it uses `wrong` or `confidence`, for which the labels of all candidates
        must be known; they are charged.
      needs_cache: whether it uses `missed`; False if it has no such attribute.
    """

    about: str
    sees_labels: bool

    def weights(self, candidates: PoolState) -> np.ndarray:
        """Returns float[n], 0 or more: samples that are not collected yet are drawn one after the
        other with probabilities in proportion; 0 is never drawn. The weights depend on the
        candidates alone, so that a run can be repeated.
        """
        ...


def draw(
    name: str, rule: Rule, candidates: PoolState, count: int, generator: np.random.Generator
) -> np.ndarray:
    """Returns int64[count] indices of candidates to collect, ascending.

    Args:
      name: of the rule and the round, for messages.
      rule, candidates: as above.
      count: samples wanted.
      generator: of the draw.

    Raises:
      BadInput: the rule raises, returns something else than weights, or not always the same, or
        too few samples that are not collected yet have a weight.
    """
    collected = candidates.collected.copy()  # whatever the rule does to its candidates
    weights = _weights(name, rule, candidates)
    if not np.array_equal(weights, _weights(name, rule, candidates)):
        raise BadInput(
            f"{name}: it returned different weights for the same candidates, so the run could not"
            " be repeated. Weights must depend on the candidates alone."
        )
    if not weights.any():
        raise BadInput(f"{name}: it returned no sample: all weights are 0.")
    there = int(np.count_nonzero(weights[~collected]))
    if there < count:
        wanted = plural(int((weights > 0).sum()), "sample")
        raise BadInput(
            f"{name}: the round adds {count}, but the rule gives a weight to {wanted}, {there} of"
            " them not collected yet. Give weights to more samples, or use fewer rounds or samples."
        )
    with np.errstate(divide="ignore"):
        # the smallest of exponential times with these rates: a draw without replacement; in logs,
        # so that no weight is too small
        times = np.log(generator.exponential(size=len(weights))) - np.log(weights)
    times[collected] = np.inf
    return np.sort(np.argsort(times, kind="stable")[:count])


def _weights(name: str, rule: Rule, candidates: PoolState) -> np.ndarray:
    """Returns the rule's weights, float64[n].

    Raises:
      BadInput: the rule raises, or they are not weights.
    """
    try:
        weights = np.asarray(rule.weights(candidates), np.float64)
    except (Exception, SystemExit) as error:  # whatever the rule does
        raise BadInput(f"{name}: it raised {type(error).__name__}: {error}") from error
    if weights.shape != (len(candidates),):
        raise BadInput(
            f"{name}: it returned an array of shape {weights.shape}; {len(candidates)} candidates"
            f" need ({len(candidates)},)."
        )
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise BadInput(f"{name}: it returned a weight that is negative or not finite.")
    return weights
