"""Posteriors of predictors, against sampling and conditioning; policies that read it."""

import jax
import numpy as np
import pytest

from nevis_stream.dynamic_evaluation import methods, response
from nevis_stream.dynamic_evaluation.method import make_context
from nevis_stream.dynamic_evaluation.policies import sequential
from nevis_stream.dynamic_evaluation.predictors import linear_gaussian as lg
from nevis_stream.dynamic_evaluation.predictors.item_response import ItemResponsePosterior
from nevis_stream.dynamic_evaluation.response import QUANTITIES
from nevis_stream.errors import BadInput
from nevis_stream.experiments.methods import anchors
from nevis_stream.queries.matrix import ArrayMatrix
from nevis_stream.queries.oracle import MatrixOracle, Query, Responses
from tests.dynamic_evaluation.making import simulated

OUTCOMES, *_ = simulated(60, 80, factors=1)
KNOWN, NEW = ArrayMatrix(OUTCOMES[:50]), OUTCOMES[50:]
KEY, CTX = jax.random.key(0), make_context()


def fitted(name):
    predictor = methods.PREDICTORS[name]
    return predictor, predictor.make_posterior(predictor.fit(KNOWN, KEY, CTX), KNOWN, CTX)


def answers(columns, rows=slice(None)):
    samples = np.broadcast_to(np.array(columns, np.int64), (len(NEW[rows]), len(columns)))
    return Responses(Query(samples), np.take_along_axis(NEW[rows], samples, axis=1))


def marked(name):
    long = name in ("neural_process", "combination", "model_assisted")
    return pytest.param(name, marks=[pytest.mark.slow] if long else [])


GIVING = [name for name in methods.list_usable(methods.PREDICTORS) if "guarded_" not in name]


@pytest.mark.parametrize("name", map(marked, GIVING))
def test_a_predictor_gives_what_it_says(name):
    predictor, posterior = fitted(name)
    gives = predictor.gives - {"factors", "screening"}  # tested with the policies that need them
    assert posterior.n == 80 and gives <= QUANTITIES.keys()
    arguments = {each for each in ("rank", "items") if getattr(posterior, each) is not None}
    for each in ("moments", "information", "reduction"):
        try:
            values = np.broadcast_arrays(*np.atleast_3d(getattr(posterior, each)(answers([3, 9]))))
            assert np.isfinite(values).all()
            arguments.add(each)
        except NotImplementedError:
            pass
    assert arguments == gives


@pytest.mark.parametrize("name", ["irt_2pl", "linear_gaussian"])
def test_the_posterior_is_that_of_the_prediction(name):
    predictor, posterior = fitted(name)
    tree, seen = predictor.fit(KNOWN, KEY, CTX), answers([3, 9, 30, 31])
    values = predictor.predict(tree, {}, KNOWN, seen, CTX).values
    mean, variance = posterior.moments(seen)
    free = np.setdiff1d(np.arange(80), [3, 9, 30, 31])
    assert np.allclose(np.clip(mean, 0, 1)[:, free], values[:, free], atol=1e-5)
    assert (variance > 0).all()


def test_information_and_reduction_of_an_item_response_model_are_those_of_joint_normals():
    """One factor: logit-linear outcomes with noise λ; the covariance is built in full."""
    _, posterior = fitted("irt_2pl")
    seen = answers([3, 9, 30, 31], slice(1))
    padded_answers = response.PaddedAnswers.of(seen, 4)
    abilities = jax.device_get(jax.jit(response.infer)(posterior.items, padded_answers))
    a = np.float64(posterior.items.mean[:, 1])
    p = np.float64(posterior.moments(seen)[0][0])
    noise, variance = p * (1 - p), float(abilities.covariance[0, 0, 0])
    joint = np.outer(noise * a, noise * a) * variance + np.diag(noise)
    weights = np.full(80, 1 / 80)
    weights[[3, 9, 30, 31]] = 0
    free = np.setdiff1d(np.arange(80), [3, 9, 30, 31])
    reduction = (joint @ weights) ** 2 / np.diag(joint)
    assert np.allclose(posterior.reduction(seen)[0, free], reduction[free], rtol=1e-3)
    correlation = 1 - noise / np.diag(joint)  # of an outcome and the ability, squared
    information = -0.5 * np.log1p(-correlation)
    assert np.allclose(posterior.information(seen)[0, free], information[free], rtol=1e-3)


def test_the_reduction_is_what_the_variance_of_the_mean_loses():
    """A linear-Gaussian posterior with the known models weighted equally."""
    tree = lg.fit(KNOWN, KEY, CTX)
    model = lg.Model(**tree)
    posterior = lg.GaussianPosterior(model, CTX)
    prior = jax.jit(lg.make_prior)(model, np.full(50, 1 / 50, np.float32))
    observe, compute_deviation_of_mean = jax.jit(lg.observe), jax.jit(lg.compute_deviation_of_mean)
    reduction = posterior.reduction(answers([], slice(1)))[0]
    assert reduction.argmax() == jax.jit(lg.select_first, static_argnums=1)(model, 1)[0]
    free = np.ones(80, bool)
    state = lg.GaussianState(prior.mean, prior.covariance)
    before = float(compute_deviation_of_mean(prior, model.weights, state, free)) ** 2
    for sample in (0, 17, 55):
        left = observe(prior, state, sample, 0.3, 1.0)
        free = np.arange(80) != sample
        after = float(compute_deviation_of_mean(prior, model.weights, left, free)) ** 2
        assert np.isclose(before - after, reduction[sample], rtol=1e-2)


def test_an_answer_at_which_the_model_was_sure_reveals_nothing():
    items = response.Items(
        np.array([[0, 1.0], [9, 1.0], [0, 0.01]], np.float32), np.zeros((3, 2, 2), np.float32)
    )
    posterior = ItemResponsePosterior(items, np.full(3, 1 / 3), CTX)
    nothing = Responses(Query.none(1), np.empty((1, 0), np.uint8))
    information = posterior.information(nothing)[0]
    assert information[0] > 100 * information[1] and information[0] > 100 * information[2]


def test_adaptive_testing_asks_at_the_ability():
    """Samples differ in difficulty only: the most informative ones are solved by every second."""
    d = np.linspace(-4, 4, 81, dtype=np.float32)
    items = response.Items(np.stack([d, np.ones(81, np.float32)], 1), np.zeros((81, 2, 2)))
    padded_answers = response.PaddedAnswers(
        np.array([[40, 40]]), np.array([[1.0, 0.0]], np.float32), np.ones((1, 2), np.float32)
    )
    information = np.asarray(jax.jit(sequential.compute_fisher_information)(items, padded_answers))[
        0
    ]
    ability = float(jax.jit(response.infer)(items, padded_answers).mean[0, 0])
    assert np.isclose(d[information.argmax()], -ability, atol=0.1)


@pytest.mark.parametrize("policy", ["uncertainty", "latent_information", "mean_variance"])
@pytest.mark.parametrize("predictor", ["irt_2pl", "linear_gaussian"])
def test_sequential_policies_take_the_most_useful_sample(policy, predictor):
    method = methods.get(f"{policy}+{predictor}")
    evaluator = method.fit(KNOWN, None, KEY)
    asked = MatrixOracle(NEW)
    plan = evaluator.plan(6)
    chosen = method.policy.ask(plan, asked, len(NEW), KEY, CTX).samples
    first = method.policy.acquisition_function(plan.posterior, answers([]), CTX)
    assert (chosen[:, 0] == first.argmax(axis=1)).all()
    assert (asked.counts == 6).all()
    if predictor == "irt_2pl":  # a linear model's variances do not depend on the answers alone
        assert len({tuple(row) for row in chosen}) > 1


def test_larger_budgets_are_asked_in_batches():
    method = methods.get("uncertainty+irt_2pl")
    calls = []

    def oracle(query):
        calls.append(query.samples.shape[1])
        return MatrixOracle(NEW)(query)

    method.policy.ask(method.fit(KNOWN, None, KEY).plan(70), oracle, len(NEW), KEY, CTX)
    assert calls == [3] * 23 + [1]


def test_randomised_adaptive_testing_exposes_more_samples():
    def exposed(name):
        method = methods.get(f"{name}+irt_2pl")
        plan = method.fit(KNOWN, None, KEY).plan(10)
        return method.policy.ask(plan, MatrixOracle(NEW), len(NEW), KEY, CTX).samples

    assert len(np.unique(exposed("fisher_random"))) > len(np.unique(exposed("fisher")))
    assert (exposed("fisher_random") == exposed("fisher_random")).all()


def test_a_pair_whose_predictor_lacks_what_the_policy_needs_is_refused():
    with pytest.raises(BadInput, match="needs the variance of each cell, which predictor 'mean'"):
        methods.get("uncertainty+mean")
    with pytest.raises(BadInput, match="these do: .*irt_2pl"):
        methods.get("fisher+linear_gaussian")


@pytest.mark.parametrize(
    "samples", [*(pytest.param(few, marks=pytest.mark.slow) for few in (6, 40)), 80]
)
def test_greedy_combinatorial_choice_predicts_known_models_better_than_chance(monkeypatch, samples):
    evaluator = methods.get("combinatorial+linear_gaussian").fit(KNOWN, None, KEY)
    values, posterior = KNOWN.values.astype(np.float32), evaluator.plan(1).posterior

    def loss(samples):
        query = Query(np.broadcast_to(samples, (50, len(samples))))
        mean, variance = posterior.moments(Responses(query, values[:, samples]))
        error = (mean - values) ** 2 + variance
        return np.delete(error, samples, axis=1).sum()

    monkeypatch.setattr(anchors, "SAMPLES", samples)
    chosen = evaluator.plan(6).design["samples"]
    assert len(set(chosen.tolist())) == 6
    random = np.random.default_rng(0)
    losses = [loss(random.choice(80, 6, replace=False)) for _ in range(20)]
    assert samples == 6 or loss(chosen) < np.quantile(losses, 0.05)  # six are all of the six


@pytest.mark.parametrize("name", map(marked, ("irt_2pl", "linear_gaussian", "neural_process")))
def test_the_posterior_of_a_part_is_that_of_all(name):
    _, posterior = fitted(name)
    columns, asked = np.arange(1, 80, 3), np.array([[2, 5, 9]])
    values = KNOWN.values[:1].astype(np.float32)
    part = posterior.part(columns)
    of_part = part.moments(Responses(Query(asked), values[:, columns[asked[0]]]))
    of_all = posterior.moments(Responses(Query(columns[asked]), values[:, columns[asked[0]]]))
    # the layers of the process look at all samples, and the level of a new model at its mean
    tolerance = {"irt_2pl": 1e-5, "linear_gaussian": 0.02, "neural_process": 0.1}[name]
    for some, every in zip(of_part, of_all, strict=True):
        assert some.shape == (1, len(columns))
        np.testing.assert_allclose(some, every[:, columns], atol=tolerance)


def test_anchor_weights_are_those_of_ridge_regression_and_their_errors_left_out():
    from nevis_stream.experiments.methods.anchor_weights import (
        PENALTIES,
        centre,
        fit_weights,
    )

    rows = centre(KNOWN, KEY, CTX)["rows"].astype(np.float64)
    benchmark, anchors = rows.mean(axis=1), rows[:, [2, 40, 77]]
    fitted = fit_weights(anchors, benchmark, benchmark[:, None], CTX)
    scale = (anchors**2).sum() / 3
    ridges = [
        np.linalg.solve(anchors.T @ anchors + penalty * scale * np.eye(3), anchors.T @ benchmark)
        for penalty in PENALTIES
    ]
    assert min(np.abs(fitted.values[:, 0] - ridge).max() for ridge in ridges) < 1e-6
    assert np.std(fitted.left_out) > np.std(benchmark - anchors @ fitted.values[:, 0])


def test_optimised_anchors_leave_smaller_errors_than_cluster_centres():
    matrix, *_ = simulated(440, 300, factors=4)
    known, new = ArrayMatrix(matrix[:400]), matrix[400:]

    def error(name):
        estimates = methods.get(name).fit(known, None, KEY).evaluate(MatrixOracle(new), 40, 15, KEY)
        return np.abs(estimates.accuracy - new.mean(axis=1)).mean()

    by_weights = error("clusters_values+anchor_weights")
    assert error("sparse_eval") < by_weights < error("anchor_points")


def test_a_design_is_made_once_and_kept_with_the_fit():
    evaluator = methods.get("sparse_eval").fit(KNOWN, None, KEY)
    design = evaluator.plan(7).design
    assert evaluator.tree["policy"]["designs"]["7"] is design
    assert evaluator.plan(7).design is design
