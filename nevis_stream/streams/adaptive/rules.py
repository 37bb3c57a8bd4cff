"""Rules by name, which say among which samples the next round collects."""

import hashlib
import inspect
import sys
from collections.abc import Mapping

import numpy as np

from nevis_stream import user_code
from nevis_stream.errors import BadInput, unknown
from nevis_stream.streams.adaptive.rule import UNMISSED, PoolState, Rule


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


def identity(name: str) -> str:
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
