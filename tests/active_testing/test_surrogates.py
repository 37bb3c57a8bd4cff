"""Surrogates: what they need, that they learn, that they depend on the labels alone."""

import numpy as np
import pytest

from nevis_stream.active_testing.pool import Pool
from nevis_stream.active_testing.surrogate import (
    PUBLISHED,
    LabelledSamples,
    Schedule,
    SurrogateData,
    calibrate,
    fit_temperature,
    temper,
)
from nevis_stream.active_testing.surrogates import SURROGATES, build_surrogate
from nevis_stream.active_testing.testing import EnsemblePredictions
from nevis_stream.errors import BadInput
from nevis_stream.queries.oracle import Cost, Query, Responses

CLASSES, N = 3, 240


def softmax(x):
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


@pytest.fixture(scope="module")
def data():
    """Pictures of bars, features from which the classes are clear; the tested model never answers
    with class 2, and known models err on the same samples.
    """
    random = np.random.default_rng(0)
    labels = random.integers(CLASSES, size=N)
    images = random.integers(0, 80, size=(N, 12, 12, 1)).astype(np.uint8)
    for place, label in enumerate(labels):
        images[place, :, 4 * label : 4 * label + 4] += 120
    centres = 2 * np.eye(CLASSES, 5)
    features = (centres[labels] + random.normal(0, 0.5, (N, 5))).astype(np.float32)
    logits = 3 * np.eye(CLASSES)[labels] + random.normal(0, 1, (N, CLASSES))
    logits[:, 2] -= 12
    ensemble = softmax(3 * np.eye(CLASSES)[labels] + random.normal(0, 1, (4, N, CLASSES)))
    predictions = softmax(logits)
    right = predictions.argmax(axis=1) == labels
    outcomes = np.where(random.random((6, N)) < 0.9, right, ~right).astype(float)
    pool = np.arange(N) < 160
    known = {"features": features[~pool], "images": images[~pool], "labels": labels[~pool]}
    seen = known["labels"] < 2
    training = LabelledSamples(**{name: each[seen][:30] for name, each in known.items()})
    rest = {name: each[30:] for name, each in known.items()}
    calibration = LabelledSamples(
        **rest, predictions=predictions[~pool][30:], ensemble=ensemble[:, ~pool][:, 30:]
    )
    return (
        SurrogateData(
            predictions[pool],
            features[pool],
            images[pool],
            ensemble[:, pool],
            outcomes[:, pool],
            training,
            calibration,
        ),
        labels[pool],
    )


def bought(labels, samples):
    samples = np.asarray(samples, np.int64)[None]
    return Responses(Query(samples), labels[samples].astype(np.int32))


def likelihood(members, labels, rows):
    mean = np.asarray(members).mean(axis=0)
    return np.log(mean[rows, labels[rows]] + 1e-12).mean()


def slowly(names):
    """The surrogates, those that train whole networks marked as slow."""
    return [
        pytest.param(name, marks=[pytest.mark.slow] if name in ("bayesian", "networks") else [])
        for name in sorted(names)
    ]


@pytest.mark.parametrize("name", slowly(SURROGATES))
def test_every_surrogate_gives_probabilities_of_the_whole_pool(name, data):
    data, labels = data
    surrogate = build_surrogate(name, data, seed=3)
    for answers in (bought(labels, []), bought(labels, range(0, 60, 2))):
        predictions = surrogate(answers)
        members = np.asarray(predictions.probabilities)
        assert members.shape[1:] == (160, CLASSES)
        np.testing.assert_allclose(members.sum(axis=2), 1, atol=1e-4)
        assert members.min() >= 0
        again = build_surrogate(name, data, seed=3)(answers)
        np.testing.assert_array_equal(members, again.probabilities)
    assert SURROGATES[name].about


@pytest.mark.parametrize("name", slowly(set(SURROGATES) - {"tested_model", "ensemble"}))
def test_retrained_surrogates_learn_from_labels(name, data):
    """On samples without a label: the tested model never says class 2, the labels do."""
    data, labels = data
    surrogate = build_surrogate(name, data, seed=3)
    unseen = np.arange(60, 160)
    before = likelihood(surrogate(bought(labels, [])).probabilities, labels, unseen)
    after = likelihood(surrogate(bought(labels, range(60))).probabilities, labels, unseen)
    assert after > before + 0.1


@pytest.mark.parametrize("name", slowly(["bayesian", "forest", "heads", "networks"]))
def test_without_examples_a_surrogate_begins_as_the_tested_model(name, data):
    data, labels = data
    alone = SurrogateData(data.predictions, data.features, data.images)
    surrogate = build_surrogate(name, alone)
    before = np.asarray(surrogate(bought(labels, [])).probabilities)
    np.testing.assert_allclose(before.mean(axis=0), data.predictions, atol=1e-5)
    unseen = np.arange(60, 160)
    after = surrogate(bought(labels, range(60))).probabilities
    assert likelihood(after, labels, unseen) > likelihood(before, labels, unseen) + 0.1


def test_networks_count_their_flops(data):
    data, labels = data
    few = build_surrogate("heads", data)(bought(labels, range(5)))
    many = build_surrogate("heads", data)(bought(labels, range(160)))
    assert 0 < few.cost.flops <= many.cost.flops and not few.cost.uncounted


@pytest.mark.slow
def test_a_posterior_is_wider_where_there_were_no_examples(data):
    """The training examples have no class 2; its samples are far from the others."""
    data, labels = data
    members = build_surrogate("bayesian", data)(bought(labels, [])).probabilities
    assert len(members) == 20
    spread = np.asarray(members).std(axis=0).sum(axis=1)
    assert spread[labels == 2].mean() > 1.2 * spread[labels < 2].mean()


def test_known_models_say_where_the_model_errs(data):
    """Their outcomes agree with the tested model's in nine cases of ten."""
    data, labels = data
    unseen = np.arange(60, 160)
    wrong = data.predictions.argmax(axis=1) != labels
    pool = Pool.of(data.predictions, "zero_one")

    def error(name):
        members = build_surrogate(name, data)(bought(labels, range(60))).probabilities
        expected = (np.asarray(members).mean(axis=0) * pool.losses).sum(axis=1)
        return ((expected - wrong)[unseen] ** 2).mean()

    assert error("known_models") < 0.7 * error("tested_model")


def test_errors_show_which_class_the_model_does_not_know(data):
    """Every error is a sample of class 2, to which the tested model gives a millionth."""
    data, labels = data
    wrong = data.predictions.argmax(axis=1) != labels
    unseen = np.flatnonzero(wrong & (labels == 2) & (np.arange(160) >= 60))
    surrogate = build_surrogate("known_models", data)

    def fraction(answers):
        members = np.asarray(surrogate(answers).probabilities).mean(axis=0)[unseen]
        right = data.predictions[unseen].argmax(axis=1)
        return (members[:, 2] / (1 - members[np.arange(len(unseen)), right])).mean()

    assert fraction(bought(labels, [])) < 0.5
    assert fraction(bought(labels, range(60))) > 0.8


def test_known_models_that_share_nothing_change_little(data):
    data, labels = data
    random = np.random.default_rng(5)
    noise = SurrogateData(
        data.predictions,
        data.features,
        outcomes=(random.random((6, 160)) < 0.7).astype(float),
        training=data.training,
        calibration=data.calibration,
    )
    unseen = np.arange(60, 160)
    answers = bought(labels, range(60))
    joint = likelihood(
        build_surrogate("known_models_heads", noise)(answers).probabilities, labels, unseen
    )
    alone = likelihood(build_surrogate("heads", noise)(answers).probabilities, labels, unseen)
    assert joint > alone - 0.15


def test_what_is_missing_is_named(data):
    with pytest.raises(BadInput, match="'head'.*'heads'"):
        build_surrogate("head", data[0])
    alone = SurrogateData(data[0].predictions)
    with pytest.raises(BadInput, match="'known_models_heads' needs features .* and outcomes of"):
        build_surrogate("known_models_heads", alone)
    with pytest.raises(BadInput, match="'ensemble' needs other models of the run"):
        build_surrogate("ensemble", alone)


def test_the_temperature_undoes_overconfidence():
    random = np.random.default_rng(0)
    logits = random.normal(0, 2, (4000, 4))
    labels = np.array([random.choice(4, p=p) for p in softmax(logits)])
    confident = softmax(3 * logits)[None]
    assert fit_temperature(confident, labels) == pytest.approx(3, rel=0.1)
    fitted = calibrate(confident.copy(), confident, labels)
    np.testing.assert_allclose(fitted[0], softmax(logits), atol=0.05)
    assert fit_temperature(confident, labels[:0]) == 1
    np.testing.assert_allclose(temper(confident, 2.0).sum(axis=2), 1)


def test_the_schedule_is_the_published_one():
    assert PUBLISHED[:12] == (0, 5, 10, 20, 30, 40, 50, 70, 100, 125, 150, 200)
    assert PUBLISHED[12:14] == (250, 300) and PUBLISHED[-3:] == (4000, 4500, 4900)
    schedule = Schedule()
    assert [schedule.batch(asked) for asked in (0, 5, 50, 60, 1000)] == [5, 5, 20, 10, 250]
    calls = []

    def surrogate(answers):
        calls.append(answers.values.size)
        return EnsemblePredictions(np.full((1, 9, 2), 0.5), Cost(flops=7))

    follow_schedule = schedule.applied(surrogate)
    costs = [
        follow_schedule(bought(np.zeros(9, int), range(count))).cost.flops for count in (0, 1, 5, 6)
    ]
    assert calls == [0, 5] and costs == [7, 0, 7, 0]
