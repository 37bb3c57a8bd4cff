"""Policies choose the cells to ask, given a predictor's posterior: their base class; the policies
whose cells are drawn at random or evenly from an order of the samples; and the choice of samples in
place of those on which a new model gives no answer.

A policy chooses among all samples, but a file may lack some values of a model, and a model may fail
or refuse. In place of a sample without an answer, the most similar one is asked: of the same data
set where there is one, and with the nearest values of the known models.
"""

import dataclasses
import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jax
import numpy as np

from nevis_stream.cost.compute import Compute
from nevis_stream.dynamic_evaluation.response import ResponsePosterior
from nevis_stream.dynamic_evaluation.sorting import rank_samples
from nevis_stream.errors import BadInput, plural
from nevis_stream.estimation.allotment import allot
from nevis_stream.queries.matrix import Matrix
from nevis_stream.queries.oracle import Cost, Oracle, Query, Responses, TooFewAnswers
from nevis_stream.queries.prices import Prices
from nevis_stream.queries.samples import (
    SampleFacts,
    at_random,
    bound_strata,
    draw_in_strata,
    fill_unknown,
    is_observed,
    make_numpy_generator,
    place_centres,
)
from nevis_stream.storage.checkpoint import Tree

Key = jax.Array | None
"""A JAX key; None if nothing is drawn at random."""
FORMER_METHODS = {
    "beliefs": "make_posterior",
    "errors": "compute_errors",
    "least": "find_least_budget",
}
"""Of policies and predictors: by former name, the present one."""


def make_price_tree(prices: Prices | None) -> Tree:
    """Returns the part of a policy's tree that keeps prices; {} without prices."""
    return {} if prices is None else {"prices": prices.make_tree()}


def read_prices(tree: Tree) -> Prices | None:
    """Returns the prices of a policy's tree, None if all samples cost the same."""
    return Prices(**tree["prices"]) if "prices" in tree else None


@dataclass(frozen=True)
class Plan:
    """A policy that is ready to ask.

    Attributes:
      tree: what `Policy.fit` learned from the known models.
      design: what `Policy.design` learned for this budget.
      posterior: of the predictor, fitted to the same known models.
      budget: number of samples asked of each model over all steps.
    """

    tree: Tree
    design: Tree
    posterior: ResponsePosterior
    budget: int

    @property
    def n(self) -> int:
        """Number of samples."""
        return self.posterior.n

    @property
    def beliefs(self) -> ResponsePosterior:
        """The former name of `posterior`, for policies that were written with it."""
        return self.posterior


def refuse_former_methods(cls: type) -> None:
    """Refuses a user's class with a method under its former name, which would be ignored."""
    for former in FORMER_METHODS.keys() & vars(cls).keys():
        present = FORMER_METHODS[former]
        raise BadInput(f"{cls.__name__}: the method `{former}` is now called `{present}`.")


class Policy(ABC):
    """Chooses the cells to ask; the base of all `policies`.

    Attributes:
      about: one line for people.
      out_of_core: whether known models may stay in a cache.
      adaptive: whether the choice depends on earlier answers.
      representative: whether the cells, or those of them with `Query.fractions`, are drawn at
        random or lie evenly on an order of the samples. Of the known models, a policy that is not
        adaptive then uses no more than this order.
      drawn: whether they are all drawn at random, so that the interval of their mean holds for any
        model and needs no calibration.
      takes_prices: whether samples may differ in price.
      needs: the quantities, of `response.QUANTITIES`, that a predictor must give; others may be
        used if the predictor gives them.
      is_bound: whether it looks at every cell regardless of the budget; for studies only.
    """

    about = ""
    out_of_core = True
    adaptive = False
    representative = False
    drawn = False
    takes_prices = False
    needs: frozenset[str] = frozenset()
    is_bound = False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        refuse_former_methods(cls)

    def check(self, facts: SampleFacts) -> None:  # noqa: B027, most need nothing
        """Raises BadInput if the samples lack what the policy needs to know about them."""

    def find_least_budget(self, facts: SampleFacts) -> int:
        """Returns the smallest budget with which the policy can be used on these samples."""
        return 1

    def count_affordable(self, prices: Prices) -> int:
        """Returns how many samples of each model are asked for a budget in the unit of prices.

        Raises:
          BadInput: the budget is too small; or the policy does not take prices (`takes_prices`).
        """
        raise BadInput(f"{type(self).__name__}: chooses samples regardless of their price.")

    def fit(self, known: Matrix, posterior: ResponsePosterior, key: Key, ctx: Compute) -> Tree:
        """Returns what is learned from the known models for all budgets.

        Args:
          known: the known models.
          posterior: of the predictor, fitted to the same models.
          key: a JAX key.
          ctx: counts FLOPs.
        """
        return {}

    def design(
        self, tree: Tree, posterior: ResponsePosterior, budget: int, key: Key, ctx: Compute
    ) -> Tree:
        """Returns what is learned for one budget; {} if that is nothing.

        Args:
          tree: what `fit` returned.
          posterior, key, ctx: as given to `fit`.
          budget: number of samples asked of each model.
        """
        return {}

    def plan(
        self, tree: Tree, posterior: ResponsePosterior, budget: int, key: Key, ctx: Compute
    ) -> Plan:
        """Returns the plan for a budget; the design of a new budget is added to the tree. Arguments
        as of `design`.
        """
        designs = tree.get("designs", {})
        if str(budget) in designs:
            return Plan(tree, designs[str(budget)], posterior, budget)
        design = self.design(tree, posterior, budget, key, ctx)
        if design:
            tree["designs"] = designs | {str(budget): design}
        return Plan(tree, design, posterior, budget)

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
        """Asks m models step by step until the budget is spent. Other arguments as of `next`."""
        answers = Responses(Query.none(models), np.empty((models, 0), np.uint8))
        while answers.samples.shape[1] < plan.budget:
            answers = answers.then(oracle(self.next(plan, answers, key, ctx)))
        return answers


class Random(Policy):
    """Draws samples without replacement.

    Args:
      shared: whether all models are asked the same samples.
    """

    representative = drawn = True

    def __init__(self, shared: bool = False):
        self.shared = shared
        self.about = f"random samples, {'the same' if shared else 'different ones'} for each model"

    def fit(self, known: Matrix, posterior: ResponsePosterior, key: Key, ctx: Compute) -> Tree:
        """Stores the predictor's order, if it has one; the draws are positions in it."""
        return {"order": None if posterior.rank is None else posterior.rank.order}

    def next(self, plan: Plan, answers: Responses, key: Key, ctx: Compute) -> Query:
        """Returns the whole draw."""
        n, budget, order = plan.n, plan.budget, plan.tree["order"]
        shape = (len(answers.values), budget)
        samples = at_random(n, budget, 1 if self.shared else shape[0], make_numpy_generator(key))
        samples = samples if order is None else order[samples]
        chances = np.broadcast_to(1 / (n - np.arange(budget)), shape)
        return Query(np.broadcast_to(samples, shape), chances, np.full(shape, 1 / budget))


class Strata(Policy):
    """Draws one sample from each of equal strata, separately for each model; where samples differ
    in price, from strata of each class of prices.
    """

    about = "one random sample from each of equal strata of the order from easy to hard"
    representative = drawn = True
    takes_prices = True

    def count_affordable(self, prices: Prices) -> int:
        """Returns the number of strata."""
        return int(allot(prices, 1).counts.sum())

    def fit(self, known: Matrix, posterior: ResponsePosterior, key: Key, ctx: Compute) -> Tree:
        """Ranks the samples, unless the predictor has done so; where they differ in price, each
        class of prices on its own.
        """
        order = (posterior.rank or rank_samples(known, ctx)).order
        if (prices := known.facts.prices) is None:
            return {"order": order}
        allotment = allot(prices, 1)
        parts = [
            bound_strata(int(n), int(k))
            for n, k in zip(np.bincount(allotment.group), allotment.counts[0], strict=True)
        ]
        sizes = np.concatenate([np.diff(part) for part in parts])
        order = order[np.argsort(allotment.group[order], kind="stable")]
        return {"order": order, "sizes": sizes}

    def next(self, plan: Plan, answers: Responses, key: Key, ctx: Compute) -> Query:
        """Returns the whole draw."""
        models, n = len(answers.values), plan.n
        sizes = np.asarray(plan.tree.get("sizes", np.diff(bound_strata(n, plan.budget))))
        positions = draw_in_strata(sizes, models, make_numpy_generator(key))
        sizes = np.broadcast_to(sizes, positions.shape)
        return Query(plan.tree["order"][positions], 1 / sizes, sizes / n)


class Uniform(Policy):
    """Asks the centres of equal parts of the order, the same of every model."""

    about = "a uniform grid on the order of the samples from easy to hard"
    representative = True

    def fit(self, known: Matrix, posterior: ResponsePosterior, key: Key, ctx: Compute) -> Tree:
        """Ranks the samples, unless the predictor has done so."""
        return {"order": (posterior.rank or rank_samples(known, ctx)).order}

    def next(self, plan: Plan, answers: Responses, key: Key, ctx: Compute) -> Query:
        """Returns the whole grid."""
        return make_grid(plan.tree["order"], len(answers.values), plan.budget)


def make_grid(order: np.ndarray, models: int, budget: int) -> Query:
    """Returns a uniform grid of `budget` samples on an order, int64[n], for each of m models."""
    samples = order[place_centres(len(order), budget)]
    shape = (models, budget)
    return Query(np.broadcast_to(samples, shape), fractions=np.full(shape, 1 / budget))


class Datasets(Policy):
    """Divides the budget equally among the data sets (S-Rand); some get one more, drawn at
    random.
    """

    about = "random samples, equally many of each data set"
    representative = drawn = True

    def check(self, facts: SampleFacts) -> None:
        """Refuses samples without data sets."""
        if facts.dataset is None:
            raise BadInput(
                "datasets: the samples belong to no data sets; import values with a column"
                " `dataset`, or use random or strata."
            )

    def find_least_budget(self, facts: SampleFacts) -> int:
        """Returns the number of data sets: each needs a sample, or its mean would be left out."""
        return 1 if facts.dataset is None else len(set(facts.dataset.tolist()))

    def fit(self, known: Matrix, posterior: ResponsePosterior, key: Key, ctx: Compute) -> Tree:
        """Notes which data set each sample belongs to."""
        self.check(known.facts)
        return {"dataset": np.unique(np.asarray(known.facts.dataset), return_inverse=True)[1]}

    def next(self, plan: Plan, answers: Responses, key: Key, ctx: Compute) -> Query:
        """Returns the whole draw."""
        dataset, n, budget = plan.tree["dataset"], plan.n, plan.budget
        sizes, random = np.bincount(dataset), make_numpy_generator(key)
        places = [np.flatnonzero(dataset == each) for each in range(len(sizes))]
        counts = divide_budget(sizes, budget, random)
        chances = np.concatenate(
            [1 / (size - np.arange(count)) for size, count in zip(sizes, counts, strict=True)]
        )
        fractions = np.repeat(sizes / n / np.maximum(counts, 1), counts)
        models = len(answers.values)
        drawn = [
            np.concatenate(
                [
                    random.choice(place, count, replace=False)
                    for place, count in zip(places, counts, strict=True)
                ]
            )
            for _ in range(models)
        ]
        shape = (models, budget)
        samples = np.asarray(drawn, np.int64).reshape(shape)
        return Query(samples, np.broadcast_to(chances, shape), np.broadcast_to(fractions, shape))


def divide_budget(sizes: np.ndarray, budget: int, random: np.random.Generator) -> np.ndarray:
    """Returns how many samples to ask of each data set, int64[d], adding up to the budget; as equal
    as the data sets' sizes, int64[d], allow; `random` draws which of them get one more.
    """
    counts = np.zeros(len(sizes), np.int64)
    while (left := budget - counts.sum()) > 0:
        free = np.flatnonzero(counts < sizes)
        each = min(left // len(free), (sizes - counts)[free].min())
        if each:
            counts[free] += each
        else:
            counts[random.permutation(free)[:left]] += 1
    return counts


MODELS = 64  # known models, at most, whose values tell which samples are similar


class Substitutes:
    """Replaces cells that cannot be asked, or were asked without an answer.

    Args:
      known: the known models.
      askable: bool[m, n], the cells of m new models that can be asked. No model may be asked more
        samples than it has such cells.

    Attributes:
      counts: int64[m], the number of cells of each model that were replaced because they cannot be
        asked.
    """

    def __init__(self, known: Matrix, askable: np.ndarray):
        self._known, self._free = known, askable.copy()
        self._without = (~askable).sum(axis=1)
        self.counts = np.zeros(len(askable), np.int64)

    @functools.cached_property
    def _values(self) -> np.ndarray:
        """[k, n], values of known models at equal distances in their order."""
        rows = np.linspace(0, self._known.shape[0] - 1, min(self._known.shape[0], MODELS))
        return self._known.matrix(np.unique(rows.astype(np.int64)))

    def ask_with_substitutes(self, query: Query, oracle: Callable[[Query], Responses]) -> Responses:
        """Returns answers to these cells, or to similar ones in place of those without an answer.

        Args:
          query: cells [m, b].
          oracle: returns answers, unknown where a model gave none; a cell that was answered before
            costs nothing.

        Raises:
          TooFewAnswers: a model has no sample left.
        """
        query, cost = self(query), Cost()
        while True:
            answers = oracle(query)
            cost += answers.cost
            failed = ~is_observed(answers.values)
            if not failed.any():
                return dataclasses.replace(answers, cost=cost)
            query = self.replace(query, ~failed)

    def __call__(self, query: Query) -> Query:
        """Returns the cells to ask instead of these, [m, b]: those that can be asked, and similar
        ones in place of the others; none of them was returned before.
        """
        samples = query.samples
        stays = np.take_along_axis(self._free, samples, axis=1)
        np.put_along_axis(self._free, samples, False, axis=1)
        self.counts += (~stays).sum(axis=1)
        return self.replace(query, stays)

    def replace(self, query: Query, stays: np.ndarray) -> Query:
        """Returns the cells that stay, and similar ones in place of the others, [m, b].

        Args:
          query: cells [m, b].
          stays: bool[m, b], which cells have an answer, or can be asked.

        Raises:
          TooFewAnswers: a model has no sample left.
        """
        samples = np.array(query.samples)
        for model, row in enumerate(samples):
            for place in np.flatnonzero(~stays[model]):
                others = np.flatnonzero(self._free[model])
                if not len(others):
                    raise TooFewAnswers
                row[place] = self._find_nearest(row[place], others)
                self._free[model][row[place]] = False
        return Query(samples, query.probabilities, query.fractions)

    def describe(self, models: Sequence[str]) -> str:
        """Returns a message: of which of the models, by their ids, similar samples were asked."""
        most = int(self.counts.argmax())
        return (
            f"model {models[most]!r} has no value on {plural(int(self._without[most]), 'sample')};"
            f" {self.counts[most]:,} of those that were chosen had none, and the most similar"
            f" samples were asked instead{mention_others(self.counts)}."
        )

    def _find_nearest(self, sample: int, others: np.ndarray) -> int:
        """Returns which of the other samples, int64[k], is most similar to a sample."""
        if (prices := self._known.facts.prices) is not None:
            others = others[prices.each[others] <= prices.each[sample]]  # so the budget holds
            if not len(others):
                raise TooFewAnswers
        dataset = self._known.facts.dataset
        if dataset is not None and (same := dataset[others] == dataset[sample]).any():
            others = others[same]
        ours, theirs = self._values[:, [sample]], self._values[:, others]
        both = is_observed(ours) & is_observed(theirs)
        apart = np.where(both, np.abs(fill_unknown(ours) - fill_unknown(theirs)), 0).sum(axis=0)
        # where no known model has met both, they are as different as can be
        count = both.sum(axis=0)
        return int(others[np.where(count, apart / np.maximum(count, 1), 1).argmin()])


def mention_others(counts: np.ndarray) -> str:
    """Returns the end of a message about one model: how many others it is true of, which are those
    with a count, int64[m], above 0.
    """
    others = np.count_nonzero(counts) - 1
    return f" (and of {plural(others, 'other model')})" if others else ""
