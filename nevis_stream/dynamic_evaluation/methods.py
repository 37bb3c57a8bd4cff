"""Methods by name: pairs of a policy and a predictor. Any other pair is POLICY+PREDICTOR."""

import dataclasses
import functools
from collections.abc import Mapping

from nevis_stream.dynamic_evaluation import policies, predictors
from nevis_stream.dynamic_evaluation.known import Known
from nevis_stream.dynamic_evaluation.method import CellPredictor, Method, Policy
from nevis_stream.dynamic_evaluation.registry import scanned
from nevis_stream.errors import BadInput, unknown

# By name: the pair, and what people read of it.
PAIRS = {
    "sort_and_search": ("uniform+sort_and_search", "a uniform grid on one order, the best cut"),
    "sort_and_search_random": ("random+sort_and_search", "the same at random places"),
    "sort_and_search_recursive": (
        "uniform+sort_and_search_recursive",
        "the same, equal sums ordered by the models that tell them apart",
    ),
    "copy_nearest": ("random_shared+nearest", "the values of the known model that agrees best"),
    "random_mean": ("random+mean", "the mean of random samples; needs no known models"),
    "stratified_mean": ("strata+stratified", "the mean of one random sample per stratum"),
    "irt_1pl": ("uniform+irt_1pl", "one-parameter item response model"),
    "irt_2pl": ("uniform+irt_2pl", "two-parameter item response model"),
    "irt_2pl_adaptive": (
        "information+irt_2pl",
        "the same, half of the samples by Fisher information",
    ),
    "irt_multidimensional": ("uniform+irt_multidimensional", "item response model of six factors"),
    "irt_multidimensional_adaptive": (
        "error+irt_multidimensional",
        "the same, half of the samples where they spare most errors",
    ),
    "recommended": (
        "error+combination",
        "the method to use: six predictors, weighted by cross-validation",
    ),
    "published": ("published+published", "the published script's rule, with its defects"),
    "single_order_floor": (
        "everything+single_order_floor",
        "the best cut, seen with the whole truth: a bound",
    ),
    "oracle_accuracy_prefix": (
        "everything+oracle_accuracy_prefix",
        "the true number of ones, unsorted: a bound",
    ),
}
# Intervals of these are the predictor's own, though they are not calibrated, or there is none.
UNTRIED = (
    *("irt_1pl", "irt_2pl", "irt_2pl_adaptive"),
    *("irt_multidimensional", "irt_multidimensional_adaptive"),
    *("published", "single_order_floor", "oracle_accuracy_prefix"),
)


@functools.cache
def policy_registry() -> Mapping[str, Policy]:
    """Returns all policies by name."""
    return scanned(policies, "POLICY")


@functools.cache
def predictor_registry() -> Mapping[str, CellPredictor]:
    """Returns all predictors by name."""
    return scanned(predictors, "PREDICTOR")


@functools.cache
def registry() -> Mapping[str, Method]:
    """Returns all methods that have a name of their own."""
    named = {}
    for name, (text, about) in PAIRS.items():
        method = dataclasses.replace(pair(text), name=name, about=about)
        named[name] = dataclasses.replace(method, tried=False) if name in UNTRIED else method
    return named


@functools.cache
def pair(text: str) -> Method:
    """Returns the method POLICY+PREDICTOR.

    Its intervals are those of known models that play new ones, unless the predictor calibrates its
    own.

    Raises:
      BadInput: no such policy or predictor; the message lists the valid names.
    """
    names = text.split("+")
    if len(names) != 2:
        raise BadInput(f"{text!r}: a pair is written POLICY+PREDICTOR, as uniform+irt_2pl.")
    for kind, name, known in (
        ("policy", names[0], policy_registry()),
        ("predictor", names[1], predictor_registry()),
    ):
        if name not in known:
            raise BadInput(f"{text}: {unknown(kind, name, known)}")
    policy, predictor = policy_registry()[names[0]], predictor_registry()[names[1]]
    otherwise = _stratified if names[1] == "combination" else None
    about = f"{policy.about}; {predictor.about}"
    return Method(text, policy, predictor, not predictor.calibrated, otherwise, about)


def _stratified(known: Known) -> Method:
    return pair("strata+mean" if known.scores else "strata+stratified")


def get(name: str) -> Method:
    """Returns the method of this name, or the pair POLICY+PREDICTOR.

    Raises:
      BadInput: no such method; the message lists the valid names.
    """
    if "+" in name:
        return pair(name)
    if name not in registry():
        hint = " Or a pair, POLICY+PREDICTOR."
        raise BadInput(unknown("method", name, registry()) + hint)
    return registry()[name]
