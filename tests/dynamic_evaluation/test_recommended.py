"""The combination: better than one order on many factors, calibrated, and harmless on small and odd
matrices.
"""

import jax
import numpy as np
import pytest

from nevis_stream.dynamic_evaluation import methods
from nevis_stream.queries.oracle import MatrixOracle
from tests.dynamic_evaluation.making import simulated

# Shapes and budget are those of test_methods.py, so that a session compiles each program once.
OUTCOMES, *_ = simulated(88, 300, factors=2, seed=3)
KNOWN, NEW, BUDGET = OUTCOMES[:28], OUTCOMES[28:].reshape(5, 12, 300), 20


def evaluate(known, new, groups=None, name="recommended"):
    """Evaluates batches of new models, uint8[batches, m, n], with methods fitted once; returns
    their estimates.
    """
    fit_key, key = jax.random.split(jax.random.key(0))
    evaluator = methods.get(name).fit(known, groups, fit_key)
    return [evaluator.evaluate(MatrixOracle(batch), len(batch), BUDGET, key) for batch in new]


def joined(estimates, name):
    return np.stack([getattr(estimate, name) for estimate in estimates])


@pytest.mark.slow
def test_it_beats_one_order_and_its_intervals_cover():
    ours, one_order = (
        evaluate(KNOWN, NEW, name=name) for name in ("recommended", "sort_and_search")
    )
    truth = NEW.mean(axis=2)
    wrong = [(joined(estimates, "outcomes") != NEW).mean() for estimates in (ours, one_order)]
    away = [np.abs(joined(estimates, "accuracy") - truth).mean() for estimates in (ours, one_order)]
    assert wrong[0] < 0.9 * wrong[1] and away[0] < away[1]
    assert 0.88 <= ((joined(ours, "low") <= truth) & (truth <= joined(ours, "high"))).mean() <= 1


def odd():
    """Matrices that are not like real ones, by what is odd."""
    yield "one group", KNOWN, ["a"] * 28
    constant = KNOWN.copy()
    constant[:, :100], constant[:, 100:150], constant[0], constant[1] = 1, 0, 1, 0
    yield "constant rows and columns", constant, None
    yield (
        "holes",
        np.where(np.random.default_rng(0).random(KNOWN.shape) < 0.4, 255, KNOWN).astype(np.uint8),
        None,
    )
    holes = KNOWN.copy()
    holes[1:] = 255
    yield "only one model is known at all", holes, None
    yield "the same row", np.repeat(KNOWN[:1], 28, axis=0), None


def check(estimate, truth):
    for values in (estimate.values, estimate.accuracy, estimate.low, estimate.high):
        assert np.isfinite(values).all()
    assert (estimate.outcomes[estimate.observed] == truth[estimate.observed]).all()
    assert (estimate.low <= estimate.accuracy).all() and (estimate.accuracy <= estimate.high).all()


@pytest.mark.parametrize(
    ("known", "groups"),
    [
        pytest.param(*case, id=name, marks=[pytest.mark.slow] * name.startswith("constant"))
        for name, *case in odd()
    ],
)
def test_odd_matrices(known, groups):
    check(evaluate(known, NEW[:1], groups)[0], NEW[0])


@pytest.mark.slow
@pytest.mark.parametrize("models", [1, 5, 9])
def test_few_models(models):
    check(evaluate(KNOWN[:models, :30], NEW[:1, :3, :30])[0], NEW[0, :3, :30])


def test_of_too_few_known_models_no_interval_is_made_up():
    for known, groups in ((KNOWN[:4], None), (KNOWN[:8], list("aabbccdd"))):
        created, mean = (
            evaluate(known, NEW[:1], groups, name)[0] for name in ("recommended", "stratified_mean")
        )
        assert (created.outcomes == mean.outcomes).all()
        assert (
            (created.low == mean.low).all()
            and (created.high == mean.high).all()
            and np.isfinite(created.low).all()
        )


@pytest.mark.slow
def test_columns_that_all_models_solve_change_little():
    wider, new = (
        np.concatenate([x, np.ones((*x.shape[:-1], 40), np.uint8)], axis=-1)
        for x in (KNOWN, NEW[:1])
    )
    plain, with_constant = evaluate(KNOWN, NEW[:1])[0], evaluate(wider, new)[0]
    assert (with_constant.outcomes[:, 300:] == 1).all()
    assert (plain.outcomes != with_constant.outcomes[:, :300]).mean() < 0.15
