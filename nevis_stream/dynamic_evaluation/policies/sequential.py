"""Policies that ask step by step what is most useful, given what the predictor believes by then."""

from collections.abc import Callable

import jax
import numpy as np

from nevis_stream.cost.compute import Compute
from nevis_stream.dynamic_evaluation import response
from nevis_stream.dynamic_evaluation.known_models import KnownModels
from nevis_stream.dynamic_evaluation.policy import Key, Plan, Policy, as_tree, prices_of
from nevis_stream.dynamic_evaluation.response import ResponsePosterior
from nevis_stream.queries.oracle import Query, Responses
from nevis_stream.queries.prices import Prices
from nevis_stream.queries.samples import numpy_generator
from nevis_stream.storage.checkpoint import Tree

STEPS = 32  # at most; a larger budget is asked in batches of equal size


class Sequential(Policy):
    """Asks the samples of highest acquisition score, separately for each model; where samples
    differ in price, of highest score for their price.

    Args:
      acquisition_score: takes beliefs, the answers so far and a context, and returns float[m, n].
      needs: the quantity that it reads from the beliefs.
      about: one line for people.
      exposed: each sample is drawn from this number of those with the highest scores.
    """

    adaptive = True
    out_of_core = False

    def __init__(
        self,
        acquisition_score: Callable[[ResponsePosterior, Responses, Compute], np.ndarray],
        needs: str,
        about: str,
        exposed: int = 1,
    ):
        self.acquisition_score, self.needs, self.about = (
            acquisition_score,
            frozenset({needs}),
            about,
        )
        self.exposed = exposed
        self.takes_prices = exposed == 1

    def count_affordable(self, prices: Prices) -> int:
        """Returns how many of the samples that tell most for their price the budget buys."""
        return prices.count_best() if self.takes_prices else super().count_affordable(prices)

    def fit(self, known: KnownModels, beliefs: ResponsePosterior, key: Key, ctx: Compute) -> Tree:
        """Stores the samples' prices."""
        return as_tree(known.facts.prices)

    def next(self, plan: Plan, answers: Responses, key: Key, ctx: Compute) -> Query:
        """Returns one batch; a batch is one sample of each model, if the budget is small."""
        models, asked = answers.samples.shape
        batch = min(-(-plan.budget // STEPS), plan.budget - asked)
        acquisition_score = np.array(self.acquisition_score(plan.beliefs, answers, ctx), np.float64)
        np.put_along_axis(acquisition_score, answers.samples, -np.inf, axis=1)
        ctx.charge(models * plan.n)  # the selection
        if (prices := prices_of(plan.tree)) is not None:
            rest = plan.budget - asked
            rows = zip(answers.samples, acquisition_score, strict=True)
            bought = [buy(score, row, prices, batch, rest) for row, score in rows]
            return Query(np.array(bought, np.int64).reshape(models, batch))
        several = min(batch + self.exposed - 1, plan.n - asked)
        best = np.argsort(-acquisition_score, axis=1, kind="stable")[:, :several]
        if self.exposed > 1:
            random = numpy_generator(jax.random.fold_in(key, asked))
            best = random.permuted(best, axis=1)
        return Query(best[:, :batch].astype(np.int64))


def buy(score: np.ndarray, asked: np.ndarray, prices: Prices, batch: int, rest: int) -> list[int]:
    """Returns the samples to ask next: of those after which the cheapest others still make up the
    number that is to be asked, always the one of the highest score for its price.

    Args:
      score: float64[n].
      asked: int64[k], the samples that were asked.
      prices: of the samples.
      batch: number of samples to return.
      rest: number of samples that are still to be asked, at least `batch`.
    """
    price, worth, bought = prices.each, score / prices.each, []
    order = np.argsort(price, kind="stable")
    free = np.ones(len(price), bool)
    free[asked] = False
    money = prices.budget - float(price[asked].sum())
    for left in range(rest, rest - batch, -1):
        cheapest = order[free[order]][:left]
        most = money - float(price[cheapest[:-1]].sum())
        allowed = free & (price <= most)
        allowed[cheapest] = True  # in place of one of these, whatever rounding says
        sample = int(np.where(allowed, worth, -np.inf).argmax())
        bought.append(sample)
        free[sample] = False
        money -= float(price[sample])
    return bought


def fisher_information(beliefs: ResponsePosterior, answers: Responses, ctx: Compute) -> np.ndarray:
    """Returns the Fisher information of each cell at the model's estimated ability, float32[m, n].

    Adaptive testing: Lord 1980; Fluid Benchmarking, Hofmann et al. 2025. The published method
    estimates the ability by its posterior mode and reports it; here the ability is the posterior
    mean, and the predictor turns it into the mean over all samples. ATLAS (Li et al. 2025) draws
    from the five samples with the most information; it calibrates a three-parameter model and stops
    at a standard error, while here the item response model is the predictor's, and the budget is
    given.
    """
    evidence = response.PaddedAnswers.of(answers, answers.samples.shape[1])
    return np.asarray(ctx.jit(information)(beliefs.items, evidence))


def information(items: response.Items, evidence: response.PaddedAnswers) -> jax.Array:
    """Returns the Fisher information of each outcome, float32[m, n]: tr(a aᵀ V) p (1 - p), with V
    the posterior covariance of the ability, which only matters for several factors.

    Args:
      items: of n samples.
      evidence: of m models.
    """
    abilities = response.infer(items, evidence)
    mean, ability, _ = response.logits(items, abilities)
    p = jax.nn.sigmoid(mean)
    return ability * p * (1 - p)


def mutual_information(beliefs: ResponsePosterior, answers: Responses, ctx: Compute) -> np.ndarray:
    """Returns what each cell reveals about what is unknown of the model, float32[m, n] (active
    evaluation acquisition, equation 6).
    """
    return beliefs.information(answers)


def reduction(beliefs: ResponsePosterior, answers: Responses, ctx: Compute) -> np.ndarray:
    """Returns by how much each cell reduces the variance of the mean, as the predictor believes,
    float32[m, n] (Bayesian quadrature, O'Hagan 1991).

    `quadrature.Quadrature` does so with a linear-Gaussian model of its own.
    """
    return beliefs.reduction(answers)


def variance(beliefs: ResponsePosterior, answers: Responses, ctx: Compute) -> np.ndarray:
    """Returns the variance of each value, float32[m, n] (uncertainty sampling; active evaluation
    acquisition, equation 5).
    """
    return beliefs.moments(answers)[1]
