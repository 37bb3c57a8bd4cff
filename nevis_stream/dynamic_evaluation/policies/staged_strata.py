"""One sample drawn from each stratum, in stages: for estimates that hold for any new model."""

import jax
import numpy as np

from nevis_stream.dynamic_evaluation.policy import Policy
from nevis_stream.dynamic_evaluation.response_posterior import ResponsePosterior
from nevis_stream.estimation import difference
from nevis_stream.queries.oracle import Query, Responses
from nevis_stream.queries.sampling import numpy_generator


def stages(budget: int) -> list[int]:
    """Returns the number of samples of each stage: half and half, or one stage of a few."""
    return [budget] if budget < 4 else [budget - budget // 2, budget // 2]


def cut(
    beliefs: ResponsePosterior, answers: Responses, weights: np.ndarray, strata: int
) -> np.ndarray:
    """Returns the stratum of each sample for the next stage, int64[m, n], -1 for asked samples.

    The samples that are left are ordered by the expected value given the answers. The first stage
    has strata of equal weight; later ones are smaller where the outcome is uncertain.

    Args:
      beliefs: of the predictor, which give moments.
      answers: of m models so far.
      weights: float64[n], of the samples in the mean.
      strata: of each model.
    """
    models, asked = answers.samples.shape
    result = np.full((models, beliefs.n), -1)
    for model in range(models):
        if model and not asked:
            result[model] = result[0]
            continue
        # one at a time: other shapes may round differently, and the estimate needs the same strata
        p = np.asarray(beliefs.moments(answers.of(np.array([model])))[0][0], np.float64)
        left = np.delete(np.arange(len(p)), answers.samples[model])
        result[model, left] = difference.cut(
            p[left], weights[left], strata, by_uncertainty=asked > 0
        )
    return result


def draw(strata: np.ndarray, weights: np.ndarray, count: int, random: np.random.Generator) -> Query:
    """Returns one sample of each stratum of each model, in the order of the strata."""
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
    representative = True

    def fit(self, known, beliefs, key, ctx):
        """Stores the samples' weights."""
        return {"weights": known.facts.weights}

    def next(self, plan, answers, key, ctx) -> Query:
        """Returns the draws of one stage."""
        asked, weights = answers.samples.shape[1], np.asarray(plan.tree["weights"])
        ends = np.cumsum(stages(plan.budget))
        count = int(ends[np.searchsorted(ends, asked, side="right")]) - asked
        strata = cut(plan.beliefs, answers, weights, count)
        ctx.charge(strata.size)
        return draw(strata, weights, count, numpy_generator(jax.random.fold_in(key, asked)))
