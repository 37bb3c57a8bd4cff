"""Part of the samples drawn with equal probabilities first, then those that a policy chooses; where
the answers show that the known models say little about the new one, the rest is drawn too.
"""

from abc import ABC, abstractmethod

import jax
import numpy as np

from nevis_stream.cost.compute import Compute
from nevis_stream.dynamic_evaluation.known_models import KnownModels
from nevis_stream.dynamic_evaluation.policies import staged_strata
from nevis_stream.dynamic_evaluation.policies.sequential import Sequential
from nevis_stream.dynamic_evaluation.policy import Key, Plan, Policy
from nevis_stream.dynamic_evaluation.response import ResponsePosterior
from nevis_stream.dynamic_evaluation.sorting import rank_samples
from nevis_stream.estimation import difference
from nevis_stream.queries.oracle import Query, Responses
from nevis_stream.queries.samples import numpy_generator
from nevis_stream.storage.checkpoint import Tree

FEWEST = 8  # samples drawn first


class PartFirst(Policy):
    """Draws one sample from each of equal strata of the order from easy to hard, then asks as
    another policy does.

    Args:
      policy: the other one. Of one that asks half of its budget alike of all models, the draws take
        the place of this half; of others, that of the first quarter.
    """

    adaptive = True
    representative = True
    out_of_core = False

    def __init__(self, policy: Policy):
        self.policy, self.needs = policy, policy.needs
        self.about = f"part drawn from equal strata first, then {policy.about}"

    def first(self, budget: int) -> int:
        """Returns the number of samples that are drawn first."""
        part = budget // 4 if isinstance(self.policy, Sequential) else (budget + 1) // 2
        return max(part, min(FEWEST, (budget + 1) // 2))

    def fit(self, known: KnownModels, beliefs: ResponsePosterior, key: Key, ctx: Compute) -> Tree:
        """Fits the other policy, and orders the samples."""
        order = (beliefs.rank or rank_samples(known, ctx)).order
        learned = self.policy.fit(known, beliefs, key, ctx)
        return {"policy": learned, "order": order, "weights": known.facts.weights}

    def design(
        self, tree: Tree, beliefs: ResponsePosterior, budget: int, key: Key, ctx: Compute
    ) -> Tree:
        """Makes the other policy's design."""
        return self.policy.design(tree["policy"], beliefs, budget, key, ctx)

    def next(self, plan: Plan, answers: Responses, key: Key, ctx: Compute) -> Query:
        """Returns the draws, then what the other policy asks."""
        if not answers.samples.shape[1]:
            return self.draw_first(plan, answers, key)
        return self.ask_other(plan, answers, key, ctx)

    def draw_first(self, plan: Plan, answers: Responses, key: Key) -> Query:
        """Returns the draws of the first part."""
        count, n, weights = self.first(plan.budget), plan.n, np.asarray(plan.tree["weights"])
        place = np.empty(n)
        place[np.asarray(plan.tree["order"])] = np.arange(n)
        stratum = difference.cut(place / n, weights, count)
        strata = np.broadcast_to(stratum, (len(answers.values), n))
        return staged_strata.draw(strata, weights, count, numpy_generator(key))

    def ask_other(self, plan: Plan, answers: Responses, key: Key, ctx: Compute) -> Query:
        """Returns what the other policy asks."""
        inner = Plan(plan.tree["policy"], plan.design, plan.beliefs, plan.budget)
        query = self.policy.next(inner, answers, key, ctx)
        return Query(query.samples[:, : plan.budget - answers.samples.shape[1]])


class LookedAt(ResponsePosterior, ABC):
    """Beliefs that tell whether a model is like the known ones.

    Attributes:
      base: the beliefs that the other policy of a `Guard` reads.
    """

    base: ResponsePosterior

    @abstractmethod
    def unlike(self, answers: Responses, ctx: Compute) -> np.ndarray:
        """Returns which models the known ones say little about, bool[m]."""


class Guard(PartFirst):
    """As `PartFirst`, but each model is looked at after the first part, and once more after half of
    the rest: if it is unlike the known models, the rest is drawn from strata, so that the estimate
    holds for any model. The beliefs say which models are unlike (`LookedAt`).
    """

    def looks(self, budget: int) -> list[int]:
        """Returns the numbers of answers after which the models are looked at."""
        first = self.first(budget)
        second = first + (budget - first) // 2
        return [first, second] if first < second < budget else [first]

    def design(self, tree: Tree, beliefs: LookedAt, budget: int, key: Key, ctx: Compute) -> Tree:
        """Makes the other policy's design."""
        return self.policy.design(tree["policy"], beliefs.base, budget, key, ctx)

    def fit(self, known: KnownModels, beliefs: LookedAt, key: Key, ctx: Compute) -> Tree:
        """Fits the other policy, and orders the samples."""
        return super().fit(known, beliefs.base, key, ctx)

    def next(self, plan: Plan, answers: Responses, key: Key, ctx: Compute) -> Query:
        """Returns the first draws, then for each model what the other policy asks, or the next ones
        of its draws.
        """
        asked, budget = answers.samples.shape[1], plan.budget
        if not asked:
            return self.draw_first(plan, answers, key)
        beliefs: LookedAt = plan.beliefs
        inner = Plan(plan.tree, plan.design, beliefs.base, budget)
        query = self.ask_other(inner, answers, key, ctx)
        looks = self.looks(budget)
        stop = min([look for look in looks if look > asked], default=budget)
        samples = query.samples[:, : stop - asked].copy()
        chances, fractions = np.ones(samples.shape), np.zeros(samples.shape)
        switched = np.zeros(len(samples), bool)
        for look in [look for look in looks if look <= asked]:
            until = answers.first(look)
            if look == asked:
                unlike = beliefs.unlike(until, ctx) & ~switched
            else:  # what was decided then: only draws are fractions of their stratum
                assert answers.query.fractions is not None
                unlike = (answers.query.fractions[:, look] > 0) & ~switched
            rows = np.flatnonzero(unlike)
            if len(rows):
                drawn = self._draw_rest(plan, until.of(rows), look, key, ctx)
                there = slice(asked - look, asked - look + samples.shape[1])
                samples[rows] = drawn.samples[:, there]
                chances[rows], fractions[rows] = (
                    drawn.probabilities[:, there],
                    drawn.fractions[:, there],
                )
            switched |= unlike
        return Query(samples, chances, fractions)

    def draw_first(self, plan: Plan, answers: Responses, key: Key) -> Query:
        """Returns the draws of the first part, in strata by the values that are expected."""
        count, weights = self.first(plan.budget), np.asarray(plan.tree["weights"])
        strata = staged_strata.cut(plan.beliefs, answers, weights, count)
        return staged_strata.draw(strata, weights, count, numpy_generator(key))

    def _draw_rest(
        self, plan: Plan, answers: Responses, look: int, key: Key, ctx: Compute
    ) -> Query:
        """Returns the draws of all that is left of the budget, the same in each step."""
        count, weights = plan.budget - look, np.asarray(plan.tree["weights"])
        strata = staged_strata.cut(plan.beliefs, answers, weights, count)
        ctx.charge(strata.size)
        return staged_strata.draw(
            strata, weights, count, numpy_generator(jax.random.fold_in(key, look))
        )
