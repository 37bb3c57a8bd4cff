"""Random draws from strata, for estimates that hold for any new model: one sample of each stratum
in stages.
"""

import jax
import numpy as np

from nevis_stream.cost.compute import Compute
from nevis_stream.dynamic_evaluation.policy import Key, Plan, Policy, make_price_tree, read_prices
from nevis_stream.dynamic_evaluation.response import ResponsePosterior
from nevis_stream.estimation import difference
from nevis_stream.estimation.allotment import allot
from nevis_stream.queries.matrix import Matrix
from nevis_stream.queries.oracle import Query, Responses
from nevis_stream.queries.prices import Prices
from nevis_stream.queries.samples import make_numpy_generator
from nevis_stream.storage.checkpoint import Tree


def plan_stages(budget: int, prices: Prices | None = None) -> list[int]:
    """Returns the number of samples of each stage: half of the budget each, or one stage of fewer
    than four; with prices, as `allot` says.
    """
    if prices is not None:
        return allot(prices, 2).counts.sum(axis=1).tolist()
    return [budget] if budget < 4 else [budget - budget // 2, budget // 2]


def cut(
    posterior: ResponsePosterior,
    answers: Responses,
    weights: np.ndarray,
    strata: int,
    prices: Prices | None = None,
) -> np.ndarray:
    """Returns the stratum of each sample for the next stage, int64[m, n], -1 for asked samples.

    The samples that are left are ordered by the expected value given the answers. The first stage
    has strata of equal weight; later ones are smaller where the outcome is uncertain. Where samples
    differ in price, each class of prices has strata of its own.

    Args:
      posterior: of a predictor that gives moments.
      answers: of m models so far.
      weights: float64[n], of the samples in the mean.
      strata: number of strata of each model, if samples do not differ in price.
      prices: of the samples; None: all cost the same.
    """
    models, asked = answers.samples.shape
    group, counts = np.zeros(posterior.n, np.int64), np.array([strata])
    if prices is not None:
        allotment = allot(prices, 2)
        group, counts = allotment.group, allotment.counts[int(asked > 0)]
    result = np.full((models, posterior.n), -1)
    for model in range(models):
        if model and not asked:
            result[model] = result[0]
            continue
        # one at a time: other shapes may round differently, and the estimate needs the same strata
        p = np.asarray(posterior.moments(answers.of(np.array([model])))[0][0], np.float64)
        unasked = np.ones(len(p), bool)
        unasked[answers.samples[model]] = False
        for part, (count, end) in enumerate(zip(counts, np.cumsum(counts), strict=True)):
            if count:
                left = np.flatnonzero(unasked & (group == part))
                stratum = difference.cut(p[left], weights[left], count, by_uncertainty=asked > 0)
                result[model, left] = end - count + stratum
    return result


def draw(
    strata: np.ndarray,
    weights: np.ndarray,
    count: int,
    random: np.random.Generator,
    prices: np.ndarray | float = 1.0,
) -> Query:
    """Returns one sample of each stratum of each model, in the order of the strata, drawn in
    proportion to weight / √price.

    Args:
      strata: int64[m, n], the stratum of each sample; -1 for samples that are not drawn.
      weights: float64[n], of the samples in the mean.
      count: number of strata.
      random: draws the samples.
      prices: float64[n], or 1 if all samples cost the same.
    """
    weights = weights / np.sqrt(prices)
    drawn = [difference.draw(row, weights, count, random) for row in strata]
    samples, chances = (np.stack(each) for each in zip(*drawn, strict=True))
    left = (strata >= 0).sum(axis=1, keepdims=True)
    return Query(samples, chances, 1 / (chances * left))


class StagedStrata(Policy):
    """Draws one sample from each stratum of the order by expected value; the second stage orders
    and cuts the samples that are left by all answers.
    """

    about = (
        "one random sample per stratum by expected value, in two stages; the second is ordered by"
        " the answers of the first"
    )
    needs = frozenset({"moments"})
    out_of_core = False
    adaptive = True
    representative = drawn = True
    takes_prices = True

    def count_affordable(self, prices: Prices) -> int:
        """Returns the number of strata of all stages."""
        return sum(plan_stages(0, prices))

    def fit(self, known: Matrix, posterior: ResponsePosterior, key: Key, ctx: Compute) -> Tree:
        """Stores the samples' weights."""
        return {"weights": known.facts.weights} | make_price_tree(known.facts.prices)

    def next(self, plan: Plan, answers: Responses, key: Key, ctx: Compute) -> Query:
        """Returns the draws of one stage."""
        asked, weights = answers.samples.shape[1], np.asarray(plan.tree["weights"])
        prices = read_prices(plan.tree)
        ends = np.cumsum(plan_stages(plan.budget, prices))
        count = int(ends[np.searchsorted(ends, asked, side="right")]) - asked
        strata = cut(plan.posterior, answers, weights, count, prices)
        ctx.charge(strata.size)
        random = make_numpy_generator(jax.random.fold_in(key, asked))
        return draw(strata, weights, count, random, 1.0 if prices is None else prices.each)
