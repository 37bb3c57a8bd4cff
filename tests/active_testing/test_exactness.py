"""Identities that hold exactly, by enumeration of all paths where an expectation is meant."""

import numpy as np
import pytest

from nevis_stream.active_testing.acquisition_functions import RULES, ProportionalSampling, TopK
from nevis_stream.active_testing.estimators import ESTIMATORS, compute_factors
from nevis_stream.active_testing.pool import LOSSES, Candidates, Pool, subtract_pools
from nevis_stream.active_testing.testing import KnownLabels, fix_surrogate, run_active_test
from tests.active_testing.pools import CLASSES, distributions, example, expectation, retrained

UNBIASED = ("lure", "equal_steps", "difference", "tuned_difference")


def run(pool, labels, surrogate, budget, seed=0, **settings):
    *_, draws = run_active_test(
        pool, surrogate, KnownLabels(labels), budget, np.random.default_rng(seed), **settings
    )
    return draws


@pytest.mark.parametrize("batch", [1, pytest.param(2, marks=pytest.mark.slow), 3])
@pytest.mark.parametrize("rule", sorted(RULES))
@pytest.mark.parametrize("n,budget,loss", [(6, 3, "cross_entropy"), (5, 4, "zero_one")])
def test_the_expectation_is_the_risk(n, budget, loss, rule, batch):
    pool, labels, members = example(n, n, loss)
    mean, total = expectation(
        pool,
        labels,
        retrained(members.shape),
        budget,
        lambda draws: [ESTIMATORS[name](draws).value for name in UNBIASED],
        rule=rule,
        batch=batch,
    )
    assert total == pytest.approx(1, abs=1e-9)
    assert mean == pytest.approx(pool.risk(labels), abs=1e-9)


@pytest.mark.parametrize(
    "choose",
    [
        ProportionalSampling(uniform=0.0),
        ProportionalSampling(clip=0.2),
        ProportionalSampling(quantile=0.5, uniform=0.3),
    ],
)
@pytest.mark.parametrize("n,budget", [(2, 1), (5, 2), (5, 4)])
def test_the_expectation_is_the_risk_with_changed_probabilities(n, budget, choose):
    pool, labels, members = example(n, n)
    mean, _ = expectation(
        pool,
        labels,
        retrained(members.shape),
        budget,
        lambda draws: [ESTIMATORS[name](draws).value for name in UNBIASED],
        choose=choose,
    )
    assert mean == pytest.approx(pool.risk(labels), abs=1e-9)


def test_the_plain_mean_of_weighted_draws_is_biased_and_says_so():
    """The enumeration can fail."""
    pool, labels, members = example(5, 5)
    (mean, refused), _ = expectation(
        pool,
        labels,
        fix_surrogate(members),
        2,
        lambda draws: [
            draws.losses.mean(),
            np.isnan(ESTIMATORS["monte_carlo"](draws).value),
        ],
    )
    assert abs(mean - pool.risk(labels)) > 1e-3
    assert refused == pytest.approx(1)


def test_the_difference_of_two_models_is_unbiased():
    pool, labels, members = example(5, 1)
    other, _, _ = example(5, 2)
    both = subtract_pools(pool, other)
    assert both.risk(labels) == pytest.approx(pool.risk(labels) - other.risk(labels), abs=1e-12)
    mean, _ = expectation(
        both,
        labels,
        fix_surrogate(members),
        2,
        lambda draws: ESTIMATORS["difference"](draws).value,
        rule="xwed",
    )
    assert mean == pytest.approx(both.risk(labels), abs=1e-9)


@pytest.mark.parametrize("loss", sorted(LOSSES))
@pytest.mark.parametrize("choose", [ProportionalSampling(), TopK()])
def test_all_labels_give_the_exact_risk(choose, loss):
    pool, labels, members = example(30, 3, loss)
    draws = run(pool, labels, fix_surrogate(members), 30, rule="xwed", batch=7, choose=choose)
    for name in sorted({*ESTIMATORS} - {"ase"}):
        estimate = ESTIMATORS[name](draws)
        assert estimate.value == pytest.approx(pool.risk(labels), abs=1e-12), name
        assert estimate.low == estimate.value == estimate.high
    assert draws.cost.labels == 30 and draws.asked == 30


def lure_weights(probabilities, n):
    """Returns the weight v_m of each loss in the mean over M losses, float64[M], of draws with the
    probabilities q_m, float64[M] (Farquhar et al. 2021, theorem 2).
    """
    asked = len(probabilities)
    if asked == n:
        return np.ones(n)
    left = n - np.arange(asked)
    return 1 + (n - asked) / (left - 1) * (1 / (left * probabilities) - 1)


@pytest.mark.parametrize("budget", [1, 5, 12, 19])
def test_uniform_lure_is_monte_carlo(budget):
    pool, labels, members = example(20, 4)
    draws = run(pool, labels, fix_surrogate(members), budget, rule="uniform", batch=4)
    np.testing.assert_allclose(lure_weights(draws.probabilities, 20), 1, atol=1e-12)
    mean = ESTIMATORS["monte_carlo"](draws).value
    assert mean == pytest.approx(draws.losses.mean(), abs=1e-12)
    assert ESTIMATORS["lure"](draws).value == pytest.approx(mean, abs=1e-12)


@pytest.mark.parametrize("batch", [1, 6])
def test_the_estimators_are_the_published_sums(batch):
    n, budget = 25, 14
    pool, labels, members = example(n, 5)
    draws = run(pool, labels, retrained(members.shape), budget, rule="bald", batch=batch)
    q, losses = draws.probabilities, draws.losses
    weighted = (lure_weights(q, n) * losses).mean()
    assert ESTIMATORS["lure"](draws).value == pytest.approx(weighted, abs=1e-12)
    step = np.arange(1, budget + 1)
    simple = ((1 / (n * q) + (budget - step) / n) * losses).mean()
    assert ESTIMATORS["equal_steps"](draws).value == pytest.approx(simple, abs=1e-12)


def test_a_perfect_surrogate_leaves_no_error():
    """ASE is the risk; every difference is 0, so the difference estimator is the risk too."""
    pool, labels, _ = example(15, 6)
    truth = np.eye(CLASSES)[labels][None]
    draws = run(pool, labels, fix_surrogate(truth), 3)
    for name in ("ase", "difference"):
        assert ESTIMATORS[name](draws).value == pytest.approx(pool.risk(labels), abs=1e-12)


def test_a_constant_loss_makes_xwed_a_multiple_of_bald():
    random = np.random.default_rng(7)
    members, predictions = distributions(random, 5, 40), distributions(random, 40)
    candidates = Candidates(members, np.full((40, CLASSES), 2.5), predictions)
    np.testing.assert_allclose(RULES["xwed"](candidates), 2.5 * RULES["bald"](candidates))
    assert RULES["bald"](candidates).min() > 0


def test_equal_members_have_nothing_to_learn():
    random = np.random.default_rng(8)
    members = np.repeat(distributions(random, 1, 40), 5, axis=0)
    pool = Pool.of(distributions(random, 40))
    candidates = Candidates(members, pool.losses, pool.predictions)
    for rule in ("bald", "xwed"):
        scores = RULES[rule](candidates)
        np.testing.assert_allclose(scores, 0, atol=1e-12)
        np.testing.assert_allclose(ProportionalSampling().probabilities(scores), 1 / 40)


def test_scores_are_the_published_sums():
    random = np.random.default_rng(9)
    e, f = distributions(random, 5, 6), distributions(random, 6)
    losses = -np.log(f)
    candidates = Candidates(e, losses, f)
    p = e.mean(axis=0)

    def h(x):
        return -(x * np.log(x)).sum(axis=-1)

    expected = {
        "uniform": np.ones(6),
        "expected_loss": (p * losses).sum(axis=1),
        "rms_loss": np.sqrt((p * losses * losses).sum(axis=1)),
        "model_entropy": h(f),
        "surrogate_entropy": h(p),
        "bald": h(p) - h(e).mean(axis=0),
        "xwed": (losses * (-p * np.log(p) + (e * np.log(e)).mean(axis=0))).sum(axis=1),
    }
    assert set(RULES) == set(expected)
    for rule, scores in expected.items():
        np.testing.assert_allclose(RULES[rule](candidates), scores, err_msg=rule)


def test_losses_are_nats_and_errors():
    predictions = np.array([[0.5, 0.25, 0.25], [1.0, 0.0, 0.0]])
    cross_entropy = Pool.of(predictions, "cross_entropy").losses
    np.testing.assert_allclose(cross_entropy[0], [np.log(2), np.log(4), np.log(4)])
    np.testing.assert_allclose(cross_entropy[1], [0, 20 * np.log(10), 20 * np.log(10)], atol=1e-12)
    errors = Pool.of(predictions, "zero_one").losses
    np.testing.assert_array_equal(errors, [[0, 1, 1], [0, 1, 1]])


def test_factors_depend_on_earlier_draws_alone():
    random = np.random.default_rng(10)
    alone = random.normal(size=40)
    surrogate = -alone + 0.1 * random.normal(size=40)
    first = compute_factors(alone, surrogate)
    assert first[:10].tolist() == [0.5] * 10 and first[-1] > 0.8
    changed = surrogate.copy()
    changed[25:] = random.normal(size=15)
    np.testing.assert_array_equal(compute_factors(alone, changed)[:26], first[:26])
    assert compute_factors(alone, changed)[26] != first[26]
    assert compute_factors(alone, alone)[-1] == 0


def test_the_tuned_expectation_is_the_risk_from_the_second_draw_on(monkeypatch):
    monkeypatch.setattr("nevis_stream.active_testing.estimators.START", 2)
    pool, labels, members = example(6, 11)
    mean, _ = expectation(
        pool,
        labels,
        retrained(members.shape),
        4,
        lambda draws: ESTIMATORS["tuned_difference"](draws).value,
    )
    assert mean == pytest.approx(pool.risk(labels), abs=1e-9)
