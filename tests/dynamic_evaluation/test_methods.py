"""One suite over every method of the registry."""

import functools

import jax
import numpy as np
import pytest

from nevis_stream.dynamic_evaluation import methods
from nevis_stream.errors import BadInput
from nevis_stream.queries.oracle import MatrixOracle
from tests.dynamic_evaluation.making import one_order

ALL = sorted(methods.list_methods(bounds=True))
OVERWRITES = {"published"}  # with its defects
MATRIX = one_order(40, 300, noise=0.7)
KNOWN, NEW = MATRIX[:28], MATRIX[28:]
KNOWN = np.where(np.random.default_rng(1).random(KNOWN.shape) < 0.05, 255, KNOWN).astype(np.uint8)


@functools.cache
def fitted(name, seed):
    """Each fit serves all budgets."""
    return methods.get(name).fit(KNOWN, None, jax.random.split(jax.random.key(seed))[0])


def evaluate(name, budget, seed=0, new=NEW):
    oracle = MatrixOracle(new)
    key = jax.random.split(jax.random.key(seed))[1]
    return fitted(name, seed).evaluate(oracle, len(new), budget, key), oracle


# 20 is the budget of the test below and of test_recommended.py: each budget is another program
@pytest.mark.parametrize(
    "budget", [20, *(pytest.param(budget, marks=pytest.mark.slow) for budget in (1, 300))]
)
@pytest.mark.parametrize("name", ALL)
def test_what_every_method_promises(name, budget):
    estimate, oracle = evaluate(name, budget)
    assert estimate.values.shape == estimate.outcomes.shape == estimate.observed.shape == NEW.shape
    assert estimate.values.dtype == np.float32 and estimate.outcomes.dtype == np.uint8
    assert estimate.observed.dtype == bool
    for item in (estimate.accuracy, estimate.low, estimate.high):
        assert item.shape == (len(NEW),) and item.dtype == np.float64
    assert ((estimate.values >= 0) & (estimate.values <= 1)).all()
    assert np.isin(estimate.outcomes, (0, 1)).all()
    assert ((estimate.accuracy >= 0) & (estimate.accuracy <= 1)).all()
    values = ~np.isnan(estimate.low)
    slack = 1e-9
    assert (estimate.low <= estimate.accuracy + slack)[values].all()
    assert (estimate.accuracy <= estimate.high + slack)[values].all()
    if methods.get(name).is_bound:
        assert estimate.observed.all()
        return
    assert (estimate.observed == oracle.observed).all() and (oracle.counts == budget).all()
    if name not in OVERWRITES:
        assert (estimate.outcomes[oracle.observed] == NEW[oracle.observed]).all()
        assert (estimate.values[oracle.observed] == NEW[oracle.observed]).all()
        if budget == NEW.shape[1]:
            assert np.allclose(estimate.accuracy, NEW.mean(axis=1))


# fitted twice: as long as all others
LONG_FITS = ("irt_multidimensional", "irt_multidimensional_adaptive", "quadrature", "recommended")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name in LONG_FITS)) for name in ALL],
)
def test_the_same_key_gives_the_same_estimates(name):
    first = evaluate(name, 20)[0]
    fitted.cache_clear()
    other = evaluate(name, 20)[0]
    assert (first.values == other.values).all() and (first.accuracy == other.accuracy).all()


@pytest.mark.parametrize("name", sorted(methods.list_methods()))
def test_impossible_budgets_are_refused(name):
    with pytest.raises(BadInput, match="budget of 301"):
        evaluate(name, 301)


def test_the_floor_is_below_every_threshold_and_the_prefix_is_far_above():
    def error(name):
        return (evaluate(name, 64)[0].outcomes != NEW).mean(axis=1)

    assert (error("single_order_floor") <= error("published") + 1e-12).all()
    assert error("oracle_accuracy_prefix").mean() > 0.3
    prefix, _ = evaluate("oracle_accuracy_prefix", 64)
    assert np.allclose(prefix.outcomes.mean(axis=1), NEW.mean(axis=1))  # no aggregate error at all


def test_the_nearest_model_is_copied():
    new = KNOWN[3:4].copy()
    new[new == 255] = 0
    estimate, _ = evaluate("copy_nearest", 200, new=new)
    assert (estimate.outcomes == new)[KNOWN[3:4] != 255].all()


@pytest.mark.parametrize("name", ["random_mean", "stratified_mean"])
def test_intervals_of_means_cover_and_their_means_are_unbiased(name):
    inside, bias, width = [], [], []
    for seed in range(60):
        estimate, _ = evaluate(name, 64, seed)
        true = NEW.mean(axis=1)
        inside.append((estimate.low <= true) & (true <= estimate.high))
        bias.append(estimate.accuracy - true)
        width.append(estimate.high - estimate.low)
    assert 0.90 <= np.mean(inside) <= 0.99
    assert abs(np.mean(bias)) < 4 * np.std(bias) / np.sqrt(np.size(bias))
    assert np.mean(width) < (0.25 if name == "random_mean" else 0.17)


LEARN_A_WIDTH = [
    "sort_and_search",
    "sort_and_search_random",
    "sort_and_search_recursive",
    "copy_nearest",
]


@pytest.mark.parametrize("name", LEARN_A_WIDTH)
def test_intervals_that_known_models_have_tried_cover(name):
    inside, width = [], []
    for seed in range(8):
        models = one_order(52, 300, noise=0.7, seed=seed)
        known, new = models[:40], models[40:]
        estimate = (
            methods.get(name)
            .fit(known, None, jax.random.key(0))
            .evaluate(MatrixOracle(new), 12, 32, jax.random.key(1))
        )
        true = new.mean(axis=1)
        inside.append((estimate.low <= true) & (true <= estimate.high))
        width.append(estimate.high - estimate.low)
        assert not estimate.reason
    assert 0.88 <= np.mean(inside) <= 1 and np.mean(width) < 0.6


@pytest.mark.parametrize("name", LEARN_A_WIDTH)
@pytest.mark.parametrize("groups", [None, ["a", "a", "b", "b"], ["a"] * 4])
def test_of_few_known_models_there_is_no_interval_and_a_reason(name, groups):
    evaluator = methods.get(name).fit(KNOWN[:4], groups, jax.random.key(0))
    estimate = evaluator.evaluate(MatrixOracle(NEW), 12, 32, jax.random.key(1))
    assert np.isnan(estimate.low).all() and np.isnan(estimate.high).all()
    assert "fewer than 5 known models or runs" in estimate.reason
