"""Policies by clusters and by data sets, and the predictors that weigh what they ask."""

import jax
import numpy as np
import pytest

from nevis_stream.dynamic_evaluation import methods
from nevis_stream.dynamic_evaluation.method import make_context
from nevis_stream.dynamic_evaluation.policy import divide_budget
from nevis_stream.errors import BadInput
from nevis_stream.experiments.evaluation_studies.method_study import (
    StudiedMatrix,
    StudyDesign,
    run_rows,
)
from nevis_stream.experiments.methods.anchors import choose_anchors, describe_by_values
from nevis_stream.queries.matrix import ArrayMatrix
from nevis_stream.queries.oracle import MatrixOracle
from nevis_stream.queries.samples import SampleFacts
from tests.dynamic_evaluation.making import one_order, simulated


def test_an_anchor_is_the_sample_nearest_to_its_centroid_and_weighs_its_cluster():
    """Three far groups of 10, 20 and 30 points on a line; the middle one is nearest to the mean."""
    sizes, centres = [11, 21, 31], [0.0, 100.0, 200.0]
    points = [
        centre + np.linspace(-1, 1, size) for size, centre in zip(sizes, centres, strict=True)
    ]
    vectors = np.concatenate(points)[:, None].astype(np.float32)
    samples, fractions = choose_anchors(
        vectors, np.full(63, 1 / 63), 3, np.random.default_rng(0), make_context()
    )
    order = np.argsort(samples)
    assert samples[order].tolist() == [5, 11 + 10, 32 + 15]
    assert np.allclose(fractions[order], np.array(sizes) / 63)


def test_equal_vectors_give_different_samples():
    weights = np.full(9, 1 / 9)
    same = np.zeros((9, 2), np.float32)
    samples, fractions = choose_anchors(same, weights, 4, np.random.default_rng(0), make_context())
    assert len(set(samples.tolist())) == 4 and np.allclose(fractions, 1 / 4)


def test_an_anchor_stands_for_the_weights_of_its_cluster():
    """Two data sets of 20 and 80 samples weigh the same; one anchor each."""
    facts = SampleFacts(
        100, None, np.repeat(["a", "b"], [20, 80]), dataset_weights={"a": 1, "b": 1}
    )
    vectors = np.repeat([[0.0], [9.0]], [20, 80], axis=0).astype(np.float32)
    samples, fractions = choose_anchors(
        vectors, facts.weights, 2, np.random.default_rng(0), make_context()
    )
    weights = fractions * facts.weights[samples]
    assert np.allclose(weights / weights.sum(), 0.5)


def test_samples_that_no_known_model_has_met_have_the_overall_mean():
    """As 0, they would be the hardest of all samples."""
    known, new = one_order(30, 200, noise=0.3)[:29], np.ones((1, 200), np.uint8)
    known[:, :100] = 255
    for name in ("sparse_eval", "clusters_values+anchor_weights"):
        evaluator = methods.get(name).fit(ArrayMatrix(known), None, jax.random.key(0))
        estimates = evaluator.evaluate(MatrixOracle(new), 1, 20, jax.random.key(1))
        unseen = np.delete(np.arange(100), estimates.answers.samples[0] % 100)
        assert estimates.values[0, unseen].min() > 0.2, name


def test_holes_do_not_describe_a_sample():
    values = one_order(6, 8)
    values[2, 3] = 255
    vectors = describe_by_values(ArrayMatrix(values), None, jax.random.key(0), make_context())
    seen = np.delete(values[:, 3], 2)
    assert vectors.shape == (8, 6) and np.isclose(vectors[3, 2], seen.mean())


@pytest.mark.parametrize(
    ("sizes", "budget", "counts"),
    [
        ([100, 50, 5], 30, {(13, 12, 5), (12, 13, 5)}),
        ([4, 4], 8, {(4, 4)}),
        ([9, 9], 1, {(1, 0), (0, 1)}),
    ],
)
def test_a_budget_is_divided_equally_as_far_as_data_sets_last(sizes, budget, counts):
    random = np.random.default_rng(0)
    assert tuple(divide_budget(np.array(sizes), budget, random).tolist()) in counts


def test_the_mean_of_equal_numbers_by_data_set_is_unbiased():
    """A sample stands for its data set's size, so that the mean over many draws is right."""
    new = one_order(1, 300, noise=0.7)
    dataset = np.repeat(["a", "b"], [250, 50])
    known = ArrayMatrix(one_order(8, 300, seed=1), facts=SampleFacts(300, dataset=dataset))
    evaluator = methods.get("datasets+mean").fit(known, None, jax.random.key(0))
    means = [
        evaluator.evaluate(MatrixOracle(new), 1, 20, jax.random.key(seed)).accuracy[0]
        for seed in range(200)
    ]
    error = np.std(means) / np.sqrt(len(means))
    assert abs(np.mean(means) - new.mean()) < 4 * error


def test_a_budget_below_the_number_of_data_sets_is_refused_and_left_out_of_studies():
    values = one_order(12, 60)
    facts = SampleFacts(60, dataset=np.repeat(["a", "b", "c"], 20))
    evaluator = methods.get("datasets+mean").fit(ArrayMatrix(values[:8], facts=facts))
    with pytest.raises(
        BadInput, match="a budget of 2, but at least 3 are needed: one sample of each"
    ):
        evaluator.evaluate(MatrixOracle(values[8:]), 4, 2, jax.random.key(0))
    design = StudyDesign(["datasets+mean"], (2, 3), seeds=1)
    assert [row["budget"] for row in run_rows(StudiedMatrix("m", values, None, facts), design)] == [
        3
    ]


@pytest.mark.parametrize("policy", ["datasets", "clusters_features"])
def test_a_policy_says_what_its_samples_lack(policy):
    with pytest.raises(BadInput, match=f"{policy}: (the samples|not every sample)"):
        methods.get(f"{policy}+mean").fit(one_order(8, 30), None, jax.random.key(0))


@pytest.mark.slow
def test_averaging_is_no_worse_than_the_worse_of_both_and_learns_its_share():
    outcomes, *_ = simulated(90, 400, 1, seed=3)
    known, new = outcomes[:60], outcomes[60:]
    truth, key = new.mean(axis=1), jax.random.key(0)

    def estimates(name):
        evaluator = methods.get(name).fit(known, None, key)
        return evaluator, np.abs(
            evaluator.evaluate(MatrixOracle(new), len(new), 20, jax.random.key(1)).accuracy - truth
        )

    evaluator, errors = estimates("clusters_items+gp_irt")
    _, by_mean = estimates("clusters_items+mean")
    _, by_model = estimates("clusters_items+irt_2pl")
    assert 0 <= evaluator.tree["tuned"]["20"]["predictor"]["share"] < 0.5  # the model is right here
    assert errors.mean() < max(by_mean.mean(), by_model.mean())
