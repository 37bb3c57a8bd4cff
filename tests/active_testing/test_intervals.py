"""Intervals: which estimators claim one, when they have none, and that they cover."""

import numpy as np
import pytest

from nevis_stream.active_testing.acquisition_functions import ProportionalSampling, TopK
from nevis_stream.active_testing.estimators import ESTIMATORS, bound
from nevis_stream.active_testing.pool import Pool, subtract_pools
from nevis_stream.active_testing.testing import KnownLabels, fix_surrogate, run_active_test
from tests.active_testing.pools import example


def run(pool, labels, members, budget, seed=0, **settings):
    *_, draws = run_active_test(
        pool,
        fix_surrogate(members),
        KnownLabels(labels),
        budget,
        np.random.default_rng(seed),
        **settings,
    )
    return draws


def test_every_estimator_says_whether_it_has_an_interval():
    assert {name for name, each in ESTIMATORS.items() if each.no_interval} == {"ase"}
    assert all(each.about for each in ESTIMATORS.values())
    pool, labels, members = example(60, 1)
    draws = run(pool, labels, members, 45, rule="uniform")
    for name, estimator in ESTIMATORS.items():
        estimate = estimator(draws)
        if estimator.no_interval:
            assert np.isnan(estimate.low) and estimate.reason == estimator.no_interval
        else:
            assert estimate.low < estimate.value < estimate.high, name
            assert not estimate.reason
        assert estimate.observed == estimate.cost.labels == 45


def test_there_is_no_interval_without_reason():
    pool, labels, members = example(60, 1)
    chosen = run(pool, labels, members, 45, choose=TopK())
    for name in ("monte_carlo", "lure", "equal_steps", "difference"):
        estimate = ESTIMATORS[name](chosen)
        assert np.isnan(estimate.value) and "drawn" in estimate.reason
    few = run(pool, labels, members, 5)
    estimate = ESTIMATORS["difference"](few)
    assert (
        np.isfinite(estimate.value) and np.isnan(estimate.low) and "there are 5" in estimate.reason
    )


def test_labels_without_a_surprise_do_not_exclude_one():
    """The surrogate knows every label and the model is always right: the spread is 0."""
    labels = np.random.default_rng(0).integers(3, size=200)
    right = np.eye(3)[labels]
    pool = Pool.of(0.9 * right + 0.1 / 3)
    draws = run(pool, labels, right[None], 45)
    estimate = ESTIMATORS["difference"](draws)
    assert estimate.value == pytest.approx(pool.risk(labels))
    # 3.69 mistakes in Poisson's interval for none, among 45 labels of which each weighs up to 2
    assert 3 / 45 < (estimate.high - estimate.value) / pool.loss_if_wrong.mean() < 2 * 3.7 / 45
    assert estimate.low <= estimate.value


def test_no_error_among_few_labels_does_not_mean_no_error():
    """The exact interval of 0 errors among 20 of 1000: 1 - 0.025 ** (1 / 20) = 0.168, slightly less
    without replacement.
    """
    pool = Pool.of(np.tile([0.8, 0.2], (1000, 1)), "zero_one")
    draws = run(pool, np.zeros(1000, int), np.full((1, 1000, 2), 0.5), 20, rule="uniform")
    estimate = ESTIMATORS["monte_carlo"](draws)
    assert estimate.low == estimate.value == 0
    assert estimate.high == pytest.approx(0.167, abs=0.002)


def test_a_small_pool_that_is_nearly_all_labelled():
    """Of 60 samples 12 have no label: few draws carry the weight, but the rest is known exactly."""
    names, covered, narrow = ("lure", "difference", "tuned_difference"), [], []
    for seed in range(100):
        pool, labels, members = example(60, seed, "zero_one")
        draws = run(pool, labels, members, 48, seed)
        known = draws.losses.sum() / 60
        for name in names:
            estimate = ESTIMATORS[name](draws)
            assert known - 1e-9 <= estimate.low <= estimate.high <= known + 0.2 + 1e-9
            covered.append(estimate.low <= pool.risk(labels) <= estimate.high)
            narrow.append(estimate.high - estimate.low < 0.19)  # not all that is possible
    assert np.mean(covered) >= 0.9
    assert np.mean(narrow) >= 0.5


def shifted_pool(seed, n=400, classes=4):
    """A model that sees the classes through noise, and a surrogate that sees them better."""
    random = np.random.default_rng(seed)
    logits = random.normal(0, 3, (n, classes))

    def softmax(x):
        return np.exp(x) / np.exp(x).sum(axis=-1, keepdims=True)

    labels = np.array([random.choice(classes, p=p) for p in softmax(2 * logits)])
    noise, shift = random.normal(0, 1, (5, n, classes)), random.normal(0, 2, (n, classes))
    return softmax(logits + shift), labels, softmax(logits + noise)


@pytest.mark.parametrize(
    "loss, repetitions, fewest",
    [
        ("zero_one", 40, 33),
        pytest.param("zero_one", 200, 180, marks=pytest.mark.slow),
        pytest.param("cross_entropy", 200, 180, marks=pytest.mark.slow),
    ],
)
def test_intervals_cover(loss, repetitions, fewest):
    """At a coverage of 95% fewer of 200 than 180, or of 40 than 33, have a probability below 0.2%
    and 0.1%.
    """
    names = ("lure", "equal_steps", "difference", "tuned_difference")
    covered = dict.fromkeys((*names, "monte_carlo"), 0)
    errors = {name: [] for name in (*names, "monte_carlo")}
    for seed in range(repetitions):
        predictions, labels, members = shifted_pool(seed)
        pool = Pool.of(predictions, loss)
        risk = pool.risk(labels)
        draws = run(
            pool, labels, members, 100, seed, batch=20, choose=ProportionalSampling(uniform=0.3)
        )
        for name in names:
            estimate = ESTIMATORS[name](draws)
            covered[name] += estimate.low <= risk <= estimate.high
            errors[name].append((estimate.value - risk) ** 2)
        plain = run(pool, labels, members, 100, seed, batch=20, rule="uniform")
        estimate = ESTIMATORS["monte_carlo"](plain)
        covered["monte_carlo"] += estimate.low <= risk <= estimate.high
        errors["monte_carlo"].append((estimate.value - risk) ** 2)
    assert min(covered.values()) >= fewest, covered
    assert np.mean(errors["difference"]) < 0.6 * np.mean(errors["monte_carlo"]), {
        name: np.mean(each) for name, each in errors.items()
    }


@pytest.mark.parametrize(
    "rule, loss",
    [
        ("rms_loss", "zero_one"),
        *(
            pytest.param(*each, marks=pytest.mark.slow)
            for each in (
                ("rms_loss", "cross_entropy"),
                ("uniform", "zero_one"),
                ("uniform", "cross_entropy"),
            )
        ),
    ],
)
def test_rare_mistakes_do_not_make_intervals_short(loss, rule):
    """A sure model, its own surrogate, is wrong on 1%: 100 labels often show no mistake."""
    covered, faultless = [], 0
    for seed in range(100):
        random = np.random.default_rng(seed)
        labels = (random.random(1000) < 0.01).astype(int)
        sure = random.uniform(0.97, 0.999, 1000)
        members = np.stack([sure, 1 - sure], axis=1)
        pool = Pool.of(members, loss)
        draws = run(pool, labels, members[None], 100, seed, batch=20, rule=rule)
        for name in ("lure", "difference", "tuned_difference"):
            estimate = ESTIMATORS[name](draws)
            covered.append(estimate.low <= pool.risk(labels) <= estimate.high)
            assert estimate.high - estimate.low > 0.02
        faultless += int(draws.losses.max() < 0.5)
    assert faultless > 15, "some of the tests should have no mistake among their labels"
    assert np.mean(covered) >= 0.92


@pytest.mark.parametrize("errors", [0.2, pytest.param(0.6, marks=pytest.mark.slow)])
def test_rare_large_losses_do_not_make_intervals_short(errors):
    """The model is very sure of one answer in twenty: a mistake there costs ten times as much."""
    covered = []
    for seed in range(100):
        random = np.random.default_rng(seed)
        answers = random.integers(10, size=1000)
        labels = np.where(random.random(1000) < errors, (answers + 1) % 10, answers)
        sure = np.where(random.random(1000) < 0.05, 1 - 1e-9, 0.4)
        predictions = np.tile(((1 - sure) / 9)[:, None], (1, 10))
        predictions[np.arange(1000), answers] = sure
        pool = Pool.of(predictions)
        draws = run(pool, labels, predictions[None], 100, seed, batch=20)
        estimate = ESTIMATORS["tuned_difference"](draws)
        covered.append(estimate.low <= pool.risk(labels) <= estimate.high)
    assert np.mean(covered) >= 0.9


def test_rare_right_answers_count_like_rare_mistakes():
    labels = np.zeros(1000, int)
    labels[:8] = 1
    pool = Pool.of(np.tile([0.2, 0.8], (1000, 1)), "zero_one")
    draws = run(pool, labels, np.full((1, 1000, 2), 0.5), 100, batch=20)
    estimate = ESTIMATORS["lure"](draws)
    assert estimate.low <= pool.risk(labels) <= estimate.high
    assert 0.8 < estimate.low < 0.98


def test_a_surrogate_that_finds_the_mistakes_does_not_make_them_common():
    """A tenth of the pool is wrong, more than half of the labels: right answers are no surprise."""
    random = np.random.default_rng(0)
    labels = np.where(random.random(1000) < 0.1, 1, 0)
    pool = Pool.of(np.tile([0.9, 0.1], (1000, 1)), "zero_one")
    members = np.stack([1 - 0.9 * labels, 0.9 * labels], axis=1)
    draws = run(pool, labels, members[None], 60, batch=20, choose=ProportionalSampling(uniform=0.3))
    assert draws.losses.mean() > 0.5
    estimate = ESTIMATORS["lure"](draws)
    assert estimate.high - estimate.value > estimate.value - estimate.low


@pytest.mark.parametrize("loss", ["zero_one", "cross_entropy"])
def test_a_model_that_is_never_worse_can_be_compared(loss):
    """The difference has an interval as short one way as the other."""
    random = np.random.default_rng(3)
    labels = random.integers(10, size=1500)
    worse = random.random(1500) < 0.8
    better = worse | (random.random(1500) < 0.7)

    def pool(right):
        sure = random.uniform(0.5, 0.95, 1500)
        predictions = np.tile(((1 - sure) / 9)[:, None], (1, 10))
        predictions[np.arange(1500), np.where(right, labels, (labels + 1) % 10)] = sure
        return Pool.of(predictions, loss)

    models = pool(better), pool(worse)
    widths = []
    for first, second in (models, models[::-1]):
        compared = subtract_pools(first, second)
        draws = run(compared, labels, compared.predictions[None], 100, batch=20)
        estimate = ESTIMATORS["tuned_difference"](draws)
        assert estimate.low <= compared.risk(labels) <= estimate.high
        widths.append(estimate.high - estimate.low)
    assert widths[0] == pytest.approx(widths[1]) and widths[0] < 0.6


def test_an_estimate_lies_in_its_own_interval():
    """Also if it is unbiased, and so may be a risk that the labels exclude."""
    pool, labels, members = example(60, 1)
    draws = run(pool, labels, members, 45, rule="uniform")
    for value in (-0.2, 2.0):
        estimate = bound(draws, value, value - 0.1, value + 0.1)
        assert estimate.low <= value <= estimate.high
