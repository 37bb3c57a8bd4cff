"""Predictors that average a two-parameter model with something else."""

import jax
import numpy as np
import pytest

from nevis_stream.dynamic_evaluation import methods
from nevis_stream.queries.oracle import MatrixOracle
from tests.dynamic_evaluation.making import simulated

PREDICTOR = methods.PREDICTORS["irt_gaussian"]


@pytest.mark.parametrize(("best", "least", "most"), [(0.0, 0.0, 0.2), (0.8, 0.5, 0.8)])
def test_many_known_models_decide_the_share_and_few_leave_the_default(best, least, most):
    random = np.random.default_rng(0)
    away = random.normal(size=400)
    missing = best * away + 0.1 * random.normal(size=400)
    assert least <= PREDICTOR._fit_weight(away, missing, independent=400) <= most
    few = PREDICTOR._fit_weight(away, missing, independent=2)  # two large groups
    assert abs(few - PREDICTOR.weight) < 0.1
    assert PREDICTOR._fit_weight(0 * away, missing, independent=400) == PREDICTOR.weight


def test_cells_and_means_are_averaged_and_answers_stay():
    outcomes, *_ = simulated(24, 60, 2, seed=1)
    known, new = outcomes[:20], outcomes[20:]
    key, budget = jax.random.key(0), 6

    def evaluated(name):
        evaluator = methods.get(name).fit(known, None, key)
        return evaluator, evaluator.evaluate(MatrixOracle(new), len(new), budget, jax.random.key(1))

    evaluator, ours = evaluated("adaptive_testing")
    _, by_response = evaluated("fluid_benchmarking")
    budget_fit = evaluator.tree["tuned"][str(budget)]
    weight = budget_fit["predictor"]["share"]
    gaussian, mean = PREDICTOR.estimate_other(
        evaluator.tree["predictor"], evaluator.known, ours.answers, evaluator.ctx
    )
    assert np.array_equal(ours.answers.samples, by_response.answers.samples)
    assert np.allclose(
        ours.values, (1 - weight) * by_response.values + weight * gaussian, atol=1e-6
    )
    assert np.allclose(ours.accuracy, (1 - weight) * by_response.accuracy + weight * mean)
    asked = np.take_along_axis(ours.values, ours.answers.samples, axis=1)
    assert np.array_equal(asked, ours.answers.values)
    # the folds that gave the weight give the intervals, too: no others are fitted
    assert "folds" not in evaluator.tree and len(budget_fit["predictor"]["errors"]) == len(known)
    assert np.array_equal(evaluator.compute_errors(budget), budget_fit["predictor"]["errors"])
    assert (ours.low < ours.accuracy).all() and (ours.accuracy < ours.high).all()


def test_a_single_known_model_leaves_the_default_and_gives_no_interval():
    outcomes, *_ = simulated(3, 30, 1)
    evaluator = methods.get("adaptive_testing").fit(outcomes[:1], None, jax.random.key(0))
    estimates = evaluator.evaluate(MatrixOracle(outcomes[1:]), 2, 4, jax.random.key(1))
    assert evaluator.tree["tuned"]["4"]["predictor"]["share"] == PREDICTOR.weight
    assert np.isnan(estimates.low).all() and "fewer than" in estimates.reason
