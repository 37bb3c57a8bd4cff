"""The leaderboard of a cache: scores, intervals, ties and what it says of estimates."""

import csv

import numpy as np
import pytest

from nevis_stream.additions.standings import _compare_models, rank_models
from nevis_stream.evaluation_cache import EvaluationCache
from nevis_stream.evaluation_cache.additions import Addition, append
from tests import forked

RANDOM = np.random.default_rng(0)


def cache_of(path, values, **provenance):
    cache = EvaluationCache(path, create=True)
    samples = [f"s{k}" for k in range(values.shape[1])]
    models = [f"m{i}" for i in range(len(values))]
    cache.append_rows(models, samples, values, sample_provenance=provenance or None)
    return cache


def of(leaderboard):
    return {row.model: row for row in leaderboard.standings}


def test_scores_intervals_and_holes(tmp_path):
    values = np.ones((3, 100), np.uint8)
    values[1, :50] = 0
    values[2, 40:] = 255
    (board,) = rank_models(cache_of(tmp_path / "c", values))
    rows = of(board)
    assert [row.score for row in rows.values()] == [1, 1, 0.5]
    assert (rows["m1"].low, rows["m1"].high) == pytest.approx((0.4038, 0.5962), abs=1e-4)  # Wilson
    assert rows["m0"].low > 0.95 and rows["m0"].high == 1
    assert rows["m2"].observed == 40 and rows["m2"].low < rows["m0"].low
    # the 40 shared samples tell m1 and m2 apart, and all are the same for m0 and m2
    assert [(row.rank, row.last) for row in rows.values()] == [(1, 2), (1, 2), (3, 3)]


def test_a_paired_difference_tells_apart_what_intervals_do_not(tmp_path):
    values = np.repeat((np.arange(400) % 2)[None], 2, axis=0).astype(np.uint8)
    values[1, :40:2] = 1  # right on 20 more, and on all of the other's
    first, second = rank_models(cache_of(tmp_path / "c", values))[0].standings
    assert first.model == "m1" and first.low < second.high
    assert (first.rank, first.last, second.rank) == (1, 1, 2)


@pytest.mark.parametrize("fraction", [0.5, 0.9])
def test_equal_models_are_told_apart_in_a_twentieth_of_pairs(fraction):
    random, told_apart, everything = np.random.default_rng(1), 0, [(1.0, np.arange(150))]
    for _ in range(300):  # pairs of one draw depend on each other
        values = (random.random((8, 150)) < fraction).astype(np.float32)
        told_apart += _compare_models(values, np.ones(values.shape, bool), everything, 1.0).sum()
    assert 0.03 < told_apart / (300 * 28) < 0.06


def test_blocks_give_what_pairs_give(monkeypatch):
    from nevis_stream.additions import standings

    values = RANDOM.random((9, 60)).astype(np.float32)
    mask = RANDOM.random(values.shape) < 0.7
    values[~mask] = 0
    strata = [(0.25, np.arange(20)), (0.75, np.arange(20, 60))]
    whole = _compare_models(values, mask, strata, 1.0)
    monkeypatch.setattr(standings, "_ROWS", 4)
    monkeypatch.setattr(standings, "_COLUMNS", 7)
    assert np.array_equal(_compare_models(values, mask, strata, 1.0), whole)
    both = mask[0] & mask[1]
    difference, variance = 0.0, 0.0
    for weight, columns in strata:
        at = columns[both[columns]]
        d = np.concatenate([values[0, at] - values[1, at], [np.sqrt(0.5), -np.sqrt(0.5)]])
        difference += weight * d.mean()
        variance += weight**2 * (np.square(d).mean() - d.mean() ** 2) / len(d)
    assert whole[0, 1] == (difference > 1.96 * np.sqrt(variance))


def test_lower_is_better_in_its_own_range_and_data_sets_that_differ_have_their_own(tmp_path):
    cache = EvaluationCache(tmp_path / "c", create=True)
    wer = {"dataset": "speech", "low": 0.0, "high": 50.0, "higher_is_better": False}
    names = [f"w{k}" for k in range(60)]
    cache.append_rows(["a", "b"], names, np.full((2, 60), [[0.4], [0.1]]), sample_provenance=wer)
    quiz = [f"q{k}" for k in range(60)]
    right = (RANDOM.random((2, 60)) < 0.5).astype(np.float32)
    cache.append_rows(["a", "b"], quiz, right, sample_provenance={"dataset": "quiz"})
    speech, other = rank_models(cache)
    assert [row.model for row in speech.standings] == ["b", "a"] and speech.part.lower
    assert [row.score for row in speech.standings] == pytest.approx([5, 20])
    assert other.part.name == "quiz" and of(other)["a"].score == pytest.approx(right[0].mean())


def test_weights_of_data_sets_are_those_of_the_score(tmp_path):
    cache = cache_of(tmp_path / "c", np.ones((2, 30), np.uint8), dataset="large")
    cache.append_rows(["m0", "m1"], list("abcde"), [[0] * 5, [1] * 5], sample_provenance={"dataset": "small"})  # noqa: E501  # fmt: skip
    assert of(rank_models(cache)[0])["m0"].score == pytest.approx(30 / 35)
    cache.set_dataset_weights("equal")
    row = of(rank_models(cache)[0])["m0"]
    assert row.score == 0.5 and row.means["large"][0] == 1 and row.means["small"][3] == 5


@pytest.fixture
def estimated(tmp_path):
    """A cache with two complete models and one whose score was estimated from chosen samples."""
    values = (RANDOM.random((3, 200)) < [[0.9], [0.5], [0.1]]).astype(np.uint8)
    values[2, 30:] = 255
    cache = cache_of(tmp_path / "c", values)
    account = {"kind": "model", "name": "m2", "method": "adaptive_testing", "budget": 30}
    account |= {"seed": 0, "models": 2, "samples": 200, "asked": 30}
    append(cache.directory, Addition(**account, accuracy=0.6, low=0.45, high=0.75))
    return cache


def print_board(cache, *words):
    done = forked.run("nevis_stream.launch.evaluate", "board", cache.directory, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_estimate_stands_for_chosen_samples(estimated):
    row = of(rank_models(estimated)[0])["m2"]
    assert row.score == 0.6 and row.method == "adaptive_testing" and not row.outdated
    assert (row.rank, row.last) == (2, 3)  # by intervals: tied with m1, not with m0


def test_the_command_marks_an_estimate_and_prints_its_samples_and_its_ranks(estimated):
    printed = print_board(estimated)
    assert "~0.6000" in printed and "30 of 200" in printed and "2–3" in printed


def test_the_command_writes_what_estimated_a_score_into_a_csv(estimated, tmp_path):
    file = tmp_path / "board.csv"
    print_board(estimated, f"--csv={file}")
    with open(file) as text:
        table = list(csv.DictReader(text))
    assert [each["model"] for each in table] == ["m0", "m2", "m1"]
    assert table[1]["estimated_by"] == "adaptive_testing" and table[1]["rank_last"] == "3"


def test_an_estimate_does_not_become_a_score_when_the_cache_grows(estimated):
    estimated.append_rows(["m0", "m1"], ["more"], np.ones((2, 1), np.uint8))
    row = of(rank_models(estimated)[0])["m2"]
    assert row.score == 0.6 and row.outdated
    assert "!" in print_board(estimated)


def test_a_column_that_nobody_has_changes_nothing():
    """Complete models are compared with fewer products, and so must give the same."""
    values = (RANDOM.random((12, 90)) < 0.6).astype(np.float32)
    mask = np.ones(values.shape, bool)
    complete = _compare_models(values, mask, [(1.0, np.arange(90))], 1.0)
    more = np.pad(values, ((0, 0), (0, 1))), np.pad(mask, ((0, 0), (0, 1)))
    assert complete.any() and np.array_equal(
        _compare_models(*more, [(1.0, np.arange(91))], 1.0), complete
    )
