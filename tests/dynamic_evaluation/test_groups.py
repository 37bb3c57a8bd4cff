"""Groups of models: the models of a run are one group, and so are runs that contain copies of each
other's models.
"""

import jax
import numpy as np

from nevis_stream.additions.models import add_models
from nevis_stream.dynamic_evaluation import methods
from nevis_stream.dynamic_evaluation.known_models import group_models, merge_groups
from nevis_stream.evaluation_cache import EvaluationCache
from nevis_stream.evaluation_cache.cache_matrix import CacheMatrix
from nevis_stream.evaluation_cache.facts import name_groups
from nevis_stream.evaluation_cache.files import ValueTable
from nevis_stream.queries.oracle import MatrixOracle
from tests.dynamic_evaluation.making import file_asks

ROWS = np.random.default_rng(0).integers(0, 2, (6, 40), np.uint8)


def test_runs_with_the_same_models_are_one_group():
    outcomes = np.concatenate([ROWS[:4], ROWS[2:4], ROWS[4:]])
    assert merge_groups(["b", "b", "c", "c", "a", "a", "d", "d"], outcomes) == [
        "b",
        "b",
        "a",
        "a",
        "a",
        "a",
        "d",
        "d",
    ]
    chain = np.concatenate([ROWS[:2], ROWS[1:3], ROWS[2:4]])  # a like b, b like c
    assert set(merge_groups(list("aabbcc"), chain)) == {"a"}


def test_a_few_equal_rows_join_nothing():
    outcomes = ROWS.copy()
    outcomes[[0, 3]] = 1  # one in three of each: models that always say the same
    assert merge_groups(list("aaabbb"), outcomes) == list("aaabbb")
    outcomes[:3] = 1  # three that are alike are one of one
    assert merge_groups(list("aaabbb"), outcomes) == ["a"] * 6


def test_a_model_without_a_run_is_its_own_group(tmp_path):
    cache = EvaluationCache(tmp_path / "cache", create=True)
    samples = [f"s{j}" for j in range(40)]
    for number, run in enumerate(["r", "r", None, None]):
        cache.append(f"m{number}", samples, ROWS[number], provenance={"run": run} if run else None)
    assert group_models(CacheMatrix(cache)) == ["r", "r", "m2", "m3"]
    assert group_models(CacheMatrix(cache, np.arange(2, 4))) is None


def test_copies_without_a_run_are_one_group_and_give_no_interval(tmp_path):
    cache = EvaluationCache(tmp_path / "cache", create=True)
    samples, models = [f"s{j}" for j in range(40)], [f"m{i}" for i in range(8)]
    cache.append_rows(models, samples, np.repeat(ROWS[:1], 8, axis=0))
    assert group_models(CacheMatrix(cache)) == ["m0"] * 8
    new = ValueTable(["new"], samples, ROWS[1:2])
    for method in ("sort_and_search", "copy_nearest"):
        account = add_models(cache, file_asks(cache, new, ["new"]), 10, method)[0]
        assert account.low is None and "fewer than 5 known models or runs" in account.reason


def test_known_models_that_are_all_alike_do_not_narrow_an_interval():
    random = np.random.default_rng(0)
    known = np.repeat(random.random((1, 400)) < 0.6, 12, axis=0).astype(np.uint8)
    new = (random.random((200, 400)) < random.uniform(0.2, 0.9, (200, 1))).astype(np.uint8)
    evaluator = methods.get("stratified_mean").fit(known, None, jax.random.key(0))
    result = evaluator.evaluate(MatrixOracle(new), len(new), 64, jax.random.key(1))
    covered = (result.low <= new.mean(axis=1)) & (new.mean(axis=1) <= result.high)
    assert 0.9 <= covered.mean() < 1


def test_the_groups_of_a_file_are_not_called_runs(tmp_path):
    for name, kind in (("group", "groups"), ("run", "runs")):
        cache = EvaluationCache(tmp_path / name, create=True)
        cache.append("m", ["s"], [1], provenance={name: "a"})
        assert name_groups(cache) == kind
