"""Adding models and samples: what was observed stays, predictions are stored apart, and the
account is right.
"""

import re
import warnings
from functools import partial

import numpy as np
import pytest

from nevis_stream.additions.models import add_models, find_complete_models, fit_to_cache
from nevis_stream.additions.samples import add_samples
from nevis_stream.dynamic_evaluation import fits
from nevis_stream.dynamic_evaluation.known_models import find_known
from nevis_stream.dynamic_evaluation.policy import Substitutes
from nevis_stream.errors import BadInput
from nevis_stream.evaluation_cache import EvaluationCache
from nevis_stream.evaluation_cache.additions import merge_additions, read_additions
from nevis_stream.evaluation_cache.exchange import FileOracle
from nevis_stream.evaluation_cache.files import ValueTable
from nevis_stream.progress import Silent
from nevis_stream.queries.matrix import ArrayMatrix
from nevis_stream.queries.oracle import Cost, Query, Responses
from nevis_stream.queries.samples import UNKNOWN, SampleFacts
from tests.dynamic_evaluation.making import file_asks

M, N = 12, 90


def ordered(models=M, samples=N, seed=0):
    """Outcomes with one rank order and some noise: uint8[models, samples]."""
    rng = np.random.default_rng(seed)
    skill, ease = rng.normal(size=(models, 1)), rng.normal(size=(1, samples))
    return (skill + 2 * ease + 0.3 * rng.normal(size=(models, samples)) > 0).astype(np.uint8)


def table(correct, first=0):
    models = [f"m{i}" for i in range(len(correct))]
    return ValueTable(models, [f"s{first + j}" for j in range(correct.shape[1])], correct)


def add_model(cache, model, source, budget, method, provenance=None):
    """Adds one model, answered for by a `Counting` or out of a table."""
    source = source if isinstance(source, Counting) else Counting(source, None)
    facts = {model: provenance or {}}
    asks = source.asks([model], cache.samples)
    return add_models(cache, asks, budget, method, provenances=facts)[0]


def seen(cache, model):
    """Returns the samples on which a model is observed."""
    return [
        sample
        for sample, cell in zip(cache.samples(), cache.matrix([model])[0], strict=True)
        if cell != UNKNOWN
    ]


class Counting:
    """Answers out of a table, counts what it is asked, and charges for it: 7 FLOPs per answer."""

    def __init__(self, truth, each=7):
        self.truth, self.each, self.asked = truth, each, []

    def price(self, query):
        return None if self.each is None else self.each * query

    def asks(self, models, ids):
        return {model: partial(self.ask, model, ids) for model in models}

    def ask(self, model, ids, query):
        answers = FileOracle(self.truth, model, ids)(query)
        self.asked += [(model, sample) for sample in ids(query.samples[0])]
        return Responses(query, answers.values, Cost(self.price(query.samples.size)))


def of(samples):
    """The ids of new samples by their positions."""
    return lambda columns: [samples[column] for column in columns]


@pytest.fixture
def cache(tmp_path):
    created = EvaluationCache(tmp_path / "cache", create=True)
    known = table(ordered())
    for model, row in zip(known.models[:-1], known.values, strict=False):
        created.append(model, known.samples, row, provenance={"flops_per_sample": 7})
    return created


def test_a_model_is_observed_on_its_budget_and_predicted_elsewhere(cache):
    truth = table(ordered())
    oracle = Counting(truth)
    account = add_model(cache, "m11", oracle, 18, "sort_and_search", provenance={"run": "new"})
    assert len(oracle.asked) == len(set(oracle.asked)) == account.asked == 18
    states = cache.states(["m11"])[0]
    assert (states == 1).sum() == 18
    assert (states == 2).sum() == N - 18
    observed = cache.matrix(["m11"])[0]
    assert (observed[states == 1] == truth.values[11][states == 1]).all()
    predicted = cache.matrix(["m11"], predicted=True)[0]
    assert np.abs(predicted.astype(int) - truth.values[11]).mean() < 0.2
    assert abs(account.accuracy - truth.values[11].mean()) < 0.15
    assert account.models == 11
    known = truth.values[:11].mean(axis=1)
    assert account.rank == 1 + (known > account.accuracy).sum()
    assert account.flops_method > 2 * 11 * N  # the sums alone
    assert account.flops_spent == 18 * 7 + account.flops_method
    assert account.flops_saved == (N - 18) * 7 - account.flops_method
    assert cache.models()["m11"] == {"run": "new", "flops_per_sample": 7}
    assert read_additions(cache.directory) == [account]


def test_what_is_saved_is_told_with_the_price_of_many_answers_and_what_was_spent_on_few(cache):
    class Padded(Counting):
        def price(self, query):
            return 7 * 64

    def added(budget):
        source, price = Padded(table(ordered())), {"flops_per_sample": 7.0}
        with warnings.catch_warnings(action="ignore"):  # it costs more than it saves here
            account = add_model(cache, "m11", source, budget, "sort_and_search", price)
        own = account.flops_method
        return account.asked, account.flops_spent - own, account.flops_saved + own

    assert added(18) == (18, 7 * 64, 7 * N - 7 * 64)
    more, *costs = added(40)
    assert costs == [7 * (18 + 64), 7 * (N - 18) - 7 * 64]
    # nothing was asked: many answers at a time would have cost this
    assert added(40)[:2] == (more, 7 * more)


def test_an_addition_that_was_killed_asks_only_what_is_missing(cache):
    truth = table(ordered())
    first = Counting(truth)
    account = add_model(cache, "m11", first, 18, "sort_and_search")

    class Killed(Counting):
        def ask(self, model, ids, query):
            super().ask(model, ids, query)
            raise KeyboardInterrupt

    other = EvaluationCache(cache.directory.parent / "other", create=True)
    for model, row in zip(truth.models[:11], truth.values, strict=False):
        other.append(model, truth.samples, row, provenance={"flops_per_sample": 7})
    with pytest.raises(KeyboardInterrupt):
        add_model(other, "m11", Killed(truth), 18, "sort_and_search")
    half = [sample for _, sample in first.asked[:9]]
    query = truth.values[11][[truth.samples.index(sample) for sample in half]]
    other.append("m11", half, query, provenance={"flops_per_sample": 7})
    second = Counting(truth)
    again = add_model(other, "m11", second, 18, "sort_and_search")
    assert sorted(sample for _, sample in second.asked) == sorted(
        sample for _, sample in first.asked[9:]
    )
    assert again == account
    assert (cache.matrix(predicted=True) == other.matrix(predicted=True)).all()


def test_what_is_observed_bounds_the_accuracy_and_is_it_where_nothing_is_left(cache):
    truth, correct = table(ordered()), ordered()[11]
    cache.append("m11", truth.samples[4:], correct[4:])
    account = add_model(cache, "m11", Counting(truth), 1, "stratified_mean")
    least = correct[4:].sum() / N
    assert (
        account.asked < N
        and least <= account.low <= account.accuracy <= account.high <= least + 4 / N
    )
    left = [j for j in range(4) if f"s{j}" not in seen(cache, "m11")]
    cache.append("m11", [f"s{j}" for j in left], correct[left])
    accounts = read_additions(cache.directory)
    oracle = Counting(truth)
    assert add_models(cache, oracle.asks(["m11"], cache.samples), 1, "stratified_mean") == []
    assert not oracle.asked and read_additions(cache.directory) == accounts
    (complete,) = find_complete_models(cache, ["m11", "m12"])
    known = ordered()[:12].mean(axis=1)
    assert (complete.name, complete.models) == ("m11", 12)
    assert complete.accuracy == pytest.approx(correct.mean())
    assert complete.rank == 1 + (known > correct.mean() + 1e-9).sum()


def test_a_whole_budget_gives_the_mean_itself(cache):
    correct = ordered()[11]
    account = add_model(cache, "m11", table(ordered()), N, "stratified_mean")
    assert account.asked == N and account.low == account.accuracy == account.high == correct.mean()


def test_complete_models_stay_known_when_they_are_added_again_with_a_new_one(cache):
    truth = table(ordered())
    asks = file_asks(cache, truth, [f"m{i}" for i in range(12)])
    (account,) = add_models(cache, asks, 18, "sort_and_search")
    assert (account.name, account.models) == ("m11", 11)


@pytest.mark.parametrize(
    "method",
    [
        "oracle_accuracy_prefix",
        "single_order_floor",
        "everything+mean",
        "strata+oracle_accuracy_prefix",
    ],
)
def test_bounds_are_refused_before_anything_is_asked(cache, method):
    oracle = Counting(table(ordered()))
    message = rf"method '{re.escape(method)}' looks at every cell .*recommended"
    with pytest.raises(BadInput, match=message):
        add_model(cache, "m11", oracle, 18, method)
    with pytest.raises(BadInput, match=message):
        add_samples(cache, ["new"], oracle.asks(oracle.truth.models, of(["new"])), 2, method)
    with pytest.raises(BadInput, match=message):
        fit_to_cache(cache, 18, method)
    assert not oracle.asked and cache.shape == (11, N)


def test_models_that_cannot_be_asked_are_named_before_anything_is_asked(cache):
    samples = [f"s{N + j}" for j in range(20)]
    oracle = Counting(table(ordered(samples=N + 20)[:11, N:], first=N))
    asks = oracle.asks([f"m{i}" for i in range(6)], of(samples))
    message = "new.csv: 5 of the 11 known models .*: 'm6', 'm7', 'm8' and 2 more.* Fill it.$"
    with pytest.raises(BadInput, match=message):
        add_samples(cache, samples, asks, 1, "sort_and_search", source="new.csv", remedy="Fill it.")
    assert not oracle.asked and cache.shape == (11, N) and not read_additions(cache.directory)


def test_the_stages_of_an_addition_are_reported(cache):
    stages = []

    class Told(Silent):
        def stage(self, name, done=0, total=None):
            stages.append(name)

    asks = file_asks(cache, table(ordered()), ["m11"])
    add_models(cache, asks, 18, "sort_and_search", progress=Told())
    assert list(dict.fromkeys(stages)) == ["fitting", "cross-validation", "asking", "predicting"]


@pytest.mark.filterwarnings("ignore:.* itself computes about")
def test_samples_are_observed_by_few_models_and_predicted_for_the_others(cache):
    fresh = ordered(samples=N + 20)[:11, N:]
    oracle = Counting(table(fresh, first=N))
    samples = [f"s{N + j}" for j in range(20)]
    asks = oracle.asks(table(fresh).models, of(samples))
    account = add_samples(cache, samples, asks, 4, provenances=[{"split": "test"}] * len(samples))
    assert account.asked == len(set(oracle.asked)) == 20 * 4
    assert cache.shape == (11, N + 20)
    states = cache.states()[:, N:]
    assert (states == 1).sum(axis=0).tolist() == [4] * 20
    assert (states == 2).sum() == 20 * 7
    assert account.flops_saved == 20 * 7 * 7 - account.flops_method
    wrong = np.abs(cache.matrix(predicted=True)[:, N:].astype(int) - fresh).mean()
    assert wrong < 0.25
    more = len(oracle.asked)
    again = add_samples(cache, samples, asks, 4)
    assert (again.asked, again.fit) == (account.asked, account.fit) and len(oracle.asked) == more
    assert 0 < again.flops_method < account.flops_method  # the fit is stored and paid for


@pytest.mark.filterwarnings("ignore:.* itself computes about")
def test_models_stay_known_where_a_cache_gains_many_samples(cache):
    fresh = ordered(samples=N + 400)[:11, N:]
    samples = [f"s{N + j}" for j in range(400)]
    asks = Counting(table(fresh, first=N)).asks(table(fresh).models, of(samples))
    add_samples(cache, samples, asks, 1)
    observed = cache.states() == 1
    # always the same one is asked
    assert observed[1].all() and (np.delete(observed, 1, axis=0).mean(axis=1) < 0.2).all()
    truth = table(ordered(samples=N + 400))
    account = add_model(cache, "m11", truth, 18, "sort_and_search")
    assert (account.models, account.samples) == (11, N + 400)
    best = (cache.matrix(list(cache.models())[:11], predicted=True) == 1).mean(axis=1)
    assert account.rank == 1 + (best > account.accuracy).sum()


def test_which_models_are_known():
    mask = np.zeros((260, 500), bool)
    mask[:60, :100] = True
    mask[60:, :16] = True  # models that were added
    mask[:3, 100:] = True  # samples that were added
    assert find_known(mask).nonzero()[0].tolist() == list(range(60))
    assert find_known(np.random.default_rng(0).random((40, 300)) < 0.2).all()
    assert (
        not find_known(np.zeros((3, 4), bool)).any()
        and not find_known(np.zeros((0, 0), bool)).any()
    )


def test_several_models_side_by_side_are_as_one_after_the_other(cache):
    truth = table(ordered(M + 2))
    both = add_models(cache, file_asks(cache, truth, ["m12", "m13"]), 18, "sort_and_search")
    assert [output.name for output in both] == ["m12", "m13"]
    assert [output.models for output in both] == [11, 11]
    other = EvaluationCache(cache.directory.parent / "other", create=True)
    other.append_rows(list(cache.models())[:11], cache.samples(), cache.matrix()[:11])
    assert add_model(other, "m13", truth, 18, "sort_and_search").accuracy == both[1].accuracy


@pytest.mark.parametrize("method", ["stratified_mean", "sort_and_search"])
def test_a_kill_between_the_accounts_of_models_changes_none(cache, method):
    names, truth = ["m11", "m12", "m13"], table(ordered(M + 2))
    asks = file_asks(cache, truth, names)
    whole = add_models(cache, asks, 18, method)
    assert whole[0].flops_method > whole[1].flops_method == whole[2].flops_method > 0
    file = cache.directory / "additions.jsonl"
    file.write_text(file.read_text().split("\n", 1)[0] + "\n")
    assert add_models(cache, asks, 18, method)[1:] == whole[1:]
    assert read_additions(cache.directory) == whole


def test_models_that_are_hardly_observed_are_not_learned_from(cache):
    cache.append("poor", ["s0", "s1"], [1, 1])
    assert add_model(cache, "m11", table(ordered()), 10, "sort_and_search").models == 11
    empty = EvaluationCache(cache.directory.parent / "empty", create=True)
    empty.append("a", ["s0"], [UNKNOWN])
    with pytest.raises(BadInput, match="import some models first"):
        add_model(empty, "b", table(ordered()), 1, "sort_and_search")
    with pytest.raises(BadInput, match="1 of them \\('a'\\) are in the cache"):
        add_model(empty, "a", table(ordered()), 1, "sort_and_search")


def test_accounts_merge_once(cache, tmp_path):
    first = add_model(cache, "m11", table(ordered()), 10, "sort_and_search")
    other = EvaluationCache(tmp_path / "merged", create=True)
    other.merge(cache)
    second = add_model(cache, "m11", table(ordered()), 20, "sort_and_search")
    for _ in range(2):
        names = other.merge(cache).names
        merge_additions(other.directory, cache.directory, names)
        assert read_additions(other.directory) == [first, second]


def test_samples_that_have_no_room_are_refused_in_time(cache, monkeypatch):
    monkeypatch.setattr(fits, "get_free_memory", lambda: 1000)
    oracle, samples = Counting(table(ordered(samples=N + 9))), [f"s{N + j}" for j in range(9)]
    asks = oracle.asks(table(ordered()).models[:-1], of(samples))
    with pytest.raises(
        BadInput, match="sort_and_search adds 9 samples from 11 × 90 .* 0.0 GB are free. A machine"
    ):
        add_samples(cache, samples, asks, 4)
    monkeypatch.setattr(fits, "get_free_memory", lambda: 10**8)
    with pytest.raises(
        BadInput,
        match="recommended adds .* about 0.5 GB, .* needs less: --method=sort_and_search",
    ):
        add_samples(cache, samples, asks, 4, "recommended")
    assert not oracle.asked


def test_what_cannot_be_asked_is_named(cache):
    with pytest.raises(BadInput, match="samples of each model: .*1 and 90"):
        add_model(cache, "m11", table(ordered()), 91, "sort_and_search")
    with pytest.raises(BadInput, match="'guess'.*random_mean"):
        add_model(cache, "m11", table(ordered()), 9, "guess")
    with pytest.raises(BadInput, match="no value of model 'm11' on sample"):
        add_model(cache, "m11", (table(ordered()[:, :5])), 18, "sort_and_search")
    with pytest.raises(BadInput, match="the file: .*'m99'.*'m9'"):
        add_model(cache, "m99", table(ordered()), 9, "sort_and_search")


def test_caches_merge_where_only_the_price_of_an_answer_differs(tmp_path):
    first, other = (EvaluationCache(tmp_path / name, create=True) for name in ("one", "other"))
    first.append("m", ["s0"], [1], provenance={"run": "r", "flops_per_sample": 7.0})
    other.append("m", ["s1"], [0], provenance={"run": "r", "flops_per_sample": 8.0})
    first.merge(other)
    assert first.matrix().tolist() == [[1, 0]]
    assert first.models()["m"]["flops_per_sample"] == 7.0
    other.append("n", ["s0"], [1], provenance={"run": "r"})
    with pytest.raises(BadInput, match="its provenance says run"):
        other.append("n", ["s1"], [1], provenance={"run": "another"})


@pytest.mark.parametrize("method", ["random_mean", "linear_gaussian", "anchor_points"])
def test_similar_samples_are_asked_where_a_new_model_has_no_value(cache, method):
    values = ordered()
    values[11, ::3] = UNKNOWN
    truth = table(values)
    mask = values[11] != UNKNOWN
    asks = file_asks(cache, truth, ["m11"])
    available = {"m11": asks["m11"].available(cache.samples())}
    assert (available["m11"] == mask).all()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        (account,) = add_models(cache, asks, 30, method, available=available)
    assert any("the most similar samples were asked instead" in str(each.message) for each in said)
    states = cache.states(["m11"])[0]
    assert account.asked == 30 == (states == 1).sum() and not (states[~mask] == 1).any()
    assert abs(account.accuracy - ordered()[11].mean()) < 0.2
    with pytest.raises(BadInput, match="has values on 60 of the cache's 90 samples, fewer than"):
        add_models(cache, asks, 61, method, available=available)


def test_several_new_models_may_lack_values(cache):
    values = ordered(M + 1)
    values[-2, ::4] = values[-1, ::3] = UNKNOWN
    asks = file_asks(cache, table(values), [f"m{M - 1}", f"m{M}"])
    available = {name: oracle.available(cache.samples()) for name, oracle in asks.items()}
    with pytest.warns(match=r"most similar samples were asked instead \(and of 1 other model\)"):
        accounts = add_models(cache, asks, 30, "random_mean", available=available)
    assert [account.asked for account in accounts] == [30, 30]


def test_a_substitute_is_of_the_same_data_set_and_the_nearest_to_the_known_models():
    known = np.array([[0, 0, 1, 1], [0, 1, 1, 0], [0, 1, 1, 0]], np.uint8)
    for dataset, expected in ((None, 3), (["a", "a", "b", "b"], 0)):
        facts = SampleFacts(4, dataset=None if dataset is None else np.array(dataset))
        askable = np.array([[True, False, False, True]])
        replaced = Substitutes(ArrayMatrix(known, None, facts), askable)
        # sample 1 differs from 0 in two models, from 3 in all three: with 0 free, it is nearest
        assert replaced(Query(np.array([[3, 2]]))).samples.tolist() == [[3, 0]]
        replaced = Substitutes(ArrayMatrix(known, None, facts), askable)
        wanted = replaced(Query(np.array([[1 if expected == 0 else 2]]))).samples.tolist()
        assert wanted == [[expected]] and replaced.counts.tolist() == [1]
