import jax
import numpy as np
import pytest

from nevis_stream.dynamic_evaluation import methods
from nevis_stream.estimation import intervals
from nevis_stream.queries.matrix import ArrayMatrix
from nevis_stream.queries.oracle import MatrixOracle
from nevis_stream.queries.samples import SampleFacts
from tests.dynamic_evaluation.making import one_order


def test_wilson_gives_known_values():
    """10 of 20 gives 0.299 … 0.701, 0 of 10 gives 0 … 0.278, as tables of the score interval have
    it.
    """
    low, high = intervals.compute_wilson(np.array([0.5, 0.0]), np.array([20, 10]))
    assert low == pytest.approx([0.2993, 0.0], abs=1e-4)
    assert high == pytest.approx([0.7007, 0.2775], abs=1e-4)


def test_all_seen_leaves_no_doubt():
    assert intervals.count_effective(50, 50) == np.inf
    low, high = intervals.compute_wilson(np.array([0.3]), intervals.count_effective(50, 50))
    assert low == high == 0.3
    assert intervals.count_effective(1, 1000) == pytest.approx(1.0)
    assert intervals.count_effective(25, 50, design=0.5) == pytest.approx(98)


def test_an_interval_goes_on_to_where_samples_contradict_it():
    low, high = intervals.extend(
        np.array([0.3, 0.3, 0.5]),
        np.array([0.4, 0.4, 0.6]),
        np.array([0.45, 0.8, 0.1]),
        np.array([0.05, 0.05, 0.05]),
    )
    assert low == pytest.approx([0.3, 0.3, 0.002], abs=1e-3)
    assert high == pytest.approx([0.4, 0.898, 0.6], abs=1e-3)


def test_intervals_of_the_stratified_mean_hold_with_unequal_weights_of_data_sets():
    values = one_order(90, 1000, noise=0.7)
    dataset = np.repeat(["large", "small"], [950, 50])
    facts = SampleFacts(1000, dataset=dataset, dataset_weights={"large": 1.0, "small": 1.0})
    known, new = ArrayMatrix(values[:30], facts=facts), values[30:]
    evaluator = methods.get("stratified_mean").fit(known, key=jax.random.key(0))
    inside = []
    for seed in range(5):
        estimates = evaluator.evaluate(MatrixOracle(new), len(new), 100, jax.random.key(seed))
        truth = facts.mean(new)
        inside.append((estimates.low <= truth) & (truth <= estimates.high))
    assert np.mean(inside) > 0.9  # 0.48 for the number of asked samples
