import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nevis_stream.dynamic_evaluation import methods, sorting
from nevis_stream.dynamic_evaluation.sorting import ALL, sort
from nevis_stream.errors import BadInput
from nevis_stream.queries import samples
from nevis_stream.queries.oracle import MatrixOracle
from tests.dynamic_evaluation.making import one_order, outcomes


def searched(known, new, budget, name="sort_and_search", seed=0):
    """Estimates of new models, and what was asked."""
    oracle, key = MatrixOracle(new), jax.random.key(seed)
    evaluator = methods.get(name).fit(known, None, key)
    return evaluator.evaluate(oracle, len(new), budget, key), oracle


def errors(row, k):
    """Of a prediction of k leading ones, on the known cells."""
    return int((row[:k] == 0).sum() + (row[k:] == 1).sum())


def test_thresholds_equal_brute_force_on_a_thousand_vectors():
    random = np.random.default_rng(0)
    for _ in range(1000):
        n = int(random.integers(1, 60))
        row = (random.random(n) < random.random()).astype(np.uint8)
        assert errors(row, sorting.fit_thresholds(row)) == min(errors(row, k) for k in range(n + 1))


@settings(deadline=None)
@given(outcomes(values=(0, 1, 255)))
def test_optima_equal_brute_force_with_holes(rows):
    first, last = sorting.find_optima(rows)
    for row, item, other in zip(rows, first, last, strict=True):
        least = [errors(row, cut) for cut in range(len(row) + 1)]
        best = np.flatnonzero(np.array(least) == min(least))
        assert (item, other) == (best[0], best[-1])
    assert (sorting.fit_thresholds(rows) == first).all()


def test_none_and_all_can_be_predicted():
    ends = np.array([[0, 0, 0], [1, 1, 1]], np.uint8)
    assert sorting.fit_thresholds(ends).tolist() == [0, 3]
    positions = np.broadcast_to(samples.place_centres(100, 3), ends.shape)
    assert sorting.find_thresholds(sort(one_order(9, 100)), positions, ends).tolist() == [0, 100]


@settings(deadline=None)
@given(outcomes(models=(2, 6)))
def test_with_every_sample_asked_nothing_is_guessed(matrix):
    rank, new = sort(matrix[:1]), matrix[1:]
    places = np.broadcast_to(np.arange(rank.n), new.shape)
    for row, cut in zip(
        new[:, rank.order], sorting.find_thresholds(rank, places, new[:, rank.order]), strict=True
    ):
        assert errors(row, cut) == min(errors(row, k) for k in range(rank.n + 1))
    estimate, _ = searched(matrix[:1], new, rank.n)
    assert (estimate.outcomes == new).all() and estimate.observed.all()


@settings(deadline=None)
@given(outcomes(models=(2, 6)), st.data())
def test_observed_outcomes_are_kept(matrix, data):
    budget = data.draw(st.integers(1, matrix.shape[1]))
    name = data.draw(st.sampled_from(["sort_and_search", "sort_and_search_random"]))
    rank, new = sort(matrix[:1]), matrix[1:]
    estimate, oracle = searched(matrix[:1], new, budget, name)
    assert (estimate.observed == oracle.observed).all() and (oracle.counts == budget).all()
    assert (estimate.outcomes[oracle.observed] == new[oracle.observed]).all()
    assert (estimate.values == estimate.outcomes).all()
    unseen = np.where(oracle.observed, 0, 1)[:, rank.order]
    for predicted, free in zip(estimate.outcomes[:, rank.order], unseen, strict=True):
        rest = predicted[free == 1].tolist()
        assert rest == sorted(rest, reverse=True)  # the others are ones, then zeros


@settings(deadline=None)
@given(outcomes(models=(1, 30), values=(0, 1, 255)), st.data())
def test_the_expected_share_of_thresholds_rises_from_the_first_to_all(known, data):
    if (known == 255).all():
        return
    rank = sort(known)
    fractions = rank.compute_cdf(np.arange(rank.n + 1))
    assert (np.diff(fractions) > 0).all() and fractions[0] >= 0 and fractions[-1] == ALL
    easier = sort(np.vstack([known, np.ones((3, rank.n), np.uint8)]), ties=rank.order)
    if (known != 255).all():
        assert (easier.compute_cdf(np.arange(rank.n)) <= fractions[:-1]).all()


@settings(deadline=None)
@given(outcomes(models=(2, 12), samples=(2, 40)), st.data())
def test_the_cut_is_the_optimum_nearest_to_the_median_of_what_is_expected(matrix, data):
    rank, new = sort(matrix[:-1]), matrix[-1:]
    places = samples.place_centres(rank.n, data.draw(st.integers(1, rank.n)))
    answers = new[:, rank.order[places]]
    (cut,) = sorting.find_thresholds(rank, places[None], answers)
    wrong = np.array([errors(answers[0], (places < k).sum()) for k in range(rank.n + 1)])
    best = np.flatnonzero(wrong == wrong.min())
    if best[-1] <= places[0]:  # none is right
        best = best[:1]
    elif best[0] > places[-1]:  # all are
        best = best[-1:]
    inside = np.arange(best[0], best[-1] + 1)
    fractions = np.diff(np.append(0, rank.compute_cdf(np.arange(rank.n + 1))))[inside]
    median = inside[(2 * np.cumsum(fractions) >= fractions.sum()).argmax()]
    assert cut in best and abs(cut - median) == np.abs(best - median).min()


def test_where_answers_leave_it_open_known_models_decide():
    answers = np.array([[1, 0, 1, 0]], np.uint8)
    assert [k.tolist() for k in sorting.find_optima(answers)] == [[1], [3]]
    positions = samples.place_centres(100, 4)[None]
    cuts = []
    for ones in (30, 70):
        known = np.zeros((20, 100), np.uint8)
        known[:, :ones] = 1
        cuts += sorting.find_thresholds(sort(known), positions, answers).tolist()
    assert cuts == [30, 70]


def test_random_sampling_is_drawn_for_each_model_and_repeats_with_its_key():
    matrix = one_order(5, 400)
    first, same, other = (
        searched(matrix[:3], matrix[3:], 32, "sort_and_search_random", seed)[0].observed
        for seed in (0, 0, 1)
    )
    assert (first == same).all() and (first != other).any() and (first[0] != first[1]).any()


def test_a_new_model_is_predicted_well_from_few_samples():
    matrix = one_order(60, 2000)
    new = matrix[40:]
    estimate, _ = searched(matrix[:40], new, 64)
    assert (estimate.outcomes != new).mean() < 0.2 < (new != (new.mean() > 0.5)).mean()
    assert np.abs(estimate.accuracy - new.mean(axis=1)).mean() < 0.05


@pytest.mark.parametrize("budget", [0, -1, 31])
def test_impossible_budgets_are_named(budget):
    with pytest.raises(BadInput, match=f"budget of {budget}.*30"):
        searched(one_order(3, 30), one_order(1, 30), budget)


def test_bad_questions_are_named():
    known, new = one_order(3, 30), one_order(1, 30)
    for odd in (2.5, "4", True):
        with pytest.raises(BadInput, match="whole number"):
            searched(known, new, odd)
    with pytest.raises(BadInput, match="give a key"):
        methods.get("random_mean").fit(known, None, None).evaluate(MatrixOracle(new), 1, 4, None)
    with pytest.raises(BadInput, match="unknown in this matrix"):
        searched(known, np.full((1, 30), 255, np.uint8), 4)
