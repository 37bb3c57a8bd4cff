"""The combination: better than one order on many factors, calibrated, and harmless on small and odd matrices."""

import jax
import numpy as np
import pytest

from nevis_stream.dynamic_evaluation import combination, methods
from nevis_stream.dynamic_evaluation.method import matrix_oracle
from tests.dynamic_evaluation.making import simulated

OUTCOMES, *_ = simulated(160, 400, factors=2, seed=3)
KNOWN, NEW = OUTCOMES[:80], OUTCOMES[80:]


def evaluate(known, new, budget, groups=None, name="recommended"):
    fit_key, key = jax.random.split(jax.random.key(0))
    return methods.get(name).fit(known, groups, fit_key).evaluate(matrix_oracle(new), len(new), budget, key)


def test_it_beats_one_order_and_its_intervals_cover():
    estimate, one_order = (evaluate(KNOWN, NEW, 48, name=name) for name in ("recommended", "sort_and_search"))
    truth = NEW.mean(axis=1)
    assert (estimate.outcomes != NEW).mean() < 0.9 * (one_order.outcomes != NEW).mean()
    assert np.abs(estimate.accuracy - truth).mean() < np.abs(one_order.accuracy - truth).mean()
    assert 0.88 <= ((estimate.low <= truth) & (truth <= estimate.high)).mean() <= 1


def odd():
    yield "two models", KNOWN[:2, :30], None
    yield "one group", KNOWN[:9, :30], ["a"] * 9
    constant = KNOWN[:9, :30].copy()
    constant[:, :10], constant[:, 10:15], constant[0], constant[1] = 1, 0, 1, 0
    yield "constant rows and columns", constant, None
    yield "holes", np.where(np.random.default_rng(0).random((9, 30)) < 0.4, 255, KNOWN[:9, :30]).astype(np.uint8), None
    yield "the same row", np.repeat(KNOWN[:1, :30], 9, axis=0), None


@pytest.mark.parametrize(("known", "groups"), [case[1:] for case in odd()], ids=[case[0] for case in odd()])
def test_small_and_odd_matrices(known, groups):
    new = NEW[:3, :30]
    estimate = evaluate(known, new, 8, groups)
    for values in (estimate.probabilities, estimate.accuracy, estimate.low, estimate.high):
        assert np.isfinite(values).all()
    assert (estimate.outcomes[estimate.observed] == new[estimate.observed]).all()
    assert (estimate.low <= estimate.accuracy).all() and (estimate.accuracy <= estimate.high).all()


def test_folds_keep_groups_together_and_leave_everyone_out():
    groups = np.repeat(["a", "b", "c", "d", "e", "f", "g"], 3)
    parts = combination.folds(21, groups, np.random.default_rng(0))
    assert len({len(part) for part in parts}) == 1 and set(np.concatenate(parts)) == set(range(21))
    for part in parts:
        assert all(np.isin(np.flatnonzero(groups == groups[i]), part).all() for i in part)
        assert len(part) < 21
    assert combination.folds(3, ["a"] * 3, np.random.default_rng(0)) == []
    assert sum(map(len, combination.folds(5000, None, np.random.default_rng(0)))) <= combination.HELD_OUT


@pytest.mark.slow
def test_columns_that_all_models_solve_change_little():
    wider = [np.concatenate([x, np.ones((len(x), 40), np.uint8)], axis=1) for x in (KNOWN[:20], NEW[:10])]
    plain, with_constant = evaluate(KNOWN[:20], NEW[:10], 32), evaluate(*wider, 32)
    assert (with_constant.outcomes[:, 400:] == 1).all()
    assert (plain.outcomes != with_constant.outcomes[:, :400]).mean() < 0.1
