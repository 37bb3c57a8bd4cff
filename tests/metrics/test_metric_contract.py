"""One suite over every metric of the registry."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nevis_stream import metrics
from nevis_stream.datasets.dataset import SINGLE_LABEL
from nevis_stream.errors import BadInput
from nevis_stream.vocabulary import TASK_KINDS

METRICS = list(metrics.METRICS.values())


def answers(kind, n=40, classes=5, seed=0):
    """Labels, and probabilities rounded so that ties occur."""
    random = np.random.default_rng(seed)
    if kind == SINGLE_LABEL:
        labels = random.integers(classes, size=n).astype(np.int32)
        probabilities = random.dirichlet(np.ones(classes), size=n)
    else:
        labels = random.integers(2, size=(n, classes)).astype(np.uint8)
        probabilities = random.uniform(size=(n, classes))
    return labels, probabilities.round(1).astype(np.float32)


def perfect(labels, kind, classes=5):
    return np.float32(np.eye(classes)[labels] if kind == SINGLE_LABEL else labels)


@pytest.fixture(params=METRICS, ids=lambda metric: metric.name)
def metric(request):
    return request.param


def test_each_kind_has_one_headline():
    for kind in TASK_KINDS:
        assert metrics.find_metric(kind).kind == kind
        assert sum(m.headline for m in METRICS if m.kind == kind) == 1


def test_registry_is_found_by_name(metric):
    assert metrics.get(metric.name) is metric
    assert metric.kind in TASK_KINDS
    assert metric.direction in ("lower", "higher")


def test_unknown_names_say_what_is_valid():
    with pytest.raises(BadInput, match="'error_rat'.*'error_rate'"):
        metrics.get("error_rat")
    with pytest.raises(BadInput, match="'labels'.*multi_label, single_label"):
        metrics.find_metric("labels")


def test_shapes_and_dtypes(metric):
    labels, probabilities = answers(metric.kind)
    correct = metric.per_sample(labels, probabilities)
    confidence = metric.confidence(labels, probabilities)
    assert correct.shape == confidence.shape == labels.shape
    assert correct.dtype == np.uint8 and set(np.unique(correct)) <= {0, 1}
    assert confidence.dtype == np.float32
    assert confidence.min() >= 0 and confidence.max() <= 1
    value = metric.aggregate(labels, probabilities)
    assert type(value) is float and 0 <= value <= 1
    assert 0 <= metric.to_error(value) <= 1


def test_perfect_answers_have_no_error_and_better_means_less_error(metric):
    labels, probabilities = answers(metric.kind)
    right = perfect(labels, metric.kind)
    best, other = metric.aggregate(labels, right), metric.aggregate(labels, probabilities)
    assert metric.to_error(best) == 0
    assert metric.per_sample(labels, right).all()
    assert (metric.confidence(labels, right) == 1).all()
    assert metric.to_error(other) > 0
    assert (best < other) == (metric.direction == "lower")


@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_order_of_the_samples_does_not_matter(data):
    metric = data.draw(st.sampled_from(METRICS))
    n, seed = data.draw(st.integers(1, 30)), data.draw(st.integers(0, 1000))
    labels, probabilities = answers(metric.kind, n, 4, seed)
    order = np.random.default_rng(seed + 1).permutation(n)
    first = metric.aggregate(labels, probabilities)
    other = metric.aggregate(labels[order], probabilities[order])
    assert first == pytest.approx(other, abs=1e-12, nan_ok=True)
    for by_sample in (metric.per_sample, metric.confidence):
        shuffled = by_sample(labels[order], probabilities[order])
        np.testing.assert_array_equal(by_sample(labels, probabilities)[order], shuffled)


def test_inputs_are_left_alone(metric):
    labels, probabilities = answers(metric.kind)
    remaining = labels.copy(), probabilities.copy()
    for array in (labels, probabilities):
        array.setflags(write=False)
    metric.aggregate(labels, probabilities)
    metric.per_sample(labels, probabilities)
    np.testing.assert_array_equal(labels, remaining[0])
    np.testing.assert_array_equal(probabilities, remaining[1])


def test_arrays_that_do_not_fit_are_refused(metric):
    labels, probabilities = answers(metric.kind)
    for fn in (metric.per_sample, metric.confidence, metric.aggregate):
        for wrong in (probabilities[:-1], probabilities[:, 0], probabilities[..., None]):
            with pytest.raises(BadInput, match="cannot be judged as"):
                fn(labels, wrong)
        with pytest.raises(BadInput, match="n at least 1"):
            fn(labels[:0], probabilities[:0])
        with pytest.raises(BadInput, match="finite"):
            fn(labels, np.where(probabilities > 0.3, math.nan, probabilities))
