"""Stored fits: used again, paid once, and never those of other known models."""

import shutil

import jax
import numpy as np
import pytest

from nevis_stream.additions.models import add_models, fit_to_cache
from nevis_stream.additions.samples import add_samples
from nevis_stream.dynamic_evaluation import fits, methods, response
from nevis_stream.dynamic_evaluation.method import make_context
from nevis_stream.errors import RunWarning
from nevis_stream.evaluation_cache import EvaluationCache
from nevis_stream.evaluation_cache.additions import read_additions
from nevis_stream.evaluation_cache.exchange import FileOracle
from nevis_stream.evaluation_cache.files import ValueTable
from nevis_stream.experiments.methods import choice
from nevis_stream.queries.matrix import ArrayMatrix
from nevis_stream.queries.oracle import MatrixOracle
from nevis_stream.queries.samples import SampleFacts
from tests.dynamic_evaluation.making import file_asks, one_order

VALUES = one_order(32, 300, noise=0.7)
TABLE = ValueTable([f"m{i}" for i in range(32)], [f"s{j}" for j in range(300)], VALUES)


@pytest.fixture
def cache(tmp_path):
    cache = EvaluationCache(tmp_path / "cache", create=True)
    cache.append_rows(TABLE.models[:28], TABLE.samples, VALUES[:28])
    return cache


def add(cache, model, method="irt_2pl", budget=20):
    return add_models(cache, file_asks(cache, TABLE, [model]), budget, method)[0]


def test_a_fit_is_used_again_and_paid_once(cache, monkeypatch):
    first = add(cache, "m28")
    fitted = list((cache.directory / "fits" / "irt_2pl").iterdir())
    monkeypatch.setattr(methods.get("irt_2pl").predictor, "fit", None)  # cannot be fitted again
    second = add(cache, "m29")
    assert second.fit == first.fit and 0 < second.flops_method < first.flops_method / 10
    assert list((cache.directory / "fits" / "irt_2pl").iterdir()) == fitted
    alone = EvaluationCache(cache.directory.parent / "alone", create=True)
    alone.append_rows(TABLE.models[:28], TABLE.samples, VALUES[:28])
    monkeypatch.undo()
    again = add(alone, "m29")
    assert (again.accuracy, again.low, again.high) == (second.accuracy, second.low, second.high)


def test_an_addition_that_was_killed_after_its_fit_has_the_same_account(cache):
    copy = EvaluationCache(shutil.copytree(cache.directory, cache.directory.parent / "copy"))

    def killed(cells):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        add_models(copy, {"m28": killed}, 20, "irt_2pl")
    assert (copy.directory / "fits" / "irt_2pl").is_dir() and not read_additions(copy.directory)
    unfinished = copy.directory / "fits" / "irt_2pl.unfinished"
    unfinished.mkdir()  # as if it had been killed just before it deleted its positions
    assert add(copy, "m28") == add(cache, "m28")
    assert not unfinished.exists()


def test_other_known_models_another_seed_or_a_damaged_fit_are_fitted_anew(cache):
    first = add(cache, "m28", "sort_and_search")
    (file,) = (cache.directory / "fits" / "sort_and_search").glob("*.safetensors")
    file.write_bytes(b"nothing")
    assert add(cache, "m29", "sort_and_search").accuracy is not None
    cache.append("m31", TABLE.samples, VALUES[31])
    more = add(cache, "m28", "sort_and_search")
    assert more.fit != first.fit and more.models == 29


def test_a_stored_evaluator_says_what_the_fitted_one_says(tmp_path):
    known, method = ArrayMatrix(VALUES[:28]), methods.get("recommended")
    key, estimates = jax.random.key(0), []
    for _ in range(2):
        ctx = make_context()
        stored = fits.find_fit(fits.Fits(tmp_path), method, known, 0)
        evaluator = stored.make_evaluator(known, 20, key, ctx)
        estimates.append(evaluator.evaluate(MatrixOracle(VALUES[28:]), 4, 20, key))
    assert np.array_equal(*(each.values for each in estimates))
    assert np.array_equal(*(np.stack([each.low, each.high]) for each in estimates))


def test_an_addition_that_does_not_pay_warns_before_anything_is_asked(cache):
    def refused(cells):
        raise KeyboardInterrupt

    price = {"m28": {"flops_per_sample": 1e4}}
    with (
        pytest.raises(KeyboardInterrupt),
        pytest.warns(RunWarning, match="irt_2pl itself computes about"),
    ):
        add_models(cache, {"m28": refused}, 20, "irt_2pl", provenances=price)


@pytest.mark.parametrize("method", ["recommended", "uniform+irt_1pl"])
def test_another_budget_needs_no_folds_again(tmp_path, method, monkeypatch):
    known, method, key = ArrayMatrix(VALUES[:28]), methods.get(method), jax.random.key(0)

    def evaluated(folder, budget):
        ctx = make_context()
        stored = fits.find_fit(fits.Fits(tmp_path / folder), method, known, 0)
        return stored.make_evaluator(known, budget, key, ctx), ctx

    evaluated("both", 20)
    monkeypatch.setattr(response, "fit", None)  # nothing can be fitted again
    later, _ = evaluated("both", 24)
    monkeypatch.undo()
    first, _ = evaluated("alone", 24)
    estimates = [
        each.evaluate(MatrixOracle(VALUES[28:]), 4, 24, key).low.tolist() for each in (later, first)
    ]
    assert estimates[0] == estimates[1]


def test_added_samples_store_their_fit_and_warn_of_its_price(cache):
    fresh = ValueTable(TABLE.models, ["new0", "new1"], VALUES[:, :2])
    cache.append_rows(
        TABLE.models[:28],
        TABLE.samples[:1],
        VALUES[:28, :1],
        provenances=[{"flops_per_sample": 10.0}] * 28,
    )
    asks = {
        model: FileOracle(fresh, model, lambda columns: [fresh.samples[i] for i in columns])
        for model in TABLE.models[:28]
    }
    with pytest.warns(RunWarning, match="24 models that will not be asked for 2 new samples"):
        first = add_samples(cache, fresh.samples[:2], asks, 4, "irt_1pl")
    assert first.fit and (cache.directory / "fits" / "irt_1pl-samples").is_dir()


def test_a_method_is_fitted_beforehand_and_paid_by_the_first_addition(cache, monkeypatch):
    name, flops = fit_to_cache(cache, 20, "irt_2pl")
    assert name == "irt_2pl" and flops > 0
    monkeypatch.setattr(methods.get("irt_2pl").predictor, "fit", None)
    assert fit_to_cache(cache, 20, "irt_2pl") == (name, flops)
    first, second = add(cache, "m28"), add(cache, "m29")
    assert first.flops_method > flops and second.flops_method < flops


def test_without_a_method_the_default_is_taken_and_its_fit_paid_once(cache):
    name, flops = fit_to_cache(cache, 20)
    assert name == methods.DEFAULT and flops > 0
    first, second = (
        add_models(cache, file_asks(cache, TABLE, [model]), 20)[0] for model in ("m28", "m29")
    )
    assert first.method == second.method == name
    assert first.flops_method - second.flops_method == flops


@pytest.mark.parametrize(
    ("budget", "scores", "weights", "usual"),
    [
        (50, False, None, "adaptive_testing"),
        (51, False, None, "recommended"),
        (20, True, None, "quadrature"),
        (21, True, None, "recommended"),
        (51, False, {"a": 1, "b": 1}, "quadrature"),  # the others ask regardless of weights
    ],
)
def test_the_default_gives_way_to_what_is_clearly_better_only(budget, scores, weights, usual):
    facts = SampleFacts(2, dataset=np.array(["a", "b"]), dataset_weights=weights)
    known = ArrayMatrix(np.ones((20, 2), np.float32 if scores else np.uint8), None, facts)
    few = ArrayMatrix(known.values[:19], None, facts)
    if usual == "adaptive_testing":  # too few models for it, except with few samples
        assert (
            choice.choose_default(50, few) == "recommended"
            and choice.choose_default(20, few) == usual
        )
    errors = 0.05 * np.random.default_rng(0).normal(size=40)
    other = "linear_gaussian"

    def best(factor):
        compared = {usual: errors, other: factor * errors}
        return choice.choose_best(compared, choice.choose_default(budget, known), independent)[0]

    independent = 40
    assert best(0.5) == other and best(0.97) == best(1.5) == usual
    assert choice.choose_best({"strata+mean": errors}, usual, independent)[0] == "strata+mean"
    independent = 4  # groups of ten models: half as many errors could be chance
    assert best(0.5) == usual and best(0.01) == other
