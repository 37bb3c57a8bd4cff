"""The loop and its mistakes."""

import numpy as np
import pytest

from nevis_stream.active_testing.pool import Pool, subtract_pools
from nevis_stream.active_testing.testing import (
    EnsemblePredictions,
    KnownLabels,
    fix_surrogate,
    run_active_test,
)
from nevis_stream.errors import BadInput
from nevis_stream.queries.oracle import Cost, Responses
from tests.active_testing.pools import example


def start(pool, labels, surrogate, budget=4, **settings):
    return run_active_test(
        pool, surrogate, KnownLabels(labels), budget, np.random.default_rng(0), **settings
    )


def test_every_batch_is_yielded_and_no_sample_asked_twice():
    pool, labels, members = example(10, 0)
    steps = list(start(pool, labels, fix_surrogate(members), budget=10, batch=4))
    assert [step.asked for step in steps] == [4, 8, 10]
    assert sorted(steps[-1].samples) == list(range(10))
    np.testing.assert_array_equal(steps[-1].labels, labels[steps[-1].samples])
    np.testing.assert_array_equal(steps[0].samples, steps[1].samples[:4])


def test_the_same_seed_gives_the_same_labels():
    pool, labels, members = example(10, 0)
    first, second = (list(start(pool, labels, fix_surrogate(members)))[-1] for _ in range(2))
    np.testing.assert_array_equal(first.samples, second.samples)
    np.testing.assert_array_equal(first.probabilities, second.probabilities)


def test_costs_add_up_and_the_surrogate_sees_all_labels():
    pool, labels, members = example(10, 0)
    seen = []

    def surrogate(answers):
        seen.append(answers.values.size)
        return EnsemblePredictions(members, Cost(flops=100))

    *_, draws = start(pool, labels, surrogate, budget=5, batch=2)
    assert seen == [0, 2, 4, 5]
    assert draws.cost.labels == 5 and draws.cost.flops == 400
    assert draws.cost.uncounted == {"acquisition scores"}


def test_the_expected_losses_kept_are_those_before_the_label():
    pool, labels, members = example(10, 0)
    truth = np.eye(3)[labels][None]

    def surrogate(answers):
        return EnsemblePredictions(truth if answers.values.size else members)

    (draws,) = start(pool, labels, surrogate, budget=4, batch=4)
    expected = (members.mean(axis=0) * pool.losses).sum(axis=1)
    np.testing.assert_allclose(draws.predicted, expected[draws.samples])
    assert draws.remaining[0] == pytest.approx(expected.sum())
    assert draws.remaining[3] == pytest.approx(expected.sum() - expected[draws.samples[:3]].sum())
    assert draws.expected.mean() == pytest.approx(pool.risk(labels))


@pytest.mark.parametrize(
    "settings,message",
    [
        ({"budget": 11}, "a budget of 11 labels"),
        ({"batch": 0}, "batch=0"),
        ({"rule": "xwet"}, "'xwet'.*'xwed'"),
    ],
)
def test_settings_are_checked(settings, message):
    pool, labels, members = example(10, 0)
    with pytest.raises(BadInput, match=message):
        list(start(pool, labels, fix_surrogate(members), **settings))


def test_labels_are_checked():
    pool, labels, members = example(10, 0)
    with pytest.raises(BadInput, match="the answer to sample . is 7, not a class from 0 to 2"):
        list(start(pool, np.full(10, 7), fix_surrogate(members)))
    with pytest.raises(BadInput, match=r"asked for the cells \[1, 1\], answered \[1, 3\] values"):
        list(
            run_active_test(
                pool,
                fix_surrogate(members),
                lambda cells: Responses(cells, np.zeros((1, 3))),
                2,
                np.random.default_rng(0),
            )
        )


def test_probabilities_are_checked():
    pool, labels, members = example(10, 0)
    with pytest.raises(BadInput, match="the surrogate's probabilities have the shape"):
        list(start(pool, labels, fix_surrogate(members[:, :5])))
    with pytest.raises(BadInput, match="the model's predictions sum to 3"):
        Pool.of(np.ones((4, 3)))
    with pytest.raises(BadInput, match="undefined"):
        Pool.of(np.full((4, 3), np.nan))
    with pytest.raises(BadInput, match="'brier'.*zero_one"):
        Pool.of(members[0], "brier")
    with pytest.raises(BadInput, match="cannot be compared"):
        subtract_pools(pool, Pool.of(members[0][:5]))


def test_an_impossible_label_has_a_finite_loss():
    assert np.isfinite(Pool.of(np.array([[1.0, 0.0]])).losses).all()
