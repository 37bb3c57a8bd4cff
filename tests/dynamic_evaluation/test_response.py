"""Item response models recover what they were simulated from, with holes too."""

import jax
import numpy as np
import pytest
from scipy.special import expit

from nevis_stream.dynamic_evaluation import response
from nevis_stream.dynamic_evaluation.method import make_context
from nevis_stream.queries.oracle import Query, Responses
from nevis_stream.queries.samples import UNKNOWN
from tests.dynamic_evaluation.making import simulated

KEY, CTX = jax.random.key(0), make_context()
# one program each: of every operation alone JAX would compile a program
logits, moments = jax.jit(response.predict_logits), jax.jit(response.predict)


def correlation(one, other):
    return np.corrcoef(np.ravel(one), np.ravel(other))[0, 1]


def test_difficulty_discrimination_and_ability_are_recovered():
    outcomes, d, a, ability = simulated(120, 400, factors=1)
    holes = np.random.default_rng(1).random(outcomes.shape) < 0.2
    known = np.where(holes, UNKNOWN, outcomes).astype(np.uint8)
    items, abilities = response.fit(known, 1, KEY, CTX)
    assert items.mean.shape == (400, 2) and items.covariance.shape == (400, 2, 2)
    assert correlation(items.mean[:, 0], d) > 0.95
    assert correlation(items.mean[:, 1], a) > 0.7
    assert correlation(abilities.mean, ability) > 0.97


def test_one_parameter_has_one_discrimination():
    outcomes, d, _, ability = simulated(120, 400, factors=1, spread=0.0)
    items, abilities = response.fit(outcomes, 1, KEY, CTX, common=True)
    assert np.ptp(np.asarray(items.mean[:, 1])) < 1e-2
    assert correlation(items.mean[:, 0], d) > 0.95 and correlation(abilities.mean, ability) > 0.97


def test_more_factors_predict_cells_that_one_does_not():
    outcomes, d, a, ability = simulated(120, 400, factors=3)
    holes = np.random.default_rng(1).random(outcomes.shape) < 0.2
    known = np.where(holes, UNKNOWN, outcomes).astype(np.uint8)
    truth = 1 / (1 + np.exp(-(d + ability @ a.T)))
    errors = {}
    for k in (1, 3):
        items, abilities = response.fit(known, k, KEY, CTX)
        p = expit(logits(items, abilities)[0])
        errors[k] = np.abs(p - truth)[holes].mean()
    assert errors[3] < 0.75 * errors[1]


def test_what_is_unknown_changes_nothing():
    outcomes, *_ = simulated(40, 90, factors=1)
    items, _ = response.fit(outcomes, 1, KEY, CTX)
    row = np.full((1, 90), UNKNOWN, np.uint8)
    more, _ = response.fit(np.concatenate([outcomes, row]), 1, KEY, CTX)
    p, q = (predict(x, observed(outcomes[:5], 30))[0] for x in (items, more))
    assert np.abs(expit(p) - expit(q)).max() < 0.05


def observed(truth, budget, length=None):
    samples = np.broadcast_to(np.arange(budget), (len(truth), budget))
    answers = Responses(Query(samples), truth[:, :budget])
    return response.PaddedAnswers.of(answers, length or budget)


def predict(items, padded_answers):
    n = len(items.mean)
    return moments(items, padded_answers, np.full(n, 1 / n, np.float32))


def test_padding_changes_nothing_and_more_outcomes_narrow_the_posterior():
    outcomes, *_ = simulated(40, 90, factors=1)
    items, _ = response.fit(outcomes, 1, KEY, CTX)
    short, padded = (predict(items, observed(outcomes[:5], 16, length)) for length in (16, 64))
    assert np.allclose(short[0], padded[0], atol=1e-4) and np.allclose(
        short[1], padded[1], atol=1e-6
    )
    assert (predict(items, observed(outcomes[:5], 60))[1] < short[1]).all()


@pytest.mark.parametrize(
    "known",
    [np.ones((1, 1), np.uint8), np.zeros((4, 30), np.uint8), np.full((4, 30), 255, np.uint8)],
)
def test_constant_and_empty_matrices_are_fitted(known):
    items, abilities = response.fit(known, 2, KEY, CTX)
    assert np.isfinite(items.mean).all() and np.isfinite(abilities.mean).all()
    assert (np.linalg.eigvalsh(np.asarray(items.covariance)) > 0).all()


def test_inverse():
    random = np.random.default_rng(0)
    half = random.normal(size=(5, 4, 4)).astype(np.float32)
    matrices = half @ half.transpose(0, 2, 1) + np.eye(4, dtype=np.float32)
    assert np.allclose(jax.jit(response.invert)(matrices) @ matrices, np.eye(4), atol=1e-4)
