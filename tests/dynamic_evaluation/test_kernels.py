import jax.numpy as jnp
import numpy as np
import pytest

from nevis_stream.dynamic_evaluation import kernels, search
from nevis_stream.dynamic_evaluation.method import matrix_oracle
from nevis_stream.dynamic_evaluation.sort import sort
from tests.dynamic_evaluation.making import one_order


def test_one_program_equals_the_search_at_each_budget():
    matrix = one_order(30, 333, noise=1.0)
    matrix[25], matrix[26] = 0, 1
    rank, new = sort(matrix[:20]), matrix[20:]
    budgets = (1, 2, 8, 50, 333)
    cuts, errors = kernels.error_curve(rank, new[:, rank.order], budgets)
    assert cuts.shape == errors.shape == (10, 5)
    for column, budget in enumerate(budgets):
        plan = search.plan(rank, budget, len(new))
        ask = matrix_oracle(new)
        answers = ask(plan)
        expected = search.cuts(rank, plan.positions, answers)
        assert (np.asarray(cuts[:, column]) == expected).all()
        wrong = (search.predict(rank, plan, answers).outcomes != new).mean(axis=1)
        assert np.asarray(errors[:, column]) == pytest.approx(wrong)


def test_optima_with_holes_and_padding_equal_numpy():
    random = np.random.default_rng(0)
    rows = random.choice(np.array([0, 1, 255], np.uint8), (50, 40))
    for length in (1, 7, 40):
        found = np.asarray(kernels.optima(jnp.asarray(rows), jnp.arange(40) < length))
        first, last = found.argmax(axis=1), found.shape[1] - 1 - found[:, ::-1].argmax(axis=1)
        assert ((first, last) == np.asarray(search.optima(rows[:, :length]))).all()
