"""An answer that is unknown is never a number, and answers that were not drawn by the method get no
interval that only random samples would justify.
"""

import os
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from nevis_stream.additions.models import add_models
from nevis_stream.additions.samples import add_samples
from nevis_stream.errors import BadInput, RunWarning
from nevis_stream.estimation import intervals
from nevis_stream.evaluation_cache import EvaluationCache
from nevis_stream.queries.oracle import MOST_WITHOUT_ANSWER, Cost, Query, Responses, ask_checked
from nevis_stream.trained_runs.caches import CheckpointOracle
from tests.dynamic_evaluation.making import file_asks, one_order

N = 100
KNOWN = one_order(8, N, seed=3)
# a model that is right on 60 of 100 samples
NEW = (np.argsort(np.argsort(-KNOWN.sum(axis=0), kind="stable")) < 60).astype(np.uint8)


@pytest.fixture
def cache(tmp_path):
    created = EvaluationCache(tmp_path / "cache", create=True)
    names = [f"m{i}" for i in range(len(KNOWN))]
    created.append_rows(names, [f"s{j}" for j in range(N)], KNOWN)
    return created


class Failing:
    """Answers, but for some samples, in one of the ways of having no answer."""

    def __init__(self, failing, way, truth=NEW):
        self.failing, self.way, self.truth, self.asked = set(failing), way, truth, 0

    def __call__(self, query):
        (samples,) = query.samples
        self.asked += len(samples)
        fails = np.isin(samples, [*self.failing])
        values = self.truth[samples]
        if self.way == "raise" and fails.any():
            raise TimeoutError("the server is down")
        if self.way == "None":
            values = [None if fail else int(v) for fail, v in zip(fails, values, strict=True)]
        elif self.way == "refusal":
            values = np.where(fails, "I cannot help", values.astype(object))
        elif self.way == "NaN":
            values = np.where(fails, np.nan, values)
        elif self.way == "255":
            values = np.where(fails, 255, values)
        return Responses(query, [values], Cost())


def _added(cache, oracle, budget, method="stratified_mean", **more):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        (account,) = add_models(cache, {"new": oracle}, budget, method, **more)
    return account, [str(each.message) for each in said if each.category is RunWarning]


@pytest.mark.parametrize("way", ["255", "NaN", "None", "refusal", "raise"])
def test_an_unknown_answer_is_not_a_number(way, cache):
    clean, silent = _added(cache, Failing([], way), 20)
    assert not silent and clean.failed is None and abs(clean.accuracy - 0.6) < 0.1
    other = EvaluationCache(cache.directory.parent / "other", create=True)
    other.append_rows([f"m{i}" for i in range(len(KNOWN))], cache.samples(), KNOWN)
    asked = np.flatnonzero(cache.states(["new"])[0] == 1)
    account, said = _added(other, Failing(asked[:1], way), 20)
    assert account.failed == 1 and account.asked == 20
    assert any("'new' gave no answer to 1 sample; no number stands for" in line for line in said)
    assert abs(account.accuracy - clean.accuracy) <= 0.05
    assert other.states(["new"])[0, asked[0]] != 1
    # one of 21 may have had any value
    assert account.low == pytest.approx(clean.low * 20 / 21, abs=0.03)
    assert account.high > clean.high - 0.03


def test_where_every_sample_was_asked_the_estimate_is_of_those_that_were_answered(cache):
    account, said = _added(cache, Failing([0, 1], "NaN"), N)
    assert account.asked == 98 and account.failed == 2 and account.budget == 98
    known = NEW[2:].mean() * 98 / N
    assert known <= account.accuracy <= known + 0.02
    assert account.low <= NEW.mean() <= account.high
    assert len(said) == 1


def test_a_model_that_answers_nothing_has_no_estimate(cache):
    with pytest.raises(BadInput, match="'new' gave no answer to any of the 20 samples"):
        _added(cache, Failing(range(N), "255"), 20)
    assert "new" not in cache.models()


@pytest.mark.parametrize("way", ["None", "raise"])
def test_a_model_that_never_answers_is_not_asked_for_all_samples(way, cache):
    oracle = Failing(range(N), way)
    with pytest.raises(BadInput, match="gave no answer to any of the"):
        _added(cache, oracle, 70)
    # at most all that were chosen at once, and then one at a time
    assert oracle.asked <= 70 + (MOST_WITHOUT_ANSWER if way == "raise" else 0)


def test_a_server_that_goes_down_leaves_what_was_answered_and_the_same_command_continues(cache):
    class GoesDown(Failing):
        def __call__(self, query):
            if len(query.samples[0]) > 1 or self.asked >= 30:
                raise TimeoutError("the server is down")
            return super().__call__(query)

    account, said = _added(cache, GoesDown([], "raise"), 60)
    assert account.asked == account.budget == 30 and account.low is None
    assert any("20 samples in a row have no answer, so 10 more are not asked" in s for s in said)
    assert any(
        "had no answer to 20 samples in a row, so it is not asked any more" in s for s in said
    )
    assert sum("no answer to sample" in each for each in said) == MOST_WITHOUT_ANSWER
    account, said = _added(cache, Failing([], "raise"), 60)
    assert account.asked == 60 and account.failed is None and not said


def test_many_failures_leave_no_interval(cache):
    account, _ = _added(cache, Failing(range(0, N, 2), "None"), 20, "random_mean")
    assert account.low is None and "have no answer, and nothing says" in account.reason
    assert account.asked == 20


def test_answers_that_the_method_did_not_draw_have_no_interval(cache, tmp_path):
    easy = np.argsort(-KNOWN.sum(axis=0), kind="stable")[:30]
    available = np.isin(np.arange(N), easy)
    for drawn in (False, True):
        other = EvaluationCache(tmp_path / f"{drawn}", create=True)
        other.append_rows([f"m{i}" for i in range(len(KNOWN))], cache.samples(), KNOWN)
        where = {"new": available}
        for method in ("stratified_mean", "random_mean", "random+nearest"):
            account, _ = _added(other, Failing([], ""), 30, method, available=where, drawn=drawn)
            assert account.asked == 30
            assert (account.low is not None) == drawn
            assert drawn or "70% of the samples have no answer" in account.reason
            # the mean of easy samples has no place among means of all
            assert (account.rank is not None) == drawn
    # a few missing values: the interval allows for any value of them
    few = {"new": np.arange(N) % 20 > 0}
    account, _ = _added(cache, Failing([], ""), 50, "random_mean", available=few)
    low, high = intervals.allow_for_missing(np.array([0.5]), np.array([0.6]), np.array([0.05]))
    assert (low[0], high[0]) == (pytest.approx(0.475), pytest.approx(0.62))
    assert account.low < account.accuracy < account.high


def test_scores_and_new_samples_have_unknown_answers_too(cache, tmp_path):
    other = EvaluationCache(tmp_path / "scores", create=True)
    scores = KNOWN.astype(np.float32) * 0.5 + 0.25
    ranges = {"low": 0, "high": 1}
    names = [f"m{i}" for i in range(len(KNOWN))]
    other.append_rows(names, cache.samples(), scores, sample_provenance=ranges)
    oracle = Failing(range(0, N, 9), "255", NEW * 0.5 + 0.25)
    account, _ = _added(other, oracle, 20, "random_mean")
    assert 0.25 <= account.accuracy <= 0.75
    asks = {name: Failing([1], "NaN", np.array([1, 0, 1])) for name in names[:-1]}
    asks[names[-1]] = Failing([], "", np.array([1, 0, 1]))
    with pytest.warns(RunWarning, match=r"unknown, for example of model 'm\d' on sample 'new1'"):
        account = add_samples(cache, ["new0", "new1", "new2"], asks, 1, "random_mean")
    assert account.failed >= 1 and account.asked == 3
    assert (cache.matrix(samples=["new1"]) != 255).sum() == 1
    with pytest.raises(BadInput, match="no other model is left to be asked"):
        asks[names[-1]] = Failing([1], "", np.array([1, 255, 1]))
        add_samples(cache, ["x0", "x1", "x2"], asks, 2, "random_mean")


@pytest.mark.parametrize(
    "values, query, message",
    [
        ([[1, 0, 1]], None, r"asked for the cells \[1, 2\], answered \[1, 3\] values"),
        ([[1, 0]], [[5, 4]], "an answer belongs to each asked cell, in their order"),
        ([[1, 7]], None, "the answer to sample 5 is 7, not 0 or 1"),
        ([[1, 0.5]], None, "the answer to sample 5 is 0.5, not 0 or 1"),
    ],
)
def test_answers_of_other_cells_or_values_are_refused(values, query, message):
    asked = Query(np.array([[4, 5]]))
    given = asked if query is None else Query(np.array(query))
    with pytest.raises(BadInput, match=message):
        ask_checked(lambda query: Responses(given, np.array(values)), asked, scores=False)


@pytest.mark.parametrize("error", [NameError("typo"), ImportError("torch")])
def test_an_oracle_that_is_wrong_is_not_asked_again(error, cache):
    calls = []

    def oracle(query):
        calls.append(query)
        raise error

    with pytest.raises(BadInput, match=f"what answers raised {type(error).__name__}"):
        _added(cache, oracle, 20)
    assert len(calls) == 1


def test_a_file_without_a_value_is_not_asked_in_vain(cache, tmp_path):
    from nevis_stream.evaluation_cache.files import ValueTable

    values = NEW.copy()
    values[::3] = 255
    asks = file_asks(cache, ValueTable(["new"], cache.samples(), values[None]), ["new"])
    available = {"new": asks["new"].available(cache.samples())}
    account, said = _added(cache, asks["new"], 30, available=available)
    assert account.failed is None and len(said) == 1


@pytest.mark.parametrize("known", ["known.csv", "known4.csv"])
def test_the_first_samples_of_a_file_have_neither_interval_nor_rank(known, tmp_path, capsys):
    """`--limit` takes the first 60 of 300, which are easy: accuracy .95 where the truth is .54."""
    from nevis_stream.evaluation_cache.exchange import import_file
    from nevis_stream.evaluation_cache.files import read_values
    from nevis_stream.launch.evaluate_commands.add import _print_addition

    shared = Path(os.environ.get("NEVIS_STREAM_SHARED", "../shared"))
    folder = shared / "cases/evaluation/limit_file_gets_an_interval"
    if not folder.is_dir():
        pytest.skip("the failing inputs are not here")
    import_file(tmp_path / "c", folder / known)
    cache = EvaluationCache(tmp_path / "c")
    table = read_values(folder / "new_first60.csv")
    (name,) = table.models
    asks = file_asks(cache, table, [name])
    available = {name: asks[name].available(cache.samples())}
    for method in ("random_mean", "stratified_mean"):
        other = EvaluationCache(tmp_path / method, create=True)
        other.merge(cache)
        with pytest.warns(RunWarning, match="the most similar samples were asked instead"):
            (account,) = add_models(
                other, file_asks(other, table, [name]), 60, method, available=available
            )
        assert account.low is None and account.rank is None and account.asked == 60
        _print_addition(account)
        printed = capsys.readouterr().out
        assert "no interval: 80% of the samples have no answer" in printed
        assert "no rank: the samples that were answered do not stand for all" in printed


def test_a_checkpoint_that_fails_on_a_sample_gives_no_answer_to_it(cache):
    """The model of a run breaks on one image; the others are answered, one at a time."""

    class Run:
        def tree(self, predictor):
            return {}

        def samples_of(self, task, ids):
            return ids

        def answer(self, predictor, parts, tree, small_batches):
            if "s3" in parts:
                raise MemoryError("out of memory while running the model")
            columns = np.array([int(each[1:]) for each in parts])
            return SimpleNamespace(
                ids=parts, correct=NEW[columns], confidence=np.full(len(parts), 0.5), flops=10
            )

    oracle = CheckpointOracle(Run(), SimpleNamespace(task=None), cache.samples)
    account, said = _added(cache, oracle, N)
    assert account.failed == 1 and account.asked == N - 1
    assert account.low <= NEW.mean() <= account.high
    assert cache.matrix(["new"])[0, 3] == 255
    assert account.flops_spent is None  # what the failed run cost is not known
    assert any("no answer to sample 3: MemoryError: out of memory" in line for line in said)
