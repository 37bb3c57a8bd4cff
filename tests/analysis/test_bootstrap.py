"""Intervals of differences: their form, their limits, and how often they cover."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from nevis_stream.analysis.bootstrap import bound_over_seeds, bound_over_tasks
from nevis_stream.errors import BadInput

RNG = np.random.default_rng(5)
TASKS = RNG.beta(1, 2, (27, 1))


def method(shift=0.0, seeds=3, noise=0.02, tasks=TASKS):
    return tasks + shift + RNG.normal(0, noise, (len(tasks), seeds))


def test_estimate_is_the_difference_of_means_and_lies_inside():
    a, b = method(-0.05), method(seeds=4)
    result = bound_over_tasks(a, b)
    assert result.estimate == pytest.approx(a.mean() - b.mean())
    assert result.low < result.estimate < result.high < 0
    assert (result.tasks, result.seeds, result.side) == (27, (3, 4), -1)


@given(st.integers(0, 10**6), st.floats(0.01, 100), st.floats(-1, 1))
@settings(max_examples=20, deadline=None)
def test_swap_scale_and_shift(key, scale, shift):
    a, b = method(-0.05), method()
    first, other = (
        bound_over_tasks(a, b, key),
        bound_over_tasks(scale * a + shift, scale * b + shift, key),
    )
    assert (other.low, other.high) == pytest.approx((scale * first.low, scale * first.high))
    swapped = bound_over_seeds(b, a)
    assert (swapped.low, swapped.high) == pytest.approx(
        (-bound_over_seeds(a, b).high, -bound_over_seeds(a, b).low)
    )


def test_equal_keys_equal_intervals_and_other_keys_nearly():
    a, b = method(-0.05), method()
    assert bound_over_tasks(a, b, key=3) == bound_over_tasks(a, b, key=3)
    assert bound_over_tasks(a, b, key=3) != bound_over_tasks(a, b, key=4)
    assert bound_over_tasks(a, b, key=3).low == pytest.approx(
        bound_over_tasks(a, b, key=4).low, abs=0.003
    )


def test_one_seed_over_many_normal_tasks_is_nearly_students_t():
    a = RNG.normal(0.2, 0.1, (400, 1))
    result, half = bound_over_tasks(a, 0 * a), stats.t.ppf(0.975, 399) * a.std(ddof=1) / 20
    assert (result.low, result.high) == pytest.approx((a.mean() - half, a.mean() + half), abs=0.001)


def test_noise_that_a_whole_run_shares_widens_the_interval():
    a, b = method(noise=0.001), method(noise=0.001)
    shared = a + np.array([-0.1, 0.0, 0.1])
    assert bound_over_tasks(shared, b).high > 3 * bound_over_tasks(a, b).high


def test_noise_of_runs_is_welchs_t_where_tasks_are_alike_and_takes_two_seeds():
    a, b = TASKS + np.array([0.02, -0.01, 0.05]), TASKS + np.array([0.0, 0.04])
    tasks, seeds = bound_over_tasks(a, b), bound_over_seeds(a, b)
    assert (tasks.low, tasks.high) == pytest.approx((seeds.low, seeds.high))
    first = bound_over_tasks(a, b[:, :1])
    assert first.high - first.estimate == pytest.approx(
        stats.t.ppf(0.975, 2) * a.mean(axis=0).std(ddof=1) / math.sqrt(3)
    )
    assert bound_over_tasks(a[:, :1], b[:, :1]).low == pytest.approx(
        bound_over_tasks(a[:, :1], b[:, :1]).high
    )


def test_never_shorter_than_students_t_and_longer_where_skewed():
    a = np.random.default_rng(3).exponential(0.1, (20, 1))
    result, half = (
        bound_over_tasks(a, 0 * a),
        stats.t.ppf(0.975, 19) * a.std(ddof=1) / math.sqrt(20),
    )
    assert (
        result.estimate - result.low >= half * (1 - 1e-12)
        and result.high - result.estimate > 1.2 * half
    )


def test_seeds_alone_are_welchs_t():
    a, b = method(seeds=3), method(-0.02, seeds=5)
    reference = stats.ttest_ind(a.mean(0), b.mean(0), equal_var=False).confidence_interval(0.95)
    assert (bound_over_seeds(a, b).low, bound_over_seeds(a, b).high) == pytest.approx(
        tuple(reference)
    )


def test_no_interval_has_a_reason_and_still_an_estimate():
    few, first, same = (
        bound_over_tasks(TASKS[:3], TASKS[:3]),
        bound_over_seeds(TASKS, TASKS),
        bound_over_seeds(*[np.ones((2, 3))] * 2),
    )
    for result, word in (
        (few, "at least 4 tasks; there are 3"),
        (first, "one seed"),
        (same, "same error"),
    ):
        assert math.isnan(result.low) and math.isnan(result.high) and word in result.reason
        assert (result.estimate, result.side) == (0, 0)


def test_a_method_against_itself_is_zero_and_equal_differences_have_no_width():
    assert (bound_over_tasks(TASKS, TASKS).low, bound_over_tasks(TASKS, TASKS).high) == (0, 0)
    half = np.full((6, 1), 0.5)
    assert (bound_over_tasks(half, half / 2).low, bound_over_tasks(half, half / 2).high) == (
        0.25,
        0.25,
    )


def test_a_possible_interval_stays_between_minus_one_and_one():
    result = bound_over_seeds(np.array([[0.1, 0.9]]), np.array([[0.5, 0.52]]))
    assert result.low < -1 and result.high > 1
    assert (result.possible.low, result.possible.high, result.possible.estimate) == (
        -1,
        1,
        result.estimate,
    )
    assert math.isnan(bound_over_seeds(np.ones((1, 1)), np.ones((1, 1))).possible.low)


@pytest.mark.parametrize(
    "a", [np.ones(3), np.ones((2, 2)), np.full((3, 1), math.nan), np.ones((3, 0))]
)
def test_what_cannot_be_compared_is_refused(a):
    for interval in (bound_over_tasks, bound_over_seeds):
        with pytest.raises(BadInput):
            interval(a, np.ones((3, 1)))


@pytest.mark.parametrize("scale", [0.05, 0])
def test_covers_about_as_often_as_it_says(scale):
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(400):  # the full study is experiments/learner_studies/bootstrap_coverage.py
        effects = rng.normal(0, scale, (20, 1))
        runs = [rng.normal(0, 0.02, (20, 3)) + rng.normal(0, 0.005, 3) for _ in range(2)]
        result = bound_over_tasks(effects + runs[0], runs[1])
        covered += result.low <= 0 <= result.high
    assert 0.92 <= covered / 400 <= 0.985
