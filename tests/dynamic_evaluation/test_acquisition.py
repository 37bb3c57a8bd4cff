"""Adaptive sampling: a grid first, then what the rule finds most useful; nothing twice."""

import jax
import numpy as np
import pytest

from nevis_stream.dynamic_evaluation import acquisition, response
from nevis_stream.dynamic_evaluation.method import matrix_oracle
from nevis_stream.dynamic_evaluation.sort import sort
from tests.dynamic_evaluation.making import simulated

OUTCOMES, D, A, ABILITY = simulated(60, 150, factors=1)
KNOWN, NEW = OUTCOMES[:50], OUTCOMES[50:]
ITEMS, _ = response.fit(KNOWN, 1, jax.random.key(0))


@pytest.mark.parametrize("rule", [None, *acquisition.RULES])
@pytest.mark.parametrize("budget", [1, 2, 15])
def test_each_model_is_asked_as_often_as_the_budget_says(rule, budget):
    ask = matrix_oracle(NEW)  # refuses to be asked twice
    asked = acquisition.acquire(ask, len(NEW), budget, sort(KNOWN).order, ITEMS, rule)
    assert asked.samples.shape == (len(NEW), budget) and (ask.counts == budget).all()
    assert (asked.outcomes == np.take_along_axis(NEW, asked.samples, axis=1)).all()
    assert asked.grid == (budget if rule is None else -(-budget // 2))


def test_information_is_highest_where_the_outcome_is_open_and_discriminating():
    samples = np.zeros((1, 1), int)
    scores = acquisition.scores(ITEMS, response.Observed.of(samples, NEW[:1, :1], 1), "information")
    p, a = jax.nn.sigmoid(ITEMS.mean[:, 0]), ITEMS.mean[:, 1]
    assert scores[0, 0] == -1
    assert np.corrcoef(np.asarray(scores[0, 1:]), np.asarray(a**2 * p * (1 - p))[1:])[0, 1] > 0.8


def test_adaptive_sampling_leaves_less_unknown_of_the_ability_than_a_grid():
    left = {}
    for rule in (None, "information"):
        asked = acquisition.acquire(
            matrix_oracle(NEW), len(NEW), 15, sort(KNOWN).order, ITEMS, rule
        )
        observed = response.Observed.of(asked.samples, asked.outcomes, 15)
        left[rule] = float(response.infer(ITEMS, observed).covariance.mean())
    assert left["information"] < left[None]


def test_samples_of_the_error_rule_leave_less_unknown_of_the_accuracy_than_a_grid():
    errors = {}
    for rule in (None, "error"):
        asked = acquisition.acquire(
            matrix_oracle(NEW), len(NEW), 14, sort(KNOWN).order, ITEMS, rule
        )
        observed = response.Observed.of(asked.samples, asked.outcomes, 14)
        errors[rule] = float(np.mean(response.predict(ITEMS, observed)[1]))
    assert errors["error"] < errors[None]


def test_the_count_is_spared_as_joint_normal_outcomes_say():
    random = np.random.default_rng(0)
    a, weight = (
        random.normal(size=(7, 2)).astype(np.float32),
        random.uniform(0.05, 0.25, size=(1, 7)).astype(np.float32),
    )
    root = random.normal(size=(2, 2))
    covariance = (root @ root.T + np.eye(2)).astype(np.float32)
    # of the outcomes, linear in the ability
    joint = (weight.T * a) @ covariance @ (weight.T * a).T + np.diag(weight[0])
    total = joint.sum()
    left = [total - joint[j].sum() ** 2 / joint[j, j] for j in range(7)]
    abilities = response.Abilities(np.zeros((1, 2), np.float32), covariance[None])
    ability = np.einsum("ni,ij,nj->n", a, covariance, a)[None]
    np.testing.assert_allclose(
        acquisition._count(weight, a, abilities, ability)[0],
        np.sqrt(total) - np.sqrt(left),
        rtol=1e-4,
    )
