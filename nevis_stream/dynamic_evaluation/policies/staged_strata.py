"""Random draws from strata, for estimates that hold for any new model: one sample of each stratum
in stages; or a part of the samples first, then those that another policy chooses, and where the
answers show that the known models say little about the new one, the rest is drawn too.
"""

from abc import ABC, abstractmethod

import jax
import numpy as np

from nevis_stream.cost.compute import Compute
from nevis_stream.dynamic_evaluation.policies.sequential import Sequential
from nevis_stream.dynamic_evaluation.policy import Key, Plan, Policy, make_price_tree, read_prices
from nevis_stream.dynamic_evaluation.response import ResponsePosterior
from nevis_stream.dynamic_evaluation.sorting import rank_samples
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


FEWEST_FIRST = 8  # samples drawn first, unless that is more than half of the budget


class PartFirst(Policy):
    """Draws one sample from each of equal strata of the order from easy to hard, then asks as
    another policy does.

    Args:
      policy: the other one. If it asks the first half of its budget alike of all models, the draws
        take the place of this half; if it is `Sequential`, that of the first quarter.
    """

    adaptive = True
    representative = drawn = True
    out_of_core = False

    def __init__(self, policy: Policy):
        self.policy, self.needs = policy, policy.needs
        self.about = f"part drawn from equal strata first, then {policy.about}"

    def count_first(self, budget: int) -> int:
        """Returns the number of samples that are drawn first."""
        part = budget // 4 if isinstance(self.policy, Sequential) else (budget + 1) // 2
        return max(part, min(FEWEST_FIRST, (budget + 1) // 2))

    def fit(self, known: Matrix, posterior: ResponsePosterior, key: Key, ctx: Compute) -> Tree:
        """Fits the other policy, and orders the samples."""
        order = (posterior.rank or rank_samples(known, ctx)).order
        learned = self.policy.fit(known, posterior, key, ctx)
        return {"policy": learned, "order": order, "weights": known.facts.weights}

    def design(
        self, tree: Tree, posterior: ResponsePosterior, budget: int, key: Key, ctx: Compute
    ) -> Tree:
        """Makes the other policy's design."""
        return self.policy.design(tree["policy"], posterior, budget, key, ctx)

    def next(self, plan: Plan, answers: Responses, key: Key, ctx: Compute) -> Query:
        """Returns the draws, then what the other policy asks."""
        if not answers.samples.shape[1]:
            return self.draw_first(plan, answers, key)
        return self.ask_other(plan, answers, key, ctx)

    def draw_first(self, plan: Plan, answers: Responses, key: Key) -> Query:
        """Returns the draws of the first part."""
        count, n, weights = self.count_first(plan.budget), plan.n, np.asarray(plan.tree["weights"])
        place = np.empty(n)
        place[np.asarray(plan.tree["order"])] = np.arange(n)
        stratum = difference.cut(place / n, weights, count)
        strata = np.broadcast_to(stratum, (len(answers.values), n))
        return draw(strata, weights, count, make_numpy_generator(key))

    def ask_other(self, plan: Plan, answers: Responses, key: Key, ctx: Compute) -> Query:
        """Returns what the other policy asks."""
        inner = Plan(plan.tree["policy"], plan.design, plan.posterior, plan.budget)
        query = self.policy.next(inner, answers, key, ctx)
        return Query(query.samples[:, : plan.budget - answers.samples.shape[1]])


class ScreeningPosterior(ResponsePosterior, ABC):
    """A posterior that tells whether a model is like the known ones.

    Attributes:
      base: the posterior that the other policy of a `Guard` reads.
    """

    base: ResponsePosterior

    @abstractmethod
    def find_unlike(self, answers: Responses, ctx: Compute) -> np.ndarray:
        """Returns which models the known ones say little about, bool[m]."""


class Guard(PartFirst):
    """As `PartFirst`, but each model is checked after the first part, and once more after half of
    the rest: if it is unlike the known models, the rest is drawn from strata, so that the estimate
    holds for any model. The posterior says which models are unlike (`ScreeningPosterior`).
    """

    def list_checks(self, budget: int) -> list[int]:
        """Returns the numbers of answers after which the models are checked."""
        first = self.count_first(budget)
        second = first + (budget - first) // 2
        return [first, second] if first < second < budget else [first]

    def design(
        self, tree: Tree, posterior: ScreeningPosterior, budget: int, key: Key, ctx: Compute
    ) -> Tree:
        """Makes the other policy's design."""
        return self.policy.design(tree["policy"], posterior.base, budget, key, ctx)

    def fit(self, known: Matrix, posterior: ScreeningPosterior, key: Key, ctx: Compute) -> Tree:
        """Fits the other policy, and orders the samples."""
        return super().fit(known, posterior.base, key, ctx)

    def next(self, plan: Plan, answers: Responses, key: Key, ctx: Compute) -> Query:
        """Returns the first draws, then for each model what the other policy asks, or the next ones
        of its draws.
        """
        asked, budget = answers.samples.shape[1], plan.budget
        if not asked:
            return self.draw_first(plan, answers, key)
        posterior: ScreeningPosterior = plan.posterior
        inner = Plan(plan.tree, plan.design, posterior.base, budget)
        query = self.ask_other(inner, answers, key, ctx)
        checks = self.list_checks(budget)
        stop = min([check for check in checks if check > asked], default=budget)
        samples = query.samples[:, : stop - asked].copy()
        chances, fractions = np.ones(samples.shape), np.zeros(samples.shape)
        switched = np.zeros(len(samples), bool)
        for check in [check for check in checks if check <= asked]:
            until = answers.first(check)
            if check == asked:
                unlike = posterior.find_unlike(until, ctx) & ~switched
            else:  # as it was decided then: of draws alone, fractions are above 0
                assert answers.query.fractions is not None
                unlike = (answers.query.fractions[:, check] > 0) & ~switched
            rows = np.flatnonzero(unlike)
            if len(rows):
                drawn = self._draw_rest(plan, until.of(rows), check, key, ctx)
                columns = slice(asked - check, asked - check + samples.shape[1])
                samples[rows] = drawn.samples[:, columns]
                chances[rows], fractions[rows] = (
                    drawn.probabilities[:, columns],
                    drawn.fractions[:, columns],
                )
            switched |= unlike
        return Query(samples, chances, fractions)

    def draw_first(self, plan: Plan, answers: Responses, key: Key) -> Query:
        """Returns the draws of the first part, in strata by the values that are expected."""
        count, weights = self.count_first(plan.budget), np.asarray(plan.tree["weights"])
        strata = cut(plan.posterior, answers, weights, count)
        return draw(strata, weights, count, make_numpy_generator(key))

    def _draw_rest(
        self, plan: Plan, answers: Responses, check: int, key: Key, ctx: Compute
    ) -> Query:
        """Returns the draws of all that is left of the budget, the same in each step."""
        count, weights = plan.budget - check, np.asarray(plan.tree["weights"])
        strata = cut(plan.posterior, answers, weights, count)
        ctx.charge(strata.size)
        return draw(strata, weights, count, make_numpy_generator(jax.random.fold_in(key, check)))
