"""Methods by name: pairs of a policy and a predictor. Any other pair is POLICY+PREDICTOR."""

import dataclasses
import functools
from collections.abc import Mapping

from nevis_stream.dynamic_evaluation import policies, predictors
from nevis_stream.dynamic_evaluation.beliefs import QUANTITIES
from nevis_stream.dynamic_evaluation.known import Known
from nevis_stream.dynamic_evaluation.method import CellPredictor, Method
from nevis_stream.dynamic_evaluation.policy import Policy
from nevis_stream.dynamic_evaluation.registry import scanned
from nevis_stream.errors import BadInput, unknown

# By name: the pair, and a line for people.
PAIRS = {
    "sort_and_search": (
        "uniform+sort_and_search",
        "a uniform grid on one order, the best threshold",
    ),
    "sort_and_search_random": (
        "random+sort_and_search",
        "random samples on one order, the best threshold",
    ),
    "sort_and_search_recursive": (
        "uniform+sort_and_search_recursive",
        "a uniform grid on the order by recursive sum, the best threshold",
    ),
    "copy_nearest": ("random_shared+nearest", "the values of the known model that agrees best"),
    "random_mean": ("random+mean", "the mean of random samples; needs no known models"),
    "stratified_mean": ("strata+stratified", "the mean of one random sample per stratum"),
    "irt_1pl": ("uniform+irt_1pl", "one-parameter item response model"),
    "irt_2pl": ("uniform+irt_2pl", "two-parameter item response model"),
    "irt_2pl_adaptive": (
        "information+irt_2pl",
        "two-parameter item response model; half of the samples by Fisher information",
    ),
    "irt_multidimensional": ("uniform+irt_multidimensional", "item response model of six factors"),
    "irt_multidimensional_adaptive": (
        "error+irt_multidimensional",
        "item response model of six factors; half of the samples where they prevent the most"
        " errors",
    ),
    "anchor_points": (
        "clusters_values+mean",
        "tinyBenchmarks: one sample from each cluster by the known models' values, weighted",
    ),
    "gp_irt": (
        "clusters_items+gp_irt",
        "tinyBenchmarks: one sample from each cluster by item response parameters; their weighted"
        " mean averaged with the item response model's",
    ),
    "fluid_benchmarking": (
        "fisher+irt_2pl",
        "Fluid Benchmarking: adaptive testing by Fisher information",
    ),
    "atlas": (
        "fisher_random+irt_2pl",
        "ATLAS: adaptive testing, drawn from the five samples with the most Fisher information",
    ),
    "sparse_eval": (
        "sparse_anchors+anchor_weights",
        "SparseEval: optimised anchors and linear weights of them",
    ),
    "linear_gaussian": (
        "quadrature_local+linear_gaussian",
        "linear-Gaussian model; Bayesian quadrature chooses the samples, half of them per model",
    ),
    "adaptive_testing": (
        "fisher+irt_gaussian",
        "adaptive testing by Fisher information; two-parameter and linear-Gaussian model",
    ),
    "quadrature": (
        "quadrature_local+combination",
        "the predictors of `recommended`; Bayesian quadrature chooses the samples",
    ),
    "recommended": (
        "error+combination",
        "six predictors, weighted by cross-validation; adaptive samples",
    ),
    "published": ("published+published", "the rule of the published script, with its defects"),
    "single_order_floor": (
        "everything+single_order_floor",
        "the best threshold, chosen with all answers known (a bound)",
    ),
    "oracle_accuracy_prefix": (
        "everything+oracle_accuracy_prefix",
        "the true number of correct answers, in the unsorted order (a bound)",
    ),
}
WITHOUT_INTERVALS = ("published", "single_order_floor", "oracle_accuracy_prefix")

# Policies and predictors that look at every cell regardless of the budget: bounds for studies.
BOUNDS = ("everything", "single_order_floor", "oracle_accuracy_prefix")


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
        method = pair(text)
        cross_validated = method.cross_validated and name not in WITHOUT_INTERVALS
        named[name] = dataclasses.replace(
            method, name=name, about=about, cross_validated=cross_validated
        )
    return named


@functools.cache
def pair(text: str) -> Method:
    """Returns the method POLICY+PREDICTOR.

    Its intervals come from cross-validation on the known models, unless the predictor's own are
    calibrated for the cells that the policy asks.

    Raises:
      BadInput: there is no such policy or predictor; the message lists the valid names.
    """
    names = text.split("+")
    if len(names) != 2:
        raise BadInput(f"{text!r}: a pair is POLICY+PREDICTOR, for example uniform+irt_2pl.")
    for kind, name, valid in (
        ("policy", names[0], policy_registry()),
        ("predictor", names[1], predictor_registry()),
    ):
        if name not in valid:
            raise BadInput(f"{text}: {unknown(kind, name, valid)}")
    policy, predictor = policy_registry()[names[0]], predictor_registry()[names[1]]
    if missing := sorted(policy.needs - predictor.gives):
        valid = [
            each for each, other in predictor_registry().items() if policy.needs <= other.gives
        ]
        lacking = " and ".join(QUANTITIES[name] for name in missing)
        raise BadInput(
            f"{text}: policy {names[0]!r} needs {lacking}, which predictor {names[1]!r} does not"
            f" give; these do: {', '.join(valid)}."
        )
    fallback = stratified if names[1] == "combination" else None
    about = f"{policy.about}; {predictor.about}"
    return Method(text, policy, predictor, not predictor.calibrated(policy), fallback, about)


def stratified(known: Known) -> Method:
    """Returns the stratified mean for these known models' kind of values."""
    return pair("strata+mean" if known.scores else "strata+stratified")


def get(name: str) -> Method:
    """Returns the method of this name, or the pair POLICY+PREDICTOR.

    Raises:
      BadInput: there is no such method; the message lists the valid names.
    """
    if "+" in name:
        return pair(name)
    if name not in registry():
        hint = " Or a pair, POLICY+PREDICTOR."
        raise BadInput(unknown("method", name, registry()) + hint)
    return registry()[name]


def is_bound(name: str) -> bool:
    """Returns whether the method of this name looks at every cell, regardless of the budget."""
    text = PAIRS[name][0] if name in PAIRS else name
    return not set(text.split("+")).isdisjoint(BOUNDS)


def within_budget(name: str) -> Method:
    """Returns the method of this name, or the pair POLICY+PREDICTOR, for additions to a cache.

    Raises:
      BadInput: there is no such method, or it looks at every cell.
    """
    method = get(name)
    if is_bound(name):
        valid = ", ".join(each for each in registry() if not is_bound(each))
        raise BadInput(
            f"method {name!r} looks at every cell regardless of the budget: it is a bound, for"
            f" studies only. Valid: {valid}; or a pair, POLICY+PREDICTOR, without"
            f" {', '.join(BOUNDS)}."
        )
    return method
