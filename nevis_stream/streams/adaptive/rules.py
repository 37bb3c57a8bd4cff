"""Rules, which say among which samples the next round collects: their interface, what they may
know, the draw of samples with their weights, and the rules by name.
"""

import hashlib
import inspect
import sys
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from nevis_stream import user_code
from nevis_stream.datasets.dataset import MULTI_LABEL
from nevis_stream.errors import BadInput, RunWarning, plural, unknown
from nevis_stream.evaluation_cache import INDEX, EvaluationCache
from nevis_stream.queries.samples import fill_unknown, is_observed
from nevis_stream.user_calls import explain_refused_write, find_change, read_attributes

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
    weights = _compute_weights(name, rule, candidates)
    if not np.array_equal(weights, _compute_weights(name, rule, candidates)):
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


def _compute_weights(name: str, rule: Rule, candidates: PoolState) -> np.ndarray:
    """Returns the rule's weights, float64[n].

    Raises:
      BadInput: the rule raises, or they are not weights.
    """
    before = read_attributes(rule)
    try:
        weights = np.asarray(rule.weights(candidates), np.float64)
    except (Exception, SystemExit) as error:  # whatever the rule does
        reason = explain_refused_write(error) or f"it raised {type(error).__name__}: {error}"
        raise BadInput(f"{name}: {reason}") from error
    if attribute := find_change(before, read_attributes(rule)):
        raise BadInput(
            f"{name}: it changed its attribute {attribute!r}, so another run of this process would"
            " draw other samples. Weights must depend on the candidates alone."
        )
    if weights.shape != (len(candidates),):
        raise BadInput(
            f"{name}: it returned an array of shape {weights.shape}; {len(candidates)} candidates"
            f" need ({len(candidates)},)."
        )
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise BadInput(f"{name}: it returned a weight that is negative or not finite.")
    return weights


class RandomSamples:
    """Gives every sample the same weight."""

    about = "every sample alike: a static stream at equal labels, the control"
    sees_labels = False

    def weights(self, candidates: PoolState) -> np.ndarray:
        """Returns ones."""
        return np.ones(len(candidates))


class UniformMixture:
    """Each round adds as many samples as the first one had, so the training set is a mixture with
    equal weights (Shirali et al., section 3). When the errors are used up, other samples follow.
    """

    about = "uniform over the errors of the latest model: the paper's mixture with equal weights"
    sees_labels = True

    def weights(self, candidates: PoolState) -> np.ndarray:
        """Returns the latest model's errors."""
        return np.maximum(candidates.wrong[-1], UNMISSED)


class ErrorWeighted:
    """Weights a sample by the mean error of all models so far, later ones more."""

    about = "by the errors of all models so far, each round's twice as heavy as the round's before"
    sees_labels = True

    def weights(self, candidates: PoolState) -> np.ndarray:
        """Returns a weighted mean of the models' errors."""
        shares = 2.0 ** np.arange(len(candidates.wrong))
        return np.maximum(shares @ candidates.wrong / shares.sum(), UNMISSED)


class Disagreement:
    """Weights a sample by how far an ensemble of all models so far is from being of one mind.

    The runner records each model's probability of the true answer; the weight is p (1 - p) of its
    mean, plus its variance over the models.
    """

    about = "by the disagreement of an ensemble of all models so far"
    sees_labels = True

    def weights(self, candidates: PoolState) -> np.ndarray:
        """Returns the ensemble's uncertainty."""
        mean = candidates.confidence.mean(axis=0)
        spread = candidates.confidence.var(axis=0)
        return np.maximum(mean * (1 - mean) + spread, UNMISSED)


class Hardest:
    """Weights a sample by the fourth power of the share of known models that miss it."""

    about = "by how many known models of an evaluation cache miss a sample (cache=FOLDER)"
    sees_labels = False
    needs_cache = True

    def weights(self, candidates: PoolState) -> np.ndarray:
        """Returns the shares to the fourth power."""
        return np.maximum(candidates.missed**4, UNMISSED)


RULES: Mapping[str, Rule] = {
    "disagreement": Disagreement(),
    "error_weighted": ErrorWeighted(),
    "hardest": Hardest(),
    "random": RandomSamples(),
    "uniform_mixture": UniformMixture(),
}


def get(name: str) -> Rule:
    """Returns the rule of this name; or of module:ATTRIBUTE, one's own, which is imported: the user
    wrote it, or trusts it (nevis_stream.user_code).

    Raises:
      BadInput: there is no such rule, or it lacks a part of the interface.
    """
    module, colon, attribute = name.partition(":")
    if not colon:
        if name not in RULES:
            raise BadInput(f"{unknown('rule', name, RULES)} Or module:ATTRIBUTE, your own.")
        return RULES[name]
    try:
        rule = getattr(user_code.import_module(module), attribute)
        rule = rule() if isinstance(rule, type) else rule
    except (Exception, SystemExit) as error:  # whatever the module does
        raise BadInput(
            f"rule {name!r}: cannot be imported ({type(error).__name__}: {error})."
        ) from error
    for part in ("about", "sees_labels", "weights"):
        if not hasattr(rule, part):
            raise BadInput(f"rule {name!r}: lacks {part!r}; see docs/dynamic-benchmarks.md.")
    return rule


def identify(name: str) -> str:
    """Returns the rule's name; of one's own rule with a digest of the named module's source and of
    its class's, so that a changed rule makes another stream."""
    if ":" not in name:
        return name
    modules = dict.fromkeys([name.partition(":")[0], type(get(name)).__module__])
    source = "".join(
        inspect.getsource(sys.modules[module])
        for module in modules
        if module.partition(".")[0] not in sys.stdlib_module_names
    )
    return f"{name} ({hashlib.sha256(source.encode()).hexdigest()[:8]})"


_FILL = (
    "Fill it from a run on such a stream: python -m launch.evaluate import RUN --splits=pool"
    " --cache=FOLDER."
)


class KnownMisses:
    """Shares of known models that miss samples, and a digest of all that was read.

    Args:
      folder: of evaluation caches, FOLDER/DATASET_ID, as `launch.evaluate import RUN --splits=pool`
        fills them.
      datasets: ids of the data sets.

    Raises:
      BadInput: a data set has no cache there.
    """

    def __init__(self, folder: Path, datasets: Iterable[str]):
        digest = hashlib.sha256()
        self._folder = folder
        self._shares: dict[str, Mapping[str, float]] = {}
        for name in datasets:
            path = folder / name
            if not (path / INDEX).is_file():
                raise BadInput(f"{path}: no evaluation cache there. {_FILL}")
            cache = EvaluationCache(path)
            values, samples = cache.matrix(), list(cache.samples())
            digest.update("\n".join([*cache.models(), *samples]).encode())
            digest.update(values.tobytes())
            if cache.about.get("kind") == MULTI_LABEL:  # a cell for each label of a sample
                samples = [cell.rpartition("#")[0] for cell in samples]
            self._shares[name] = _count_misses(values, samples)
        self.digest = digest.hexdigest()[:8]

    def of(self, dataset_id: str, ids: Iterable[str]) -> np.ndarray:
        """Returns the share of known models that miss each sample, float64[n]; a sample without a
        known answer has the mean share, with a warning that says how many there are.

        Raises:
          BadInput: the cache has none of the samples.
        """
        known = self._shares[dataset_id]
        shares = np.array([known.get(sample, np.nan) for sample in ids])
        if np.isnan(shares).all():
            raise BadInput(f"{self._folder / dataset_id}: has none of the candidates. {_FILL}")
        if missing := int(np.isnan(shares).sum()):
            message = (
                f"{self._folder / dataset_id}: has {len(shares) - missing:,} of the"
                f" {len(shares):,} candidates; for the others the mean share of misses is taken."
                " Candidates depend on the seed: import runs of this seed and pool."
            )
            warnings.warn(message, RunWarning, stacklevel=2)
        return np.where(np.isnan(shares), np.nanmean(shares), shares)


def _count_misses(values: np.ndarray, samples: list[str]) -> dict[str, float]:
    """Returns the mean share of wrong cells, over known models and labels, of each sample that has
    a known cell."""
    there = is_observed(values)
    names, place = np.unique(np.array(samples), return_inverse=True)
    wrong = np.bincount(place, np.where(there, 1 - fill_unknown(values), 0).sum(axis=0))
    count = np.bincount(place, there.sum(axis=0))
    return {
        str(name): float(wrong[number] / count[number])
        for number, name in enumerate(names)
        if count[number]
    }
