"""The linear-Gaussian model against brute-force conditioning of the normal distribution."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nevis_stream.dynamic_evaluation import methods
from nevis_stream.dynamic_evaluation.method import make_context
from nevis_stream.dynamic_evaluation.predictors import linear_gaussian as lg
from nevis_stream.queries.matrix import ArrayMatrix
from nevis_stream.queries.oracle import MatrixOracle
from nevis_stream.queries.samples import SampleFacts
from tests.dynamic_evaluation.making import one_order

MODELS, SAMPLES = 12, 30
MATRIX = one_order(MODELS + 6, SAMPLES, noise=1.0)
KNOWN, NEW = MATRIX[:MODELS], MATRIX[MODELS:]
WEIGHTS = np.random.default_rng(0).dirichlet(np.ones(MODELS)).astype(np.float32)

# One program each, as in the predictor: of every operation alone JAX would compile a program.
make_prior, observe_all, compute_deviation_of_mean, weight_models = map(
    jax.jit, (lg.make_prior, lg.observe_all, lg.compute_deviation_of_mean, lg.weight_models)
)
select_greedily = jax.jit(lg.select_greedily, static_argnums=4)


@pytest.fixture(scope="module")
def model():
    dataset = np.repeat(["a", "b"], [10, 20])
    facts = SampleFacts(SAMPLES, dataset=dataset, dataset_weights={"a": 1.0, "b": 1.0})
    tree = lg.fit(ArrayMatrix(KNOWN, facts=facts), jax.random.key(0), make_context())
    return lg.Model(**jax.tree.map(jnp.asarray, tree))


def put(array, place, value):
    """Returns a copy of the array with a value in a place."""
    array = np.array(array)
    array[place] = value
    return array


def whole(prior):
    """The mean, float64[n], and covariance, float64[n, n], of all values."""
    design, covariance = np.float64(prior.design), np.float64(prior.covariance)
    mean = np.float64(prior.offset) + np.float64(prior.mean) @ design
    return mean, design.T @ covariance @ design + np.diag(np.float64(prior.noise))


def conditioned(normal, samples, values):
    mean, covariance = normal
    gain = np.linalg.solve(covariance[np.ix_(samples, samples)], covariance[samples]).T
    return mean + gain @ (values - mean[samples]), covariance - gain @ covariance[samples]


def test_the_basis_holds_the_known_models(model):
    values = model.mean + model.scores @ model.basis
    assert np.allclose(values, KNOWN, atol=1e-5) and np.allclose(model.leftover, 0, atol=1e-6)


def test_samples_that_are_equal_up_to_rounding_are_asked_in_their_order(model):
    """Rounding depends on the number of cores; what is asked must not."""
    prior = make_prior(model, WEIGHTS)
    twins = prior._replace(
        design=put(prior.design, (slice(None), 20), np.asarray(prior.design)[:, 10] * (1 + 1e-6)),
        noise=put(prior.noise, 20, prior.noise[10]),
    )
    weights = put(np.zeros(SAMPLES, np.float32), [10, 20], 0.5)
    state = lg.GaussianState(twins.mean, twins.covariance)
    asked = select_greedily(twins, weights, state, np.isin(np.arange(SAMPLES), [10, 20]), 1)
    assert asked.tolist() == [10]


def test_answers_condition_the_distribution(model):
    prior = make_prior(model, WEIGHTS)
    samples, values = np.array([3, 17, 25, 8]), NEW[0][[3, 17, 25, 8]].astype(np.float32)
    state = observe_all(prior, samples, values, np.ones(4, bool))
    mean, covariance = conditioned(whole(prior), samples, values)
    expected = prior.offset + state.mean @ prior.design
    free = np.setdiff1d(np.arange(SAMPLES), samples)
    assert np.allclose(expected[free], mean[free], atol=1e-4)
    open_weights = np.where(np.isin(np.arange(SAMPLES), free), model.weights, 0)
    spread = compute_deviation_of_mean(
        prior, model.weights, state, np.isin(np.arange(SAMPLES), free)
    )
    assert np.isclose(spread**2, open_weights @ covariance @ open_weights, rtol=1e-3)


def test_the_variance_of_a_sample_is_that_of_the_known_models(model):
    """With equal weights; what little is added is the pseudo model's."""
    prior = make_prior(model, np.full(MODELS, 1 / MODELS, np.float32))
    design = prior.design[: len(model.basis)]
    remaining = prior.covariance[: len(model.basis), : len(model.basis)]
    variance = np.einsum("qn,qp,pn->n", design, remaining, design) + prior.noise
    added = variance - KNOWN.var(axis=0, ddof=1)
    assert (added > -1e-4).all() and (added < 0.25 / MODELS).all()


def test_the_greedy_choice_leaves_the_least_variance(model):
    prior = make_prior(model, WEIGHTS)
    state = lg.GaussianState(prior.mean, prior.covariance)
    chosen = select_greedily(prior, model.weights, state, np.ones(SAMPLES, bool), 3)
    asked, weights = [], np.float64(model.weights)
    for sample in np.asarray(chosen):
        left = {}
        for candidate in set(range(SAMPLES)) - set(asked):
            _, covariance = conditioned(whole(prior), [*asked, candidate], np.zeros(len(asked) + 1))
            left[candidate] = weights @ covariance @ weights
        assert left[int(sample)] <= min(left.values()) * (1 + 1e-3)
        asked.append(int(sample))


def test_close_models_weigh_more_and_no_model_nothing(model):
    samples = np.arange(0, SAMPLES, 2)
    values = KNOWN[4, samples].astype(np.float32)
    weights = np.asarray(weight_models(model, samples, values, np.ones(len(samples), bool)))
    assert weights.argmax() == 4 and weights.min() > 0 and np.isclose(weights.sum(), 1)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("quadrature+linear_gaussian", marks=pytest.mark.slow),
        pytest.param("quadrature_local+linear_gaussian", marks=pytest.mark.slow),
    ],
)
def test_it_beats_random_samples_where_models_have_much_in_common(name):
    matrix = one_order(60, 400, noise=0.3)
    known, new = matrix[:40], matrix[40:]
    truth = new.mean(axis=1)

    def error(method):
        evaluator = methods.get(method).fit(known, None, jax.random.key(0))
        estimates = evaluator.evaluate(MatrixOracle(new), len(new), 12, jax.random.key(1))
        return np.abs(estimates.accuracy - truth).mean()

    assert error(name) < 0.7 * error("random_mean")


def test_scores_with_holes_are_taken():
    random = np.random.default_rng(2)
    ability, ease = random.normal(size=(20, 1)), random.normal(size=60)
    scores = (1 / (1 + np.exp(-ability - ease))).astype(np.float32)
    known, new = scores[:15].copy(), scores[15:]
    known[random.random(known.shape) < 0.1] = np.nan
    evaluator = methods.get("quadrature_local+linear_gaussian").fit(known, None, jax.random.key(0))
    estimates = evaluator.evaluate(MatrixOracle(new), 5, 8, jax.random.key(1))
    assert np.abs(estimates.accuracy - new.mean(axis=1)).max() < 0.03


def test_a_large_matrix_is_decomposed_by_blocks_as_a_small_one(monkeypatch):
    known = ArrayMatrix(one_order(30, 200, noise=1.0))
    whole = lg.fit(known, None, make_context())
    monkeypatch.setattr(lg, "BLOCK", 64)
    blocks = lg.fit(known, None, make_context())
    for one, other in (
        (whole["scores"] @ whole["basis"], blocks["scores"] @ blocks["basis"]),
        (whole["leftover"], blocks["leftover"]),
    ):
        np.testing.assert_allclose(one, other, atol=1e-4)
