"""Policies whose samples stand for all others: drawn at random, or evenly from an order."""

import numpy as np

from nevis_stream.cost.compute import Compute
from nevis_stream.dynamic_evaluation.known_models import KnownModels
from nevis_stream.dynamic_evaluation.policy import Key, Plan, Policy
from nevis_stream.dynamic_evaluation.response import ResponsePosterior
from nevis_stream.dynamic_evaluation.sorting import rank_samples
from nevis_stream.errors import BadInput
from nevis_stream.estimation.allotment import allot
from nevis_stream.queries.oracle import Query, Responses
from nevis_stream.queries.prices import Prices
from nevis_stream.queries.samples import (
    SampleFacts,
    at_random,
    centres,
    in_strata,
    numpy_generator,
    strata,
)
from nevis_stream.storage.checkpoint import Tree


class Random(Policy):
    """Draws samples without replacement.

    Args:
      shared: whether all models are asked the same samples.
    """

    representative = True

    def __init__(self, shared: bool = False):
        self.shared = shared
        self.about = f"random samples, {'the same' if shared else 'different ones'} for each model"

    def fit(self, known: KnownModels, beliefs: ResponsePosterior, key: Key, ctx: Compute) -> Tree:
        """Stores the predictor's order, on which positions are drawn."""
        return {"order": None if beliefs.rank is None else beliefs.rank.order}

    def next(self, plan: Plan, answers: Responses, key: Key, ctx: Compute) -> Query:
        """Returns the whole draw."""
        n, budget, order = plan.n, plan.budget, plan.tree["order"]
        shape = (len(answers.values), budget)
        samples = at_random(n, budget, 1 if self.shared else shape[0], numpy_generator(key))
        samples = samples if order is None else order[samples]
        chances = np.broadcast_to(1 / (n - np.arange(budget)), shape)
        return Query(np.broadcast_to(samples, shape), chances, np.full(shape, 1 / budget))


class Strata(Policy):
    """Draws one sample from each of equal strata, separately for each model; where samples differ
    in price, from strata of each class of prices.
    """

    about = "one random sample from each of equal strata of the order from easy to hard"
    representative = True
    takes_prices = True

    def count_affordable(self, prices: Prices) -> int:
        """Returns the number of strata."""
        return int(allot(prices, 1).counts.sum())

    def fit(self, known: KnownModels, beliefs: ResponsePosterior, key: Key, ctx: Compute) -> Tree:
        """Ranks the samples, unless the predictor has done so; of classes of prices each on its
        own.
        """
        order = (beliefs.rank or rank_samples(known, ctx)).order
        if (prices := known.facts.prices) is None:
            return {"order": order}
        allotment = allot(prices, 1)
        parts = [
            strata(int(n), int(k))
            for n, k in zip(np.bincount(allotment.group), allotment.counts[0], strict=True)
        ]
        sizes = np.concatenate([np.diff(part) for part in parts])
        order = order[np.argsort(allotment.group[order], kind="stable")]
        return {"order": order, "sizes": sizes}

    def next(self, plan: Plan, answers: Responses, key: Key, ctx: Compute) -> Query:
        """Returns the whole draw."""
        models, n = len(answers.values), plan.n
        sizes = np.asarray(plan.tree.get("sizes", np.diff(strata(n, plan.budget))))
        positions = in_strata(sizes, models, numpy_generator(key))
        sizes = np.broadcast_to(sizes, positions.shape)
        return Query(plan.tree["order"][positions], 1 / sizes, sizes / n)


class Uniform(Policy):
    """Asks the centres of equal parts of the order, the same of every model."""

    about = "a uniform grid on the order of the samples from easy to hard"
    representative = True

    def fit(self, known: KnownModels, beliefs: ResponsePosterior, key: Key, ctx: Compute) -> Tree:
        """Ranks the samples, unless the predictor has done so."""
        return {"order": (beliefs.rank or rank_samples(known, ctx)).order}

    def next(self, plan: Plan, answers: Responses, key: Key, ctx: Compute) -> Query:
        """Returns the whole grid."""
        return grid(plan.tree["order"], len(answers.values), plan.budget)


def grid(order: np.ndarray, models: int, budget: int) -> Query:
    """Returns a uniform grid of `budget` samples on an order, int64[n], for each of m models."""
    samples = order[centres(len(order), budget)]
    shape = (models, budget)
    return Query(np.broadcast_to(samples, shape), fractions=np.full(shape, 1 / budget))


class Datasets(Policy):
    """Divides the budget equally among the data sets (S-Rand); some get one more, drawn at
    random.
    """

    about = "random samples, equally many of each data set"
    representative = True

    def check(self, facts: SampleFacts) -> None:
        """Refuses samples without data sets."""
        if facts.dataset is None:
            raise BadInput(
                "datasets: the samples belong to no data sets; import values with a column"
                " `dataset`, or use random or strata."
            )

    def least(self, facts: SampleFacts) -> int:
        """Each data set needs a sample, or its mean would be left out."""
        return 1 if facts.dataset is None else len(set(facts.dataset.tolist()))

    def fit(self, known: KnownModels, beliefs: ResponsePosterior, key: Key, ctx: Compute) -> Tree:
        """Notes which data set each sample belongs to."""
        self.check(known.facts)
        return {"dataset": np.unique(np.asarray(known.facts.dataset), return_inverse=True)[1]}

    def next(self, plan: Plan, answers: Responses, key: Key, ctx: Compute) -> Query:
        """Returns the whole draw."""
        dataset, n, budget = plan.tree["dataset"], plan.n, plan.budget
        sizes, random = np.bincount(dataset), numpy_generator(key)
        places = [np.flatnonzero(dataset == each) for each in range(len(sizes))]
        counts = divide(sizes, budget, random)
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


def divide(sizes: np.ndarray, budget: int, random: np.random.Generator) -> np.ndarray:
    """Returns how many samples to ask of each data set, int64, adding up to the budget; as equal as
    the sizes, int64, allow.
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
