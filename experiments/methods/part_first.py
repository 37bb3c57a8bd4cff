"""A policy that draws a part of the samples first, then asks those that another policy chooses;
and where the answers show that the known models say little about the new one, draws the rest too.
"""

from abc import ABC, abstractmethod

import jax
import numpy as np

from nevis_stream.cost.compute import Compute
from nevis_stream.dynamic_evaluation.policies.sequential import Sequential
from nevis_stream.dynamic_evaluation.policies.staged_strata import cut, draw
from nevis_stream.dynamic_evaluation.policy import Key, Plan, Policy
from nevis_stream.dynamic_evaluation.response import ResponsePosterior
from nevis_stream.dynamic_evaluation.sorting import rank_samples
from nevis_stream.estimation import difference
from nevis_stream.queries.matrix import Matrix
from nevis_stream.queries.oracle import Query, Responses
from nevis_stream.queries.samples import make_numpy_generator
from nevis_stream.storage.checkpoint import Tree

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


SCREENING = "screening"  # the quantity that a `Guard` needs beside those of the other policy


class Guard(PartFirst):
    """As `PartFirst`, but each model is checked after the first part, and once more after half of
    the rest: if it is unlike the known models, the rest is drawn from strata, so that the estimate
    holds for any model. The posterior says which models are unlike (`ScreeningPosterior`).
    """

    def __init__(self, policy: Policy):
        super().__init__(policy)
        self.needs = frozenset({SCREENING})

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
