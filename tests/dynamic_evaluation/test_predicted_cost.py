"""The cost of a method is known beforehand, and a user is warned if it does not pay."""

import jax
import numpy as np
import pytest

from nevis_stream.cost.meter import total
from nevis_stream.dynamic_evaluation import methods, predicted_cost
from nevis_stream.dynamic_evaluation.method import make_context
from nevis_stream.queries.matrix import ArrayMatrix
from nevis_stream.queries.oracle import MatrixOracle
from tests.dynamic_evaluation.making import one_order

MATRIX = one_order(40, 300, noise=0.7)
KNOWN, NEW = ArrayMatrix(MATRIX[:28]), MATRIX[28:]


@pytest.mark.parametrize(
    "name",
    [
        "sort_and_search",
        "stratified_mean",
        "copy_nearest",
        "linear_gaussian",
        "adaptive_testing",
        *(pytest.param(n, marks=pytest.mark.slow) for n in ("irt_2pl_adaptive", "recommended")),
    ],
)
def test_the_price_is_what_is_charged(name):
    method, ctx, key = methods.get(name), make_context(), jax.random.key(0)
    evaluator = method.fit(KNOWN, None, key, ctx)
    estimates = evaluator.evaluate(MatrixOracle(NEW), len(NEW), 20, key)
    charged = total(ctx.meter.counts())
    assert charged == estimates.cost.flops > 0 and "random draws" in estimates.cost.uncounted
    assert predicted_cost.predict_cost(method, KNOWN, len(NEW), 20) == charged
    after = predicted_cost.predict_cost(method, KNOWN, len(NEW), 20, evaluator.tree)
    assert 0 < after < charged
    again = evaluator.evaluate(MatrixOracle(NEW), len(NEW), 20, key)
    assert again.cost.flops == after


def test_who_pays_more_than_is_saved_is_told_beforehand_and_what_would_pay():
    method = methods.get("recommended")
    message = predicted_cost.describe_cost_warning(method, KNOWN, [1e4], 64, None, "model")
    assert "recommended itself computes about" in message
    assert (
        "more than the 2.36e6 FLOPs of the 236 samples that will not be asked for 1 new model"
        in message
    )
    assert "--method=sort_and_search computes" in message
    assert "cheaper" in predicted_cost.describe_cost_warning(
        method, KNOWN, [0.1], 64, None, "model"
    )
    assert not predicted_cost.describe_cost_warning(method, KNOWN, [1e9], 64, None, "model")
    assert not predicted_cost.describe_cost_warning(
        methods.get("sort_and_search"), KNOWN, [1e4], 64, None, "model"
    )


def test_nothing_is_run_or_read_for_a_price():
    class Unreadable(ArrayMatrix):
        def matrix(self, models=None, samples=None):
            raise AssertionError

        column_sums = row_sums = packed_rows = matrix

    assert (
        predicted_cost.predict_cost(methods.get("recommended"), Unreadable(KNOWN.values), 1, 20) > 0
    )


def test_an_estimate_has_its_interval_what_was_asked_and_what_it_cost():
    evaluator = methods.get("sort_and_search").fit(KNOWN, None, jax.random.key(0))
    estimates = evaluator.evaluate(MatrixOracle(NEW), len(NEW), 20, jax.random.key(1))
    assert len(list(estimates)) == len(NEW)
    first = estimates[0]
    assert first.value == estimates.accuracy[0] and first.low <= first.value <= first.high
    assert first.observed == 20 and first.cost.flops > 0 and first.reason == ""
    few = methods.get("sort_and_search").fit(ArrayMatrix(KNOWN.values[:3]), None, jax.random.key(0))
    single = few.evaluate(MatrixOracle(NEW), len(NEW), 20, jax.random.key(1))[0]
    assert np.isnan(single.low) and "fewer than 5" in single.reason
