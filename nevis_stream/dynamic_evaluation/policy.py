"""Policies choose the cells to ask, given what a predictor believes."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import jax
import numpy as np

from nevis_stream.cost.compute import Compute
from nevis_stream.dynamic_evaluation.known_models import KnownModels
from nevis_stream.dynamic_evaluation.response import ResponsePosterior
from nevis_stream.errors import BadInput
from nevis_stream.queries.oracle import Oracle, Query, Responses
from nevis_stream.queries.prices import Prices
from nevis_stream.queries.samples import SampleFacts
from nevis_stream.storage.checkpoint import Tree

Key = jax.Array | None
"""A JAX key; None if nothing is drawn at random."""


def as_tree(prices: Prices | None) -> Tree:
    """Returns prices as part of a policy's tree."""
    return {} if prices is None else {"prices": prices.as_tree()}


def prices_of(tree: Tree) -> Prices | None:
    """Returns the prices of a policy's tree, None if all samples cost the same."""
    return Prices(**tree["prices"]) if "prices" in tree else None


@dataclass(frozen=True)
class Plan:
    """A policy that is ready to ask.

    Attributes:
      tree: what the policy learned from the known models.
      design: what it learned for this budget.
      beliefs: of the predictor, fitted to the same known models.
      budget: number of samples asked of each model over all steps.
    """

    tree: Tree
    design: Tree
    beliefs: ResponsePosterior
    budget: int

    @property
    def n(self) -> int:
        """Number of samples."""
        return self.beliefs.n


class Policy(ABC):
    """Chooses the cells to ask; the base of all `policies`.

    Attributes:
      about: one line for people.
      out_of_core: whether known models may stay in a cache.
      adaptive: whether the choice depends on earlier answers.
      representative: whether the cells, or those of them with `fractions`, are drawn at random or
        evenly from an order of the samples, so that a mean of them needs no calibration. Of the
        known models, a policy that is not adaptive then uses no more than this order.
      takes_prices: whether samples may differ in price.
      needs: the quantities, named in `beliefs`, that a predictor must give; others may be used if
        the predictor gives them.
    """

    about = ""
    out_of_core = True
    adaptive = False
    representative = False
    takes_prices = False
    needs: frozenset[str] = frozenset()

    def check(self, facts: SampleFacts) -> None:  # noqa: B027, most need nothing
        """Raises BadInput if the samples lack what the policy needs to know about them."""

    def least(self, facts: SampleFacts) -> int:
        """Returns the smallest budget with which the policy can be used on these samples."""
        return 1

    def count_affordable(self, prices: Prices) -> int:
        """Returns how many samples of each model are asked for a budget in the unit of prices.

        Raises:
          BadInput: the budget is too small; or the policy does not take prices (`takes_prices`).
        """
        raise BadInput(f"{type(self).__name__}: chooses samples regardless of their price.")

    def fit(self, known: KnownModels, beliefs: ResponsePosterior, key: Key, ctx: Compute) -> Tree:
        """Returns what is learned from the known models for all budgets.

        Args:
          known: the known models.
          beliefs: of the predictor, fitted to the same models.
          key: a JAX key.
          ctx: counts FLOPs.
        """
        return {}

    def design(
        self, tree: Tree, beliefs: ResponsePosterior, budget: int, key: Key, ctx: Compute
    ) -> Tree:
        """Returns what is learned for one budget; {} if that is nothing.

        Args:
          tree: what `fit` returned.
          beliefs, key, ctx: as given to `fit`.
          budget: number of samples asked of each model.
        """
        return {}

    def plan(
        self, tree: Tree, beliefs: ResponsePosterior, budget: int, key: Key, ctx: Compute
    ) -> Plan:
        """Returns what is ready to ask; the design of a new budget is added to the tree."""
        designs = tree.get("designs", {})
        if str(budget) in designs:
            return Plan(tree, designs[str(budget)], beliefs, budget)
        design = self.design(tree, beliefs, budget, key, ctx)
        if design:
            tree["designs"] = designs | {str(budget): design}
        return Plan(tree, design, beliefs, budget)

    @abstractmethod
    def next(self, plan: Plan, answers: Responses, key: Key, ctx: Compute) -> Query:
        """Returns the cells to ask next: at least one of each model, and over all steps at most the
        budget.

        Args:
          plan: of this policy.
          answers: the answers so far.
          key: a JAX key, the same in each step.
          ctx: counts FLOPs.
        """

    def ask(self, plan: Plan, oracle: Oracle, models: int, key: Key, ctx: Compute) -> Responses:
        """Asks m models step by step until the budget is spent."""
        answers = Responses(Query.none(models), np.empty((models, 0), np.uint8))
        while answers.samples.shape[1] < plan.budget:
            answers = answers.then(oracle(self.next(plan, answers, key, ctx)))
        return answers
