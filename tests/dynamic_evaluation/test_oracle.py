"""Cells, answers and costs add up; weights of samples average data sets as stated."""

import numpy as np

from nevis_stream.queries.oracle import Cost, Query, Responses
from nevis_stream.queries.samples import SampleFacts


def test_costs_add_up_and_unknown_flops_stay_unknown():
    total = Cost(3, 1, frozenset({"sort"})) + Cost(4, 2, frozenset({"fit"}))
    assert total == Cost(7, 3, frozenset({"sort", "fit"}))
    assert (total + Cost(None)).flops is None


def test_later_answers_follow_and_fixed_cells_have_probability_one():
    fixed = Responses(Query(np.array([[4]])), np.array([[1]], np.uint8), Cost(2))
    drawn = Responses(
        Query(np.array([[0, 7]]), np.array([[0.5, 0.25]])), np.array([[0, 1]], np.uint8), Cost(5)
    )
    both = fixed.then(drawn)
    assert both.samples.tolist() == [[4, 0, 7]]
    assert both.values.tolist() == [[1, 0, 1]]
    assert both.query.probabilities.tolist() == [[1, 0.5, 0.25]]
    assert both.cost == Cost(7)
    assert fixed.then(fixed).query.probabilities is None


def test_weights_average_the_means_of_data_sets():
    dataset = np.array(["a", "b", "b", "b"])
    facts = SampleFacts(4, dataset=dataset, dataset_weights={"a": 1, "b": 3})
    values = np.array([1.0, 0.0, 0.5, 1.0])
    assert facts.weights.sum() == 1
    assert np.isclose(facts.weights @ values, 0.25 * 1.0 + 0.75 * 0.5)
    assert SampleFacts(4, dataset=dataset).weights.tolist() == [0.25] * 4
    part = facts.take(np.array([0, 1]))
    assert np.isclose(part.weights @ values[:2], 0.25)
