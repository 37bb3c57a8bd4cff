"""Adaptive sampling: a grid first, then what the rule finds most useful; nothing twice."""

import functools

import jax
import numpy as np
import pytest
from scipy.special import expit

from nevis_stream.dynamic_evaluation import methods, response
from nevis_stream.dynamic_evaluation.method import make_context
from nevis_stream.dynamic_evaluation.policies import sequential
from nevis_stream.dynamic_evaluation.response import ResponsePosterior
from nevis_stream.queries.matrix import wrap_matrix
from nevis_stream.queries.oracle import MatrixOracle, Query, Responses
from tests.dynamic_evaluation.making import simulated

OUTCOMES, D, A, ABILITY = simulated(60, 150, factors=1)
KNOWN, NEW = OUTCOMES[:50], OUTCOMES[50:]
CTX = make_context()


@functools.cache
def items():
    return response.fit(KNOWN, 1, jax.random.key(0), CTX)[0]


def asked(policy, budget):
    """Answers of new models, chosen by the items of the known ones."""
    oracle, n = MatrixOracle(NEW), NEW.shape[1]  # refuses to be asked twice
    posterior = ResponsePosterior(n, items=items())
    tree = policy.fit(wrap_matrix(KNOWN), posterior, None, CTX)
    plan = policy.plan(tree, posterior, budget, None, CTX)
    answers = policy.ask(plan, oracle, len(NEW), None, CTX)
    assert (oracle.counts == budget).all()
    return answers


@pytest.mark.parametrize("name", ["uniform", "information", "error"])
@pytest.mark.parametrize("budget", [1, 2, 15])
def test_each_model_is_asked_as_often_as_the_budget_says(name, budget):
    answers = asked(methods.POLICIES[name], budget)
    assert answers.samples.shape == (len(NEW), budget)
    assert (answers.values == np.take_along_axis(NEW, answers.samples, axis=1)).all()
    first = budget if name == "uniform" else -(-budget // 2)
    assert np.allclose(answers.query.fractions[:, :first], 1 / first)
    assert not answers.query.fractions[:, first:].any()


def test_information_is_highest_where_the_outcome_is_open_and_discriminating():
    answers = Responses(Query(np.zeros((1, 1), int)), NEW[:1, :1])
    score = jax.jit(sequential.score_samples, static_argnums=2)
    scores = np.asarray(score(items(), response.PaddedAnswers.of(answers, 1), "information"))
    ease, a = np.asarray(items().mean).T
    p = expit(ease)
    assert np.corrcoef(scores[0, 1:], (a**2 * p * (1 - p))[1:])[0, 1] > 0.8


def test_adaptive_sampling_leaves_less_unknown_of_the_ability_than_a_grid():
    left = {}
    for name in ("uniform", "information"):
        padded_answers = response.PaddedAnswers.of(asked(methods.POLICIES[name], 15), 15)
        left[name] = np.mean(jax.jit(response.infer)(items(), padded_answers).covariance)
    assert left["information"] < left["uniform"]


def test_samples_of_the_error_rule_leave_less_unknown_of_the_accuracy_than_a_grid():
    errors, weights = {}, np.full(NEW.shape[1], 1 / NEW.shape[1], np.float32)
    for name in ("uniform", "error"):
        padded_answers = response.PaddedAnswers.of(asked(methods.POLICIES[name], 14), 14)
        predicted = jax.jit(response.predict)(items(), padded_answers, weights)
        errors[name] = np.mean(predicted[1])
    assert errors["error"] < errors["uniform"]


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
        sequential._reduce_count_deviation(weight, a, abilities, ability)[0],
        np.sqrt(total) - np.sqrt(left),
        rtol=1e-4,
    )
