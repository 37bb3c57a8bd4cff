"""A model that the known ones say little about gets an estimate that holds for any model."""

import dataclasses

import jax
import numpy as np
import pytest

from nevis_stream.dynamic_evaluation import methods
from nevis_stream.errors import BadInput
from nevis_stream.estimation import difference
from nevis_stream.experiments.methods import guarded
from nevis_stream.experiments.methods.part_first import Guard, PartFirst
from nevis_stream.queries.oracle import ANY_MODEL, LIKE_KNOWN, NOBODY, MatrixOracle, Query
from tests.dynamic_evaluation.making import one_order

N, BUDGET = 150, 40
MATRIX = one_order(40, N, noise=1.0)
MATRIX = MATRIX[np.argsort(MATRIX.mean(axis=1))]
STRONG = MATRIX[-6:]
KNOWN = MATRIX[:-10]
# as many models are evaluated at a time as STRONG has, by the same compiled programs


@pytest.fixture(scope="module")
def evaluator():
    return methods.get("guarded_irt").fit(KNOWN, None, jax.random.key(0))


@pytest.fixture(scope="module", autouse=True)
def quick():
    """A guarded pair whose fits are fast."""
    base = methods.get("fisher+irt_2pl")
    predictor = guarded.GuardedPredictor(base.predictor, PartFirst(base.policy))
    method = dataclasses.replace(base, policy=Guard(base.policy), predictor=predictor)
    before = methods.get
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            methods, "get", lambda name: method if name == "guarded_irt" else before(name)
        )
        yield


def evaluate(evaluator, truth, seed=1, budget=BUDGET):
    return evaluator.evaluate(MatrixOracle(truth), len(truth), budget, jax.random.key(seed))


def second_look(self, answers, ctx):
    """Every model is unlike the known ones, which the first check does not see."""
    return np.full(len(answers.values), answers.samples.shape[1] > 10)


@pytest.fixture
def always(monkeypatch):
    """Every model is taken to be beyond."""
    monkeypatch.setattr(guarded, "REACH", 1e9)


def test_beyond_the_known_models_the_rest_is_drawn(evaluator, always, monkeypatch):
    """The strata that the estimate is made of are those that were drawn from."""
    seen, estimate = [], difference.estimate

    def checked(stages, values, weights, **more):
        for stage in stages:
            np.testing.assert_array_equal(stage.stratum[stage.drawn], np.arange(len(stage.drawn)))
        seen.append([len(stage.drawn) for stage in stages])
        return estimate(stages, values, weights, **more)

    monkeypatch.setattr(difference, "estimate", checked)
    estimates = evaluate(evaluator, STRONG)
    assert seen == [[10, 30]] * len(STRONG)
    assert set(estimates.holds_for) == {ANY_MODEL}
    assert all("beyond the best known model" in note for note in estimates.notes)
    mean = STRONG.mean(axis=1)
    assert ((estimates.low <= mean) & (mean <= estimates.high)).mean() > 0.6
    assert (estimates.answers.query.fractions > 0).all()


def test_a_model_that_turns_out_to_be_unlike_keeps_its_answers(evaluator, monkeypatch):
    """At the second check: the adaptive answers before it are known, and no draw is asked twice."""
    monkeypatch.setattr(guarded.GuardedPosterior, "find_unlike", second_look)
    estimates = evaluate(evaluator, STRONG)
    fractions = estimates.answers.query.fractions
    assert (fractions[:, :10] > 0).all() and (fractions[:, 25:] > 0).all()
    assert not fractions[:, 10:25].any()
    assert set(estimates.holds_for) == {ANY_MODEL}
    assert np.abs(estimates.accuracy - STRONG.mean(axis=1)).mean() < 0.15


@pytest.mark.slow
def test_the_estimate_is_unbiased_after_adaptive_answers(evaluator, monkeypatch):
    """Over many seeds the mean error is 0 within its noise, though the known models are weaker."""
    monkeypatch.setattr(guarded.GuardedPosterior, "find_unlike", second_look)
    rows = np.repeat(STRONG[-1:], 60, axis=0)
    estimates = evaluate(evaluator, rows, seed=3)
    errors = estimates.accuracy - rows.mean(axis=1)
    assert abs(errors.mean()) < 3.5 * errors.std() / np.sqrt(len(errors))
    truth = rows.mean(axis=1)
    covered = (estimates.low <= truth) & (truth <= estimates.high)
    assert covered.mean() >= 0.85


def test_where_nothing_speaks_against_it_the_base_estimates(evaluator, monkeypatch):
    monkeypatch.setattr(guarded, "REACH", -np.inf)
    monkeypatch.setattr(guarded, "MISFIT", np.inf)
    estimates = evaluate(evaluator, MATRIX[10:16])
    assert set(estimates.holds_for) == {LIKE_KNOWN}
    assert (estimates.answers.query.fractions[:, 10:] == 0).all()
    assert np.isfinite(estimates.low).all()


@pytest.mark.parametrize("name", ["adaptive_testing", "sort_and_search"])
def test_all_right_and_all_wrong_with_calibrated_intervals(name):
    truth = np.stack([np.ones(N), np.zeros(N)]).astype(np.uint8)
    key = jax.random.key(0)
    estimates = methods.get(name).fit(KNOWN, None, key).evaluate(MatrixOracle(truth), 2, 20, key)
    assert estimates.high[0] == 1 and estimates.low[1] == 0


def test_all_right_and_all_wrong(evaluator, always):
    truth = np.stack(3 * [np.ones(N), np.zeros(N)]).astype(np.uint8)
    estimates = evaluate(evaluator, truth)
    assert estimates.high[0] == pytest.approx(1) and estimates.low[1] == 0


def test_improbable_answers_are_a_misfit(evaluator):
    """Right answers that have nothing to do with the samples."""
    truth = (np.random.default_rng(0).random((6, N)) < 0.5).astype(np.uint8)
    estimates = evaluate(evaluator, truth)
    assert sum("improbable" in note for note in estimates.notes) >= 4
    alike = evaluate(evaluator, MATRIX[5:29:4])
    assert sum("improbable" in note for note in alike.notes) <= 1


def test_what_other_methods_hold_for():
    key = jax.random.key(0)
    for name, holds_for in (
        ("strata+stratified", ANY_MODEL),
        ("random_mean", ANY_MODEL),
        ("model_assisted", ANY_MODEL),
        ("sort_and_search", LIKE_KNOWN),
        ("published", NOBODY),
    ):
        estimates = (
            methods.get(name)
            .fit(KNOWN, None, key)
            .evaluate(MatrixOracle(STRONG), len(STRONG), 20, key)
        )
        assert set(estimates.holds_for) == {holds_for}, name
        assert estimates[0].holds_for == holds_for


def test_model_assisted_needs_its_draws():
    with pytest.raises(BadInput, match="staged_strata"):
        methods.get("uniform+model_assisted")


def test_a_round_at_a_time_before_the_stages_are_whole():
    """Answers step by step give a value without an interval."""
    evaluator = methods.get("model_assisted").fit(KNOWN, None, jax.random.key(0))
    evaluator.fit_budget(BUDGET)
    whole = evaluate(evaluator, STRONG[:1]).answers
    for count in (5, 20, 30, 40):
        part = whole.first(count)
        estimates = evaluator.predict(part, BUDGET)
        assert 0 <= estimates.accuracy[0] <= 1
        assert np.isnan(estimates.low[0]) == (count < 20)


def test_what_few_answers_leave_possible_is_in_the_interval(evaluator, monkeypatch):
    """Of models that are not found to be unlike; one near the end of the range is moved too."""
    monkeypatch.setattr(
        guarded.GuardedPosterior, "find_unlike", lambda self, answers, ctx: never(answers)
    )
    before = evaluate(evaluator, STRONG)
    possible = np.array([0.05, 0.1, 0.5, 0.9, 0.95])
    monkeypatch.setattr(
        guarded.GuardedPosterior,
        "compute_quantiles",
        lambda self, answers, screening, ctx: np.repeat(
            possible[:, None], len(answers.values), axis=1
        ),
    )
    monkeypatch.setattr(guarded, "MAY_REACH", -np.inf)
    inside = evaluate(evaluator, STRONG)
    right, wrong = (
        (inside.answers.values == end).sum(axis=1) / inside.values.shape[1] for end in (1, 0)
    )
    assert (inside.low <= np.maximum(0.1, right)).all()
    assert (inside.high >= np.minimum(0.9, 1 - wrong)).all()
    monkeypatch.setattr(guarded, "MAY_REACH", np.inf)
    outside = evaluate(evaluator, STRONG)
    assert (outside.low <= np.maximum(0.05, right)).all()
    assert (outside.high >= np.minimum(0.95, 1 - wrong)).all()
    np.testing.assert_allclose(outside.accuracy, (inside.accuracy + 0.5) / 2)
    assert set(before.holds_for) == set(outside.holds_for) == {LIKE_KNOWN}


def never(answers):
    return np.zeros(len(answers.values), bool)


def test_quantiles_of_what_is_possible(evaluator):
    """They contain the means of weaker, stronger and broken models in most cases, get narrower, and
    of a model that has answered every sample are its mean.
    """
    random = np.random.default_rng(0)
    broken = (KNOWN[-10:] * (random.random((10, N)) >= 0.4)).astype(np.uint8)
    truth = np.concatenate([MATRIX[:5], STRONG[:5], broken])
    posterior = evaluator.plan(BUDGET).posterior
    widths = []
    for count in (20, 60, N):
        asked = np.argsort(random.random(truth.shape), axis=1)[:, :count]
        answers = MatrixOracle(truth)(Query(asked))
        screening = posterior.screen(answers, evaluator.ctx)
        low, inner, median, _, high = posterior.compute_quantiles(answers, screening, evaluator.ctx)
        means = truth.mean(axis=1)
        assert ((low <= means + 1e-6) & (means - 1e-6 <= high)).mean() >= 0.85
        assert ((low <= inner) & (inner <= median) & (median <= high)).all()
        widths.append(float((high - low).mean()))
    assert widths[0] > 1.3 * widths[1] and widths[2] < 1e-6
    np.testing.assert_allclose(median, means, atol=1e-6)
