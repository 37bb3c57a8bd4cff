"""Metrics of which lower values are better, and data sets that have no common mean."""

import jax
import numpy as np
import pytest

from nevis_stream.additions.models import add_models, find_complete_models, fit_to_cache
from nevis_stream.dynamic_evaluation import methods
from nevis_stream.errors import BadInput
from nevis_stream.evaluation_cache import EvaluationCache
from nevis_stream.evaluation_cache.additions import read_additions
from nevis_stream.evaluation_cache.exchange import import_file, read_for_cache
from nevis_stream.evaluation_cache.files import read_values
from nevis_stream.experiments.evaluation_studies.evaluation_summary import audit, draw_outcomes
from nevis_stream.experiments.evaluation_studies.method_study import StudiedMatrix
from nevis_stream.queries.matrix import ArrayMatrix
from nevis_stream.queries.oracle import MatrixOracle
from nevis_stream.queries.samples import SampleFacts
from tests.dynamic_evaluation.making import file_asks, one_order

GOOD = one_order(13, 60)  # outcomes: 1 is good
ORDER = np.argsort(-GOOD.mean(axis=1))


def _long(path, blocks, header="model,dataset,sample,metric,score"):
    """Writes one row per cell: blocks of data set, metric and values [m, n]."""
    rows = [
        f"m{i:02d},{dataset},{k},{metric},{value:g}"
        for dataset, metric, values in blocks
        for i, row in enumerate(values)
        for k, value in enumerate(row)
    ]
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def _added(cache, path, names, budget, method="stratified_mean", **more):
    asks = file_asks(cache, read_for_cache(cache, path), names)
    return add_models(cache, asks, budget, method, **more)


def test_the_model_with_the_fewest_errors_is_the_first(tmp_path):
    errors = _long(tmp_path / "error.csv", [("speech", "error_rate", 1 - GOOD)])
    table = import_file(tmp_path / "c", errors)
    assert "by its name, lower values of error_rate are better" in " ".join(table.remarks)
    line = next(line for line in table.remarks if line.startswith("speech error_rate: 60 samples"))
    assert line.endswith("; lower is better")
    cache = EvaluationCache(tmp_path / "c")
    assert cache.facts().lower.all()
    best, worst = f"m{ORDER[0]:02d}", f"m{ORDER[-1]:02d}"
    places = {each.name: each.rank for each in find_complete_models(cache, [best, worst])}
    assert places[best] == 1 and places[worst] > 10


@pytest.mark.parametrize("method", ["stratified_mean", "sort_and_search"])
def test_an_added_model_has_the_rank_of_its_direction(method, tmp_path):
    best, others = ORDER[0], ORDER[1:]
    accounts = {}
    for name, values, flag in (("acc", GOOD, ()), ("wrong", 1 - GOOD, ("wrong",))):
        path = _long(tmp_path / f"{name}.csv", [("d", name, values[others])])
        new = _long(tmp_path / f"{name}_new.csv", [("d", name, values[[best]])])
        new.write_text(new.read_text().replace("m00", "new"))
        import_file(tmp_path / name, path, lower_is_better=flag)
        (accounts[name],) = _added(EvaluationCache(tmp_path / name), new, ["new"], 30, method)
    up, down = accounts["acc"], accounts["wrong"]
    assert down.lower and up.lower is None
    assert down.accuracy == pytest.approx(1 - up.accuracy)
    assert (down.low, down.high) == pytest.approx((1 - up.high, 1 - up.low))
    assert down.rank == up.rank <= 4
    assert down.rank_low <= down.rank <= down.rank_high
    assert read_additions(tmp_path / "wrong") == [down]


@pytest.mark.parametrize(
    "name",
    [
        "uniform+irt_2pl",
        "random+mean",
        pytest.param("error+nearest", marks=pytest.mark.slow),
    ],
)
def test_methods_estimate_errors_as_they_estimate_outcomes(name):
    known, new = GOOD[:10], GOOD[10:]
    estimates = []
    for values, truth in ((known, new), (1 - known, 1 - new)):
        evaluator = methods.get(name).fit(ArrayMatrix(values), key=jax.random.key(0))
        result = evaluator.evaluate(MatrixOracle(truth), len(truth), 20, jax.random.key(1))
        estimates.append(result.accuracy)
    assert np.allclose(estimates[0], 1 - estimates[1], atol=0.12)


COMPILED = (
    "irt",
    "adaptive",
    "fluid",
    "atlas",
    "gaussian",
    "quadrature",
    "recommended",
    "assisted",
)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * any(part in name for part in COMPILED))
        for name in methods.PAIRS
    ],
)
def test_errors_give_one_minus_what_accuracies_give(name):
    """Of every method, for outcomes and for scores: its estimates, intervals and samples."""
    lower = np.ones(60, bool)
    scores = 0.25 + GOOD / 2 + np.linspace(0, 0.2, GOOD.size).reshape(GOOD.shape)
    scores = (np.round(256 * scores) / 256).astype("f4")  # so that 1 - (1 - x) is x
    for values in (GOOD, scores) if methods.get(name).takes_scores else (GOOD,):
        found = []
        for each, facts in ((values, SampleFacts(60)), (1 - values, SampleFacts(60, lower=lower))):
            known = ArrayMatrix(each[:10], None, facts)
            evaluator = methods.get(name).fit(known, key=jax.random.key(0))
            found.append(evaluator.evaluate(MatrixOracle(each[10:]), 3, 20, jax.random.key(1)))
        up, down = found
        assert np.array_equal(up.answers.samples, down.answers.samples)
        assert np.allclose(up.answers.values, 1 - down.answers.values, atol=1e-6)
        assert np.allclose(up.values, 1 - down.values, atol=1e-4)
        for this, other in (("accuracy", "accuracy"), ("low", "high"), ("high", "low")):
            ours, theirs = getattr(up, this), 1 - getattr(down, other)
            assert np.allclose(ours, theirs, atol=1e-4, equal_nan=True)


@pytest.fixture
def mixed(tmp_path):
    """A cache of accuracy and of word error rate, whose best models are the same."""
    wer = 0.2 + 0.6 * (1 - GOOD) + np.linspace(0, 0.1, 60)
    blocks = [("quiz", "acc", GOOD), ("speech", "wer", wer)]
    path = _long(tmp_path / "all.csv", [(*each[:2], each[2][:12]) for each in blocks])
    import_file(tmp_path / "mixed", path)
    whole = _long(tmp_path / "whole.csv", blocks)
    return EvaluationCache(tmp_path / "mixed"), whole


def test_data_sets_of_different_directions_are_estimated_on_their_own(mixed):
    cache, path = mixed
    assert [(part.name, part.lower) for part in cache.facts().parts] == [
        ("quiz", False),
        ("speech", True),
    ]
    values = {}
    accounts = _added(cache, path, ["m12"], 40, "random+nearest", report_values=values.__setitem__)
    assert [account.dataset for account in accounts] == ["quiz", "speech"]
    assert [account.asked for account in accounts] == [20, 20]
    quiz, speech = accounts
    assert abs(quiz.accuracy - GOOD[12].mean()) < 0.15
    assert speech.lower and abs(speech.rank - quiz.rank) <= 3
    assert np.isfinite(values["m12"]).all() and cache.states(["m12"]).all()
    with pytest.raises(BadInput, match="differ in direction or range, so there is no common mean"):
        fit_to_cache(cache, 20)
    with pytest.raises(BadInput, match="the 2 data sets differ in direction or range"):
        _added(cache, path, ["m12"], 1)


def test_a_mean_of_different_directions_is_not_formed(mixed):
    cache, path = mixed
    assert np.isnan(cache.stats()["mean"])
    account = _added(cache, path, ["m12"], 40, "random_mean")[1]
    import_file(cache, path)
    truth = audit(cache, account)
    assert truth["truth"] == pytest.approx(cache.matrix(["m12"])[0, 60:].mean(), abs=1e-6)
    matrix = StudiedMatrix("b", cache.matrix(), facts=cache.facts())
    assert [part.name for part in matrix.parts] == ["b-quiz", "b-speech"]


def test_parts_of_a_study_that_are_called_alike_stay_apart(tmp_path):
    rows = ["a,x/y,1,points,12", "a,x_y,1,f1,0.5"]
    (tmp_path / "a.csv").write_text("\n".join(["model,dataset,sample,metric,score", *rows]))
    table = read_values(tmp_path / "a.csv", value_range="none")
    parts = StudiedMatrix("b", table.values, facts=table.facts).parts
    assert len(parts) == 2 == len({part.name for part in parts}) and parts[0].name == "b-x_y"


def test_a_metric_without_bounds_has_no_interval_that_needs_them(mixed):
    cache, path = mixed
    quiz, speech = _added(cache, path, ["m12"], 40, "random_mean")
    assert quiz.low is not None
    assert speech.low is None and "needs bounds of the metric" in speech.reason
    (tried,) = _added(cache, path, ["m12"], 50, "random+nearest")[1:]
    assert tried.low is not None and tried.low < tried.accuracy < tried.high


def test_a_scale_holds_for_later_files_and_a_value_outside_of_it_is_refused(tmp_path):
    header = "model,sample,metric,score"
    first, second = tmp_path / "first.csv", tmp_path / "second.csv"
    first.write_text(f"{header}\na,1,perplexity,12\na,2,perplexity,30\n")
    table = import_file(tmp_path / "c", first)
    assert table.facts.high.tolist() == [60, 60] and table.facts.unbounded.all()
    cache = EvaluationCache(tmp_path / "c")
    second.write_text(f"{header}\nb,1,perplexity,6\nb,2,perplexity,45\n")
    import_file(cache, second)
    assert cache.matrix().tolist() == [
        pytest.approx([12 / 60, 30 / 60]),
        pytest.approx([6 / 60, 45 / 60]),
    ]
    second.write_text(f"{header}\nc,1,perplexity,61\n")
    with pytest.raises(
        BadInput, match="model 'c', sample '1': its value lies outside of the scale"
    ):
        import_file(cache, second)
    table = read_values(first, value_range=(0, 100))
    assert table.facts.unbounded is None and table.facts.high.tolist() == [100, 100]


def test_no_range_over_several_metrics_is_said(tmp_path):
    header, rows = "model,dataset,sample,metric,score", "a,x,1,points,12\na,y,1,f1,0.5"
    (tmp_path / "a.csv").write_text(f"{header}\n{rows}\n")
    line = "--range=none was taken for each of these 2 metrics"
    assert any(line in each for each in read_values(tmp_path / "a.csv", value_range="none").remarks)
    (tmp_path / "a.csv").write_text(f"{header}\na,x,1,points,12\n")
    remarks = read_values(tmp_path / "a.csv", value_range="none").remarks
    assert "points: without bounds" in " ".join(remarks) and line not in " ".join(remarks)


def test_what_says_the_direction_may_not_contradict_itself(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("model,sample,metric,score,higher_is_better\na,1,f1,.5,true\n")
    with pytest.raises(BadInput, match="but the file says that higher values of f1 are better"):
        read_values(path, lower_is_better=["f1"])
    with pytest.raises(BadInput, match="'f2'.*all, f1"):
        read_values(path, lower_is_better=["f2"])
    path.write_text("model,sample,metric,score\na,1,all,.5\na,2,f1,.5\n")
    with pytest.raises(BadInput, match="is 'all', which stands for something else"):
        read_values(path, lower_is_better=["all"])
    assert read_values(path, lower_is_better=["f1"]).facts.lower.tolist() == [False, True]
    path.write_text("model,sample,metric,score,higher_is_better\na,1,f1,.5,perhaps\n")
    with pytest.raises(BadInput, match="line 2: higher_is_better is 'perhaps'; true or false"):
        read_values(path)
    path.write_text("model,sample,metric,score,higher_is_better\na,1,wer,.5,true\n")
    assert read_values(path).facts.lower is None  # a column is stronger than a name


def test_the_best_model_is_on_top_of_the_picture():
    lower = np.ones(60, bool)
    assert draw_outcomes(1 - GOOD, lower) == draw_outcomes(GOOD)
    assert SampleFacts(60, lower=lower).parts[0].lower
