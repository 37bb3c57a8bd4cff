"""Searches: what the trials get, and that the sequential one searches where it should."""

import functools

import numpy as np
import pytest

from nevis_stream.learner import Context
from nevis_stream.learners.parts.search import BayesianSearch, RandomSearch

SPACE = {"learning_rate": (1e-4, 1e-1), "label_smoothing": (0.0, 0.3)}


def context(seed=0):
    return Context(path=(f"seed {seed}", "task"), phase="train")


def valley(ctx, hyper):
    """A dev error with its lowest point at a rate of 0.01 and no smoothing."""
    ctx.charge(1)
    error = 0.1 * (np.log10(hyper["learning_rate"]) + 2) ** 2 + hyper["label_smoothing"] + 0.05
    return {"info": {"dev_error": float(min(error, 1.0)), "hyper": dict(hyper)}}


def run(search, ctx, trial):
    return search.run(ctx.seed, functools.partial(ctx.map, trial))


def best(search, seed):
    return min(result["info"]["dev_error"] for result in run(search, context(seed), valley))


def test_trials_are_numbered_and_charged_like_those_of_any_search():
    ctx = context()
    results = run(BayesianSearch(6, SPACE), ctx, valley)
    assert len(results) == 6 and ctx.meter.counts() == {
        "train": {str(trial): 1 for trial in range(6)}
    }
    drawn = [result["info"]["hyper"] for result in results]
    assert drawn[:3] == RandomSearch(3, SPACE).draw(context().seed)
    assert all(
        1e-4 <= h["learning_rate"] <= 1e-1 and 0 <= h["label_smoothing"] <= 0.3 for h in drawn
    )
    again = run(BayesianSearch(6, SPACE), context(), valley)
    assert [r["info"]["hyper"] for r in again] == drawn


def test_it_finds_a_valley_that_a_random_search_misses():
    seeds = range(12)
    bayesian = np.mean([best(BayesianSearch(12, SPACE), seed) for seed in seeds])
    random = np.mean([best(RandomSearch(12, SPACE), seed) for seed in seeds])
    assert bayesian < 0.085 < random


def test_trials_that_diverged_are_avoided():
    def steep(ctx, hyper):
        diverged = hyper["learning_rate"] > 0.003
        return {"info": {"dev_error": None if diverged else 0.2, "hyper": dict(hyper)}}

    results = run(BayesianSearch(16, SPACE), context(3), steep)
    assert np.mean([r["info"]["dev_error"] is None for r in results[8:]]) < 0.4


def test_a_hyper_parameter_may_be_fixed():
    results = run(BayesianSearch(5, SPACE | {"label_smoothing": (0.15, 0.15)}), context(), valley)
    assert {r["info"]["hyper"]["label_smoothing"] for r in results} == {0.15}


def test_choices_are_searched_beside_numbers():
    """The error depends on a choice among three; the Gaussian process comes to prefer the right
    one.
    """
    space = SPACE | {"batch": (16, 32, 64), "crop": (True, False)}

    def trial(ctx, hyper):
        error = 0.1 + 0.3 * (hyper["batch"] != 32) + 0.3 * (not hyper["crop"])
        return {"info": {"dev_error": error, "hyper": dict(hyper)}}

    results = run(BayesianSearch(20, space), context(1), trial)
    hypers = [result["info"]["hyper"] for result in results]
    assert {hyper["batch"] for hyper in hypers} == {16, 32, 64}
    assert np.mean([hyper["batch"] == 32 and hyper["crop"] for hyper in hypers[8:]]) > 0.6
    drawn = RandomSearch(200, space).draw(0)
    shares = [np.mean([hyper["batch"] == size for hyper in drawn]) for size in (16, 32, 64)]
    assert shares == pytest.approx([1 / 3] * 3, abs=0.1)
