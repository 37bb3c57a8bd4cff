"""The mean that uses all that is known, with an interval that trusts only the draws."""

import jax
import numpy as np
import pytest
from scipy.special import expit

from nevis_stream import dynamic_evaluation as de
from nevis_stream.dynamic_evaluation import factor_model, methods
from nevis_stream.dynamic_evaluation.policies.informed_strata import plan_rounds
from nevis_stream.errors import BadInput
from nevis_stream.queries.matrix import ArrayMatrix
from nevis_stream.queries.oracle import ANY_MODEL, LIKE_KNOWN, MatrixOracle
from nevis_stream.queries.samples import SampleFacts

METHOD, KEY = "informed_mean", jax.random.key(0)


def make_values(models=24, samples=160, seed=0, spread=1.2):
    """Outcomes of a world of one ability."""
    random = np.random.default_rng(seed)
    ability, easiness = random.normal(0, 1, models), random.normal(0.3, spread, samples)
    chances = expit(ability[:, None] + easiness)
    return (random.random(chances.shape) < chances).astype(np.uint8)


@pytest.fixture(scope="module")
def values():
    return make_values()


@pytest.fixture(scope="module")
def evaluator(values):
    return methods.get(METHOD).fit(ArrayMatrix(values[:18]), None, KEY)


@pytest.mark.parametrize(
    ("budget", "ends"),
    [(1, [1]), (3, [3]), (7, [7]), (8, [4, 8]), (20, [5, 10, 15, 20]), (50, [12, 25, 38, 50])],
)
def test_rounds_are_equal_and_not_tiny(budget, ends):
    assert plan_rounds(budget) == ends


def test_draws_are_distinct_and_have_their_probabilities(evaluator, values):
    found = evaluator.evaluate(MatrixOracle(values[18:]), 6, 40, KEY)
    samples, chances = found.answers.samples, found.answers.query.probabilities
    assert all(len(set(row)) == 40 for row in samples.tolist())
    assert (chances > 0).all() and (chances <= 1).all()
    assert len({tuple(row) for row in samples.tolist()}) == 6  # draws of its own for each model
    assert [each.holds_for for each in found] == [ANY_MODEL] * 6


def test_step_by_step_the_estimate_is_the_same(evaluator, values):
    oracle = MatrixOracle(values[18:19])
    whole = evaluator.evaluate(oracle, 1, 20, KEY)
    for count in (5, 10, 15):
        query = evaluator.next_query(whole.answers.first(count), 20, KEY)
        assert (query.samples == whole.answers.samples[:, count : count + 5]).all()
    again = evaluator.predict(whole.answers, 20)
    assert (again.accuracy, again.low, again.high) == (whole.accuracy, whole.low, whole.high)
    early = evaluator.predict(whole.answers.first(3), 20)
    assert np.isfinite(early.accuracy).all()


def test_one_model_alone_is_estimated_as_among_others(evaluator, values):
    both = evaluator.evaluate(MatrixOracle(values[18:20]), 2, 20, KEY)
    alone = evaluator.predict(both.answers.of(np.array([1])), 20)
    assert alone.accuracy[0] == both.accuracy[1] and alone.low[0] == both.low[1]


def test_intervals_hold_for_models_unlike_the_known_ones(evaluator):
    """Known models have one ability; these answer each sample by a coin of their own."""
    random, covered, errors, plain = np.random.default_rng(3), [], [], []
    for rate in (0.03, 0.3, 0.5, 0.9):
        strangers = (random.random((40, 160)) < rate).astype(np.uint8)
        found = evaluator.evaluate(MatrixOracle(strangers), 40, 24, jax.random.key(7))
        truth = strangers.mean(axis=1)
        covered += [*((found.low <= truth + 1e-9) & (truth - 1e-9 <= found.high))]
        errors += [*np.abs(found.accuracy - truth)]
        drawn = random.permuted(strangers, axis=1)[:, :24]
        plain += [*np.abs(drawn.mean(axis=1) - truth)]
    assert np.mean(covered) >= 0.93
    assert np.mean(errors) <= 1.3 * np.mean(plain)


def test_models_like_the_known_ones_gain():
    world = make_values(100, spread=2.5)
    known, new = world[:40], world[40:]
    fitted = methods.get(METHOD).fit(ArrayMatrix(known), None, KEY)
    found = fitted.evaluate(MatrixOracle(new), 60, 24, jax.random.key(2))
    random = np.random.default_rng(5)
    plain = np.abs(random.permuted(new, axis=1)[:, :24].mean(axis=1) - new.mean(axis=1))
    assert np.abs(found.accuracy - new.mean(axis=1)).mean() < 0.8 * plain.mean()


@pytest.mark.parametrize("constant", [0, 1])
def test_a_model_that_is_always_right_or_wrong_may_stay_so(evaluator, constant):
    found = evaluator.evaluate(MatrixOracle(np.full((1, 160), constant, np.uint8)), 1, 20, KEY)
    assert found.low[0] == 0 if constant == 0 else found.high[0] == 1


@pytest.mark.parametrize("count", [1, 2, 4])
def test_few_known_models_are_enough(values, count):
    fitted = methods.get(METHOD).fit(ArrayMatrix(values[:count]), None, KEY)
    found = fitted.evaluate(MatrixOracle(values[20:22]), 2, 20, KEY)
    assert (found.low < found.accuracy).all() and (found.accuracy < found.high).all()


def test_holes_and_a_sample_that_nobody_answered(values):
    holes = values[:18].copy()
    holes[np.random.default_rng(0).random(holes.shape) < 0.3] = 255
    holes[:, 7] = 255
    fitted = methods.get(METHOD).fit(ArrayMatrix(holes), None, KEY)
    found = fitted.evaluate(MatrixOracle(values[18:]), 6, 40, KEY)
    assert np.abs(found.accuracy - values[18:].mean(axis=1)).max() < 0.2


def test_scores_are_taken_as_fractions():
    random = np.random.default_rng(0)
    scores = np.clip(random.normal(0.6, 0.2, (12, 1)) + random.normal(0, 0.2, (12, 90)), 0, 1)
    scores = scores.astype(np.float32)
    fitted = methods.get(METHOD).fit(ArrayMatrix(scores[:9]), None, KEY)
    found = fitted.evaluate(MatrixOracle(scores[9:]), 3, 20, KEY)
    truth = scores[9:].mean(axis=1)
    assert (found.low <= truth).all() and (truth <= found.high).all()
    assert np.abs(found.accuracy - truth).max() < 0.1


def test_weights_of_datasets_are_those_of_the_mean(values):
    names = np.array(["a"] * 40 + ["b"] * 120)
    facts = SampleFacts(160, dataset=names, dataset_weights={"a": 3.0, "b": 1.0})
    known = ArrayMatrix(values[:18], facts=facts)
    fitted = methods.get(METHOD).fit(known, None, KEY)
    all_of_a = (names == "a").astype(np.uint8)[None]
    found = fitted.evaluate(MatrixOracle(all_of_a), 1, 60, KEY)
    assert found.low[0] <= 0.75 <= found.high[0]
    assert found.accuracy[0] == pytest.approx(0.75, abs=0.1)


def test_samples_beyond_those_of_the_fit_are_fitted_by_themselves(values, monkeypatch):
    known, random = ArrayMatrix(values[:18]), np.random.default_rng
    whole = factor_model.fit(known, random(0))
    monkeypatch.setattr(factor_model, "COLUMNS", 80)
    monkeypatch.setattr(factor_model, "BLOCK", 50)
    part = factor_model.fit(known, random(0))
    assert part.vectors.shape == whole.vectors.shape
    answered, truth = np.arange(0, 160, 4), values[20]
    expected = [
        model.infer(answered, truth[answered], np.full(160, 1 / 160)).expected
        for model in (whole, part)
    ]
    assert np.corrcoef(*expected)[0, 1] > 0.9


def test_predictions_without_an_answer_are_those_of_a_fit_without_it(values):
    model = factor_model.fit(ArrayMatrix(values[:18]), np.random.default_rng(0))
    weights, answered, truth = np.full(160, 1 / 160), np.arange(0, 120, 6), values[19]
    whole = model.infer(answered, truth[answered], weights)
    stratum = np.arange(160) % 10  # the last ten answers were drawn
    found = whole.predict_without_each(10, stratum)
    for h in range(10):
        rest = np.delete(answered, 10 + h)
        alone = model.infer(rest, truth[rest], weights)
        assert found[stratum == h] == pytest.approx(alone.expected[stratum == h], abs=2e-3)


def test_information_is_the_fall_of_the_variance(values):
    model = factor_model.fit(ArrayMatrix(values[:18]), np.random.default_rng(0))
    weights, answered = np.full(160, 1 / 160), np.arange(0, 120, 6)
    whole = model.infer(answered, values[19][answered], weights)
    found = whole.find_information()
    sample = 3
    v, p = model.vectors, whole.expected
    noise = p * (1 - p)
    left = np.setdiff1d(np.arange(160), answered)
    before = np.linalg.inv((v[answered].T * noise[answered]) @ v[answered] + model.precision)
    after = np.linalg.inv(np.linalg.inv(before) + noise[sample] * np.outer(v[sample], v[sample]))
    slope = v[left].T @ (noise * weights)[left]
    assert found[sample] ** 2 == pytest.approx(slope @ (before - after) @ slope, rel=1e-6)


def test_the_predictor_needs_its_draws():
    with pytest.raises(BadInput, match="informed_strata"):
        methods.get("uniform+factor_model")


def test_what_is_assumed_is_an_estimate_beside_the_one_for_any_model(evaluator, values):
    any_model = evaluator.evaluate(MatrixOracle(values[18:]), 6, 40, KEY)
    assumed = methods.get(f"{METHOD}_like_known").fit(ArrayMatrix(values[:18]), None, KEY)
    found = assumed.evaluate(MatrixOracle(values[18:]), 6, 40, KEY)
    assert (found.answers.samples == any_model.answers.samples).all()  # the same draws
    whole = assumed.method.predictor.make_posterior(assumed.tree["predictor"], assumed.known, None)
    for number, (with_it, without) in enumerate(zip(found, any_model, strict=True)):
        assert with_it.holds_for == LIKE_KNOWN
        assert with_it.value == pytest.approx(whole.infer(found.answers, number).mean)
        assert with_it.other == pytest.approx((without.value, without.low, without.high))
        assert with_it.low < with_it.value < with_it.high
        assert "the estimate for any model is" in str(with_it)


def test_assumed_intervals_cover_models_like_the_known_ones():
    covered, shorter = [], []
    for seed in range(6):  # a world in which the factor model is right
        values = make_values(44, 300, seed)
        fitted = methods.get(f"{METHOD}_like_known").fit(ArrayMatrix(values[:32]), None, KEY)
        for each, truth in zip(
            fitted.evaluate(MatrixOracle(values[32:]), 12, 40, KEY),
            values[32:].mean(axis=1),
            strict=True,
        ):
            covered.append(each.low <= truth <= each.high)
            shorter.append((each.high - each.low) / (each.other[2] - each.other[1]))
    assert np.mean(covered) >= 0.9
    assert np.mean(shorter) < 1


def test_an_assumption_goes_with_the_default():
    assert methods.apply_assumption("random_mean", None) == "random_mean"
    assert methods.apply_assumption(None, "like_known") == "informed_mean_like_known"
    with pytest.raises(BadInput, match="alone, not with 'random_mean'"):
        methods.apply_assumption("random_mean", "like_known")
    with pytest.raises(BadInput, match="Valid: like_known"):
        methods.apply_assumption(None, "unlike")


def test_every_door_takes_the_assumption(values, tmp_path):
    board, answers = de.read_board(values[:18]), values[20, :].astype(float)
    evaluated = de.evaluate(board, answers, 40, assume="like_known")
    session = de.Session.start(tmp_path / "s", board, 40, assume="like_known")
    estimate = session.run(lambda ids: answers[np.array(ids, int)])
    assert evaluated.holds_for == estimate.holds_for == LIKE_KNOWN
    assert (estimate.value, estimate.other) == (evaluated.value, evaluated.other)
    with pytest.raises(BadInput, match="another session"):
        de.Session.start(tmp_path / "s", board, 40)
