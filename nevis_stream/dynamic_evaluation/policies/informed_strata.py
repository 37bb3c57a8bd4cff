"""Draws with known probabilities that grow with what they are expected to tell, in a few rounds."""

from collections.abc import Callable

import jax
import numpy as np

from nevis_stream.cost.compute import Compute
from nevis_stream.dynamic_evaluation.factor_model import FactorModel, Posterior
from nevis_stream.dynamic_evaluation.policy import Key, Plan, Policy
from nevis_stream.dynamic_evaluation.response import ResponsePosterior
from nevis_stream.estimation import rounds
from nevis_stream.queries.matrix import Matrix
from nevis_stream.queries.oracle import Query, Responses
from nevis_stream.queries.samples import make_numpy_generator
from nevis_stream.storage.checkpoint import Tree

ROUNDS = 4
FEWEST = 4  # samples of a round, unless the budget is smaller
FIRST, GROWTH = (
    10,
    3,
)  # of rounds that grow: samples of the first, parts that a round is of those before
EQUAL, RESIDUAL, INFORMATION = 0.2, 0.2, 0.6  # the parts of a sample's size
LEAST = 0.02  # p and 1 - p in a sample's residual


def plan_rounds(budget: int, count: int = ROUNDS) -> list[int]:
    """Returns the number of answers after each round: equal rounds of at least `FEWEST`."""
    count = max(min(count, budget // FEWEST), 1)
    return [round(budget * number / count) for number in range(1, count)] + [budget]


def plan_growing_rounds(budget: int) -> list[int]:
    """Returns the number of answers after each round: `FIRST`, and then rounds of a third of what
    was asked before.
    """
    ends = [min(FIRST, budget)]
    while ends[-1] < budget:
        ends.append(min(ends[-1] + -(-ends[-1] // GROWTH), budget))
    return ends


class FactorPosterior(ResponsePosterior):
    """What a factor model expects of new models.

    Args:
      model: that was fitted to the known models.
      weights: float64[n], of the samples in the mean.
      ties: int64[n], the order of samples of which the same is expected.
    """

    def __init__(self, model: FactorModel, weights: np.ndarray, ties: np.ndarray):
        super().__init__(model.n)
        self.model, self.weights, self.ties = model, weights, ties

    def infer(self, answers: Responses, model: int) -> Posterior:
        """Returns what is expected of one of the models that gave answers."""
        return self.model.infer(answers.samples[model], answers.values[model], self.weights)

    def cut(self, answers: Responses, model: int, count: int) -> rounds.Strata:
        """Returns the strata of a model's next round, given its answers before; the same whenever
        they are asked for.

        The first round has strata of the same weight. Later ones have samples of sizes that grow
        with the standard deviation of their value, and with what an answer tells of the mean.
        """
        posterior = self.infer(answers, model)
        sizes = self.weights / self.weights.mean()
        if answers.samples.shape[1]:
            p = np.clip(posterior.expected, LEAST, 1 - LEAST)
            residual = sizes * np.sqrt(p * (1 - p))
            information = posterior.find_information()
        left = np.ones(self.n, bool)
        left[answers.samples[model]] = False
        if answers.samples.shape[1]:
            sizes = (
                EQUAL * sizes
                + RESIDUAL * residual / residual[left].mean()
                + INFORMATION * information / max(information[left].mean(), 1e-300)
            )
        return rounds.cut(posterior.expected, sizes, left, count, self.ties)

    def count_flops(self, answers: int) -> int:
        """Returns the FLOPs of `cut` for one model that gave so many answers."""
        q = self.model.vectors.shape[1]
        return self.n * (4 * q * q + 6 * q + 20) + 20 * answers * (2 * q * q + 6 * q)


class InformedStrata(Policy):
    """Draws one sample of each stratum of the order by expected value, in rounds; from the second
    on with probabilities that grow with what a sample is expected to tell of the mean.

    Args:
      plan_rounds: takes a budget, returns the number of answers after each round.
      rounds: which they are, for people.
    """

    needs = frozenset({"factors"})
    out_of_core = True
    adaptive = True
    representative = drawn = True

    def __init__(
        self, plan_rounds: Callable[[int], list[int]] = plan_rounds, rounds: str = "four rounds"
    ) -> None:
        self.plan_rounds = plan_rounds
        self.about = (
            f"one random sample per stratum by expected value, in {rounds}; likelier where it tells"
            " more of the mean"
        )

    def next(self, plan: Plan, answers: Responses, key: Key, ctx: Compute) -> Query:
        """Returns the draws of one round."""
        posterior: FactorPosterior = plan.posterior
        models, asked = answers.samples.shape
        end = next(each for each in self.plan_rounds(plan.budget) if each > asked)
        ctx.charge(models * posterior.count_flops(asked))
        random, samples, chances = make_numpy_generator(jax.random.fold_in(key, asked)), [], []
        for model in range(models):
            drawn = posterior.cut(answers, model, end - asked).draw(random)
            samples.append(drawn[0])
            chances.append(drawn[1])
        stratum = np.full((models, end - asked), 1 / (end - asked))
        return Query(np.stack(samples), np.stack(chances), stratum)

    def fit(self, known: Matrix, posterior: ResponsePosterior, key: Key, ctx: Compute) -> Tree:
        """Learns nothing itself."""
        return {}
