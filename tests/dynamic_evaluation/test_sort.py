import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nevis_stream.dynamic_evaluation.sorting import Rank, fit_thresholds, sort, sort_descending
from nevis_stream.errors import BadInput
from nevis_stream.evaluation_cache import EvaluationCache
from tests.dynamic_evaluation.making import one_order, outcomes


def test_easy_samples_come_first_and_ties_keep_their_order():
    known = np.array([[0, 1, 0, 1, 1], [0, 1, 0, 1, 0]], np.uint8)
    assert sort(known).order.tolist() == [1, 3, 4, 0, 2]
    assert sort(known, ties=np.array([4, 3, 2, 1, 0])).order.tolist() == [3, 1, 4, 2, 0]


def test_holes_neither_help_nor_harm():
    known = np.array([[1, 1, 255, 255], [255, 0, 255, 0], [255, 0, 255, 1]], np.uint8)
    rank = sort(known)
    # nobody met the third: the mean of the six known cells
    assert rank.scores.tolist() == [1, 1 / 3, 0.5, 0.5]
    assert rank.order.tolist() == [0, 2, 3, 1]


@settings(deadline=None)
@given(outcomes(values=(0, 1, 255), models=(2, 8)), st.integers(1, 7), st.booleans())
def test_rows_that_arrive_give_the_same_order_as_all_at_once(known, first, one_by_one):
    known[0, 0] = 1
    first = min(first, len(known) - 1)
    grown = sort(known[:first])
    for rows in np.split(known[first:], len(known) - first) if one_by_one else [known[first:]]:
        grown = grown.add(rows)
    whole, shuffled = sort(known), sort(known[::-1])
    assert (grown.order == whole.order).all() and (grown.scores == whole.scores).all()
    assert (shuffled.order == whole.order).all()
    assert (whole.order[whole.place] == np.arange(known.shape[1])).all()


def test_a_recursive_rank_that_grows_has_all_scores_and_its_old_ties():
    known = one_order(12, 60, noise=1.0)
    first, whole = sort(known[:8], by="recursive"), sort(known, by="recursive")
    grown = first.add(known[8:])
    assert (grown.scores == whole.scores).all()
    assert (grown.order != whole.order).any(), "the new rows would refine the ties"
    assert grown.order.tolist() == sorted(
        range(60), key=lambda column: (-grown.scores[column], first.place[column])
    )


@settings(deadline=None)
@given(outcomes(values=(0, 1, 255)), st.integers(1, 5))
def test_recursive_sum_only_reorders_ties(known, depth):
    known[0, 0] = 1
    plain, recursive = sort(known), sort(known, by="recursive", depth=depth)
    assert sorted(recursive.order.tolist()) == list(range(known.shape[1]))
    assert (plain.scores[plain.order] == plain.scores[recursive.order]).all()
    if depth == 1:
        assert (plain.order == recursive.order).all()


def test_recursive_sum_asks_the_models_that_change_there():
    """The samples 3 and 4 tie. The second model, right on 3, changes elsewhere; the first, right on
    4, changes there.
    """
    known = np.array(
        [[1, 1, 1, 0, 1, 0], [0, 0, 0, 1, 0, 0], [1, 1, 1, 0, 0, 0], [1, 1, 1, 0, 0, 0]], np.uint8
    )
    assert sort(known).order.tolist() == [0, 1, 2, 3, 4, 5]
    assert sort(known, by="recursive").order.tolist() == [0, 1, 2, 4, 3, 5]


def test_more_depth_only_reorders_what_is_still_tied():
    known = one_order(40, 400, noise=1.0)
    two, three = (sort(known, by="recursive", depth=depth) for depth in (2, 3))
    cuts = fit_thresholds(known[:, sort(known).order])
    scores = sort(known).scores

    def refined(column):
        group = np.flatnonzero(scores[sort(known).order] == scores[column])
        deciding = (cuts >= group[0]) & (cuts <= group[-1] + 1)
        return (
            round(float(known[deciding, column].mean()), 9)
            if deciding.any() and len(group) > 1
            else 0
        )

    levels = [(scores[column], refined(column)) for column in range(400)]
    for order in (two.order, three.order):
        along = [levels[column] for column in order]
        assert along == sorted(along, reverse=True)
    assert (two.order != three.order).any()


@settings(deadline=None)
@given(st.lists(st.integers(0, 200_000), min_size=1, max_size=50))
def test_descending_is_stable(scores):
    scores = np.array(scores, float)
    expected = sorted(range(len(scores)), key=lambda column: -scores[column])
    assert sort_descending(scores).tolist() == expected
    assert sort_descending(scores + 0.5).tolist() == expected


@pytest.mark.parametrize("by", ["sum", "recursive"])
def test_a_cache_is_sorted_as_its_matrix(tmp_path, by):
    matrix = one_order(6, 50, noise=1.0)
    cache = EvaluationCache(tmp_path / "cache", create=True)
    for model, row in enumerate(matrix):
        cache.append(f"model {model}", [f"sample {column}" for column in range(50)], row)
    assert (sort(cache, by).order == sort(matrix, by).order).all()


@pytest.mark.parametrize(
    "known, by, message",
    [
        (np.zeros((2, 3), np.uint8), "size", "'size'.*recursive, sum"),
        (np.zeros((2, 3)), "sum", "outcomes"),
        (np.full((2, 3), 2, np.uint8), "sum", "also has"),
    ],
)
def test_bad_input_is_named(known, by, message):
    with pytest.raises(BadInput, match=message):
        sort(known, by=by)


def test_nothing_known_and_rows_that_do_not_fit_are_named():
    with pytest.raises(BadInput, match="no outcome is known"):
        sort(np.full((2, 3), 255, np.uint8)).order  # noqa: B018
    with pytest.raises(BadInput, match="4 samples"):
        Rank(np.ones(3), np.ones(3, np.int64)).add(np.zeros((1, 4), np.uint8))


def test_what_is_no_order_of_the_samples_and_no_depth_is_named():
    known = np.eye(4, dtype=np.uint8)
    for ties in (np.zeros(4, int), np.arange(3), np.arange(1, 5)):
        with pytest.raises(BadInput, match="order of the 4 samples"):
            sort(known, ties=ties)
    with pytest.raises(BadInput, match="depth 0"):
        sort(known, by="recursive", depth=0)
