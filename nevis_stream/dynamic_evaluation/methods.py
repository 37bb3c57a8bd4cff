"""Policies, predictors and methods by name: a new one is an entry of a table here, or of another
package (see `nevis_stream.extensions`).

A method is a pair of a policy and a predictor; any pair without a name is POLICY+PREDICTOR. The
line for people of a policy or predictor is its attribute `about`.
"""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

from nevis_stream import extensions
from nevis_stream.dynamic_evaluation.method import Method, ScorePredictor
from nevis_stream.dynamic_evaluation.policies import sequential
from nevis_stream.dynamic_evaluation.policies.informed_strata import (
    InformedStrata,
    plan_growing_rounds,
)
from nevis_stream.dynamic_evaluation.policies.sequential import Adaptive, Quadrature, Sequential
from nevis_stream.dynamic_evaluation.policies.staged_strata import StagedStrata
from nevis_stream.dynamic_evaluation.policy import (
    Datasets,
    Policy,
    Random,
    Strata,
    Uniform,
)
from nevis_stream.dynamic_evaluation.predictors.combination import Combination
from nevis_stream.dynamic_evaluation.predictors.factor_model import FactorPredictor
from nevis_stream.dynamic_evaluation.predictors.item_response import (
    ItemResponse,
    ResponseAndGaussian,
)
from nevis_stream.dynamic_evaluation.predictors.linear_gaussian import LinearGaussian
from nevis_stream.dynamic_evaluation.predictors.mean import Mean, Stratified
from nevis_stream.dynamic_evaluation.predictors.model_assisted import ModelAssisted
from nevis_stream.dynamic_evaluation.predictors.sort_and_search import SortAndSearch
from nevis_stream.dynamic_evaluation.response import QUANTITIES
from nevis_stream.errors import BadInput, unknown
from nevis_stream.extensions import Offers
from nevis_stream.queries.matrix import Matrix
from nevis_stream.vocabulary import ASSUMPTIONS

_OWN_POLICIES: Mapping[str, Policy] = {
    "datasets": Datasets(),
    "error": Adaptive(
        "error", factors=6, about="half a uniform grid, then the samples that prevent most errors"
    ),
    "fisher": Sequential(
        sequential.score_fisher_information,
        "items",
        "one after the other the samples with most Fisher information at the estimated ability",
    ),
    "fisher_random": Sequential(
        sequential.score_fisher_information,
        "items",
        "one after the other, drawn from the five samples with the most Fisher information",
        candidates=5,
    ),
    "growing_strata": InformedStrata(plan_growing_rounds, "rounds that grow by a third"),
    "informed_strata": InformedStrata(),
    "information": Adaptive(
        "information",
        factors=1,
        about="half a uniform grid, then the samples with most Fisher information",
    ),
    "latent_information": Sequential(
        sequential.score_mutual_information,
        "information",
        "one after the other the samples that reveal most about the model's ability or latent"
        " variable",
    ),
    "mean_variance": Sequential(
        sequential.score_reduction,
        "reduction",
        "one after the other the samples that reduce the variance of the mean most",
    ),
    "quadrature": Quadrature(
        1.0, "the samples that reduce the variance of the mean most, fixed beforehand"
    ),
    "quadrature_local": Quadrature(
        0.5, "as quadrature, but half of the budget is chosen anew after the first answers"
    ),
    "random": Random(),
    "random_shared": Random(shared=True),
    "staged_strata": StagedStrata(),
    "strata": Strata(),
    "uncertainty": Sequential(
        sequential.score_variance,
        "moments",
        "one after the other the samples whose values are most uncertain",
    ),
    "uniform": Uniform(),
}

_OWN_PREDICTORS: Mapping[str, ScorePredictor] = {
    "combination": Combination(),
    "factor_model": FactorPredictor(),
    "factor_model_like_known": FactorPredictor(like_known=True),
    "irt_1pl": ItemResponse("one-parameter item response model", common=True),
    "irt_2pl": ItemResponse("two-parameter item response model"),
    "irt_gaussian": ResponseAndGaussian(),
    "irt_multidimensional": ItemResponse("item response model of six factors", factors=6),
    "linear_gaussian": LinearGaussian(),
    "mean": Mean(),
    "model_assisted": ModelAssisted(),
    "sort_and_search": SortAndSearch(),
    "sort_and_search_recursive": SortAndSearch("recursive"),
    "stratified": Stratified(),
}


class Pair(NamedTuple):
    """A method that has a name of its own.

    Attributes:
      text: POLICY+PREDICTOR.
      about: a line for people (`Method.about`).
      has_interval: whether it may have an interval from cross-validation on the known models.
    """

    text: str
    about: str
    has_interval: bool = True


_OWN_PAIRS = {
    "sort_and_search": Pair(
        "uniform+sort_and_search",
        "a uniform grid on one order, the best threshold",
    ),
    "sort_and_search_random": Pair(
        "random+sort_and_search",
        "random samples on one order, the best threshold",
    ),
    "sort_and_search_recursive": Pair(
        "uniform+sort_and_search_recursive",
        "a uniform grid on the order by recursive sum, the best threshold",
    ),
    "random_mean": Pair("random+mean", "the mean of random samples; needs no known models"),
    "stratified_mean": Pair("strata+stratified", "the mean of one random sample per stratum"),
    "informed_mean": Pair(
        "informed_strata+factor_model",
        "for any new model: draws where they tell most, a factor model's mean near the unbiased"
        " one",
    ),
    "informed_mean_growing": Pair(
        "growing_strata+factor_model",
        "`informed_mean` in rounds that grow by a third, for sessions that end when the interval is"
        " short",
    ),
    "informed_mean_like_known": Pair(
        "informed_strata+factor_model_like_known",
        "`informed_mean` under an assumption: the factor model's own mean, for models like the"
        " known ones",
    ),
    "model_assisted": Pair(
        "staged_strata+model_assisted",
        "for any new model: random samples per stratum, corrected predictions; unbiased",
    ),
    "irt_1pl": Pair("uniform+irt_1pl", "one-parameter item response model"),
    "irt_2pl": Pair("uniform+irt_2pl", "two-parameter item response model"),
    "irt_2pl_adaptive": Pair(
        "information+irt_2pl",
        "two-parameter item response model; half of the samples by Fisher information",
    ),
    "irt_multidimensional": Pair(
        "uniform+irt_multidimensional", "item response model of six factors"
    ),
    "irt_multidimensional_adaptive": Pair(
        "error+irt_multidimensional",
        "item response model of six factors; half of the samples where they prevent the most"
        " errors",
    ),
    "fluid_benchmarking": Pair(
        "fisher+irt_2pl",
        "Fluid Benchmarking: adaptive testing by Fisher information",
    ),
    "atlas": Pair(
        "fisher_random+irt_2pl",
        "ATLAS: adaptive testing, drawn from the five samples with the most Fisher information",
    ),
    "linear_gaussian": Pair(
        "quadrature_local+linear_gaussian",
        "linear-Gaussian model; Bayesian quadrature chooses the samples, half of them per model",
    ),
    "adaptive_testing": Pair(
        "fisher+irt_gaussian",
        "adaptive testing by Fisher information; two-parameter and linear-Gaussian model",
    ),
    "quadrature": Pair(
        "quadrature_local+combination",
        "the predictors of `recommended`; Bayesian quadrature chooses the samples",
    ),
    "recommended": Pair(
        "error+combination",
        "six predictors, weighted by cross-validation; adaptive samples",
    ),
}
POLICIES: Mapping[str, Policy] = Offers(extensions.POLICIES, _OWN_POLICIES)
PREDICTORS: Mapping[str, ScorePredictor] = Offers(extensions.PREDICTORS, _OWN_PREDICTORS)
PAIRS: Mapping[str, Pair] = Offers(extensions.METHODS, _OWN_PAIRS)

_FOR_SCORES = tuple(
    name
    for name, pair in _OWN_PAIRS.items()
    if (predictor := _OWN_PREDICTORS.get(pair.text.split("+")[1])) and predictor.takes_scores
)


def list_usable(table: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the entries that are no bounds, such as those of POLICIES."""
    return {name: each for name, each in table.items() if not each.is_bound}


@functools.cache
def make_pair(text: str) -> Method:
    """Returns the method POLICY+PREDICTOR.

    Its intervals come from cross-validation on the known models, unless the predictor's own are
    calibrated for the cells that the policy asks.

    Raises:
      BadInput: there is no such policy or predictor; the message lists the valid names.
    """
    names = text.split("+")
    if len(names) != 2:
        raise BadInput(f"{text!r}: a pair is POLICY+PREDICTOR, for example uniform+irt_2pl.")
    for kind, name, table in (("policy", names[0], POLICIES), ("predictor", names[1], PREDICTORS)):
        if name not in table:
            raise BadInput(f"{text}: {unknown(kind, name, list_usable(table))}")
    policy, predictor = POLICIES[names[0]], PREDICTORS[names[1]]
    if missing := sorted(policy.needs - predictor.gives):
        valid = [each for each, other in PREDICTORS.items() if policy.needs <= other.gives]
        lacking = " and ".join(QUANTITIES.get(name, name) for name in missing)
        raise BadInput(
            f"{text}: policy {names[0]!r} needs {lacking}, which predictor {names[1]!r} does not"
            f" give; these do: {', '.join(valid)}."
        )
    needs = predictor.needs_several or predictor.needs_bounds
    fallback = choose_stratified if needs else None
    about = f"{policy.about}; {predictor.about}"
    return Method(
        text,
        policy,
        predictor,
        not predictor.is_calibrated(policy),
        fallback,
        about,
        _FOR_SCORES,
    )


def choose_stratified(known: Matrix) -> Method:
    """Returns the method that estimates by the mean of one sample per stratum, for outcomes or for
    scores, whichever the known models have.
    """
    return make_pair("strata+mean") if known.scores else get("stratified_mean")


@functools.cache
def _make_named(name: str) -> Method:
    text, about, has_interval = PAIRS[name]
    method = make_pair(text)
    cross_validated = method.cross_validated and has_interval
    return dataclasses.replace(method, name=name, about=about, cross_validated=cross_validated)


@functools.cache
def list_methods(bounds: bool = False) -> Mapping[str, Method]:
    """Returns the methods that have a name of their own; with `bounds`, those that are one too."""
    named = {name: _make_named(name) for name in PAIRS}
    return named if bounds else list_usable(named)


def get(name: str) -> Method:
    """Returns the method of this name, or the pair POLICY+PREDICTOR.

    Raises:
      BadInput: there is no such method; the message lists the valid names.
    """
    if "+" in name:
        return make_pair(name)
    if name in FORMER:
        raise BadInput(f"method {name!r}: {FORMER[name]}.")
    if name not in PAIRS:
        valid = list_methods()
        more = ", ".join(each for each in PAIRS if each not in valid)
        hint = f" Or a pair, POLICY+PREDICTOR; for studies, {more}."
        raise BadInput(unknown("method", name, valid) + hint)
    return _make_named(name)


DEFAULT = "informed_mean"
"""The method that is taken if none is named: its estimates hold for any model."""
FORMER = {"default": f"the default is one method now, {DEFAULT}"}
"""What stands for a name that is no longer."""


def apply_assumption(method: str | None, assume: str | None) -> str | None:
    """Returns the name of the method that estimates under what is assumed of new models.

    Args:
      method: the name that was given; None: the default.
      assume: one of `ASSUMPTIONS`; None: nothing is assumed.

    Raises:
      BadInput: there is no such assumption, or the method is not the default.
    """
    if assume is None:
        return method
    if assume not in ASSUMPTIONS:
        raise BadInput(unknown("assumption", assume, ASSUMPTIONS))
    if method not in (None, DEFAULT):
        raise BadInput(
            f"assume {assume!r} goes with the method {DEFAULT} alone, not with {method!r}, which"
            " has its own assumptions. Leave one of them out."
        )
    return f"{DEFAULT}_{assume}"


DEFAULT_WITH_PRICES = "model_assisted"
"""The method that is taken if none is named where samples differ in price: its estimates hold for
any model."""


def is_growing(method: str) -> bool:
    """Returns whether a method draws in rounds that grow, so that a session can end after each by
    the width of the interval of that number of answers. When it ends hardly depends on the error of
    the estimate (Chow and Robbins 1965).
    """
    policy = get(method).policy
    return isinstance(policy, InformedStrata) and policy.plan_rounds is plan_growing_rounds


def check_several_metrics(method: Method) -> None:
    """Refuses a method that chooses samples by one metric; intervals of others need not hold then.

    Raises:
      BadInput: the samples are neither drawn at random from all nor with known probabilities that
        the predictor uses for another metric too.
    """
    if not isinstance(method.policy, Random) and not isinstance(
        method.predictor, ModelAssisted | FactorPredictor
    ):
        raise BadInput(
            f"method {method.name!r} chooses samples by one metric, so an interval of another one"
            f" of the same answers need not hold: use {DEFAULT}, random_mean or"
            " random+PREDICTOR, or read each metric into a cache of its own."
        )


def count_affordable(name: str, known: Matrix) -> int:
    """Returns how many samples of a new model a method asks for the budget in `known.facts.prices`.

    Raises:
      BadInput: the method chooses samples regardless of their price, or the budget is too small.
    """
    policy, prices = get_within_budget(name).choose_for_known(known).policy, known.facts.prices
    assert prices is not None
    if not policy.takes_prices:
        valid = [each for each, method in list_methods().items() if method.policy.takes_prices]
        pairs = [each for each, other in POLICIES.items() if other.takes_prices]
        raise BadInput(
            f"method {name!r} chooses samples regardless of their price. For a budget in"
            f" {prices.unit}: {', '.join(valid)}; or a pair with one of the policies"
            f" {', '.join(pairs)}."
        )
    return policy.count_affordable(prices)


def get_within_budget(name: str) -> Method:
    """Returns the method of this name, or the pair POLICY+PREDICTOR, for additions to a cache.

    Raises:
      BadInput: there is no such method, or it looks at every cell.
    """
    method = get(name)
    if method.is_bound:
        raise BadInput(
            f"method {name!r} looks at every cell regardless of the budget: it is a bound, for"
            f" studies only. Valid: {', '.join(list_methods())}; or a pair, POLICY+PREDICTOR."
        )
    return method
