"""Known models read from a cache are those in memory, and stay on disk."""

import tracemalloc

import jax
import numpy as np
import pytest

from nevis_stream.additions.models import add_models
from nevis_stream.dynamic_evaluation import fits, known_models, methods
from nevis_stream.dynamic_evaluation.known_models import (
    divide_models,
    find_known,
    find_known_rows,
)
from nevis_stream.errors import BadInput
from nevis_stream.evaluation_cache import EvaluationCache
from nevis_stream.evaluation_cache.cache_matrix import CacheMatrix
from nevis_stream.evaluation_cache.files import ValueTable
from nevis_stream.queries.matrix import ArrayMatrix
from nevis_stream.queries.oracle import MatrixOracle
from tests.dynamic_evaluation.making import file_asks, one_order

OUT_OF_CORE = [name for name, method in methods.list_methods().items() if method.out_of_core]


def cached(path, outcomes):
    cache = EvaluationCache(path, create=True)
    columns = [f"s{k}" for k in range(outcomes.shape[1])]
    cache.append_rows([f"m{i}" for i in range(len(outcomes))], columns, outcomes)
    return cache


@pytest.fixture
def holes():
    random, outcomes = np.random.default_rng(0), one_order(24, 200, noise=0.7)
    outcomes[3:9][random.random((6, 200)) < 0.3] = 255
    outcomes[20, 10:] = 255
    return outcomes


def test_what_is_read_from_a_cache_is_what_is_in_memory(tmp_path, holes):
    cache, rows = cached(tmp_path, holes), np.array([1, 4, 8, 20, 2])
    mask, here = CacheMatrix(cache, rows, np.arange(150)), ArrayMatrix(holes[rows, :150])
    assert mask.shape == here.shape
    for models in (None, np.array([0, 3])):
        assert np.array_equal(mask.column_sums(models), here.column_sums(models))
        for samples in (None, np.array([7, 2, 149])):
            assert np.array_equal(mask.matrix(models, samples), here.matrix(models, samples))
    assert np.array_equal(CacheMatrix(cache, rows).row_sums(), ArrayMatrix(holes[rows]).row_sums())
    rows = np.setdiff1d(np.arange(24), [5])
    assert (
        find_known_rows(CacheMatrix(cache), rows).tolist()
        == rows[find_known(holes[rows] != 255)].tolist()
    )
    assert 20 not in find_known_rows(CacheMatrix(cache), rows)


@pytest.mark.parametrize("name", OUT_OF_CORE)
def test_methods_say_the_same_of_a_cache_and_of_its_matrix(tmp_path, holes, name):
    known, new = np.arange(3, 15), holes[15:18]
    cache, (fitting, key) = cached(tmp_path, holes), jax.random.split(jax.random.key(0))
    estimates = [
        methods.get(name).fit(seen, None, fitting).evaluate(MatrixOracle(new), 3, 20, key)
        for seen in (holes[known], CacheMatrix(cache, known))
    ]
    for options in ("values", "outcomes", "observed", "accuracy", "low", "high"):
        assert np.array_equal(*(getattr(each, options) for each in estimates), equal_nan=True)


def test_a_model_is_added_without_the_matrix_and_what_needs_it_is_refused_in_time(
    tmp_path, monkeypatch
):
    outcomes = np.random.default_rng(0).integers(0, 2, (600, 20_000), np.uint8)
    cache = cached(tmp_path, outcomes[:-2])
    table = ValueTable(["m598", "m599"], cache.samples(), outcomes[-2:])
    first, second = (file_asks(cache, table, [model]) for model in table.models)
    # what is imported late takes memory, too
    add_models(cache, first, 64, "sort_and_search")
    tracemalloc.start()
    account = add_models(cache, second, 64, "sort_and_search")[0]
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert account.models == 598 and account.low is not None
    assert most < outcomes.size / 2
    monkeypatch.setattr(fits, "get_free_memory", lambda: 10**8)
    with pytest.raises(
        BadInput, match="recommended learns from 598 × 20,000 .* 0.1 GB are free. Give --method="
    ):
        add_models(cache, second, 64, "recommended")


def test_parts_keep_groups_together():
    assert [part.tolist() for part in divide_models(4, None)] == [[0], [1], [2], [3]]
    assert [part.tolist() for part in divide_models(5, list("abcab"), most=2)] == [
        [0, 2, 3],
        [1, 4],
    ]
    assert divide_models(3, ["a"] * 3) == []


def test_a_width_is_that_of_the_errors_and_grows_where_few_have_tried():
    errors, ones = np.random.default_rng(0).normal(scale=0.1, size=4000), np.ones(4000)

    def width(count, groups):
        return known_models.learn_half_width(errors[:count], ones[:count], groups)

    assert width(4000, range(4000)) == pytest.approx(0.196, rel=0.05)
    assert width(5, range(5)) == pytest.approx(2.571 * np.sqrt((errors[:5] ** 2).mean()), rel=1e-3)
    assert width(50, ["a", "b", "c", "d", "e"] * 10) > 1.25 * width(50, range(50))
    assert np.isnan(width(4, range(4))) and np.isnan(width(40, ["a", "b"] * 20))
    assert np.isnan(known_models.compute_half_width(np.empty(0), np.empty(0), 0))
    units = np.array([0.0, 1.0, 2.0])
    assert known_models.compute_half_width(
        np.array([9.0, 1.0, 2.0]), units, 3, prior=4.0
    ) == pytest.approx(2.447, abs=1e-3)


def test_folds_keep_groups_together_and_leave_everyone_out():
    groups = np.repeat(["a", "b", "c", "d", "e", "f", "g"], 3)
    parts = known_models.divide_into_folds(21, groups, np.random.default_rng(0))
    assert len({len(part) for part in parts}) == 1 and set(np.concatenate(parts)) == set(range(21))
    for part in parts:
        assert all(np.isin(np.flatnonzero(groups == groups[i]), part).all() for i in part)
        assert len(part) < 21
    assert known_models.divide_into_folds(3, ["a"] * 3, np.random.default_rng(0)) == []
    assert (
        sum(map(len, known_models.divide_into_folds(5000, None, np.random.default_rng(0))))
        <= known_models.HELD_OUT
    )
